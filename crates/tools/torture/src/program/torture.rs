//! Consecutive seeds, and their findings, with the smallest command line that reproduces each.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use tantalum_report::{Bar, Interrupted, InvalidSetting, Monitor};

use super::cuts::Cuts;
use super::run::Run;
use super::run_end::{Broken, Found, RunEnd};
use super::test_bed::TestBed;
use super::under_test::Program;
use crate::error::CrashError;
use crate::seeds::Seeds;
use crate::{CrashOutcome, Violation};

/// What is tested, and for how long.
pub(crate) struct Plan<P> {
    /// The settings; each is tested with each seed.
    pub programs: Vec<P>,
    pub seeds: Seeds,
    pub cuts: Cuts,
    /// The maximum work before a random cut, or the work of the run that is cut at every flash operation.
    pub length: u64,
    /// Whether the host fails, as often as `cuts` says, instead of the power.
    pub host_faults: bool,
}

impl<P: Program> Plan<P> {
    /// Refuses settings that would do nothing.
    fn validate(&self) -> Result<(), CrashError> {
        self.seeds.validate()?;
        if self.host_faults && !matches!(self.cuts, Cuts::Random(_)) {
            let expected = "use a number with --host-faults: so often the host fails";
            return Err(InvalidSetting::new("--cuts", self.cuts, expected).into());
        }
        match self.length {
            0 => Err(InvalidSetting::new(P::LENGTH_OPTION, 0, "use at least 1").into()),
            _ => Ok(()),
        }
    }
}

/// Runs the torture test. Broken promises are results, not errors.
pub(crate) fn torture<P: Program>(plan: &Plan<P>, monitor: &Monitor) -> Result<CrashOutcome, CrashError> {
    plan.validate()?;
    let pace = Pace::new(plan, monitor);
    let mut outcome = CrashOutcome::default();
    let mut seed = plan.seeds.range.start;
    while !pace.is_over(outcome.seeds) {
        let before = pace.began.elapsed();
        match run_seed(plan, seed, (&pace, monitor), &mut outcome) {
            Err(CrashError::Interrupted(_)) => {
                outcome.interrupted = true;
                return Ok(outcome);
            }
            done => done?,
        }
        outcome.seeds += 1;
        seed = seed.wrapping_add(1);
        pace.bar.say(format!("{} cuts, {} violations", outcome.cuts, outcome.violations.len()));
        if pace.seed_done(before).is_err() {
            outcome.interrupted = true;
            return Ok(outcome);
        }
    }
    match plan.cuts {
        Cuts::At(operation) if outcome.has_done_nothing() => Err(no_such_cut(operation)),
        _ => Ok(outcome),
    }
}

/// The test's progress, by its number of seeds or by the clock.
struct Pace {
    seeds: u64,
    /// The time limit, which counts instead of seeds if set.
    limit: Option<Duration>,
    began: Instant,
    bar: Bar,
}

impl Pace {
    fn new<P>(plan: &Plan<P>, monitor: &Monitor) -> Pace {
        let (seeds, limit) = (plan.seeds.count(), plan.seeds.duration());
        let steps = match limit {
            Some(limit) => limit.as_secs(),
            None => seeds.saturating_mul(plan.programs.len() as u64),
        };
        Pace { seeds, limit, began: Instant::now(), bar: monitor.bar("crash", steps) }
    }

    fn is_over(&self, seeds_done: u64) -> bool {
        match self.limit {
            Some(_) => self.is_late(),
            None => seeds_done >= self.seeds,
        }
    }

    /// Whether the time is up.
    fn is_late(&self) -> bool {
        self.limit.is_some_and(|limit| self.began.elapsed() >= limit)
    }

    /// When the time is up.
    fn deadline(&self) -> Option<Instant> {
        self.limit.map(|limit| self.began + limit)
    }

    /// A seed was run in one setting.
    fn setting_done(&self) -> Result<(), CrashError> {
        match self.limit {
            Some(_) => Ok(()),
            None => Ok(self.bar.advance(1)?),
        }
    }

    /// A seed that was begun at `before` was run in all settings.
    fn seed_done(&self, before: Duration) -> Result<(), Interrupted> {
        match self.limit {
            Some(_) => self.bar.advance(self.began.elapsed().as_secs() - before.as_secs()),
            None => Ok(()),
        }
    }
}

