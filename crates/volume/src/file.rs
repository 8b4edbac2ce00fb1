//! A file of a mounted volume, and what the drive knows of it.

use std::fmt;

use crate::extents::LpnRange;
use crate::inode::{ContinuationUnit, Inode, InodeUnit};
use crate::space::FreeSpace;

/// A file of a mounted volume. It stays the file's through renames, and is not given to another file before the
/// volume is mounted again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub(crate) u32);

impl FileId {
    /// The root folder.
    pub const ROOT: FileId = FileId(1);

    /// The file of that number, if there is one.
    pub fn new(number: u32) -> FileId {
        FileId(number)
    }

    /// Its number: the inode number.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A continuation of an inode and the slot in which it lies.
#[derive(Clone)]
pub(crate) struct Continuation {
    pub slot: u32,
    pub unit: Box<ContinuationUnit>,
}

/// One file.
#[derive(Clone)]
pub(crate) struct File {
    /// As programs see it.
    pub inode: Inode,
    /// The inode's place in the table.
    pub slot: u32,
    /// The inode as it lies on the drive; none if the drive does not know the file.
    pub stored: Option<Box<InodeUnit>>,
    /// The continuations of `stored`.
    pub continuations: Vec<Continuation>,
    /// `inode` may differ from `stored`.
    pub dirty: bool,
    /// Some of the file's units may be mapped on the drive, so that they need a trim when they are given up.
    pub touched: bool,
    /// Given up by `inode`, while `stored` may still name them.
    pub freed: Vec<LpnRange>,
}

impl File {
    /// A file that the drive does not know.
    pub fn new(name: &str, slot: u32) -> File {
        File {
            inode: Inode::new(name),
            slot,
            stored: None,
            continuations: Vec::new(),
            dirty: true,
            touched: false,
            freed: Vec::new(),
        }
    }

    /// Gives up the places of all units from `unit` on: to the free space if nothing was ever there.
    pub fn give_up_from(&mut self, unit: u32, space: &mut FreeSpace) {
        let ranges = self.inode.extents.truncate(unit);
        if self.touched {
            self.freed.extend(ranges);
        } else {
            ranges.into_iter().for_each(|range| space.release(range));
        }
    }

    /// Whether the drive knows the file, and by its name.
    pub fn name_is_stored(&self) -> bool {
        self.stored.as_ref().is_some_and(|unit| unit.name() == Ok(&self.inode.name))
    }
}

/// A file that is gone, while the drive may not know yet.
#[derive(Clone)]
pub(crate) struct RemovedFile {
    pub slot: u32,
    /// Whether the drive knows the file.
    pub stored: bool,
    pub continuations: Vec<u32>,
    pub freed: Vec<LpnRange>,
}
