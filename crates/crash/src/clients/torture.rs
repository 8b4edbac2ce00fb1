//! Runs seeds on drives with their clients, on a few threads, and adds up the findings.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use tantalum_report::{InvalidSetting, Monitor};

use super::case::{Case, Plan, Report};
use super::coverage::Coverage;
use super::free::free_run;
use super::random_cuts::random_cuts;
use super::setup::{Setup, SetupChoice};
use super::shrink::shrink;
use crate::device::Reached;
use crate::device::progress::Progress;
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
        if self.seeds.is_empty() {
            let range = format!("{}..{}", self.seeds.start, self.seeds.end);
            return Err(InvalidSetting::new("--seeds", range, "the range is empty").into());
        }
        if self.plan.cuts == 0 {
            return Err(InvalidSetting::new("--cuts", 0, "use a number of at least 1").into());
        }
        if let Some(minutes) = self.minutes.filter(|minutes| *minutes == 0 || *minutes > 60 * 24 * 365) {
            return Err(InvalidSetting::new("--minutes", minutes, "use a number from 1 to 525,600").into());
        }
        Ok(())
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
    let duration = settings.minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let bar =
        monitor.bar("several clients", duration.map_or_else(|| steps_of(settings), |all| all.as_secs()));
    let progress = Progress::on(&bar, duration);
    let mut crash = ClientsCrash::default();
    let mut last_seed = None;
    for Ended { case, report, violation, .. } in run_cases(settings, &progress) {
        crash.outcome.seeds += u64::from(last_seed.replace(case.seed) != Some(case.seed));
        crash.add(&case.setup, &report, violation);
    }
    crash.outcome.interrupted = monitor.check().is_err();
    Ok(crash)
}

/// Cuts of all cases.
fn steps_of(settings: &Settings) -> u64 {
    let setups = settings.setups.setups(settings.seeds.start).len() as u64;
    (settings.seeds.end - settings.seeds.start).saturating_mul(setups).saturating_mul(settings.plan.cuts)
}

/// A finished case.
struct Ended {
    number: u64,
    case: Case,
    report: Report,
    violation: Option<Violation>,
}

/// Runs all cases, and returns them in the order in which they were started.
fn run_cases(settings: &Settings, progress: &Progress<'_>) -> Vec<Ended> {
    let work = Mutex::new(Work { settings, seed: settings.seeds.start, cases: VecDeque::new(), next: 0 });
    let ended: Mutex<Vec<Ended>> = Mutex::new(Vec::new());
    let is_enough =
        || settings.first_only && unpoisoned(&ended).iter().any(|ended| ended.violation.is_some());
    let worker = || {
        while progress.goes_on()
            && !is_enough()
            && let Some((number, case)) = next_case(&work)
        {
            let (report, violation) = run_case(&case, progress);
            unpoisoned(&ended).push(Ended { number, case, report, violation });
        }
    };
    match settings.threads {
        0 | 1 => worker(),
        threads => thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(worker)))),
    }
    let mut ended = std::mem::take(&mut *unpoisoned(&ended));
    ended.sort_by_key(|ended| ended.number);
    ended
}

/// The queue of a thread that panicked is still intact: cases are pushed and popped one at a time.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cases that are still to be run.
struct Work<'a> {
    settings: &'a Settings,
    seed: u64,
    cases: VecDeque<Case>,
    next: u64,
}

fn next_case(work: &Mutex<Work<'_>>) -> Option<(u64, Case)> {
    let mut work = unpoisoned(work);
    if work.cases.is_empty() {
        if work.settings.minutes.is_none() && work.seed >= work.settings.seeds.end {
            return None;
        }
        let (seed, plan) = (work.seed, &work.settings.plan);
        let setups = work.settings.setups.setups(seed);
        work.cases = setups.into_iter().map(|setup| Case { seed, setup, plan: plan.clone() }).collect();
        work.seed = seed.checked_add(1)?;
    }
    let case = work.cases.pop_front()?;
    work.next += 1;
    Some((work.next, case))
}

fn run_case(case: &Case, progress: &Progress<'_>) -> (Report, Option<Violation>) {
    let report = if case.plan.free { free_run(case, progress) } else { random_cuts(case, progress) };
    let violation = report.found.clone().map(|found| {
        let (case, found) = match case.plan.free {
            true => (case.clone(), found),
            false => shrink(case.clone(), found, progress),
        };
        Violation {
            seed: case.seed,
            cut: found.cut,
            promise: found.broken.promise.to_owned(),
            detail: found.broken.detail.clone(),
            replay: case.narrowed(&found).command_line(),
        }
    });
    (report, violation)
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
        self.outcome.add(CrashOutcome {
            seeds: 0,
            cuts: tally.cuts,
            dirty_recoveries: tally.dirty_recoveries,
            second_cuts: tally.second_cuts,
            torn_pages_seen: tally.torn_pages_seen,
            promises_checked: tally.promises_checked,
            violations: violation.into_iter().collect(),
            interrupted: false,
        });
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
