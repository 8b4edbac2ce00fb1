//! What the tortures of a drive have in common, with one client and with several: what is done with each seed ([`Plan`]), the
//! runner of cases, and the smallest command line that shows a finding.
//!
//! A case is a seed on one drive, and all that determines a run. Cases are run on a few threads; what is found does not depend on
//! them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use tantalum_report::{InvalidSetting, Monitor};

use crate::Violation;
use crate::device::progress::Progress;
use crate::device::stop::{Broken, Stop};
use crate::device::{CutPoint, Skip};
use crate::error::CrashError;
use crate::minimise::{Failing, minimise};
use crate::seeds::Seeds;
use crate::weights::{Kinds, Weights};

/// Where power is cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cuts {
    /// At every program and erase of every command, in every variant, each time on a drive of its own.
    All,
    /// This many times in one long run.
    Random(u64),
    /// At one place only, to replay a failure of [`Cuts::All`].
    At(CutPoint),
}

/// What is done with each seed on each drive. With several clients, a command is a turn of one of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan<K> {
    /// Where power is cut.
    pub cuts: Cuts,
    /// Whether it is also cut during recovery.
    pub second_cut: bool,
    /// Commands before the first cut, with [`Cuts::All`] and [`Cuts::At`].
    pub age: u64,
    /// Commands in which power is cut, with [`Cuts::All`].
    pub commands: u64,
    /// How often each command comes.
    pub weights: Weights<K>,
    /// Commands that are left out.
    pub skip: Skip,
    /// Whether every command, cut and recovery is printed on standard error.
    pub trace: bool,
    /// Runs tried to leave out commands of a failure. Not a time, so that the result depends only on the seed.
    pub minimising_runs: u64,
}

impl<K: Kinds> Default for Plan<K> {
    fn default() -> Plan<K> {
        Plan {
            cuts: Cuts::All,
            second_cut: false,
            age: 1000,
            commands: 100,
            weights: Weights::default(),
            skip: Skip::default(),
            trace: false,
            minimising_runs: 150,
        }
    }
}

/// A broken promise, and when it broke.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The command before or during which power was last cut.
    pub command: u64,
    /// The number of cuts so far.
    pub cut: u64,
    /// Where power was cut, if every place is tried.
    pub point: Option<Box<CutPoint>>,
    pub broken: Broken,
}

impl Found {
    /// Makes a finding of the error that stopped a run. A power loss without a cut is a finding too.
    pub fn new(stop: Stop, command: u64, cut: u64, point: Option<CutPoint>) -> Found {
        let broken = match stop {
            Stop::Broken(broken) => broken,
            Stop::PowerLost => {
                let detail = "power was lost where it was not cut".to_owned();
                Broken { promise: "running drive", detail, by_machine: false }
            }
        };
        Found { command, cut, point: point.map(Box::new), broken }
    }
}

impl<K: Kinds> Plan<K> {
    /// The plan that runs only what was found.
    fn narrowed(&self, found: &Found) -> Plan<K> {
        let mut plan = self.clone();
        match (&self.cuts, &found.point) {
            (Cuts::Random(_), _) => plan.cuts = Cuts::Random(found.cut + 1),
            (_, Some(point)) => {
                plan.cuts = Cuts::At(CutPoint::clone(point));
                plan.second_cut = false;
            }
            // only the command at which it appears needs cuts
            (_, None) => {
                plan.age = found.command;
                plan.commands = 1;
            }
        }
        plan
    }

    /// Its options on the command line.
    fn options(&self) -> String {
        let mut options = match &self.cuts {
            Cuts::All => format!("--cuts all --age {} --commands {}", self.age, self.commands),
            Cuts::Random(count) => format!("--cuts {count}"),
            Cuts::At(point) => format!("--age {} --at {point}", self.age),
        };
        if self.second_cut {
            options += " --second-cut";
        }
        let weights = self.weights.to_string();
        if !weights.is_empty() {
            options += &format!(" --weights {weights}");
        }
        if !self.skip.is_empty() {
            options += &format!(" --skip {}", self.skip);
        }
        options
    }

    /// Commands in which power is cut, or cuts, in one case.
    fn steps(&self) -> u64 {
        match &self.cuts {
            Cuts::At(point) => point.command,
            Cuts::All => self.commands,
            Cuts::Random(count) => *count,
        }
    }

