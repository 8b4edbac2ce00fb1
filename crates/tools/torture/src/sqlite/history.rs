//! The allowed states of a database after a power cut.

use tantalum_sqlite::Mode;
use tantalum_sqlite::Synchronous;

use super::contents::Contents;
use crate::program::Broken;

/// SQLite's promise about acknowledged transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Promise {
    /// All acknowledged transactions are there.
    All,
    /// All except the last: without `EXTRA`, the removal of a rollback journal is durable with the next transaction.
    AllButTheLast,
    /// A prefix of them, with all up to the last complete checkpoint.
    Prefix,
}

fn promise(mode: Mode, synchronous: Synchronous) -> Promise {
    match (synchronous, mode) {
        (Synchronous::Full, _) | (Synchronous::Normal, Mode::XFtl | Mode::Atomic) => Promise::All,
        (Synchronous::Normal, Mode::Rollback) => Promise::AllButTheLast,
        (Synchronous::Normal, Mode::Wal | Mode::Share | Mode::SwWal) => Promise::Prefix,
    }
}

/// The states since power came on, one for each acknowledged transaction.
#[derive(Clone, Debug)]
pub(super) struct History {
    promise: Promise,
    /// The state when power came on, and those that followed.
    states: Vec<Contents>,
    /// The state known to be durable, independent of promises.
    durable: usize,
    /// The state after the current transaction.
    under_way: Option<Contents>,
}

impl History {
    /// A history that begins with what the database holds durably.
    pub fn new(mode: Mode, synchronous: Synchronous, found: Contents) -> History {
        let promise = promise(mode, synchronous);
        History { promise, states: vec![found], durable: 0, under_way: None }
    }

    /// What the database holds now.
    pub fn current(&self) -> &Contents {
        self.states.last().expect("a history begins with a state")
    }

    /// A transaction that leads to `next` has begun.
    pub fn begun(&mut self, next: Contents) {
        self.under_way = Some(next);
    }

    /// The current transaction was acknowledged.
    pub fn acknowledged(&mut self) {
        self.states.extend(self.under_way.take());
    }

    /// The current transaction was refused, and must not be there.
    pub fn refused(&mut self) {
        self.under_way = None;
    }

    /// Everything acknowledged is durable: a checkpoint was complete.
    pub fn all_is_durable(&mut self) {
        self.durable = self.states.len() - 1;
    }

    /// Compares what was found after a cut with what is allowed.
    pub fn check(&self, found: &Contents) -> Result<(), Broken> {
        let last = self.states.len() - 1;
        let least = match self.promise {
            Promise::All => last,
            Promise::AllButTheLast => last.saturating_sub(1).max(self.durable),
            Promise::Prefix => self.durable,
        };
        let allowed = || self.states[least..].iter().chain(&self.under_way);
        let (first, most) = (&self.states[least], allowed().last().expect("one is allowed"));
        let range =
            format!("found transaction {}, allowed are {} to {}", found.number, first.number, most.number);
        match allowed().find(|state| state.number == found.number) {
            Some(state) => match state.difference(found) {
                Some(difference) => {
                    Err(Broken::new("transactions are whole", format!("{range}; {difference}")))
                }
                None => Ok(()),
            },
            None if found.number < first.number => Err(Broken::new("acknowledged means there", range)),
            None => Err(Broken::new("nothing is there that was not done", range)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(number: u64) -> Contents {
        Contents::empty_after(number)
    }

    /// Transactions 6 to 8 were acknowledged, and 9 is in flight.
    fn history(mode: Mode, synchronous: Synchronous) -> History {
        let mut history = History::new(mode, synchronous, state(5));
        for number in 6..=8 {
            history.begun(state(number));
            history.acknowledged();
        }
        history.begun(state(9));
        history
    }

    fn allowed(history: &History) -> Vec<u64> {
        (0..20).filter(|&number| history.check(&state(number)).is_ok()).collect()
    }

    #[test]
    fn what_is_allowed_depends_on_mode_and_setting() {
        use Synchronous::{Full, Normal};
        for mode in Mode::ALL {
            assert_eq!(allowed(&history(mode, Full)), [8, 9], "{mode}");
        }
        assert_eq!(allowed(&history(Mode::XFtl, Normal)), [8, 9]);
        assert_eq!(allowed(&history(Mode::Atomic, Normal)), [8, 9]);
        assert_eq!(allowed(&history(Mode::Rollback, Normal)), [7, 8, 9]);
        assert_eq!(allowed(&history(Mode::SwWal, Normal)), [5, 6, 7, 8, 9]);
    }

    #[test]
    fn a_complete_checkpoint_raises_the_floor_and_a_refusal_takes_the_roof_away() {
        let mut history = history(Mode::Share, Synchronous::Normal);
        history.all_is_durable();
        history.refused();
        assert_eq!(allowed(&history), [8]);
        let broken = history.check(&state(7)).unwrap_err();
        assert_eq!(broken.promise, "acknowledged means there");
        assert_eq!(broken.detail, "found transaction 7, allowed are 8 to 8");
    }
}
