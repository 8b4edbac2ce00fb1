//! Runs seeds on drives with their clients, on a few threads, and adds up the findings.

use std::ops::Range;

use serde::Serialize;
use tantalum_report::Monitor;

use super::case::{Case, Plan, Report};
use super::coverage::Coverage;
use super::setup::{Setup, SetupChoice};
use crate::cases::{Cuts, Ended, Seeds, check_replayed, outcome_of, run_cases, setting, validate};
use crate::device::{Medium, Reached};
use crate::error::CrashError;
use crate::{CrashOutcome, Violation};

/// What to test, and for how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The seeds. With `minutes` only the first one counts, and others follow it.
    pub seeds: Range<u64>,
    /// The drives and their clients.
    pub setups: SetupChoice,
    /// What to do with each.
    pub plan: Plan,
    /// Runs fresh seeds for this many minutes. Then the findings depend on the machine.
    pub minutes: Option<u64>,
    /// Threads; with one, everything runs on the caller's thread.
    pub threads: usize,
    /// Begins no case once one has broken a promise.
    pub first_only: bool,
}

impl Settings {
    /// Fails if these settings make no sense.
    pub fn validate(&self) -> Result<(), CrashError> {
        self.setups.validate()?;
        validate(&self.seeds(), &self.plan)?;
        if matches!(self.plan.cuts, Cuts::Random(_)) {
            return Ok(());
        }
        if self.setups.free {
            return Err(setting("--cuts", "all", "use a number with --order free, which does not repeat"));
        }
        if self.setups.medium == Some(Medium::Image) {
            return Err(setting("--cuts", "all", "use a number with an image"));
        }
        Ok(())
    }

    fn seeds(&self) -> Seeds {
        let Settings { ref seeds, minutes, threads, first_only, .. } = *self;
        Seeds { seeds: seeds.clone(), minutes, threads, first_only }
    }

    /// The cases of a seed.
    fn cases(&self, seed: u64) -> Vec<Case> {
        let mut setups = self.setups;
        if !matches!(self.plan.cuts, Cuts::Random(_)) {
            // at its flash operations
            setups.medium = Some(Medium::Memory);
        }
        let case = |setup| Case { seed, setup, plan: self.plan.clone() };
        setups.setups(seed).into_iter().map(case).collect()
    }
}

/// The counts of one kind of drive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DriveCounts {
    /// Power-loss protection: `none`, `capacitor` or `nvm`.
    pub plp: &'static str,
    /// Cache: `off`, `volatile` or `durable`.
    pub cache: &'static str,
    /// Power cuts while the drive worked.
    pub cuts: u64,
    /// Power cuts during recovery.
    pub second_cuts: u64,
    /// Broken promises.
    pub violations: u64,
    /// What the drives went through between cuts; `commands` are the clients' turns.
    pub reached: Reached,
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
    /// The same for each kind of drive.
    pub drives: Vec<DriveCounts>,
}

/// Cuts power and compares. Broken promises are results, not errors; an interruption ends the test with the results so
/// far.
pub fn torture(settings: &Settings, monitor: &Monitor) -> Result<ClientsCrash, CrashError> {
    settings.validate()?;
    let cases_of = |seed| settings.cases(seed);
    let cases = run_cases(&settings.seeds(), &settings.plan, cases_of, ("several clients", monitor));
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
        let counts = self.counts_of(setup);
        counts.cuts += tally.cuts;
        counts.second_cuts += tally.second_cuts;
        counts.violations += u64::from(violation.is_some());
        counts.reached.add(&tally.reached);
        self.shutdown_cuts += tally.shutdown_cuts;
        self.reached.add(&tally.reached);
        self.coverage.add(&report.coverage);
        self.outcome.add(outcome_of(tally, violation));
    }

    fn counts_of(&mut self, setup: &Setup) -> &mut DriveCounts {
        let (plp, cache) = setup.row();
        let known = |counts: &DriveCounts| (counts.plp, counts.cache) == (plp, cache);
        let place = self.drives.iter().position(known).unwrap_or(self.drives.len());
        if place == self.drives.len() {
            let (cuts, second_cuts, violations, reached) = (0, 0, 0, Reached::default());
            self.drives.push(DriveCounts { plp, cache, cuts, second_cuts, violations, reached });
        }
        &mut self.drives[place]
    }
}