    fn validate(&self) -> Result<(), CrashError> {
        let most = 1 << 32;
        if self.age >= most {
            return Err(setting("--age", self.age, "the maximum is 4,294,967,295 commands"));
        }
        if self.commands == 0 || self.commands >= most {
            return Err(setting("--commands", self.commands, "use a number from 1 to 4,294,967,295"));
        }
        match self.cuts {
            Cuts::Random(0) => Err(setting("--cuts", 0, "use `all` or a number of at least 1")),
            _ => Ok(()),
        }
    }
}

pub(crate) fn setting(option: &'static str, value: impl ToString, expected: &str) -> CrashError {
    InvalidSetting::new(option, value, expected).into()
}

/// A seed on one drive.
pub(crate) trait Case: Clone + Send {
    type Kind: Kinds;
    type Report: Send;

    fn seed(&self) -> u64;
    fn plan(&self) -> &Plan<Self::Kind>;
    fn plan_mut(&mut self) -> &mut Plan<Self::Kind>;

    /// Its command, with the options that are not the plan's.
    fn command(&self) -> String;

    /// Runs it until the first broken promise.
    fn run(&self, progress: &Progress<'_>) -> Self::Report;

    /// What it found.
    fn found(report: &Self::Report) -> Option<&Found>;

    /// Whether it is no finding: the machine has failed, and not because it was to.
    fn is_of_machine(&self, found: &Found) -> bool {
        found.broken.by_machine
    }

    /// Whether a finding appears again when the case is run once more.
    fn repeats(&self) -> bool {
        // what is replayed at one place has already been minimised
        !matches!(self.plan().cuts, Cuts::At(_))
    }

    /// Runs only what may show this finding again.
    fn again(&self, found: &Found) -> Option<Found>;
}

/// The command line that runs a case again.
fn command_line<C: Case>(case: &C) -> String {
    format!("tantalum crash {} {}", case.command(), case.plan().options())
}

// -- minimising ---------------------------------------------------------------------------------------------------

/// The case with as few commands as necessary, and its finding.
fn shrink<C: Case>(mut case: C, found: Found, progress: &Progress<'_>) -> (C, Found) {
    let most = case.plan().minimising_runs;
    if let Some(point) = &found.point {
        // cuts in recovery take long, and are needed only if one of them caused the failure
        case.plan_mut().second_cut = point.second.is_some();
    }
    let mut attempts = 0;
    let smallest = minimise(Shrunk(case, found), || {
        attempts += 1;
        attempts <= most && progress.goes_on()
    });
    (smallest.0, smallest.1)
}

struct Shrunk<C>(C, Found);

impl<C: Case> Failing for Shrunk<C> {
    fn end(&self) -> u64 {
        self.1.command
    }

    fn is_left_out(&self, command: u64) -> bool {
        self.0.plan().skip.contains(command)
    }

    fn without(&self, left_out: Range<u64>) -> Option<Shrunk<C>> {
        let Shrunk(case, found) = self;
        let mut case = case.clone();
        let plan = case.plan_mut();
        (plan.skip, plan.trace) = (plan.skip.with(left_out), false);
        let again = case.again(found)?;
        (again.broken.promise == found.broken.promise).then_some(Shrunk(case, again))
    }
}

/// A finding with the smallest command line that shows it.
fn violation<C: Case>(case: &C, found: Found, progress: &Progress<'_>) -> Violation {
    let (mut case, found) = match case.repeats() {
        true => shrink(case.clone(), found, progress),
        false => (case.clone(), found),
    };
    *case.plan_mut() = case.plan().narrowed(&found);
    Violation {
        seed: case.seed(),
        cut: found.cut,
        promise: found.broken.promise.to_owned(),
        detail: found.broken.detail,
        replay: command_line(&case),
    }
}

// -- running ------------------------------------------------------------------------------------------------------

/// What to test, and for how long. `D` chooses among drives, `K` are the kinds of commands.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings<D, K> {
    /// The seeds.
    pub seeds: Seeds,
    /// The drives of each seed.
    pub drives: D,
    /// What to do with each.
    pub plan: Plan<K>,
    /// Threads; with one, everything runs on the caller's thread.
    pub threads: usize,
    /// Begins no case once one has broken a promise.
    pub first_only: bool,
}

/// A finished case.
pub(crate) struct Ended<C: Case> {
    number: u64,
    pub case: C,
    pub report: C::Report,
    pub violation: Option<Violation>,
}

