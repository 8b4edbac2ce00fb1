//! The random host's commands, and how often each comes.

use crate::weights::{Kinds, Weights as WeightsOf};

/// What the host does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Writes units, some with metadata.
    Write,
    /// Writes units with FUA, so that they are on flash when it is done.
    Fua,
    /// Writes or trims many units.
    Bulk,
    /// Makes units read as zeros.
    Zeroes,
    /// Trims units.
    Trim,
    /// Shares units with others.
    Share,
    /// Moves a unit's mapping.
    Remap,
    /// Begins, continues or ends a transaction.
    Transaction,
    /// Writes scattered units in one step.
    Atomic,
    /// Writes units and records in one step.
    Batch,
    /// Flushes.
    Flush,
    /// Compares some of what the running drive holds.
    Read,
    /// Writes a page of a hinted log.
    Hinted,
    /// Continues the log that works like SQLite's.
    Log,
    /// Makes a page unreadable.
    Lose,
    /// Shuts down cleanly, and opens the drive again.
    Reopen,
    /// Puts records.
    Put,
    /// Deletes a record.
    Delete,
    /// Deletes or creates a namespace.
    Namespace,
    /// Writes units and appends them to a file's list.
    FsWrite,
    /// Clears lists of files.
    ClearLists,
    /// Has a handle begin its next reclaim unit.
    UpdateHandle,
}

impl Kinds for Kind {
    const ALL: &'static [(Kind, &'static str, u32)] = &[
        (Kind::Write, "write", 22),
        (Kind::Fua, "fua", 3),
        (Kind::Bulk, "bulk", 2),
        (Kind::Zeroes, "zeroes", 1),
        (Kind::Trim, "trim", 4),
        (Kind::Share, "share", 8),
        (Kind::Remap, "remap", 3),
        (Kind::Transaction, "transaction", 10),
        (Kind::Atomic, "atomic", 5),
        (Kind::Batch, "batch", 6),
        (Kind::Flush, "flush", 5),
        (Kind::Read, "read", 4),
        (Kind::Hinted, "hinted", 24),
        (Kind::Log, "log", 34),
        (Kind::Lose, "lose", 1),
        (Kind::Reopen, "reopen", 1),
        (Kind::Put, "put", 16),
        (Kind::Delete, "delete", 4),
        (Kind::Namespace, "namespace", 1),
        // only on drives that keep lists of files
        (Kind::FsWrite, "fs-write", 0),
        (Kind::ClearLists, "clear-lists", 0),
        // only on drives with reclaim unit handles
        (Kind::UpdateHandle, "update-handle", 0),
    ];
}

/// The weight of each kind of command.
pub type Weights = WeightsOf<Kind>;

/// On drives that keep lists of files, unless others are given.
const LIST_WEIGHTS: [u32; 2] = [18, 3];

/// On drives with reclaim unit handles, unless another is given.
const UPDATE_WEIGHT: u32 = 3;

impl Weights {
    /// The weights for a drive: commands on lists come on those that keep some, and on handles on those that have some.
    pub(super) fn for_drive(&self, has_lists: bool, has_handles: bool) -> Weights {
        let mut weights = self.clone();
        if let [.., fs_write @ 0, clear @ 0, _] = &mut weights.weights[..]
            && has_lists
        {
            [*fs_write, *clear] = LIST_WEIGHTS;
        }
        if let [.., update @ 0] = &mut weights.weights[..]
            && has_handles
        {
            *update = UPDATE_WEIGHT;
        }
        weights
    }
}
