//! Runs seeds on drives, on a few threads, and adds up the findings.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use tantalum_report::{InvalidSetting, Monitor};

use super::case::{Case, Cuts, Plan, Report};
use super::drive::{Drive, DriveChoice, Medium};
use super::every_cut::every_cut;
use super::progress::Progress;
use super::random_cuts::random_cuts;
use super::shrink::shrink;
use super::tally::{Reached, Tally};
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
        if self.seeds.is_empty() {
            return Err(setting(
                "--seeds",
                format!("{}..{}", self.seeds.start, self.seeds.end),
                "the range is empty",
            ));
        }
        let most = 1 << 32;
        if self.plan.age >= most {
            return Err(setting("--age", self.plan.age, "the maximum is 4,294,967,295 commands"));
        }
        if self.plan.commands == 0 || self.plan.commands >= most {
            return Err(setting("--commands", self.plan.commands, "use a number from 1 to 4,294,967,295"));
        }
        if self.plan.cuts == Cuts::Random(0) {
            return Err(setting("--cuts", 0, "use `all` or a number of at least 1"));
        }
        if self.drives.medium.is_some_and(|medium| medium != Medium::Memory)
            && !matches!(self.plan.cuts, Cuts::Random(_))
        {
            let expected = "use a number with an image: only a drive in memory can be copied for each cut";
            return Err(setting("--cuts", "all", expected));
        }
        if self.minutes == Some(0) || self.minutes.is_some_and(|minutes| minutes > 60 * 24 * 365) {
            return Err(setting("--minutes", self.minutes.unwrap_or(0), "use a number from 1 to 525,600"));
        }
        Ok(())
    }
}

fn setting(option: &'static str, value: impl ToString, expected: &str) -> CrashError {
    InvalidSetting::new(option, value, expected).into()
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
    let duration = settings.minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let bar = monitor.bar("power loss", duration.map_or_else(|| steps_of(settings), |all| all.as_secs()));
    let progress = Progress::on(&bar, duration);
    let mut crash = DeviceCrash::default();
    let mut last_seed = None;
    for Ended { case, report, violation, .. } in run_cases(settings, &progress) {
        crash.outcome.seeds += u64::from(last_seed.replace(case.seed) != Some(case.seed));
        crash.add(&case.drive, &report.tally, violation);
    }
    crash.outcome.interrupted = monitor.check().is_err();
    match &settings.plan.cuts {
        Cuts::At(point) if crash.outcome.has_done_nothing() => {
            Err(setting("--at", point, "the drive has no such operation in that command or its recovery"))
        }
        _ => Ok(crash),
    }
}

/// Commands in which power is cut, or cuts.
fn steps_of(settings: &Settings) -> u64 {
    cases_of(settings).saturating_mul(match &settings.plan.cuts {
        Cuts::At(point) => point.command,
        Cuts::All => settings.plan.commands,
        Cuts::Random(count) => *count,
    })
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

fn cases_of(settings: &Settings) -> u64 {
    let drives = settings.drives.drives(settings.seeds.start).len() as u64;
    (settings.seeds.end - settings.seeds.start).saturating_mul(drives)
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
        let drives = work.settings.drives.drives(seed);
        work.cases = drives.into_iter().map(|drive| Case { seed, drive, plan: plan.clone() }).collect();
        work.seed = seed.checked_add(1)?;
    }
    let case = work.cases.pop_front()?;
    work.next += 1;
    Some((work.next, case))
}

fn run_case(case: &Case, progress: &Progress<'_>) -> (Report, Option<Violation>) {
    let report = match case.plan.cuts {
        Cuts::Random(count) => random_cuts(case, count, progress),
        Cuts::All | Cuts::At(_) => every_cut(case, progress),
    };
    let violation = report.found.clone().map(|found| {
        // what is replayed at one place has already been minimised
        let (case, found) = match case.plan.cuts {
            Cuts::At(_) => (case.clone(), found),
            _ => shrink(case.clone(), found, progress),
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

impl DeviceCrash {
    fn add(&mut self, drive: &Drive, tally: &Tally, violation: Option<Violation>) {
        let counts = self.counts_of(drive);
        counts.cuts += tally.cuts;
        counts.second_cuts += tally.second_cuts;
        counts.violations += u64::from(violation.is_some());
        counts.reached.add(&tally.reached);
        self.shutdown_cuts += tally.shutdown_cuts;
        self.reached.add(&tally.reached);
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
