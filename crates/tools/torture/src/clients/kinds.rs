//! What a client does in its turn, and how often.

use crate::weights::{Kinds, Weights as WeightsOf};

/// What a client does next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Writes units.
    Write,
    /// Writes units that are on flash when the command is done.
    Fua,
    /// Writes many units, so that commands wait for room.
    Bulk,
    /// Reads and writes in commands that are issued together.
    Together,
    /// Makes units read as zeros.
    Zeroes,
    /// Trims units.
    Trim,
    /// Shares units with others, deferred or not.
    Share,
    /// Moves a unit's mapping.
    Remap,
    /// Begins, continues, commits or aborts a transaction.
    Transaction,
    /// Writes scattered units in one step.
    Atomic,
    /// Writes units and records in one step.
    Batch,
    /// Flushes.
    Flush,
    /// Reads units.
    Read,
    /// Writes a page of a hinted log.
    Hinted,
    /// Puts and deletes records in one step.
    Put,
    /// Deletes a record.
    Delete,
    /// Reads a record, or lists keys.
    Get,
    /// Deletes or creates a namespace.
    Namespace,
    /// Writes units and appends them to a file's list, on drives that keep lists.
    FsWrite,
    /// Clears lists of files, on such drives.
    ClearLists,
    /// Commits a transaction of the program Atomic-Writes, on drives with programs.
    Program,
    /// Compares everything that the running drive holds.
    Compare,
    /// Shuts down cleanly, and opens the drive again.
    Reopen,
}

impl Kinds for Kind {
    const ALL: &'static [(Kind, &'static str, u32)] = &[
        (Kind::Write, "write", 26),
        (Kind::Fua, "fua", 5),
        (Kind::Bulk, "bulk", 1),
        (Kind::Together, "together", 5),
        (Kind::Zeroes, "zeroes", 1),
        (Kind::Trim, "trim", 5),
        (Kind::Share, "share", 8),
        (Kind::Remap, "remap", 4),
        (Kind::Transaction, "transaction", 14),
        (Kind::Atomic, "atomic", 6),
        (Kind::Batch, "batch", 7),
        (Kind::Flush, "flush", 8),
        (Kind::Read, "read", 8),
        (Kind::Hinted, "hinted", 24),
        (Kind::Put, "put", 16),
        (Kind::Delete, "delete", 5),
        (Kind::Get, "get", 6),
        (Kind::Namespace, "namespace", 1),
        (Kind::FsWrite, "fs-write", 12),
        (Kind::ClearLists, "clear-lists", 2),
        (Kind::Program, "program", 12),
        (Kind::Compare, "compare", 1),
        (Kind::Reopen, "reopen", 1),
    ];
}

/// The weight of each kind.
pub type Weights = WeightsOf<Kind>;
