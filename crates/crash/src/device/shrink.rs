//! Minimises a failure: leaves out commands, in ever smaller groups, while the same promise stays broken.

use super::case::{Case, Cuts, Found};
use super::every_cut::cuts_of_command;
use super::progress::Progress;
use super::random_cuts::random_cuts;

/// The case with as few commands as necessary, and its finding.
pub(super) fn shrink(case: Case, found: Found, progress: &Progress<'_>) -> (Case, Found) {
    let most = case.plan.minimising_runs;
    let mut smallest = (case, found);
    if let Some(point) = &smallest.1.point {
        // cuts in recovery take long, and are needed only if one of them caused the failure
        smallest.0.plan.second_cut = point.second.is_some();
    }
    let mut attempts = 0;
    let mut group = (smallest.1.command / 2).max(1);
    loop {
        let mut start = 0;
        let mut smaller = false;
        while start < smallest.1.command {
            let end = (start + group).min(smallest.1.command);
            if (start..end).any(|command| !smallest.0.plan.skip.contains(command)) {
                if attempts == most || !progress.goes_on() {
                    return smallest;
                }
                attempts += 1;
                if let Some(shrunk) = without(&smallest, start..end) {
                    smallest = shrunk;
                    smaller = true;
                }
            }
            start = end;
        }
        if group == 1 && !smaller {
            return smallest;
        }
        group = (group / 2).max(1);
    }
}

/// The same failure without these commands, if it still occurs.
fn without((case, found): &(Case, Found), left_out: std::ops::Range<u64>) -> Option<(Case, Found)> {
    let mut case = case.clone();
    case.plan.skip = case.plan.skip.with(left_out);
    let again = match case.plan.cuts {
        Cuts::Random(_) => random_cuts(&case, found.cut + 1, &Progress::unseen()).found,
        _ => cuts_of_command(&case, found.command),
    }?;
    (again.broken.promise == found.broken.promise).then_some((case, again))
}
