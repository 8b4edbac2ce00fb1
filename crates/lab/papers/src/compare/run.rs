//! One comparison: a prepared drive, a run for each mode, and a check of the database afterwards.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::thread;

use rusqlite::Connection;
use tantalum::{Device, PowerLoss, Profile};
use tantalum_report::Monitor;
use tantalum_sqlite::Mode;
use tantalum_sqlite::Synchronous;
use tantalum_volume::Volume;
use tantalum_workloads::ageing::{Ageing, age};
use tantalum_workloads::capacity::units_in_use;
use tantalum_workloads::memory;

use super::capacity::{on_larger, smallest_capacity_for};
use super::outcome::{Comparison, Run, WorkloadOutcome, relate_to_baseline};
use super::registered_volume::RegisteredVolume;
use super::session::{PAGE_CACHE_BYTES, Session};
use super::workload::Workload;
use crate::error::ExperimentError;

/// Concurrent runs. Each has its own drive, so the results do not depend on this.
const THREADS: usize = 2;

/// Copies of the drive in memory at once: one for each current run, and the original.
const DRIVES_IN_MEMORY: u64 = THREADS as u64 + 1;

/// What to compare.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The drive.
    pub profile: Profile,
    /// The modes, each at most once.
    pub modes: Vec<Mode>,
    /// `PRAGMA synchronous`.
    pub synchronous: Synchronous,
    /// Seed of all randomness.
    pub seed: u64,
}

/// Runs the workload in each mode. Wrong contents are reported in the results.
pub fn compare(
    settings: &Settings,
    workload: &dyn Workload,
    monitor: &Monitor,
) -> Result<Comparison, ExperimentError> {
    let capacity_bytes = settings.profile.capacity_bytes;
    memory::require(capacity_bytes.saturating_mul(DRIVES_IN_MEMORY))?;
    let used = |profile: &Profile| Ok(units_in_use(&load(profile, workload, settings.seed)?));
    let enough = || smallest_capacity_for(on_larger(&settings.profile, used)?, workload.growth_units());
    let (volume, ageing) =
        prepare(settings, workload, monitor).map_err(|error| error.if_too_small(capacity_bytes, enough))?;
    let mut runs = run_all(settings, workload, volume, monitor)
        .map_err(|error| error.if_too_small(capacity_bytes, enough))?;
    relate_to_baseline(&mut runs);
    let mut outcome = WorkloadOutcome::new(settings.synchronous, &settings.profile, &ageing);
    workload.describe(&mut outcome);
    Ok(Comparison {
        command: "compare sqlite",
        profile: settings.profile.clone(),
        capacity_bytes,
        seed: settings.seed,
        workload: outcome,
        runs,
    })
}

/// The volume from which every mode starts.
fn prepare(
    settings: &Settings,
    workload: &dyn Workload,
    monitor: &Monitor,
) -> Result<(Volume, Ageing), ExperimentError> {
    let mut volume = load(&settings.profile, workload, settings.seed)?;
    monitor.check()?;
    let ageing = age(&mut volume, settings.seed, monitor)?;
    Ok((volume, ageing))
}

/// A new drive with the database on it.
fn load(profile: &Profile, workload: &dyn Workload, seed: u64) -> Result<Volume, ExperimentError> {
    workload.load(Volume::format(Device::in_memory(profile)?, PAGE_CACHE_BYTES)?, seed)
}

fn run_all(
    settings: &Settings,
    workload: &dyn Workload,
    volume: Volume,
    monitor: &Monitor,
) -> Result<Vec<Run>, ExperimentError> {
    let waiting = Mutex::new(Waiting {
        modes: settings.modes.iter().copied().enumerate().collect(),
        volume: Some(volume),
    });
    let finished = Mutex::new(Vec::new());
    // Separate, so that nothing is locked during a run.
    let next = || locked(&waiting).next();
    let work = || {
        while let Some((place, mode, volume)) = next() {
            let run = run(settings, workload, volume, mode, monitor);
            if run.is_err() {
                // There will be no result, so further runs are pointless.
                locked(&waiting).modes.clear();
            }
            locked(&finished).push((place, run));
        }
    };
    thread::scope(|scope| {
        for _ in 1..THREADS {
            scope.spawn(work);
        }
        work();
    });
    let mut finished = finished.into_inner().unwrap_or_else(PoisonError::into_inner);
    finished.sort_by_key(|(place, _)| *place);
    finished.into_iter().map(|(_, run)| run).collect()
}

/// What has not begun: modes with their places among the results, and the drive from which they start.
struct Waiting {
    modes: VecDeque<(usize, Mode)>,
    volume: Option<Volume>,
}

impl Waiting {
    /// The next mode, with a copy of the drive; the last one gets the drive itself.
    fn next(&mut self) -> Option<(usize, Mode, Volume)> {
        let (place, mode) = self.modes.pop_front()?;
        let volume = match self.modes.is_empty() {
            true => self.volume.take()?,
            false => self.volume.as_ref()?.try_clone().expect("a drive in memory can be copied"),
        };
        Some((place, mode, volume))
    }
}

