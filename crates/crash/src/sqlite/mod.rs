//! `tantalum crash sqlite`: a real SQLite works on a drive, power is cut at flash operations, and what is there
//! afterwards is checked against what SQLite promised.
//!
//! After each cut the drive recovers, the volume is mounted, SQLite opens the database and checks its integrity, and
//! all rows are compared with a copy in host memory. The database must equal the state after one transaction, and the
//! mode and `synchronous` must allow that state (`history`). Everything follows from a seed, so every violation has a
//! command line that reproduces it.

mod contents;
mod history;
mod life;
mod recovery;
mod session;
mod settings;
mod step;
mod volume;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use history::Broken;
use life::{Found, Run, RunEnd};
use tantalum_report::Monitor;
use tantalum_sqlite::Mode;
use tantalum_sqlite::Synchronous;
use tantalum_volume::Volume;

use super::{CrashOutcome, Violation};
use crate::error::CrashError;
pub use settings::{Cuts, Settings};

type Random = rand_xoshiro::Xoshiro256PlusPlus;

/// One number from three, so that the seeds of a run's parts do not overlap.
pub(super) fn mix(seed: u64, number: u64, part: u64) -> u64 {
    let mut mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number.wrapping_add(part << 56);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Runs the torture test of SQLite. Broken promises are results, not errors.
///
/// SQLite has one random number generator for the process, so only one run at a time can be reproducible byte for byte.
pub fn run(settings: &Settings, monitor: &Monitor) -> Result<CrashOutcome, CrashError> {
    settings.validate()?;
    let began = Instant::now();
    let limit = settings.minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let bar = match limit {
        Some(limit) => monitor.bar("crash", limit.as_secs()),
        None => monitor.bar("crash", settings.seeds.saturating_mul(settings.runs_of_a_seed())),
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
        let done = run_seed(settings, seed, monitor, &mut outcome, &mut || match limit {
            Some(_) => Ok(()),
            None => Ok(bar.advance(1)?),
        });
        match done {
            // A soak has no end of its own: what it found until it was stopped is its result.
            Err(CrashError::Interrupted(_)) if limit.is_some() => return Ok(outcome),
            done => done?,
        }
        outcome.seeds += 1;
        seed = seed.wrapping_add(1);
        bar.say(format!("{} cuts, {} violations", outcome.cuts, outcome.violations.len()));
        if limit.is_some() && bar.advance(began.elapsed().as_secs() - before).is_err() {
            return Ok(outcome);
        }
    }
}

/// Runs a seed in each mode and setting.
fn run_seed(
    settings: &Settings,
    seed: u64,
    monitor: &Monitor,
    outcome: &mut CrashOutcome,
    advance: &mut dyn FnMut() -> Result<(), CrashError>,
) -> Result<(), CrashError> {
    let prepared = volume::prepare(seed)?;
    for &mode in &settings.modes {
        for &synchronous in &settings.synchronous {
            let run = Run { mode, synchronous, seed, transactions: settings.transactions, monitor };
            if let Some(found) = torture(&run, settings.cuts, &prepared, outcome)? {
                outcome.violations.push(violation(&run, settings.cuts, found, &prepared)?);
            }
            advance()?;
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
    let result = catch_unwind(AssertUnwindSafe(|| -> Result<(), RunEnd> {
        match cuts {
            Cuts::Random(cuts) => run.random_cuts(copy(prepared), cuts, outcome),
            Cuts::At(operation) => run.cut_at(copy(prepared), operation, outcome),
            Cuts::All => {
                let operations = run.count_operations(copy(prepared))?;
                (1..=operations).try_for_each(|operation| run.cut_at(copy(prepared), operation, outcome))
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

/// A copy of a volume on a drive in memory.
fn copy(prepared: &Volume) -> Volume {
    prepared.try_clone().expect("a drive in memory can be copied")
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_owned()
}

/// Describes a finding, with the smallest command line that reproduces it.
fn violation(run: &Run<'_>, cuts: Cuts, found: Found, prepared: &Volume) -> Result<Violation, CrashError> {
    let replayed = |found: &Found| match cuts {
        Cuts::Random(_) => Cuts::Random(found.cut + 1),
        Cuts::All | Cuts::At(_) => Cuts::At(found.cut),
    };
    let (mut smallest, mut transactions) = (found, run.transactions);
    // With the cut at a given operation, fewer transactions change nothing: nothing after the cut is executed.
    if let Cuts::Random(_) = cuts {
        for fewer in std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|&n| n < run.transactions) {
            let smaller = Run { transactions: fewer, ..*run };
            let again = torture(&smaller, replayed(&smallest), prepared, &mut CrashOutcome::default())?;
            if let Some(found) = again.filter(|found| found.broken.promise == smallest.broken.promise) {
                (smallest, transactions) = (found, fewer);
                break;
            }
        }
    }
    Ok(Violation {
        seed: run.seed,
        cut: smallest.cut,
        promise: smallest.broken.promise.to_owned(),
        detail: format!("{}, {}: {}", run.mode, run.synchronous.name(), smallest.broken.detail),
        replay: replay(run.mode, run.synchronous, run.seed, replayed(&smallest), transactions),
    })
}

/// The command line of one run.
fn replay(mode: Mode, synchronous: Synchronous, seed: u64, cuts: Cuts, transactions: u64) -> String {
    let synchronous = synchronous.name();
    format!(
        "tantalum crash sqlite --mode {mode} --synchronous {synchronous} --seed {seed} --cuts {cuts} \
         --transactions {transactions}"
    )
}
