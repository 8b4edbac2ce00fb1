//! Runs seeds on drives, on a few threads, and adds up the findings.

use serde::Serialize;
use tantalum_report::Monitor;

use super::case::Case;
use super::drive::{DriveChoice, DriveKind, Medium};
use super::tally::{Reached, Tally};
use super::weights::Kind;
use crate::cases::{self, Cuts, Ended, setting};
use crate::counts::{self, DriveCounts};
use crate::error::CrashError;
use crate::results::{check_replayed, outcome_of};
use crate::{CrashOutcome, Violation};

/// What to test, and for how long.
pub type Settings = cases::Settings<DriveChoice, Kind>;

impl Settings {
    /// Fails if these settings make no sense.
    pub fn validate(&self) -> Result<(), CrashError> {
        self.drives.validate()?;
        self.validate_common()?;
        if self.drives.medium.is_some_and(|medium| medium != Medium::Memory)
            && !matches!(self.plan.cuts, Cuts::Random(_))
        {
            let expected = "use a number with an image: only a drive in memory can be copied for each cut";
            return Err(setting("--cuts", "all", expected));
        }
        Ok(())
    }

    /// The cases of a seed.
    fn cases(&self, seed: u64) -> Vec<Case> {
        let case = |drive| Case { seed, drive, plan: self.plan.clone() };
        self.drives.drives(seed).into_iter().map(case).collect()
    }
}

/// The results of a torture test of drives.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct DeviceCrash {
    /// The counts, and the broken promises: at most one for each seed and drive.
    #[serde(flatten)]
    pub outcome: CrashOutcome,
    /// Cuts between the beginning of a clean shutdown and the first write after it. Recovery may rightly find the drive
    /// shut down, so they are not among `cuts`.
    pub shutdown_cuts: u64,
    /// What the drives went through between cuts.
    pub reached: Reached,
    /// What each kind of drive went through.
    pub drives: Vec<DriveCounts>,
}

/// Cuts power and compares. Broken promises are results, not errors; an interruption ends the test with the results so
/// far.
pub fn torture(settings: &Settings, monitor: &Monitor) -> Result<DeviceCrash, CrashError> {
    settings.validate()?;
    let cases_of = |seed| settings.cases(seed);
    let cases = settings.run_cases(cases_of, ("power loss", monitor))?;
    let mut crash = DeviceCrash::default();
    for Ended { case, report, violation, .. } in cases.ended {
        crash.add(&case.drive, &report.tally, violation);
    }
    (crash.outcome.seeds, crash.outcome.interrupted) = (cases.seeds, cases.interrupted);
    check_replayed(&settings.plan, &crash.outcome)?;
    Ok(crash)
}

impl DeviceCrash {
    fn add(&mut self, drive: &DriveKind, tally: &Tally, violation: Option<Violation>) {
        counts::add(
            &mut self.drives,
            (drive.plp_name(), drive.cache_name(), Some(drive.page_bytes)),
            tally,
            violation.is_some(),
        );
        self.shutdown_cuts += tally.shutdown_cuts;
        self.reached.add(&tally.reached);
        self.outcome.add(outcome_of(tally, violation));
    }
}