/// A panic in one run ends all of them when the scope is left; until then its state is not used.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(
    settings: &Settings,
    workload: &dyn Workload,
    volume: Volume,
    mode: Mode,
    monitor: &Monitor,
) -> Result<Run, ExperimentError> {
    let working = RegisteredVolume::new(volume, mode, settings.seed)?;
    let connection = working.open()?;
    let mut run = measure(settings, workload, &working, &connection, mode, monitor)?;
    connection.close().map_err(|(_, error)| ExperimentError::sqlite("closing the database")(error))?;
    let volume = power_cycle(working.into_volume()?, settings.seed)?;
    if let Some(difference) = inspect(settings, workload, volume, mode)? {
        run.integrity = difference;
    }
    Ok(run)
}

fn measure(
    settings: &Settings,
    workload: &dyn Workload,
    working: &RegisteredVolume,
    connection: &Connection,
    mode: Mode,
    monitor: &Monitor,
) -> Result<Run, ExperimentError> {
    let bar = monitor.bar(mode.to_string(), workload.steps());
    let mut session = Session::new(&working.drive, connection, settings.synchronous, bar)
        .map_err(ExperimentError::sqlite("setting up the connection"))?;
    workload.warm_up(&mut session, settings.seed)?;
    let before = session.settle()?;
    session.begin_measuring(&before);
    workload.measure(&mut session, settings.seed)?;
    let after = session.settle()?;
    let uncertainty = session.uncertainty(&after);
    Ok(Run::between(&before, &after, mode, session.latencies, uncertainty))
}

/// Everything is on flash by now; a power cut must not change that.
fn power_cycle(volume: Volume, seed: u64) -> Result<Volume, ExperimentError> {
    let now_ns = volume.now_ns();
    let mut device = volume.unmount()?.into_device().expect("nobody shares the drive");
    device.cut_power(now_ns);
    device.power_on(&mut PowerLoss::seeded(seed))?;
    Ok(Volume::mount(device, PAGE_CACHE_BYTES)?)
}

/// Reads the whole database and returns what is wrong with it.
fn inspect(
    settings: &Settings,
    workload: &dyn Workload,
    volume: Volume,
    mode: Mode,
) -> Result<Option<String>, ExperimentError> {
    let working = RegisteredVolume::new(volume, mode, settings.seed)?;
    let connection = working.open()?;
    let verdict: String = connection
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(ExperimentError::sqlite("checking integrity"))?;
    if verdict != "ok" {
        return Ok(Some(verdict));
    }
    workload.difference(&connection, settings.seed)
}

#[cfg(test)]
mod tests {
    use tantalum_report::Interrupted;

    use super::super::key_value::KeyValue;
    use super::super::pattern::Pattern;
    use super::*;

    const SMALL: KeyValue =
        KeyValue { pattern: Pattern::Random, rows: 200, operations: 300, value_bytes: 500 };

    /// A workload that fails, or whose database has wrong contents.
    struct Broken {
        fails: bool,
    }

    impl Workload for Broken {
        fn load(&self, volume: Volume, seed: u64) -> Result<Volume, ExperimentError> {
            SMALL.load(volume, seed)
        }

        fn steps(&self) -> u64 {
            SMALL.steps()
        }

        fn warm_up(&self, session: &mut Session<'_>, seed: u64) -> Result<(), ExperimentError> {
            SMALL.warm_up(session, seed)
        }

        fn measure(&self, session: &mut Session<'_>, seed: u64) -> Result<(), ExperimentError> {
            if self.fails { Err(Interrupted.into()) } else { SMALL.measure(session, seed + 1) }
        }

        fn difference(&self, connection: &Connection, seed: u64) -> Result<Option<String>, ExperimentError> {
            SMALL.difference(connection, seed)
        }

        fn describe(&self, outcome: &mut WorkloadOutcome) {
            SMALL.describe(outcome);
        }
    }

    fn settings() -> Settings {
        Settings {
            profile: Profile { capacity_bytes: 64 << 20, ..Profile::load("femu-2021").unwrap() },
            modes: vec![Mode::Rollback, Mode::Wal, Mode::SwWal],
            synchronous: Synchronous::Full,
            seed: 1,
        }
    }

    #[test]
    fn a_failing_run_ends_the_comparison() {
        let outcome = compare(&settings(), &Broken { fails: true }, &Monitor::silent());
        assert!(matches!(outcome, Err(ExperimentError::Interrupted(_))), "{outcome:?}");
    }

    #[test]
    fn other_contents_than_written_are_found_in_every_mode() {
        let outcome = compare(&settings(), &Broken { fails: false }, &Monitor::silent()).unwrap();
        assert!(!outcome.is_intact());
        assert!(outcome.runs.iter().all(|run| run.integrity.starts_with("row ")), "{:?}", outcome.runs);
    }

    #[test]
    fn runs_come_in_the_order_asked_for_and_are_intact() {
        let outcome = compare(&settings(), &SMALL, &Monitor::silent()).unwrap();
        assert!(outcome.is_intact(), "{:?}", outcome.runs);
        assert_eq!(outcome.runs.iter().map(|run| run.mode).collect::<Vec<_>>(), settings().modes);
    }
}
