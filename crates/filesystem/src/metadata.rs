//! What a file is, apart from its content: POSIX's words for it.

use serde::{Deserialize, Serialize};

use crate::FileId;

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FileKind {
    /// A file with content.
    #[default]
    File,
    /// A folder.
    Folder,
    /// A symbolic link: its content is a path.
    SymbolicLink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// A point in time, since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Timestamp {
    /// Seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds behind the second, below 10^9.
    pub nanoseconds: u32,
}

/// What a file system knows of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metadata {
    /// What it is.
    pub kind: FileKind,
    /// Permission bits, within 0o7777.
    pub permissions: u16,
    /// The owner's number.
    pub owner: u32,
    /// The group's number.
    pub group: u32,
    /// Names that it has; of a folder, 2 and its subfolders.
    pub links: u32,
    /// Bytes; of a symbolic link those of its target.
    pub size: u64,
    /// Units of the drive that belong to its content.
    pub units: u64,
    /// When it was last read, as far as the file system was told.
    pub accessed: Timestamp,
    /// When its content last changed.
    pub modified: Timestamp,
    /// When its content or metadata last changed.
    pub changed: Timestamp,
    /// When it was made.
    pub created: Timestamp,
    /// Which device a device file is.
    pub device_number: u32,
}

/// What a new file is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NewFile {
    /// What it is.
    pub kind: FileKind,
    /// Permission bits, within 0o7777.
    pub permissions: u16,
    /// The owner's number.
    pub owner: u32,
    /// The group's number.
    pub group: u32,
    /// Which device a device file is.
    pub device_number: u32,
    /// The time, for the file and its folder.
    pub now: Timestamp,
}

/// What to change of a file's metadata; what is none stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MetadataChange {
    /// Permission bits, within 0o7777.
    pub permissions: Option<u16>,
    /// The owner's number.
    pub owner: Option<u32>,
    /// The group's number.
    pub group: Option<u32>,
    /// The size in bytes.
    pub size: Option<u64>,
    /// When it was last read.
    pub accessed: Option<Timestamp>,
    /// When its content last changed.
    pub modified: Option<Timestamp>,
    /// When its content or metadata last changed.
    pub changed: Option<Timestamp>,
}

/// What a rename does if the new name is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RenameMode {
    /// What had the name loses it, in the same step.
    Replace,
    /// The rename is refused.
    NoReplace,
    /// Both swap their names; the new name must be taken.
    Exchange,
}

/// What setting an extended attribute does if there is one of that name, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetMode {
    /// It is made or replaced.
    Any,
    /// It must be new.
    Create,
    /// It must be there.
    Replace,
}

/// One name in a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FolderEntry<'a> {
    /// Where to go on reading behind this entry; stays valid whatever happens to the folder.
    pub cookie: u64,
    /// The name.
    pub name: &'a [u8],
    /// What it names.
    pub file: FileId,
    /// What that is.
    pub kind: FileKind,
}

/// A range of one file that a range of another is to read as, from a commit on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeCommit {
    /// The file whose content it is.
    pub from: FileId,
    /// Where it is there; whole units.
    pub from_offset: u64,
    /// The file that takes it.
    pub to: FileId,
    /// Where it goes; whole units.
    pub to_offset: u64,
    /// How much; whole units.
    pub bytes: u64,
}

/// What a file system holds and what it has room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Statistics {
    /// Units that files and their metadata can have.
    pub units: u64,
    /// Units that belong to no file.
    pub free_units: u64,
    /// Files of any kind.
    pub files: u64,
    /// Files that could be made at least, if each had no content.
    pub free_files: u64,
    /// Units that were shared with an earlier write of the same bytes instead of being written.
    pub units_remapped: u64,
    /// Units that were written while remapping was on, as nothing like them had been written shortly before.
    pub units_without_duplicate: u64,
}
