//! What units read as, and what they may read as after a cut.

use std::collections::{BTreeMap, BTreeSet};

use tantalum::Lpn;

use super::host::Stamp;

/// The units that direct commands work on.
#[derive(Clone, Default)]
pub(super) struct Oracle {
    now: BTreeMap<Lpn, Stamp>,
    allowed: BTreeMap<Lpn, BTreeSet<Stamp>>,
    /// Steps under way or not yet durable: all of their units took the new value, or none.
    steps: Vec<BTreeMap<Lpn, Stamp>>,
}

impl Oracle {
    /// What a unit reads as while the drive runs.
    pub fn now(&self, lpn: Lpn) -> Stamp {
        self.now.get(&lpn).copied().unwrap_or(0)
    }

    /// What it may read as after a cut.
    pub fn may(&self, lpn: Lpn) -> BTreeSet<Stamp> {
        self.allowed.get(&lpn).cloned().unwrap_or_else(|| BTreeSet::from([self.now(lpn)]))
    }

    /// The steps that were done in full or not at all.
    pub fn steps(&self) -> &[BTreeMap<Lpn, Stamp>] {
        &self.steps
    }

    /// A command that gives these units these values is about to be issued.
    pub fn issue(&mut self, new: &BTreeMap<Lpn, Stamp>, one_step: bool) {
        // steps whose units are changed again can no longer be told from what came after
        self.steps.retain(|step| !step.keys().any(|lpn| new.contains_key(lpn)));
        let told_apart = new.iter().all(|(lpn, stamp)| !self.may(*lpn).contains(stamp));
        if one_step && told_apart {
            self.steps.push(new.clone());
        }
        for (lpn, stamp) in new {
            let mut may = self.may(*lpn);
            may.insert(*stamp);
            self.allowed.insert(*lpn, may);
        }
    }

    /// It was acknowledged.
    pub fn acknowledge(&mut self, new: &BTreeMap<Lpn, Stamp>, durable: bool) {
        for (lpn, stamp) in new {
            self.now.insert(*lpn, *stamp);
            if durable {
                self.allowed.insert(*lpn, BTreeSet::from([*stamp]));
            }
        }
        if durable {
            self.steps.retain(|step| step != new);
        }
    }

    /// After a cut this is what a unit holds.
    pub fn found(&mut self, lpn: Lpn, stamp: Stamp) {
        self.now.insert(lpn, stamp);
    }

    /// All that is there is durable.
    pub fn flushed(&mut self) {
        self.allowed.clear();
        self.steps.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unflushed_write_may_be_lost_and_a_flushed_one_may_not() {
        let mut oracle = Oracle::default();
        let new = BTreeMap::from([(Lpn(3), 7)]);
        oracle.issue(&new, false);
        oracle.acknowledge(&new, false);
        assert_eq!((oracle.now(Lpn(3)), oracle.may(Lpn(3))), (7, BTreeSet::from([0, 7])));
        oracle.flushed();
        assert_eq!(oracle.may(Lpn(3)), BTreeSet::from([7]));
    }

    #[test]
    fn a_step_counts_until_one_of_its_units_is_changed_again() {
        let mut oracle = Oracle::default();
        let step = BTreeMap::from([(Lpn(1), 5), (Lpn(2), 6)]);
        oracle.issue(&step, true);
        assert_eq!(oracle.steps(), std::slice::from_ref(&step));
        oracle.acknowledge(&step, false);
        oracle.issue(&BTreeMap::from([(Lpn(2), 8)]), false);
        assert!(oracle.steps().is_empty());
    }
}
