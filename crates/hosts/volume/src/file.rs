//! A file of a mounted volume, and the drive's knowledge of it.

use std::collections::BTreeSet;

use tantalum_filesystem::FileKind;

use crate::continuation::ContinuationUnit;
use crate::extents::LpnRange;
use crate::folder::Folder;
use crate::inode::Inode;
use crate::space::Space;

/// A continuation of an inode, and its slot.
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
    /// The inode's slot in the table; none once the file has no name and is only open.
    pub slot: Option<u32>,
    /// The inode on the drive; none if the drive does not know the file.
    pub stored: Option<Box<Inode>>,
    /// The continuations of `stored`.
    pub continuations: Vec<Continuation>,
    /// `inode` may differ from `stored`.
    pub dirty: bool,
    /// Times of `inode` may differ from those of `stored`.
    pub times_dirty: bool,
    /// Some of the file's units may be mapped on the drive, and need a trim when they are given up.
    pub touched: bool,
    /// Given up by `inode`, but `stored` may still name them.
    pub freed: Vec<LpnRange>,
    /// How often it is open.
    pub opens: u32,
    /// Slots of the links that are further names of the file.
    pub links: BTreeSet<u32>,
    /// Its entries, if it is a folder.
    pub folder: Option<Box<Folder>>,
}

impl File {
    /// A file that the drive does not know.
    pub fn new(inode: Inode, slot: u32) -> File {
        File { dirty: true, ..File::known(inode, slot) }
    }

    /// A file known to both sides.
    pub fn known(inode: Inode, slot: u32) -> File {
        let folder = (inode.kind == FileKind::Folder).then(Box::default);
        File {
            inode,
            slot: Some(slot),
            stored: None,
            continuations: Vec::new(),
            dirty: false,
            times_dirty: false,
            touched: false,
            freed: Vec::new(),
            opens: 0,
            links: BTreeSet::new(),
            folder,
        }
    }

    /// Gives up the places of all units in `first..end`; they are free at once if nothing was ever there.
    pub fn give_up(&mut self, first: u32, end: u32, space: &mut Space) {
        let number = self.inode.number.0;
        let is_unknown = self.touched || self.stored.is_none();
        assert!(is_unknown, "units {first}..{end} of file {number} are freed while the drive knows the file");
        let ranges = self.inode.extents.take(first, end);
        let ranges = ranges.iter().map(|extent| extent.range());
        if self.touched {
            self.freed.extend(ranges);
        } else {
            ranges.for_each(|range| space.release(range));
        }
    }

    /// Whether the drive knows the file, under its first name.
    pub fn name_is_stored(&self) -> bool {
        let is_same = |stored: &Inode| stored.name == self.inode.name && stored.folder == self.inode.folder;
        self.stored.as_deref().is_some_and(is_same)
    }

    /// Number of names of the file; of a folder, 2 plus its subfolders.
    pub fn names(&self) -> u32 {
        match (&self.folder, self.slot) {
            (_, None) => 0,
            (Some(folder), _) => 2 + folder.subfolders,
            (None, _) => 1 + self.links.len() as u32,
        }
    }
}
