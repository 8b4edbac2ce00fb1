//! Runs seeds on drives with their clients, on a few threads, and adds up the findings.

use serde::Serialize;
use tantalum_report::Monitor;

use super::case::{Case, Report};
use super::coverage::Coverage;
use super::kinds::Kind;
use super::setup::{Setup, SetupChoice};
use crate::cases::{self, Cuts, Ended, setting};
use crate::counts::{self, DriveCounts};
use crate::device::{Medium, Reached};
use crate::error::CrashError;
use crate::results::{check_replayed, outcome_of};
use crate::{CrashOutcome, Violation};

/// What to test, and for how long.
pub type Settings = cases::Settings<SetupChoice, Kind>;

impl Settings {
    /// Fails if these settings make no sense.
    pub fn validate(&self) -> Result<(), CrashError> {
        self.drives.validate()?;
        self.validate_common()?;
        if matches!(self.plan.cuts, Cuts::Random(_)) {
            return Ok(());
        }
        if self.drives.free {
            return Err(setting("--cuts", "all", "use a number with --order free, which does not repeat"));
        }
        if self.drives.medium == Some(Medium::Image) {
            return Err(setting("--cuts", "all", "use a number with an image"));
        }
        Ok(())
    }

    /// The cases of a seed.
    fn cases(&self, seed: u64) -> Vec<Case> {
        let mut setups = self.drives;
        if !matches!(self.plan.cuts, Cuts::Random(_)) {
            // at its flash operations
            setups.medium = Some(Medium::Memory);
        }
        let case = |setup| Case { seed, setup, plan: self.plan.clone() };
        setups.setups(seed).into_iter().map(case).collect()
    }
}

/// The results of a torture test of drives with several clients.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ClientsCrash {
    /// The counts, and the broken promises: at most one for each seed and drive.
    #[serde(flatten)]
    pub outcome: CrashOutcome,
    /// Cuts between the beginning of a clean shutdown and the first write after it. Recovery may rightly find the drive
    /// shut down, so they are not among `cuts`.
    pub shutdown_cuts: u64,
    /// What the clients did, and what was in flight when power was cut.
    pub coverage: Coverage,
    /// What the drives went through between cuts.
    pub reached: Reached,
    /// What each kind of drive went through.
    pub drives: Vec<DriveCounts>,
}

/// Cuts power and compares. Broken promises are results, not errors; an interruption ends the test with the results so
/// far.
pub fn torture(settings: &Settings, monitor: &Monitor) -> Result<ClientsCrash, CrashError> {
    settings.validate()?;
    let cases_of = |seed| settings.cases(seed);
    let cases = settings.run_cases(cases_of, ("several clients", monitor))?;
    let mut crash = ClientsCrash::default();
    for Ended { case, report, violation, .. } in cases.ended {
        crash.add(&case.setup, &report, violation);
    }
    (crash.outcome.seeds, crash.outcome.interrupted) = (cases.seeds, cases.interrupted);
    check_replayed(&settings.plan, &crash.outcome)?;
    Ok(crash)
}

impl ClientsCrash {
    fn add(&mut self, setup: &Setup, report: &Report, violation: Option<Violation>) {
        let tally = &report.tally;
        let (plp, cache) = setup.row();
        counts::add(&mut self.drives, (plp, cache, None), tally, violation.is_some());
        self.shutdown_cuts += tally.shutdown_cuts;
        self.reached.add(&tally.reached);
        self.coverage.add(&report.coverage);
        self.outcome.add(outcome_of(tally, violation));
    }
}