fn no_such_cut(operation: u64) -> CrashError {
    let expected = "no workload of this run has that many flash operations; take a number of at least 1 that a violation names";
    InvalidSetting::new("--cuts", format!("@{operation}"), expected).into()
}

/// Runs a seed in each setting, until the time is up.
fn run_seed<P: Program>(
    plan: &Plan<P>,
    seed: u64,
    (pace, monitor): (&Pace, &Monitor),
    outcome: &mut CrashOutcome,
) -> Result<(), CrashError> {
    let prepared = P::prepare(seed)?;
    for &program in &plan.programs {
        let (length, host_faults, deadline) = (plan.length, plan.host_faults, pace.deadline());
        let run = Run { program, seed, length, host_faults, deadline, monitor };
        if let Some(found) = one_run(&run, plan.cuts, &prepared, outcome)? {
            outcome.violations.push(violation(&run, plan.cuts, found, &prepared)?);
        }
        pace.setting_done()?;
        if pace.is_late() {
            break;
        }
    }
    Ok(())
}

/// One run, up to the first violation.
fn one_run<P: Program>(
    run: &Run<'_, P>,
    cuts: Cuts,
    prepared: &P::TestBed,
    outcome: &mut CrashOutcome,
) -> Result<Option<Found>, CrashError> {
    let before = outcome.cuts;
    let copy = || prepared.copy();
    let result = catch_unwind(AssertUnwindSafe(|| -> Result<(), RunEnd> {
        match cuts {
            Cuts::Random(count) if run.host_faults => run.host_faults(count, outcome),
            Cuts::Random(cuts) => run.random_cuts(copy(), cuts, outcome),
            Cuts::At(operation) => run.cut_at(copy(), operation, outcome),
            Cuts::All => {
                let operations = run.count_operations(copy())?;
                run.in_time(1..operations + 1)
                    .try_for_each(|operation| run.cut_at(copy(), operation, outcome))
            }
        }
    }));
    match result {
        Ok(Ok(())) => Ok(None),
        Ok(Err(RunEnd::Found(found))) => Ok(Some(found)),
        Ok(Err(RunEnd::Failed(error))) => Err(error),
        Err(panic) => {
            let cut = match cuts {
                Cuts::At(operation) => operation,
                Cuts::Random(_) | Cuts::All => outcome.cuts - before,
            };
            Ok(Some(Found { cut, broken: Broken::new("nothing panics", message(&*panic)) }))
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_owned()
}

/// Describes a finding, with the smallest command line that reproduces it.
fn violation<P: Program>(
    run: &Run<'_, P>,
    cuts: Cuts,
    found: Found,
    prepared: &P::TestBed,
) -> Result<Violation, CrashError> {
    let replayed = |found: &Found| match cuts {
        Cuts::Random(_) => Cuts::Random(found.cut + 1),
        Cuts::All | Cuts::At(_) => Cuts::At(found.cut),
    };
    let (mut smallest, mut length) = (found, run.length);
    // With the cut at a given operation, less work changes nothing: nothing after the cut is executed.
    if let Cuts::Random(_) = cuts {
        let fewer = std::iter::successors(Some(1), |n| Some(n * 2));
        for fewer in fewer.take_while(|&fewer| fewer < run.length && !run.is_late()) {
            let smaller = Run { length: fewer, ..*run };
            let again = one_run(&smaller, replayed(&smallest), prepared, &mut CrashOutcome::default())?;
            if let Some(found) = again.filter(|found| found.broken.promise == smallest.broken.promise) {
                (smallest, length) = (found, fewer);
                break;
            }
        }
    }
    let (program, seed, cuts) = (run.program, run.seed, replayed(&smallest));
    let (command, option) = (program.command(), P::LENGTH_OPTION);
    let faults = if run.host_faults { " --host-faults" } else { "" };
    Ok(Violation {
        seed,
        cut: smallest.cut,
        promise: smallest.broken.promise.to_owned(),
        detail: format!("{}: {}", program.name(), smallest.broken.detail),
        replay: format!("tantalum crash {command}{faults} --seed {seed} --cuts {cuts} {option} {length}"),
    })
}
