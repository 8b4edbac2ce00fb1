//! What the file system requires of an index: where the units of files are, and which files exist.
//!
//! An index keeps its changes in memory until [`Index::sync_file`] or [`Index::checkpoint`]. It accounts for space:
//! setting a pointer releases its old contents and adds the new ones ([`crate::segments::Segments`]).

use std::ops::Range;

use tantalum::Lpn;
use tantalum_filesystem::{FileId, Timestamp};

use crate::bytes::Page;
use crate::check::Finding;
use crate::error::{LfsError, Result};
use crate::inode::Inode;
use crate::segments::{Log, Run};

/// Files without names that a checkpoint remembers.
pub(crate) const MOST_ORPHANS: usize = 4096;

/// Where a unit of a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BlockPointer {
    /// Nowhere: it reads as zeros.
    Hole,
    /// No place yet, but there is space for it; it reads as zeros.
    Reserved,
    /// There.
    At(Lpn),
}

impl BlockPointer {
    /// The place of contents.
    pub fn place(self) -> Option<Lpn> {
        match self {
            BlockPointer::At(lpn) => Some(lpn),
            BlockPointer::Hole | BlockPointer::Reserved => None,
        }
    }

    /// The place `units` units further on, if it is adjacent to this one.
    pub fn behind(self, units: u32) -> BlockPointer {
        match self {
            BlockPointer::At(lpn) => BlockPointer::At(Lpn(lpn.0.wrapping_add(units))),
            other => other,
        }
    }
}

/// The purpose of a unit of the log, which decides which head writes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Entries of a folder.
    Folder,
    /// Contents of a file.
    Content,
    /// Contents that the cleaner moves: the unit is unchanged.
    MovedContent,
}

/// What a unit of the log holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// A unit of a file.
    Content { file: FileId, unit: u32 },
    /// A unit that the index itself moves, identified by the index's own number.
    Index(u32),
}

/// A live unit of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Resident {
    pub lpn: Lpn,
    pub owner: Owner,
}

/// A place for a unit that the drive is to move, and the log head that assigned it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MovedPlace {
    pub head: usize,
    pub lpn: Lpn,
}

/// What an index could do for a sync.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Synced {
    /// The file is durable.
    Yes,
    /// Only a checkpoint makes it durable.
    NeedsCheckpoint,
}

/// The file system as it was at one moment, which stays readable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Its number, starting with 1; never reused.
    pub number: u32,
    /// Number of files in it.
    pub files: u32,
    /// When it was made.
    pub created: Timestamp,
}

/// An index and its log, as a mount found them.
pub(crate) struct Opened {
    pub log: Log,
    pub index: Box<dyn Index>,
    /// Files that lost their last name while open: to be removed.
    pub orphans: Vec<FileId>,
    /// Files that recovery found and that have no name yet.
    pub nameless: Vec<FileId>,
}

/// An index of files.
pub(crate) trait Index: Send {
    /// The inode of a file, if there is one of that number.
    fn inode(&mut self, log: &mut Log, file: FileId) -> Result<Option<Inode>>;

    /// Stores the inode of a file that exists.
    fn set_inode(&mut self, log: &mut Log, file: FileId, inode: &Inode) -> Result<()>;

    /// A new file without contents.
    fn new_file(&mut self, log: &mut Log, inode: &Inode) -> Result<FileId>;

    /// Removes a file whose contents have been removed.
    fn remove_file(&mut self, log: &mut Log, file: FileId) -> Result<()>;

    /// Where a unit of a file is.
    fn pointer(&mut self, log: &mut Log, file: FileId, unit: u32) -> Result<BlockPointer>;

    /// Where a unit of a file is, and how many units from it on are adjacent there, or are nowhere in the same way. At
    /// least one, at most `most`; there may be more.
    fn run(&mut self, log: &mut Log, file: FileId, unit: u32, most: u32) -> Result<(BlockPointer, u32)>;

    /// Whether a unit of a file is not a hole, and for how many units from it on that is the same. At least one, at
    /// most `most`; there may be more.
    fn used_run(&mut self, log: &mut Log, file: FileId, unit: u32, most: u32) -> Result<(bool, u32)>;

    /// Promises space for a unit of a file and gives up what was there. `ENOSPC` is possible only if it was a hole.
    fn reserve(&mut self, log: &mut Log, file: FileId, unit: u32) -> Result<()>;

    /// Whether [`Index::promise`] may have something to do.
    fn needs_promises(&self) -> bool {
        false
    }

    /// Makes sure that there is space for other contents of a unit that is not a hole.
    fn promise(&mut self, log: &mut Log, file: FileId, unit: u32) -> Result<()>;

    /// Appends contents of a unit to the log; the unit is there from now on. There is space for it.
    fn append(&mut self, log: &mut Log, purpose: Purpose, file: FileId, unit: u32, page: &Page)
    -> Result<()>;

