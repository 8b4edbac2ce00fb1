//! `tantalum compare sqlite`: the same workload through each interface, over equal, aged drives.
//!
//! - **Equal**: the database is loaded and the drive aged once; each mode gets a copy. What the host does besides
//!   is the same: SQLite's cache, the page cache, the number of frames between checkpoints.
//! - **Whole**: a measurement begins and ends with a checkpoint and a flush, so that no mode leaves work for later.
//! - **Checked**: after it, power is cut, the drive recovers, and all of the database is read from flash and
//!   compared with what the workload wrote.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use rusqlite::Connection;
use tantalum::{Device, PowerLoss, Profile};
use tantalum_sqlite::{Drive, Mode, Registration};
use tantalum_volume::Volume;

use crate::ageing::{Ageing, age};
use crate::confined::{Refusal, confine};
use crate::error::LabError;
use crate::memory;
use crate::monitor::Monitor;
use crate::outcome::{Comparison, Run, WorkloadOutcome, relate_to_baseline};
use crate::session::{Session, Synchronous};
use crate::workload::{DATABASE, PAGE_CACHE_BYTES, Workload};

/// Runs at once. Each has its own drive, so the outcome does not depend on it.
const THREADS: usize = 2;

/// Copies of the drive that are in memory at once: one for each run under way, and the one they are made from.
const DRIVES_IN_MEMORY: u64 = THREADS as u64 + 1;

/// What is compared.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The drive.
    pub profile: Profile,
    /// The modes, each at most once.
    pub modes: Vec<Mode>,
    /// `PRAGMA synchronous`.
    pub synchronous: Synchronous,
    /// Where all randomness comes from.
    pub seed: u64,
}

