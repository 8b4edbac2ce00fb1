//! `tantalum crash couch`: a document store works on a drive, power is cut at flash operations, and what is there
//! afterwards is held against what the store promised (C1 to C5 at the head of `tantalum-couch`).
//!
//! Batches make, update and delete documents, snapshots are held open, the file is compacted step by step, and other data
//! are overwritten so that garbage is collected. After each cut the drive recovers, the volume is mounted, the store is
//! opened, and all documents and all changes are compared with a copy in host memory. Everything follows from a seed, so
//! every violation has a command line that shows it again.

mod contents;
mod life;
mod recovery;
mod session;
mod settings;
mod volume;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use tantalum_volume::Volume;

use super::sqlite::Cuts;
use super::{CrashOutcome, Violation};
use crate::error::CrashError;
use life::{Found, Run, RunEnd};
pub use settings::{Settings, way_name};
use tantalum_report::Monitor;

type Random = rand_xoshiro::Xoshiro256PlusPlus;

/// A promise that was not kept.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Broken {
    promise: &'static str,
    /// What was found, and what would have been allowed.
    detail: String,
}

impl Broken {
    fn new(promise: &'static str, detail: impl Into<String>) -> Broken {
        Broken { promise, detail: detail.into() }
    }
}

/// Tortures the store. What is broken is in the outcome and is no error.
pub fn run(settings: &Settings, monitor: &Monitor) -> Result<CrashOutcome, CrashError> {
    settings.validate()?;
    let began = Instant::now();
    let limit = settings.minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let bar = match limit {
        Some(limit) => monitor.bar("crash", limit.as_secs()),
        None => monitor.bar("crash", settings.seeds),
    };
    let mut outcome = CrashOutcome::default();
    let mut seed = settings.first_seed;
    loop {
        let is_over = match limit {
            Some(limit) => began.elapsed() >= limit,
            None => outcome.seeds >= settings.seeds,
        };
        if is_over {
            return Ok(outcome);
        }
        let before = began.elapsed().as_secs();
        match run_seed(settings, seed, monitor, &mut outcome) {
            // A soak has no end of its own: what it found until it was stopped is its outcome.
            Err(CrashError::Interrupted(_)) if limit.is_some() => return Ok(outcome),
            done => done?,
        }
        outcome.seeds += 1;
        seed = seed.wrapping_add(1);
        bar.say(format!("{} cuts, {} violations", outcome.cuts, outcome.violations.len()));
        let advance = if limit.is_some() { began.elapsed().as_secs() - before } else { 1 };
        match bar.advance(advance) {
            Err(_) if limit.is_some() => return Ok(outcome),
            done => done?,
        }
    }
}

fn run_seed(
    settings: &Settings,
    seed: u64,
    monitor: &Monitor,
    outcome: &mut CrashOutcome,
) -> Result<(), CrashError> {
    let prepared = volume::prepare(seed)?;
    for &way in &settings.ways {
        let run = Run { way, seed, commits: settings.commits, monitor };
        if let Some(found) = torture(&run, settings.cuts, &prepared, outcome)? {
            outcome.violations.push(violation(&run, settings.cuts, found, &prepared)?);
        }
    }
    Ok(())
}

/// One run, up to the first violation.
fn torture(
    run: &Run<'_>,
    cuts: Cuts,
    prepared: &Volume,
    outcome: &mut CrashOutcome,
) -> Result<Option<Found>, CrashError> {
    let before = outcome.cuts;
    let copy = || prepared.try_clone().expect("a drive in memory can be copied");
    let result = catch_unwind(AssertUnwindSafe(|| -> Result<(), RunEnd> {
        match cuts {
            Cuts::Random(cuts) => run.random_cuts(copy(), cuts, outcome),
            Cuts::At(operation) => run.cut_at(copy(), operation, outcome),
            Cuts::All => {
                let operations = run.count_operations(copy())?;
                (1..=operations).try_for_each(|operation| run.cut_at(copy(), operation, outcome))
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

/// Describes what was found, with the smallest command line that shows it.
fn violation(run: &Run<'_>, cuts: Cuts, found: Found, prepared: &Volume) -> Result<Violation, CrashError> {
    let replayed = |found: &Found| match cuts {
        Cuts::Random(_) => Cuts::Random(found.cut + 1),
        Cuts::All | Cuts::At(_) => Cuts::At(found.cut),
    };
    let (mut smallest, mut commits) = (found, run.commits);
    // with the cut at a given operation, what comes after it is not done
    if let Cuts::Random(_) = cuts {
        for fewer in std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|&n| n < run.commits) {
            let smaller = Run { commits: fewer, ..*run };
            let again = torture(&smaller, replayed(&smallest), prepared, &mut CrashOutcome::default())?;
            if let Some(found) = again.filter(|found| found.broken.promise == smallest.broken.promise) {
                (smallest, commits) = (found, fewer);
                break;
            }
        }
    }
    let (way, seed, cuts) = (way_name(run.way), run.seed, replayed(&smallest));
    Ok(Violation {
        seed,
        cut: smallest.cut,
        promise: smallest.broken.promise.to_owned(),
        detail: format!("{way}: {}", smallest.broken.detail),
        replay: format!("tantalum crash couch --way {way} --seed {seed} --cuts {cuts} --commits {commits}"),
    })
}
