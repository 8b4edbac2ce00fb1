//! The age of a transaction that requests locks, and the mode of a lock.

/// When a transaction first began; greater is younger. No two open transactions have the same age.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Age(pub u64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

pub(crate) fn conflict(a: Mode, b: Mode) -> bool {
    a == Mode::Exclusive || b == Mode::Exclusive
}
