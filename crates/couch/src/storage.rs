//! Where a store's files are: the little that it asks of a file system.
//!
//! [`VolumeStorage`] is a volume of a drive in this process, [`Folder`] a folder of any file system, a mounted volume
//! included. All offsets and lengths are whole units of [`UNIT_BYTES`].

mod folder;
mod ioctl;
mod volume;

use std::io;

pub use folder::Folder;
pub use volume::VolumeStorage;

/// Bytes of a unit: what a drive maps, and what a node of the index takes.
pub const UNIT_BYTES: usize = tantalum::UNIT_BYTES;

/// A range of a file that another range of the same file is to read as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShareRange {
    /// Where the content is.
    pub from: u64,
    /// Where it is to be seen too.
    pub to: u64,
    /// How much.
    pub bytes: u64,
}

/// What became of a request to share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shared {
    /// It is done, and durable.
    Done,
    /// The drive has no room for more shared units; nothing was changed.
    Refused,
}

/// Files by name.
pub trait Storage: Send + Sync {
    /// An open file.
    type File: StorageFile;

    /// Opens the file of that name; none if there is none.
    fn open(&self, name: &str) -> io::Result<Option<Self::File>>;

    /// Makes an empty file; one that had the name is gone.
    fn create(&self, name: &str) -> io::Result<Self::File>;

    /// Removes a file, if there is one. Who has it open keeps it.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Gives a file another name, in one step; a file that had it is removed. Durable with [`Storage::sync_names`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Makes names durable: creations, removals and renames.
    fn sync_names(&self) -> io::Result<()>;
}

/// An open file.
pub trait StorageFile: Send + Sync {
    /// Bytes of the file.
    fn size(&self) -> io::Result<u64>;

    /// Makes the file larger, with zeros, and takes the room for them where that can be done ahead.
    fn grow(&self, size: u64) -> io::Result<()>;

    /// Fills `data` with what lies at `offset`; behind the file's end are zeros.
    fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()>;

    /// Writes within the file. Durable with [`StorageFile::sync`].
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Makes durable what was written, and the file's size.
    fn sync(&self) -> io::Result<()>;

    /// Units that one [`StorageFile::share`] takes; 0 where nothing can be shared.
    fn share_units(&self) -> u32;

    /// Makes ranges read as others do: all of them or none, and durable with the content that they take when it
    /// returns. No range overlaps a target.
    fn share(&self, ranges: &[ShareRange]) -> io::Result<Shared>;

    /// Copies from another file into this one, which is large enough, without moving data where that can be done.
    /// Durable with [`StorageFile::sync`].
    fn copy_from(&self, from: &Self, from_offset: u64, to_offset: u64, bytes: u64) -> io::Result<()>;
}
