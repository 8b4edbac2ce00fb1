//! What the host does in a turn.

use crate::weights::{Kinds, Weights as WeightsOf};

/// A kind of turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Appends to a zone, or writes at its write pointer.
    Append,
    /// The same with FUA.
    Fua,
    /// Appends to each of several zones at once.
    Several,
    /// Flushes.
    Flush,
    /// Resets a zone.
    Reset,
    /// Resets all zones.
    ResetAll,
    /// Finishes a zone.
    Finish,
    /// Opens a zone.
    Open,
    /// Closes a zone.
    Close,
    /// Writes elsewhere than at the write pointer, which must be refused.
    Wrong,
    /// Reads a zone and compares it.
    Read,
    /// Writes units beside the zones.
    Units,
    /// Erases everything old.
    Purge,
    /// Shuts down cleanly, and opens the drive again.
    Reopen,
}

impl Kinds for Kind {
    const ALL: &'static [(Kind, &'static str, u32)] = &[
        (Kind::Append, "append", 40),
        (Kind::Fua, "fua", 6),
        (Kind::Several, "several", 6),
        (Kind::Flush, "flush", 8),
        (Kind::Reset, "reset", 6),
        (Kind::ResetAll, "reset-all", 1),
        (Kind::Finish, "finish", 3),
        (Kind::Open, "open", 3),
        (Kind::Close, "close", 3),
        (Kind::Wrong, "wrong", 3),
        (Kind::Read, "read", 4),
        (Kind::Units, "units", 20),
        (Kind::Purge, "purge", 1),
        (Kind::Reopen, "reopen", 1),
    ];
}

/// The weight of each kind.
pub type Weights = WeightsOf<Kind>;