/// All finished cases.
pub(crate) struct Cases<C: Case> {
    pub ended: Vec<Ended<C>>,
    /// How many seeds they had.
    pub seeds: u64,
    pub interrupted: bool,
}

impl<C: Case> Cases<C> {
    /// Fails if the machine has.
    fn unless_machine_failed(self) -> Result<Cases<C>, CrashError> {
        let found = |ended: &Ended<C>| {
            let found = C::found(&ended.report).filter(|found| ended.case.is_of_machine(found));
            found.map(|found| found.broken.detail.clone())
        };
        match self.ended.iter().find_map(found) {
            Some(detail) => Err(CrashError::machine(detail)),
            None => Ok(self),
        }
    }
}

impl<D: Sync, K: Kinds + Sync> Settings<D, K> {
    /// Fails if seeds or plan make no sense.
    pub(crate) fn validate_common(&self) -> Result<(), CrashError> {
        self.seeds.validate()?;
        self.plan.validate()
    }

    /// Runs all cases, and returns them in the order in which they were started. A broken promise is a result, not an error,
    /// and an interruption ends this with the results so far. Fails if the machine does.
    pub(crate) fn run_cases<C: Case<Kind = K>>(
        &self,
        cases_of: impl Fn(u64) -> Vec<C> + Sync,
        (title, monitor): (&str, &Monitor),
    ) -> Result<Cases<C>, CrashError> {
        let duration = self.seeds.duration();
        let all = || {
            let cases = cases_of(self.seeds.range.start).len() as u64;
            self.seeds.count().saturating_mul(cases).saturating_mul(self.plan.steps())
        };
        let bar = monitor.bar(title, duration.map_or_else(all, |all| all.as_secs()));
        let progress = Progress::on(&bar, duration);
        let mut ended = self.run_on_threads(cases_of, &progress);
        ended.sort_by_key(|ended| ended.number);
        let mut last_seed = None;
        let starts =
            ended.iter().filter(|ended| last_seed.replace(ended.case.seed()) != Some(ended.case.seed()));
        let seeds = starts.count() as u64;
        Cases { ended, seeds, interrupted: monitor.check().is_err() }.unless_machine_failed()
    }

    fn run_on_threads<C: Case<Kind = K>>(
        &self,
        cases_of: impl Fn(u64) -> Vec<C> + Sync,
        progress: &Progress<'_>,
    ) -> Vec<Ended<C>> {
        let work = Mutex::new(Work { seed: self.seeds.range.start, cases: VecDeque::new(), next: 0 });
        let ended: Mutex<Vec<Ended<C>>> = Mutex::new(Vec::new());
        let has_failed = AtomicBool::new(false);
        let is_enough = || {
            has_failed.load(Ordering::Relaxed)
                || self.first_only && unpoisoned(&ended).iter().any(|ended| ended.violation.is_some())
        };
        let worker = || {
            while progress.goes_on()
                && !is_enough()
                && let Some((number, case)) = unpoisoned(&work).next(&self.seeds, &cases_of)
            {
                let report = case.run(progress);
                let found = C::found(&report).cloned();
                let failed = found.as_ref().is_some_and(|found| case.is_of_machine(found));
                has_failed.fetch_or(failed, Ordering::Relaxed);
                let violation = found.filter(|_| !failed).map(|found| violation(&case, found, progress));
                unpoisoned(&ended).push(Ended { number, case, report, violation });
            }
        };
        match self.threads {
            0 | 1 => worker(),
            threads => thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(worker)))),
        }
        std::mem::take(&mut *unpoisoned(&ended))
    }
}

/// The queue of a thread that panicked is still intact: cases are pushed and popped one at a time.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cases that are still to be run.
struct Work<C> {
    seed: u64,
    cases: VecDeque<C>,
    next: u64,
}

impl<C> Work<C> {
    fn next(&mut self, seeds: &Seeds, cases_of: impl Fn(u64) -> Vec<C>) -> Option<(u64, C)> {
        if self.cases.is_empty() {
            if seeds.minutes.is_none() && self.seed >= seeds.range.end {
                return None;
            }
            self.cases = cases_of(self.seed).into();
            self.seed = self.seed.checked_add(1)?;
        }
        let case = self.cases.pop_front()?;
        self.next += 1;
        Some((self.next, case))
    }
}
