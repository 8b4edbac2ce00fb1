//! How a transaction that waits for a lock hears that it has it, or why it does not get it.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Why a transaction does not get a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// It must give way to an older transaction.
    GiveWay,
    /// The wait could not end before its own thread goes on.
    OwnThread,
}

/// What a waiting transaction is told, once.
#[derive(Default)]
pub(crate) struct Wake {
    verdict: Mutex<Option<Result<(), Refusal>>>,
    told: Condvar,
}

impl Wake {
    pub fn tell(&self, verdict: Result<(), Refusal>) {
        let before = self.verdict.lock().replace(verdict);
        assert_eq!(before, None, "one that waits is told {verdict:?} as well");
        self.told.notify_one();
    }

    /// Waits until it is told, or for this long.
    pub fn wait_for(&self, patience: Duration) -> Option<Result<(), Refusal>> {
        let mut verdict = self.verdict.lock();
        self.told.wait_while_for(&mut verdict, |verdict| verdict.is_none(), patience);
        *verdict
    }
}
