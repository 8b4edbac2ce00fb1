//! What the file system asks of an index: where the units of files are, and what the files are.
//!
//! An index keeps its changes in memory until [`Index::sync_file`] or [`Index::checkpoint`]. It accounts for space: a
//! slot that is set releases what it held and adds what it holds ([`crate::segments::Segments`]).

use std::ops::Range;

use tantalum::Lpn;
use tantalum_filesystem::FileId;

use crate::check::Finding;
use crate::error::Result;
use crate::inode::Inode;
use crate::segments::Log;

/// Where a unit of a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slot {
    /// Nowhere: it reads as zeros.
    Hole,
    /// Nowhere yet, but there is space for it; it reads as zeros.
    Reserved,
    /// There.
    At(Lpn),
}

/// What a unit of the log is for; decides which head writes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Entries of a folder.
    Folder,
    /// Contents of a file.
    Content,
    /// Contents that the cleaner moves.
    MovedContent,
    /// Units of the index that the cleaner moves.
    MovedIndex,
}

/// What a unit of the log holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// A unit of a file.
    Content { file: FileId, unit: u32 },
    /// A unit of the index, by a number of its own.
    Index(u32),
}

/// A unit of the log that lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Resident {
    pub lpn: Lpn,
    pub owner: Owner,
}

/// What an index could do for a sync.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Synced {
    /// The file is durable.
    Yes,
    /// Only a checkpoint makes it so.
    NeedsCheckpoint,
}

/// An index of files.
pub(crate) trait Index: Send {
    /// The log head for a purpose.
    fn head(&self, purpose: Purpose) -> usize;

    /// The inode of a file, if there is one of that number.
    fn inode(&mut self, log: &mut Log, file: FileId) -> Result<Option<Inode>>;

    /// Stores the inode of a file that exists.
    fn set_inode(&mut self, log: &mut Log, file: FileId, inode: &Inode) -> Result<()>;

    /// A new file without contents.
    fn new_file(&mut self, log: &mut Log, inode: &Inode) -> Result<FileId>;

    /// Removes a file; its contents are gone already.
    fn remove_file(&mut self, log: &mut Log, file: FileId) -> Result<()>;

    /// Where a unit of a file is.
    fn slot(&mut self, log: &mut Log, file: FileId, unit: u32) -> Result<Slot>;

    /// Sets where a unit of a file is. `ENOSPC` is possible only if it was a hole.
    fn set_slot(&mut self, log: &mut Log, file: FileId, unit: u32, slot: Slot) -> Result<()>;

    /// Makes holes of units of a file. Returns how many were none.
    fn clear(&mut self, log: &mut Log, file: FileId, units: Range<u64>) -> Result<u64>;

    /// The first unit from `from` on that is not a hole.
    fn next_used(&mut self, log: &mut Log, file: FileId, from: u32) -> Result<Option<u32>>;

    /// Makes a file durable whose contents were appended and whose inode was set.
    fn sync_file(&mut self, log: &mut Log, file: FileId) -> Result<Synced>;

    /// Units that a checkpoint would append now.
    fn changed_units(&self) -> u64;

    /// Makes everything durable in one step. All changed inodes were set. `orphans` are files without names.
    fn checkpoint(&mut self, log: &mut Log, orphans: &[FileId], is_last: bool) -> Result<()>;

    /// What may live in a segment. The caller asks [`Index::lives_at`] of each.
    fn residents(&mut self, log: &mut Log, segment: u32) -> Result<Vec<Resident>>;

    /// Whether the owner is still there.
    fn lives_at(&mut self, log: &mut Log, resident: &Resident) -> Result<bool>;

    /// Whether a unit of the index differs from what the drive holds: it is written anew anyway.
    fn is_changed(&self, unit: u32) -> bool;

    /// Lets a unit of the index be written anew.
    fn rewrite(&mut self, log: &mut Log, unit: u32) -> Result<()>;

    /// A unit of the index, unchanged, is now elsewhere.
    fn moved(&mut self, log: &mut Log, unit: u32, to: Lpn) -> Result<()>;

    /// Numbers of all files.
    fn files(&mut self, log: &mut Log) -> Result<Vec<FileId>>;

    /// Files that could still be created.
    fn free_files(&self) -> u64;

    /// Files that exist.
    fn file_count(&self) -> u64;

    /// Visits every unit that the index has for a file, with its place unless it is only promised, and tells what is
    /// wrong with its part of the index.
    fn audit_file(
        &mut self,
        log: &mut Log,
        file: FileId,
        visit: &mut dyn FnMut(Owner, Option<Lpn>),
        findings: &mut Vec<Finding>,
    ) -> Result<()>;

    /// Tells what is wrong with the index as a whole, given how many units files reach.
    fn audit(&mut self, log: &mut Log, reachable: u64, findings: &mut Vec<Finding>) -> Result<()>;
}
