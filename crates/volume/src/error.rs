//! What can go wrong with a volume.

use tantalum::{Lpn, Status, TxId};
use tantalum_filesystem::FileId;

use crate::Volume;

/// Why an operation on a volume failed. Unless the variant says otherwise, nothing was lost.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VolumeError {
    /// The drive's first unit is no superblock.
    #[error("the drive holds no Tantalum volume: format it first")]
    NotAVolume,
    /// The volume was made by a program with another layout.
    #[error("the volume has layout version {found}, this program reads version {supported}")]
    OtherVersion {
        /// What the superblock says.
        found: u32,
        /// What would be right.
        supported: u32,
    },
    /// The volume was made on a drive of another size.
    #[error("the volume was made for a drive of {formatted_units} units, this one has {drive_units}")]
    OtherCapacity {
        /// Units of the drive it was made on.
        formatted_units: u64,
        /// Units of this drive.
        drive_units: u64,
    },
    /// The volume's own structures contradict each other.
    #[error("the volume is damaged at unit {lpn}: {damage}")]
    Damaged {
        /// The unit that is wrong.
        lpn: Lpn,
        /// What is wrong with it.
        damage: Damage,
    },
    /// The drive is too small to hold a volume.
    #[error("a drive of {units} units is too small for a volume, which takes at least {needed}")]
    TooSmall {
        /// Units of the drive.
        units: u64,
        /// The least that would do.
        needed: u64,
    },
    /// The drive's atomic batches are too small for the volume's metadata.
    #[error("the drive writes {units} units in one atomic batch, a volume needs at least {needed}")]
    AtomicLimit {
        /// What the drive does.
        units: u32,
        /// The least that would do.
        needed: u32,
    },
    /// All units of the drive belong to files.
    #[error("no space left on the volume: {needed} units needed, {free} free")]
    NoSpace {
        /// Units that were needed.
        needed: u64,
        /// Units that are free.
        free: u64,
    },
    /// All units of the inode table are taken, and there is no free space for it to grow into.
    #[error("the volume's inode table is full: it has {slots} units and cannot grow")]
    TableFull {
        /// Units of the table.
        slots: u32,
    },
    /// The file lies in more pieces than its inode can name.
    #[error("the file lies in {extents} pieces, {most} are the most that one file can have")]
    TooFragmented {
        /// The pieces it has.
        extents: usize,
        /// The limit.
        most: usize,
    },
    /// An offset that no file can have.
    #[error("byte {end} is beyond the largest file, {most} bytes")]
    FileTooLarge {
        /// The end of what was asked for; `u64::MAX` if it is larger than that.
        end: u64,
        /// The limit.
        most: u64,
    },
    /// A file that was removed, or of another volume.
    #[error("file {0} does not exist (any more)")]
    NoSuchFile(FileId),
    /// A name that no file has.
    #[error("there is no file named {0:?}")]
    NameNotFound(String),
    /// A name that is taken.
    #[error("there is a file named {0:?} already")]
    NameExists(String),
    /// A name that no file may have.
    #[error(
        "a file name has 1 to {most} bytes, no NUL and no slash, and is not . or ..; this one has {bytes} bytes"
    )]
    BadName {
        /// Its length.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// A file that is closed more often than it was opened.
    #[error("file {0} is not open")]
    NotOpen(FileId),
    /// A folder was needed.
    #[error("file {0} is not a folder")]
    NotAFolder(FileId),
    /// Something other than a folder was needed.
    #[error("file {0} is a folder")]
    IsAFolder(FileId),
    /// A file with content was needed.
    #[error("file {0} has no content that can be read or written")]
    NotARegularFile(FileId),
    /// A symbolic link was needed.
    #[error("file {0} is not a symbolic link")]
    NotASymbolicLink(FileId),
    /// A folder that is removed or replaced must be empty.
    #[error("folder {0} is not empty")]
    FolderNotEmpty(FileId),
    /// The root, or a folder moved into itself.
    #[error("folder {0} cannot be moved into itself, nor the root folder be moved or removed")]
    IntoItself(FileId),
    /// A symbolic link's target that is empty or too long.
    #[error("a symbolic link's target has 1 to {most} bytes, this one has {bytes}")]
    BadTarget {
        /// Its length.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// Names of one file beyond what POSIX lets it count.
    #[error("file {file} has {links} names, more than that it cannot have")]
    TooManyLinks {
        /// The file.
        file: FileId,
        /// Names that it has.
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
    /// An extended attribute that should be new and is there.
    #[error("file {file} has an extended attribute {name:?} already")]
    AttributeExists {
        /// The file.
        file: FileId,
        /// The attribute's name.
        name: String,
    },
    /// Extended attributes that are more than one file can have.
    #[error("the file's extended attributes take {bytes} bytes, {most} is the most")]
    AttributesTooLarge {
        /// What they would take, with their names.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// A range that is empty where it must not be, not whole units, beyond the file's end, or that overlaps another.
    #[error("the range of {bytes} bytes at {offset} of file {file} will not do: {why}")]
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
    #[error("the ranges have {units} units, the drive shares {limit} in one step")]
    RangesTooLong {
        /// Units asked for.
        units: u64,
        /// The limit.
        limit: u64,
    },
    /// Not whole units, where only whole units can be written.
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
    /// The file cannot be removed or cut while a transaction's pages wait to be put in it.
    #[error("file {file} is written to by the open transaction {tx}")]
    InTransaction {
        /// The file.
        file: FileId,
        /// The transaction.
        tx: TxId,
    },
    /// The drive refused. At the end of the drive ([`Status::is_end_of_drive`]) the volume refuses everything.
    #[error(transparent)]
    Device(#[from] Status),
}

impl VolumeError {
    /// Whether the drive answers no more.
    pub fn is_end_of_drive(&self) -> bool {
        matches!(self, VolumeError::Device(status) if status.is_end_of_drive())
    }
}

/// What is wrong with a unit of a volume's metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Damage {
    /// The checksum does not fit the content.
    #[error("its checksum is {found:#010x}, its content has {computed:#010x}")]
    Checksum {
        /// What the unit says.
        found: u32,
        /// What its content has.
        computed: u32,
    },
    /// Neither an inode nor a continuation nor a link.
    #[error("it is of no known kind")]
    Kind,
    /// The name is empty or too long, or has bytes that no name has.
    #[error("its file name is not valid")]
    Name,
    /// The extended attributes or a symbolic link's target cannot be read.
    #[error("its extended attributes are not valid")]
    Properties,
    /// Another inode or link has the same name in the same folder.
    #[error("its file name is another file's as well")]
    DuplicateName,
    /// Another inode has the same number.
    #[error("its inode number {number} is another file's as well")]
    DuplicateNumber {
        /// The number.
        number: u32,
    },
    /// The folder that it names is none, or does not lie below the root.
    #[error("file {number}, its folder or its target, is not there or not below the root")]
    Lost {
        /// The number of what is missing or out of reach.
        number: u32,
    },
    /// A count that the unit has no room for.
    #[error("it claims {count} entries, {most} is the most")]
    Count {
        /// What it says.
        count: u32,
        /// The limit.
        most: u32,
    },
    /// An extent that is empty, out of order, beyond the drive or another file's as well.
    #[error("its extent of {units} units at {lpn} is not valid")]
    Extent {
        /// The extent's first unit on the drive.
        lpn: Lpn,
        /// Its length.
        units: u32,
    },
    /// An inode's continuation is missing or another's.
    #[error("it is not the continuation that the inode in slot {inode} names")]
    Continuation {
        /// The inode's place in the table.
        inode: u32,
    },
    /// A table that does not fit the drive.
    #[error("an inode table of {units} units is not valid")]
    Table {
        /// What the superblock says.
        units: u32,
    },
}

/// An unmount that failed: the volume goes on, with all it had.
#[derive(Debug, thiserror::Error)]
#[error("the volume could not be unmounted: {error}")]
pub struct UnmountError {
    /// The volume, still mounted.
    pub volume: Volume,
    /// Why.
    pub error: VolumeError,
}
