//! Who requests a lock: a transaction, by its age, in a thread; and the mode of a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// When a transaction first began; greater is younger. No two open transactions have the same age.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Age(pub u64);

/// The thread that uses a transaction. While it waits for a lock, it cannot end its other transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Thread {
    /// No two threads have the same number.
    pub number: u64,
    /// Whether no other thread ends the transaction.
    pub ends_it: bool,
}

impl Thread {
    /// The thread that calls this.
    pub fn current(ends_it: bool) -> Thread {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        thread_local! {
            static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
        }
        Thread { number: NUMBER.with(|number| *number), ends_it }
    }
}

/// Who requests a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Requester {
    pub age: Age,
    pub thread: Thread,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

pub(crate) fn conflict(a: Mode, b: Mode) -> bool {
    a == Mode::Exclusive || b == Mode::Exclusive
}
