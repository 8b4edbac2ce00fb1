//! Runs seeds on drives, on a few threads, and adds up the findings.

use std::ops::Range;

use serde::Serialize;
use tantalum_report::Monitor;

use super::case::{Case, Plan};
use super::drive::{Drive, DriveChoice, Medium};
use super::tally::{Reached, Tally};
use crate::cases::{Cuts, Ended, Seeds, check_replayed, outcome_of, run_cases, setting, validate};
use crate::error::CrashError;
use crate::{CrashOutcome, Violation};

/// What to test, and for how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The seeds. With `minutes` only the first one counts, and others follow it.
    pub seeds: Range<u64>,
    /// The drives.
    pub drives: DriveChoice,
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
        self.drives.validate()?;
        validate(&self.seeds(), &self.plan)?;
        if self.drives.medium.is_some_and(|medium| medium != Medium::Memory)
            && !matches!(self.plan.cuts, Cuts::Random(_))
        {
            let expected = "use a number with an image: only a drive in memory can be copied for each cut";
            return Err(setting("--cuts", "all", expected));
        }
        Ok(())
    }

    fn seeds(&self) -> Seeds {
        let Settings { ref seeds, minutes, threads, first_only, .. } = *self;
        Seeds { seeds: seeds.clone(), minutes, threads, first_only }
    }

    /// The cases of a seed.
    fn cases(&self, seed: u64) -> Vec<Case> {
        let case = |drive| Case { seed, drive, plan: self.plan.clone() };
        self.drives.drives(seed).into_iter().map(case).collect()
    }
}

/// The counts of one kind of drive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DriveCounts {
    /// Power-loss protection: `none` or `capacitor`.
    pub plp: &'static str,
    /// Cache: `off`, `volatile` or `durable`.
    pub cache: &'static str,
    /// Bytes of a flash page.
    pub page_bytes: u32,
    /// Power cuts while the drive worked.
    pub cuts: u64,
    /// Power cuts during recovery.
    pub second_cuts: u64,
    /// Broken promises.
    pub violations: u64,
    /// What the drives went through between cuts.
    pub reached: Reached,
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
    /// The same for each kind of drive.
    pub drives: Vec<DriveCounts>,
}

/// Cuts power and compares. Broken promises are results, not errors; an interruption ends the test with the results so
/// far.
pub fn torture(settings: &Settings, monitor: &Monitor) -> Result<DeviceCrash, CrashError> {
    settings.validate()?;
    let cases_of = |seed| settings.cases(seed);
    let cases = run_cases(&settings.seeds(), &settings.plan, cases_of, ("power loss", monitor));
    let mut crash = DeviceCrash::default();
    for Ended { case, report, violation, .. } in cases.ended {
        crash.add(&case.drive, &report.tally, violation);
    }
    (crash.outcome.seeds, crash.outcome.interrupted) = (cases.seeds, cases.interrupted);
    check_replayed(&settings.plan, &crash.outcome)?;
    Ok(crash)
}

impl DeviceCrash {
    fn add(&mut self, drive: &Drive, tally: &Tally, violation: Option<Violation>) {
        let counts = self.counts_of(drive);
        counts.cuts += tally.cuts;
        counts.second_cuts += tally.second_cuts;
        counts.violations += u64::from(violation.is_some());
        counts.reached.add(&tally.reached);
        self.shutdown_cuts += tally.shutdown_cuts;
        self.reached.add(&tally.reached);
        self.outcome.add(outcome_of(tally, violation));
    }

    fn counts_of(&mut self, drive: &Drive) -> &mut DriveCounts {
        let (plp, cache, page_bytes) = (drive.plp_name(), drive.cache_name(), drive.page_bytes);
        let known =
            |counts: &DriveCounts| (counts.plp, counts.cache, counts.page_bytes) == (plp, cache, page_bytes);
        let place = self.drives.iter().position(known).unwrap_or(self.drives.len());
        if place == self.drives.len() {
            let (cuts, second_cuts, violations, reached) = (0, 0, 0, Reached::default());
            self.drives.push(DriveCounts { plp, cache, page_bytes, cuts, second_cuts, violations, reached });
        }
        &mut self.drives[place]
    }
}
