//! Runs seeds on drives with zones: power is cut at random operations and at random times, and the same drive goes on each time.

use rand::{Rng, RngExt};
use serde::Serialize;
use tantalum::PowerLoss;
use tantalum_report::Monitor;

use super::drive::{ZoneDrive, ZoneDrives};
use super::kinds::Kind;
use super::run::{Run, ZonesReached};
use crate::cases::{self, Cuts, Ended, Found, setting};
use crate::device::Reached;
use crate::device::guard::guarded;
use crate::device::progress::Progress;
use crate::device::random::generator;
use crate::device::stop::{Broken, Stop};
use crate::device::tally::Tally;
use crate::error::CrashError;
use crate::results::outcome_of;
use crate::{CrashOutcome, Violation};

/// Selects the random numbers of the cuts, as opposed to those of the turns.
const CUT: u64 = 8 << 32;

/// Selects those of the kinds of turns.
const KIND: u64 = 9 << 32;

/// Turns after which power is cut if their operations have not triggered the cut.
const PATIENCE: u64 = 400;

/// The same on flash that has worn out, which takes no more.
const WORN_PATIENCE: u64 = 10;

/// The maximum number of cuts in recovery, one after the other.
const IN_A_ROW: u64 = 8;

/// What is done with each seed on each drive; its commands are turns, and power is cut at random.
pub type Plan = cases::Plan<Kind>;

/// What to test, and for how long.
pub type Settings = cases::Settings<ZoneDrives, Kind>;

/// One seed on one drive.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub seed: u64,
    pub drive: ZoneDrive,
    pub plan: Plan,
}

/// The result of a case.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    tally: Tally,
    reached: ZonesReached,
    /// It ends with the first broken promise.
    found: Option<Found>,
}

impl Case {
    fn random_cuts(&self, count: u64, progress: &Progress<'_>) -> Report {
        let mut run = match guarded(|| Run::new(self)) {
            Ok(run) => run,
            Err(stop) => return Report { found: Some(Found::new(stop, 0, 0, None)), ..Report::default() },
        };
        let (mut index, mut found) = (0, None);
        for cut in 0..count {
            if let Err(stop) = guarded(|| self.cycle(&mut run, cut, &mut index)) {
                found = Some(Found::new(stop, index, cut, None));
                break;
            }
            if !progress.advance(1) {
                break;
            }
        }
        Report { tally: run.tally, reached: run.reached, found }
    }

    /// Turns until power is lost, recovery, comparison.
    fn cycle(&self, run: &mut Run, cut: u64, index: &mut u64) -> Result<(), Stop> {
        let mut rng = generator(&[self.seed, CUT, cut]);
        let reach = if rng.random_ratio(1, 8) { 600 } else { 80 };
        let at_operation = rng.random_ratio(2, 3);
        run.device.cut_after(at_operation.then(|| rng.random_range(1..reach)));
        let patience = if run.is_worn() { WORN_PATIENCE } else { PATIENCE };
        let mut left = if at_operation { patience } else { rng.random_range(0..60.min(patience)) };
        let delay_ns = rng.random_range(0..2_000_000);
        loop {
            let kind = self.plan.weights.pick(&mut generator(&[self.seed, KIND, *index]));
            let is_skipped = self.plan.skip.contains(*index);
            let done = if is_skipped { Ok(()) } else { run.turn(*index, kind) };
            *index += 1;
            left = left.saturating_sub(1);
            match done {
                Ok(()) if left > 0 && run.device.has_power() => {}
                Ok(()) if left > 0 => break,
                Ok(()) => {
                    run.device.cut_power(run.now_ns() + delay_ns);
                    break;
                }
                Err(Stop::PowerLost) => break,
                Err(Stop::Broken(broken)) => {
                    let detail = format!("{kind:?}: {}", broken.detail);
                    return Err(Stop::Broken(Broken { detail, ..broken }));
                }
            }
        }
        run.count_work();
        run.tally.cuts += u64::from(run.has_worked());
        let cut_ns = run.device.power_lost_ns().unwrap_or_else(|| run.now_ns());
        self.recover(run, &mut rng)?;
        run.compare(cut_ns)
    }

    fn recover(&self, run: &mut Run, rng: &mut impl Rng) -> Result<(), Stop> {
        let twice = self.plan.second_cut && rng.random_ratio(1, 2);
        run.device.cut_after(twice.then(|| rng.random_range(1..12)));
        let mut loss = PowerLoss::seeded(rng.next_u64());
        let mut more = if twice && rng.random_ratio(1, 8) { rng.random_range(1..IN_A_ROW) } else { 0 };
        let mut recovered = run.power_on(&mut loss);
        while matches!(recovered, Err(Stop::PowerLost)) {
            run.tally.second_cuts += 1;
            run.device.cut_after((more > 0).then(|| rng.random_range(1..12)));
            more = more.saturating_sub(1);
            recovered = run.power_on(&mut loss);
        }
        run.device.cut_after(None);
        recovered
    }
}

impl cases::Case for Case {
    type Kind = Kind;
    type Report = Report;

    fn seed(&self) -> u64 {
        self.seed
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn plan_mut(&mut self) -> &mut Plan {
        &mut self.plan
    }

    fn command(&self) -> String {
        format!("zones --seed {} {}", self.seed, self.drive)
    }

    fn run(&self, progress: &Progress<'_>) -> Report {
        let Cuts::Random(count) = self.plan.cuts else { unreachable!("the settings were checked") };
        self.random_cuts(count, progress)
    }

    fn found(report: &Report) -> Option<&Found> {
        report.found.as_ref()
    }

    fn again(&self, found: &Found) -> Option<Found> {
        self.random_cuts(found.cut + 1, &Progress::unseen()).found
    }
}

/// The results of a torture test of drives with zones.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ZonesCrash {
    /// The counts, and the broken promises: at most one for each seed and drive.
    #[serde(flatten)]
    pub outcome: CrashOutcome,
    /// What the zones went through.
    pub zones: ZonesReached,
    /// What the drives went through between cuts.
    pub reached: Reached,
}

/// Cuts power and compares. Broken promises are results, not errors; an interruption ends the test with the results so far.
pub fn torture(settings: &Settings, monitor: &Monitor) -> Result<ZonesCrash, CrashError> {
    settings.drives.validate()?;
    settings.validate_common()?;
    if !matches!(settings.plan.cuts, Cuts::Random(_)) {
        return Err(setting("--cuts", "all", "use a number: zones are cut at random"));
    }
    let cases_of = |seed| {
        let case = |drive| Case { seed, drive, plan: settings.plan.clone() };
        settings.drives.drives(seed).into_iter().map(case).collect::<Vec<Case>>()
    };
    let cases = settings.run_cases(cases_of, ("zones", monitor))?;
    let mut crash = ZonesCrash::default();
    for Ended { report, violation, .. } in cases.ended {
        crash.add(&report, violation);
    }
    (crash.outcome.seeds, crash.outcome.interrupted) = (cases.seeds, cases.interrupted);
    Ok(crash)
}

impl ZonesCrash {
    fn add(&mut self, report: &Report, violation: Option<Violation>) {
        self.reached.add(&report.tally.reached);
        self.zones.add(&report.reached);
        self.outcome.add(outcome_of(&report.tally, violation));
    }
}
