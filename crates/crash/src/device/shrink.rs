//! Minimises a failure: leaves out commands while the same promise stays broken.

use std::ops::Range;

use super::case::{Case, Cuts, Found};
use super::every_cut::cuts_of_command;
use super::progress::Progress;
use super::random_cuts::random_cuts;
use crate::minimise::{Failing, minimise};

/// The case with as few commands as necessary, and its finding.
pub(super) fn shrink(mut case: Case, found: Found, progress: &Progress<'_>) -> (Case, Found) {
    let most = case.plan.minimising_runs;
    if let Some(point) = &found.point {
        // cuts in recovery take long, and are needed only if one of them caused the failure
        case.plan.second_cut = point.second.is_some();
    }
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
        self.1.command
    }

    fn is_left_out(&self, command: u64) -> bool {
        self.0.plan.skip.contains(command)
    }

    fn without(&self, left_out: Range<u64>) -> Option<Shrunk> {
        let Shrunk(case, found) = self;
        let mut case = case.clone();
        case.plan.skip = case.plan.skip.with(left_out);
        let again = match case.plan.cuts {
            Cuts::Random(_) => random_cuts(&case, found.cut + 1, &Progress::unseen()).found,
            _ => cuts_of_command(&case, found.command),
        }?;
        (again.broken.promise == found.broken.promise).then_some(Shrunk(case, again))
    }
}
