//! Canaries: guards of the store that a test can remove, to prove that tests notice (see `tantalum::canary`, which has
//! those of the drive).
//!
//! With the feature `canaries`, [`take_out`] removes one guard in the whole process, since a store works in several
//! threads. Without it [`out`] is `false` at compile time and the guards are simply there.

#[cfg(all(feature = "canaries", not(debug_assertions)))]
compile_error!("`canaries` is for tests: build with debug assertions, as `--profile canary` does");

/// A guard, named for what happens without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Guard {
    /// A scan does not lock the range that it has read: others insert into it.
    RangeNotLocked = 1,
    /// A range is locked although others have locked keys in it.
    RangeOverPoints,
    /// A scan uses what it found before it had the lock.
    NotReadAgain,
    /// The marker of a large transaction is written before its log.
    MarkerBeforeGroups,
    /// A large transaction is put step by step, without a log.
    LargeInParts,
    /// Others read between the parts of a large transaction.
    PartsSeen,
    /// The description of a large value is put before the commit, in a separate step.
    DescriptionApart,
    /// Parts that belong to no value are not deleted when the store is opened.
    PartsLeft,
    /// The parts of a large value that is gone are deleted although a snapshot sees it.
    PartsGone,
    /// The nodes of a tree are put after the values, in a separate step.
    NodesApart,
    /// The record of the numbers issued is not written.
    NumbersTwice,
    /// What a put replaces is not kept for snapshots.
    VersionsForgotten,
    /// A snapshot is read although what it saw is no longer kept.
    LostSnapshotRead,
    /// What a step of a large transaction is logged in is not deleted with it, but when all are in place.
    StepsRepeated,
    /// A step is computed from the nodes that the drive has, not from those that the steps before have left.
    PlannedOnOldNodes,
    /// A large transaction counts although its steps may not have room.
    RoomNotAsked,
    /// Puts take the room that is reserved for deletes.
    ReserveTaken,
    /// Keys that are deleted by their positions are not compared with those that were meant.
    OtherKeysDeleted,
}

#[cfg(feature = "canaries")]
static OUT: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Removes one guard in this process, or restores all.
#[cfg(feature = "canaries")]
pub fn take_out(guard: Option<Guard>) {
    OUT.store(guard.map_or(0, |guard| guard as u8), std::sync::atomic::Ordering::SeqCst);
}

/// Whether the guard is removed.
#[cfg(feature = "canaries")]
#[inline]
pub(crate) fn out(guard: Guard) -> bool {
    OUT.load(std::sync::atomic::Ordering::Relaxed) == guard as u8
}

/// Whether the guard is removed: never, in this build.
#[cfg(not(feature = "canaries"))]
#[inline]
pub(crate) const fn out(_guard: Guard) -> bool {
    false
}
