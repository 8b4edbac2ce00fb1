//! Where a store's files are, and what a store requires of a file system.
//!
//! [`VolumeStorage`] is a volume of a drive in this process, [`Folder`] a folder of any file system, including a
//! mounted volume. All offsets and lengths are whole units of [`UNIT_BYTES`].

mod folder;
mod ioctl;
mod volume;

use std::io;

pub use folder::Folder;
pub use volume::VolumeStorage;

/// Bytes of a unit: what a drive maps, and what a node of the index takes.
pub const UNIT_BYTES: usize = tantalum::UNIT_BYTES;

/// A range of a file, and another range of the same file that will read as it does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShareRange {
    /// Where the contents are.
    pub from: u64,
    /// Where they will appear as well.
    pub to: u64,
    /// Its length.
    pub bytes: u64,
}

/// The result of a request to share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shared {
    /// Done, and durable.
    Done,
    /// The drive has no room for more shared units; nothing was changed.
    Refused,
}

/// Files by name.
pub trait Storage: Send + Sync {
    /// An open file.
    type File: StorageFile;
    /// Marks a store as open until it is dropped.
    type Lock: Send + Sync;

    /// Marks the store of that name as open; refused while it is. The store holds the lock, with its clones, snapshots
    /// and compactions.
    fn lock(&self, name: &str) -> io::Result<Self::Lock>;

    /// Opens the file of that name; none if there is none.
    fn open(&self, name: &str) -> io::Result<Option<Self::File>>;

    /// Creates an empty file, replacing any file of that name.
    fn create(&self, name: &str) -> io::Result<Self::File>;

    /// Removes a file, if it exists. Those who have it open keep it.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Renames a file in one step, replacing any file of that name. Durable with [`Storage::sync_names`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Makes names durable: creations, removals and renames.
    fn sync_names(&self) -> io::Result<()>;

    /// Why it takes no changes, if it does not: stores are then opened to be read. It can always be changed unless it says otherwise.
    fn refuses_changes(&self) -> Option<String> {
        None
    }

    /// Whether it takes no changes because one has failed. What that one was to write may then be unreadable.
    fn has_failed(&self) -> bool {
        false
    }
}

/// An open file.
pub trait StorageFile: Send + Sync {
    /// Bytes of the file.
    fn size(&self) -> io::Result<u64>;

    /// Extends the file with zeros, and allocates their space where the file system can.
    fn grow(&self, size: u64) -> io::Result<()>;

    /// Fills `data` with the contents at `offset`; beyond the end of the file there are zeros.
    fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()>;

    /// Writes within the file. Durable with [`StorageFile::sync`].
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Makes written data and the file's size durable.
    fn sync(&self) -> io::Result<()>;

    /// Units that one [`StorageFile::share`] takes; 0 if nothing can be shared.
    fn share_units(&self) -> u32;

    /// Makes ranges read as others do, all or none. On return this is durable, with the contents. No range overlaps a
    /// target.
    fn share(&self, ranges: &[ShareRange]) -> io::Result<Shared>;

    /// Copies from another file into this one, which must be large enough; without moving data, if possible.
    /// Durable with [`StorageFile::sync`].
    fn copy_from(&self, from: &Self, from_offset: u64, to_offset: u64, bytes: u64) -> io::Result<()>;
}
