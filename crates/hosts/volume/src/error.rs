//! The errors of a volume.

use tantalum::{Lpn, Status, TxId};
use tantalum_filesystem::FileId;

/// Why an operation on a volume failed. Unless the variant says otherwise, nothing was lost.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// The drive's first unit is not a superblock.
    #[error("the drive holds no Tantalum volume: format it first")]
    NotAVolume,
    /// The volume has another layout version.
    #[error("the volume has layout version {found}; this program reads version {supported}")]
    OtherVersion {
        /// The version in the superblock.
        found: u32,
        /// The supported version.
        supported: u32,
    },
    /// The volume was formatted for a drive of another size.
    #[error("the volume was formatted for a drive of {formatted_units} units; this one has {drive_units}")]
    OtherCapacity {
        /// Units of that drive.
        formatted_units: u64,
        /// Units of this drive.
        drive_units: u64,
    },
    /// The volume's own structures contradict each other.
    #[error("the volume is damaged at unit {lpn}: {damage}")]
    Damaged {
        /// The damaged unit.
        lpn: Lpn,
        /// What is wrong with it.
        damage: Damage,
    },
    /// The drive is too small to hold a volume.
    #[error("a drive of {units} units is too small for a volume, which needs at least {needed}")]
    TooSmall {
        /// Units of the drive.
        units: u64,
        /// The minimum.
        needed: u64,
    },
    /// The drive's atomic batches are too small for the volume's metadata.
    #[error("the drive writes {units} units in one atomic batch; a volume needs at least {needed}")]
    AtomicLimit {
        /// Units in the drive's batches.
        units: u32,
        /// The minimum.
        needed: u32,
    },
    /// All units of the drive belong to files.
    #[error("no space left on the volume: {needed} units needed, {free} free")]
    NoSpace {
        /// Units needed.
        needed: u64,
        /// Units that are free.
        free: u64,
    },
    /// All units of the inode table are in use, and there is no free space for it to grow.
    #[error("the volume's inode table is full: it has {slots} units and cannot grow")]
    TableFull {
        /// Units of the table.
        slots: u32,
    },
    /// The file has more extents than its inode can name.
    #[error("the file would have {extents} extents; a file can have at most {most}")]
    TooFragmented {
        /// The extents it would have.
        extents: usize,
        /// The limit.
        most: usize,
    },
    /// An offset that no file can have.
    #[error("byte {end} is beyond the maximum file size of {most} bytes")]
    FileTooLarge {
        /// The end of the request; `u64::MAX` if it is larger than that.
        end: u64,
        /// The limit.
        most: u64,
    },
    /// A file that was removed, or of another volume.
    #[error("file {0} does not exist (anymore)")]
    NoSuchFile(FileId),
    /// No file has this name.
    #[error("no file named {0:?}")]
    NameNotFound(String),
    /// The name is taken.
    #[error("a file named {0:?} already exists")]
    NameExists(String),
    /// The name is not valid.
    #[error(
        "a file name has 1 to {most} bytes, no NUL and no slash, and is not . or ..; this one has {bytes} bytes"
    )]
    BadName {
        /// Its length.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// The file was closed more often than it was opened.
    #[error("file {0} is not open")]
    NotOpen(FileId),
    /// A folder was needed.
    #[error("file {0} is not a folder")]
    NotAFolder(FileId),
    /// Something other than a folder was needed.
    #[error("file {0} is a folder")]
    IsAFolder(FileId),
    /// A file with content was needed.
    #[error("file {0} has no contents to read or write")]
    NotARegularFile(FileId),
    /// A symbolic link was needed.
    #[error("file {0} is not a symbolic link")]
    NotASymbolicLink(FileId),
    /// A folder can be removed or replaced only if it is empty.
    #[error("folder {0} is not empty")]
    FolderNotEmpty(FileId),
    /// The root, or a folder moved into itself.
    #[error("folder {0} cannot be moved into itself, and the root folder cannot be moved or removed")]
    IntoItself(FileId),
    /// A symbolic link's target that is empty or too long.
    #[error("a symbolic link's target has 1 to {most} bytes; this one has {bytes}")]
    BadTarget {
        /// Its length.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// More names for one file than POSIX can count.
    #[error("file {file} has {links} names, which is the maximum")]
    TooManyLinks {
        /// The file.
        file: FileId,
        /// The number of its names.
        links: u32,
    },
    /// An extended attribute that the file does not have.
    #[error("file {file} has no extended attribute {name:?}")]
    AttributeNotFound {
        /// The file.
        file: FileId,
        /// The attribute's name.
        name: String,
    },
    /// An extended attribute that should be new but exists.
    #[error("file {file} already has an extended attribute {name:?}")]
    AttributeExists {
        /// The file.
        file: FileId,
        /// The attribute's name.
        name: String,
    },
    /// More extended attributes than one file can have.
    #[error("the file's extended attributes would take {bytes} bytes; the limit is {most}")]
    AttributesTooLarge {
        /// The bytes they would take, with their names.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// A range that must not be empty, is not whole units, extends beyond the file's end, or overlaps another.
    #[error("the range of {bytes} bytes at {offset} of file {file} is not valid: {why}")]
    BadRange {
        /// The file.
        file: FileId,
        /// Where the range begins.
        offset: u64,
        /// Its length.
        bytes: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// More units than the drive shares in one step.
    #[error("the ranges have {units} units; the drive shares at most {limit} in one step")]
    RangesTooLong {
        /// Units requested.
        units: u64,
        /// The limit.
        limit: u64,
    },
    /// Not whole units, although only whole units can be written.
    #[error("{bytes} bytes at {offset} are not whole units of 4096 bytes")]
    Unaligned {
        /// The offset in the file.
        offset: u64,
        /// The length.
        bytes: usize,
    },
    /// A transaction that this volume did not begin, or that has ended.
    #[error("transaction {0} is not open")]
    UnknownTransaction(TxId),
    /// An earlier commit of the transaction failed after it had sent metadata: it cannot be committed any more.
    #[error("transaction {tx} cannot be committed: an earlier commit of it failed half way; abort it")]
    CommitFailed {
        /// The transaction.
        tx: TxId,
    },
    /// The file cannot be removed or truncated while a transaction's pages wait to be put in it.
    #[error("file {file} is being written by the open transaction {tx}")]
    InTransaction {
        /// The file.
        file: FileId,
        /// The transaction.
        tx: TxId,
    },
    /// The drive failed. If that ended the drive ([`crate::Volume::stopped`]), the volume refuses every change.
    #[error(transparent)]
    Device(#[from] Status),
}

impl VolumeError {
    /// As [`Status::is_end_of_drive`].
    pub fn is_end_of_drive(&self) -> bool {
        matches!(self, VolumeError::Device(status) if status.is_end_of_drive())
    }
}

/// What is wrong with a unit of a volume's metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The checksum does not match the contents.
    #[error("its checksum is {found:#010x}, but its contents give {computed:#010x}")]
    Checksum {
        /// The stored checksum.
        found: u32,
        /// The checksum of the contents.
        computed: u32,
    },
    /// Neither an inode nor a continuation nor a link.
    #[error("its kind is unknown")]
    Kind,
    /// The name is empty or too long, or has invalid bytes.
    #[error("its file name is not valid")]
    Name,
    /// The extended attributes or a symbolic link's target cannot be read.
    #[error("its extended attributes are not valid")]
    Properties,
    /// Another inode or link has the same name in the same folder.
    #[error("another file has the same name")]
    DuplicateName,
    /// Another inode has the same number.
    #[error("another file has the same inode number {number}")]
    DuplicateNumber {
        /// The number.
        number: u32,
    },
    /// The folder that it names is not a folder, or is not below the root.
    #[error("file {number}, its folder or its target, is missing or not below the root")]
    Lost {
        /// The number of the missing or unreachable file.
        number: u32,
    },
    /// A count that does not fit in the unit.
    #[error("it claims {count} entries; the limit is {most}")]
    Count {
        /// The count.
        count: u32,
        /// The limit.
        most: u32,
    },
    /// An extent that is empty, out of order, beyond the drive, or also another file's.
    #[error("its extent of {units} units at {lpn} is not valid")]
    Extent {
        /// The extent's first unit on the drive.
        lpn: Lpn,
        /// Its length.
        units: u32,
    },
    /// An inode's continuation is missing or belongs to another inode.
    #[error("the inode in slot {inode} does not name it as its continuation")]
    Continuation {
        /// The inode's slot in the table.
        inode: u32,
    },
    /// A table that does not fit the drive.
    #[error("an inode table of {units} units is not valid")]
    Table {
        /// Its units according to the superblock.
        units: u32,
    },
}
