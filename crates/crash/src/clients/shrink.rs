//! Minimises a failure: leaves out turns while the same promise stays broken.

use std::ops::Range;

use super::case::{Case, Found};
use super::random_cuts::random_cuts;
use crate::device::progress::Progress;
use crate::minimise::{Failing, minimise};

/// The case with as few turns as necessary, and its finding.
pub(super) fn shrink(case: Case, found: Found, progress: &Progress<'_>) -> (Case, Found) {
    let most = case.plan.minimising_runs;
    let mut attempts = 0;
    let smallest = minimise(Shrunk(case, found), || {
        attempts += 1;
        attempts <= most && progress.goes_on()
    });
    (smallest.0, smallest.1)
}

struct Shrunk(Case, Found);

impl Failing for Shrunk {
    fn end(&self) -> u64 {
        self.1.turn
    }

    fn is_left_out(&self, turn: u64) -> bool {
        self.0.plan.skip.contains(turn)
    }

    fn without(&self, left_out: Range<u64>) -> Option<Shrunk> {
        let Shrunk(case, found) = self;
        let mut case = case.narrowed(found);
        case.plan.trace = false;
        case.plan.skip = case.plan.skip.with(left_out);
        let again = random_cuts(&case, &Progress::unseen()).found?;
        (again.broken.promise == found.broken.promise).then_some(Shrunk(case, again))
    }
}