/// Runs the workload in each mode. Wrong contents are told in the outcome.
pub fn compare(
    settings: &Settings,
    workload: &dyn Workload,
    monitor: &Monitor,
) -> Result<Comparison, LabError> {
    let capacity_bytes = settings.profile.capacity_bytes;
    memory::require(capacity_bytes.saturating_mul(DRIVES_IN_MEMORY))?;
    let (volume, ageing) =
        prepare(settings, workload, monitor).map_err(|error| too_small(error, capacity_bytes))?;
    let mut runs =
        run_all(settings, workload, volume, monitor).map_err(|error| too_small(error, capacity_bytes))?;
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

/// Says so if the drive was too small.
pub(crate) fn too_small(error: LabError, capacity_bytes: u64) -> LabError {
    if error.is_full() { LabError::TooSmall { capacity_bytes, what: error.to_string() } } else { error }
}

/// The volume from which every mode starts.
fn prepare(
    settings: &Settings,
    workload: &dyn Workload,
    monitor: &Monitor,
) -> Result<(Volume, Ageing), LabError> {
    let device = Device::in_memory(&settings.profile)?;
    let volume = Volume::format(device, PAGE_CACHE_BYTES)?;
    let mut volume = workload.load(volume, settings.seed)?;
    monitor.check()?;
    let ageing = age(&mut volume, settings.seed, monitor)?;
    Ok((volume, ageing))
}

fn run_all(
    settings: &Settings,
    workload: &dyn Workload,
    volume: Volume,
    monitor: &Monitor,
) -> Result<Vec<Run>, LabError> {
    let queue = Mutex::new(settings.modes.iter().copied().enumerate().collect::<VecDeque<_>>());
    let finished = Mutex::new(Vec::new());
    let volume = Mutex::new(volume);
    // Apart, so that the queue is not locked while a run is under way.
    let next = || locked(&queue).pop_front();
    let work = || {
        while let Some((place, mode)) = next() {
            let copy = locked(&volume).try_clone().expect("a drive in memory can be copied");
            let run = run(settings, workload, copy, mode, monitor);
            if run.is_err() {
                // There will be no outcome, so there is no use in other runs.
                locked(&queue).clear();
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

/// A panic in one run ends all of them when the scope is left; what it left behind is not looked at before.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(
    settings: &Settings,
    workload: &dyn Workload,
    volume: Volume,
    mode: Mode,
    monitor: &Monitor,
) -> Result<Run, LabError> {
    let working = WorkingDrive::new(volume, mode, settings.seed)?;
    let connection = working.open()?;
    let mut run = measure(settings, workload, &working, &connection, mode, monitor)?;
    connection.close().map_err(|(_, error)| LabError::sqlite("closing the database")(error))?;
    let volume = power_cycle(working.into_volume()?, settings.seed)?;
    if let Some(difference) = inspect(settings, workload, volume, mode)? {
        run.integrity = difference;
    }
    Ok(run)
}

fn measure(
    settings: &Settings,
    workload: &dyn Workload,
    working: &WorkingDrive,
    connection: &Connection,
    mode: Mode,
    monitor: &Monitor,
) -> Result<Run, LabError> {
    let bar = monitor.bar(mode.to_string(), workload.steps());
    let mut session = Session::new(&working.drive, connection, settings.synchronous, bar)
        .map_err(LabError::sqlite("setting up the connection"))?;
    workload.warm_up(&mut session, settings.seed)?;
    let before = session.settle()?;
    session.latencies.reset();
    workload.measure(&mut session, settings.seed)?;
    let after = session.settle()?;
    Ok(Run::between(&before, &after, mode, session.latencies))
}

/// Everything is on flash by now; a power cut must not change that.
fn power_cycle(volume: Volume, seed: u64) -> Result<Volume, LabError> {
    let now_ns = volume.now_ns();
    let mut device = volume.unmount()?.into_device().expect("nobody shares the drive");
    device.cut_power(now_ns);
    device.power_on(&mut PowerLoss::seeded(seed))?;
    Ok(Volume::mount(device, PAGE_CACHE_BYTES)?)
}

/// Reads all of the database and tells what is wrong with it.
fn inspect(
    settings: &Settings,
    workload: &dyn Workload,
    volume: Volume,
    mode: Mode,
) -> Result<Option<String>, LabError> {
    let working = WorkingDrive::new(volume, mode, settings.seed)?;
    let connection = working.open()?;
    let verdict: String = connection
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(LabError::sqlite("checking integrity"))?;
    if verdict != "ok" {
        return Ok(Some(verdict));
    }
    workload.difference(&connection, settings.seed)
}

/// A drive that SQLite works on, under a name of its own.
pub(crate) struct WorkingDrive {
    registration: Registration,
    pub drive: Drive,
}

impl WorkingDrive {
    /// Makes SQLite know the volume.
    pub fn new(volume: Volume, mode: Mode, seed: u64) -> Result<WorkingDrive, LabError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("tantalum-lab-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let drive = Drive::new(volume, mode, Some(seed));
        let registration = drive.register(&name)?;
        Ok(WorkingDrive { registration, drive })
    }

    /// Opens the database in the drive's mode. The connection is confined to the drive.
    pub fn open(&self) -> Result<Connection, LabError> {
        self.open_confined().map(|(connection, _)| connection)
    }

    /// The same, with what tells why a statement was refused.
    pub fn open_confined(&self) -> Result<(Connection, Refusal), LabError> {
        let opening = || LabError::sqlite("opening the database");
        let mut connection = self.drive.open(DATABASE).map_err(opening())?;
        let refusal = confine(&mut connection).map_err(opening())?;
        Ok((connection, refusal))
    }

    /// The volume, when no connection is open any more.
    pub fn into_volume(self) -> Result<Volume, LabError> {
        drop(self.registration);
        Ok(self.drive.into_volume().map_err(|(_, error)| error)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_value::{KeyValue, Pattern};

    const SMALL: KeyValue =
        KeyValue { pattern: Pattern::Random, rows: 200, operations: 300, value_bytes: 500 };

    /// A workload that fails, or whose database is another than it should be.
    struct Broken {
        fails: bool,
    }

    impl Workload for Broken {
        fn load(&self, volume: Volume, seed: u64) -> Result<Volume, LabError> {
            SMALL.load(volume, seed)
        }

        fn steps(&self) -> u64 {
            SMALL.steps()
        }

        fn warm_up(&self, session: &mut Session<'_>, seed: u64) -> Result<(), LabError> {
            SMALL.warm_up(session, seed)
        }

        fn measure(&self, session: &mut Session<'_>, seed: u64) -> Result<(), LabError> {
            if self.fails { Err(LabError::Interrupted) } else { SMALL.measure(session, seed + 1) }
        }

        fn difference(&self, connection: &Connection, seed: u64) -> Result<Option<String>, LabError> {
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
        assert!(matches!(outcome, Err(LabError::Interrupted)), "{outcome:?}");
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
