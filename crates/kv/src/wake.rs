//! How a transaction that waits for a lock hears that it has it, or that it must give way.

use parking_lot::{Condvar, Mutex};

/// The transaction must give way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GiveWay;

/// What a waiting transaction is told, once.
#[derive(Default)]
pub(crate) struct Wake {
    verdict: Mutex<Option<Result<(), GiveWay>>>,
    told: Condvar,
}

impl Wake {
    pub fn tell(&self, verdict: Result<(), GiveWay>) {
        *self.verdict.lock() = Some(verdict);
        self.told.notify_one();
    }

    /// Waits until it is told.
    pub fn wait(&self) -> Result<(), GiveWay> {
        let mut verdict = self.verdict.lock();
        loop {
            match *verdict {
                Some(verdict) => return verdict,
                None => self.told.wait(&mut verdict),
            }
        }
    }
}
