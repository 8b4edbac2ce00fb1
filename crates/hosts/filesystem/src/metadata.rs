//! A file's metadata, in POSIX's terms.

use std::time::{SystemTime, UNIX_EPOCH};

use nix::unistd::{getegid, geteuid};
use serde::{Deserialize, Serialize};

use crate::FileId;

/// The kind of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
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
    /// Nanoseconds after that second, below 10^9.
    pub nanoseconds: u32,
}

/// The metadata of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metadata {
    /// File, folder, symbolic link, pipe, socket or device.
    pub kind: FileKind,
    /// Permission bits, within 0o7777.
    pub permissions: u16,
    /// The owner's number.
    pub owner: u32,
    /// The group's number.
    pub group: u32,
    /// Number of names; of a folder, 2 plus its subfolders.
    pub links: u32,
    /// Bytes; of a symbolic link those of its target.
    pub size: u64,
    /// Units of the drive that its contents take.
    pub units: u64,
    /// When it was last read, as far as the file system knows.
    pub accessed: Timestamp,
    /// When its content last changed.
    pub modified: Timestamp,
    /// When its content or metadata last changed.
    pub changed: Timestamp,
    /// When it was created.
    pub created: Timestamp,
    /// The device that a device file stands for.
    pub device_number: u32,
}

impl Metadata {
    /// Of a new file: empty, with one name, or of a folder with two links.
    pub fn of_new(new: &NewFile) -> Metadata {
        Metadata {
            kind: new.kind,
            permissions: new.permissions & 0o7777,
            owner: new.owner,
            group: new.group,
            links: if new.kind == FileKind::Folder { 2 } else { 1 },
            size: 0,
            units: 0,
            accessed: new.now,
            modified: new.now,
            changed: new.now,
            created: new.now,
            device_number: new.device_number,
        }
    }
}

/// The properties of a new file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NewFile {
    /// File, folder, symbolic link, pipe, socket or device.
    pub kind: FileKind,
    /// Permission bits, within 0o7777.
    pub permissions: u16,
    /// The owner's number.
    pub owner: u32,
    /// The group's number.
    pub group: u32,
    /// The device that a device file stands for.
    pub device_number: u32,
    /// The time, for the file and its folder.
    pub now: Timestamp,
}

/// Changes of a file's metadata; `None` leaves a field unchanged.
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

impl MetadataChange {
    /// The current date, for a file that the program itself creates.
    pub fn made_now() -> MetadataChange {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Some(Timestamp { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() });
        MetadataChange { accessed: now, modified: now, changed: now, ..MetadataChange::default() }
    }

    /// The current date, and the calling process's owner and group. The root folder of a new file system needs them: an
    /// ordinary user's mount is only for that user, who could not create anything in a folder of somebody else.
    pub fn made_by_caller() -> MetadataChange {
        let (owner, group) = (Some(geteuid().as_raw()), Some(getegid().as_raw()));
        MetadataChange { owner, group, ..MetadataChange::made_now() }
    }
}

/// What a rename does if the new name is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RenameMode {
    /// The file that had the name loses it, in the same step.
    Replace,
    /// The rename is refused.
    NoReplace,
    /// Both files swap names; the new name must be taken.
    Exchange,
}

/// What setting an extended attribute does, depending on whether it exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetMode {
    /// Create or replace it.
    Any,
    /// It must not exist.
    Create,
    /// It must exist.
    Replace,
}

/// One name in a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FolderEntry<'a> {
    /// Where reading continues after this entry; stays valid whatever happens to the folder.
    pub cookie: u64,
    /// The name.
    pub name: &'a [u8],
    /// What it names.
    pub file: FileId,
    /// File, folder, symbolic link, pipe, socket or device.
    pub kind: FileKind,
}

/// A range of one file that a range of another reads as from a commit on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeCommit {
    /// The source file.
    pub from: FileId,
    /// The offset there; whole units.
    pub from_offset: u64,
    /// The destination file.
    pub to: FileId,
    /// The offset there; whole units.
    pub to_offset: u64,
    /// The length; whole units.
    pub bytes: u64,
}

/// The contents of a file system, and its free space.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Statistics {
    /// Units available to files and their metadata.
    pub units: u64,
    /// Units that belong to no file.
    pub free_units: u64,
    /// Files of any kind.
    pub files: u64,
    /// Files that could at least be created, if each had no contents.
    pub free_files: u64,
    /// Units that were shared with an earlier write of the same bytes instead of being written.
    pub units_remapped: u64,
    /// Units that were written while remapping was on, because nothing equal had been written shortly before.
    pub units_without_duplicate: u64,
    /// What a log-structured file system did; `None` for others.
    #[serde(default)]
    pub log: Option<LogStatistics>,
}

/// What a log-structured file system wrote since it was mounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LogStatistics {
    /// Units sent to the drive: contents of files, index, and what the cleaner copied.
    pub units_written: u64,
    /// Of these, units of files' contents, without what the cleaner copied.
    pub content_units_written: u64,
    /// Units of files' contents that were written in place.
    pub units_in_place: u64,
    /// Units of contents that went into holes of full segments, because free segments were scarce.
    #[serde(default)]
    pub units_in_holes: u64,
    /// Syncs that wrote only contents, and left the index to the drive's lists.
    pub syncs_listed: u64,
    /// Syncs that wrote contents and the file's part of the index.
    pub syncs_indexed: u64,
    /// Checkpoints, for syncs or for other reasons.
    pub checkpoints: u64,
    /// Units that the cleaner read and wrote again.
    pub units_copied: u64,
    /// Units that the cleaner let the drive move.
    pub units_moved: u64,
}

impl LogStatistics {
    /// Everything written divided by the contents of files: the *file write amplification* of Jin's thesis (section 4.4.4).
    /// `None` before any contents were written.
    pub fn file_write_amplification(&self) -> Option<f64> {
        let contents = self.content_units_written;
        (contents > 0).then(|| self.units_written as f64 / contents as f64)
    }

    /// What was done since an earlier moment of the same mount.
    pub fn since(&self, before: &LogStatistics) -> LogStatistics {
        LogStatistics {
            units_written: self.units_written - before.units_written,
            content_units_written: self.content_units_written - before.content_units_written,
            units_in_place: self.units_in_place - before.units_in_place,
            units_in_holes: self.units_in_holes - before.units_in_holes,
            syncs_listed: self.syncs_listed - before.syncs_listed,
            syncs_indexed: self.syncs_indexed - before.syncs_indexed,
            checkpoints: self.checkpoints - before.checkpoints,
            units_copied: self.units_copied - before.units_copied,
            units_moved: self.units_moved - before.units_moved,
        }
    }
}
