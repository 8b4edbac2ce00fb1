//! What cases found, as an outcome of a torture.

use crate::cases::{Cuts, Plan, setting};
use crate::device::tally::Tally;
use crate::error::CrashError;
use crate::{CrashOutcome, Violation};

/// The counts of a case.
pub(crate) fn outcome_of(tally: &Tally, violation: Option<Violation>) -> CrashOutcome {
    CrashOutcome {
        seeds: 0,
        cuts: tally.cuts,
        dirty_recoveries: tally.dirty_recoveries,
        second_cuts: tally.second_cuts,
        torn_pages_seen: tally.torn_pages_seen,
        promises_checked: tally.promises_checked,
        violations: violation.into_iter().collect(),
        interrupted: false,
    }
}

/// Fails if a cut that was to be replayed does not exist.
pub(crate) fn check_replayed<K>(plan: &Plan<K>, outcome: &CrashOutcome) -> Result<(), CrashError> {
    match &plan.cuts {
        Cuts::At(point) if outcome.has_done_nothing() => {
            Err(setting("--at", point, "the drive has no such operation in that command or its recovery"))
        }
        _ => Ok(()),
    }
}