    /// Appends contents of adjacent units of a file to the log, and sends them; the units are there from now on. There is
    /// space for them.
    fn append_run(&mut self, log: &mut Log, run: &mut Run<'_>) -> Result<()>;

    /// Turns units of a file into holes. Returns how many were not holes before.
    fn clear(&mut self, log: &mut Log, file: FileId, units: Range<u64>) -> Result<u64>;

    /// The first unit at or after `from` that is not a hole.
    fn next_used(&mut self, log: &mut Log, file: FileId, from: u32) -> Result<Option<u32>>;

    /// Makes a file durable after its contents were appended and its inode was set.
    fn sync_file(&mut self, log: &mut Log, file: FileId) -> Result<Synced>;

    /// Makes new files durable after their inodes were set, and with them their names, in this order. Changes nothing
    /// if that needs a checkpoint.
    fn sync_new_files(&mut self, log: &mut Log, files: &[FileId]) -> Result<Synced>;

    /// The number of checkpoints so far; a mount continues from the last durable one. Files have numbers below 2^31, so
    /// that the drive's lists can tell checkpoints apart (F1 of `lists/mod.rs`).
    fn checkpoints(&self) -> u64;

    /// As [`Index::append`] for contents that the drive lists; a sync leaves their index entries in memory.
    fn append_listed(&mut self, log: &mut Log, file: FileId, unit: u32, page: &Page) -> Result<()>;

    /// A unit of a file was found in a list, after a crash: it is there from now on.
    fn follow(&mut self, log: &mut Log, file: FileId, unit: u32, lpn: Lpn) -> Result<()>;

    /// All listed units were applied.
    fn end_following(&mut self, _log: &mut Log) -> Result<()> {
        Ok(())
    }

    /// Units that a checkpoint would append now.
    fn changed_units(&self) -> u64;

    /// Whether a checkpoint should be taken before more changes.
    fn is_checkpoint_due(&self, log: &Log) -> bool;

    /// The most free segments that the next checkpoint may need, besides those that [`Index::changed_units`] take.
    fn least_free_segments(&self) -> u32;

    /// Whether contents go into holes of full segments, because free segments are scarce.
    fn fills_holes(&self, _log: &Log) -> bool {
        false
    }

    /// Makes everything durable in one step. All changed inodes were set. `orphans` are files without names.
    fn checkpoint(&mut self, log: &mut Log, orphans: &[FileId], is_last: bool) -> Result<()>;

    /// The units that may be live in a segment. The caller must check [`Index::lives_at`] for each.
    fn residents(&mut self, log: &mut Log, segment: u32) -> Result<Vec<Resident>>;

    /// Whether the owner is still there.
    fn lives_at(&mut self, log: &mut Log, resident: &Resident) -> Result<bool>;

    /// Whether a unit of the index differs from what the drive holds: it is rewritten anyway.
    fn is_changed(&self, unit: u32) -> bool;

    /// Marks a unit of the index for rewriting.
    fn rewrite(&mut self, log: &mut Log, unit: u32) -> Result<()>;

    /// How many places (at least one) for units that the drive is to move can be assigned before [`Index::moved`] is
    /// called for the first. Nothing else is appended in between.
    fn moves_at_once(&mut self, log: &mut Log) -> Result<usize>;

    /// A place for a unit that the drive is to move.
    fn place_for(&mut self, log: &mut Log, owner: Owner) -> Result<MovedPlace>;

    /// An unchanged unit is now in a place that [`Index::place_for`] assigned.
    fn moved(&mut self, log: &mut Log, owner: Owner, to: Lpn) -> Result<()>;

    /// Numbers of all files.
    fn files(&mut self, log: &mut Log) -> Result<Vec<FileId>>;

    /// Files that could still be created.
    fn free_files(&self) -> u64;

    /// Files that exist.
    fn file_count(&self) -> u64;

    /// The readable snapshots.
    fn snapshots(&self) -> Vec<Snapshot> {
        Vec::new()
    }

    /// A snapshot of the present, right after a checkpoint and durable with the next one. Returns its number.
    fn create_snapshot(&mut self, _log: &mut Log, _now: Timestamp) -> Result<u32> {
        Err(LfsError::KeepsNoSnapshots)
    }

    /// After the next checkpoint, a snapshot can no longer be read.
    fn begin_deletion(&mut self, _number: u32) -> Result<()> {
        Err(LfsError::KeepsNoSnapshots)
    }

    /// Gives up what only snapshots being deleted see, starting at a position in the index; a checkpoint follows.
    /// Returns where to continue; none at the end.
    fn delete_some(&mut self, _log: &mut Log, _from: u32) -> Result<Option<u32>> {
        Ok(None)
    }

    /// Visits every unit that the index has for a file, with its place unless it is only promised, and reports what is
    /// wrong with the file's part of the index.
    fn audit_file(
        &mut self,
        log: &mut Log,
        file: FileId,
        visit: &mut dyn FnMut(Owner, Option<Lpn>),
        findings: &mut Vec<Finding>,
    ) -> Result<()>;

    /// Visits every unit that counts as live or promised and belongs to no file, and reports what is wrong with the
    /// index as a whole, given the number of units that files reach.
    fn audit(
        &mut self,
        log: &mut Log,
        reachable: u64,
        visit: &mut dyn FnMut(Option<Lpn>),
        findings: &mut Vec<Finding>,
    ) -> Result<()>;
}
