//! Measures each case in rounds, in which the stores take turns, each with a new store.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::engines::{CacheSize, Engine, Failure, Setting, open};
use crate::meter::{Meter, Written};
use crate::outcome::{Case, Row};
use crate::work::{KEY_BYTES, Worker, Workload, check, value};

/// Records of one transaction when the store is loaded.
const LOADED_AT_ONCE: u64 = 500;

/// What to measure.
pub struct Plan {
    /// The stores, each by its name.
    pub stores: Vec<String>,
    /// What distinguishes the rows, besides the store.
    pub cases: Vec<Case>,
    /// How often each is measured.
    pub rounds: u64,
    /// The duration of each measurement.
    pub seconds: f64,
    /// Number of YCSB records; other workloads have enough records for the same number of bytes.
    pub records: u64,
    /// Size of a YCSB value in bytes.
    pub value_bytes: usize,
    /// Where the stores are created; they are removed afterwards.
    pub folder: PathBuf,
    /// Seed of all randomness.
    pub seed: u64,
}

/// One store's turn.
struct Turn {
    latencies: Histogram<u64>,
    seconds: f64,
    /// Bytes of records written.
    written_bytes: u64,
    /// Bytes sent to the disk or drive for them.
    below: Written,
    space_per_byte: f64,
}

impl Turn {
    fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.seconds
    }
}

impl Plan {
    /// Measures all cases. Stops, and leaves nothing, when `stop` becomes true.
    pub fn measure(&self, stop: &AtomicBool) -> Result<Vec<Row>, Failure> {
        let turns = self.cases.len() as u64 * self.rounds * self.stores.len() as u64;
        let style = ProgressStyle::with_template("[{bar:40}] {percent:>3} % {msg}, {eta} left")?;
        let progress = ProgressBar::new(turns).with_style(style.progress_chars("=> "));
        let mut rows = Vec::new();
        for &case in &self.cases {
            let mut turns: Vec<Vec<Turn>> = self.stores.iter().map(|_| Vec::new()).collect();
            for round in 0..self.rounds as usize {
                for place in 0..self.stores.len() {
                    // so that no store always follows the same one
                    let store = (place + round) % self.stores.len();
                    progress.set_message(format!("{case}, {}", self.stores[store]));
                    turns[store].push(self.turn(&self.stores[store], case, round as u64, stop)?);
                    progress.inc(1);
                }
            }
            for (store, turns) in self.stores.iter().zip(turns) {
                rows.push(row(store, case, turns)?);
            }
        }
        progress.finish_and_clear();
        Ok(rows)
    }

    /// Loads a new store, works on it, and removes it.
    fn turn(&self, store: &str, case: Case, round: u64, stop: &AtomicBool) -> Result<Turn, Failure> {
        let folder = tempfile::tempdir_in(&self.folder)?;
        let value_bytes = case.workload.value_bytes(self.value_bytes);
        let record_bytes = KEY_BYTES + value_bytes as u64;
        let records =
            (self.records * (KEY_BYTES + self.value_bytes as u64) / record_bytes).max(LEAST_RECORDS);
        let data_bytes = records * record_bytes;
        let scans = case.workload == Workload::E;
        let setting = Setting { synced: case.synced, cache: case.cache, data_bytes, scans };
        let load = Load { records, value_bytes, seed: self.seed.wrapping_add(round << 32) };
        let engine = open(store, folder.path(), setting)?;
        load.fill(&*engine, stop)?;
        engine.loaded()?;
        engine.settle()?;
        let mut meter = Meter::for_folder(folder.path())?;
        if meter.is_drive() {
            sync_all(folder.path())?;
        }
        let (before, start) = (meter.read()?, Instant::now());
        let end = start + Duration::from_secs_f64(self.seconds);
        let (latencies, written_bytes) = load.work(&*engine, case, end, stop)?;
        let seconds = start.elapsed().as_secs_f64();
        engine.settle()?;
        drop(engine);
        sync_all(folder.path())?;
        Ok(Turn {
            latencies,
            seconds,
            written_bytes,
            below: meter.since(before)?,
            space_per_byte: allocated_bytes(folder.path())? as f64 / data_bytes as f64,
        })
    }
}

/// The contents of a store, and the work on it, in one turn.
struct Load {
    records: u64,
    value_bytes: usize,
    seed: u64,
}

impl Load {
    /// Writes all records.
    fn fill(&self, engine: &dyn Engine, stop: &AtomicBool) -> Result<(), Failure> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        for first in (0..self.records).step_by(LOADED_AT_ONCE as usize) {
            check(stop)?;
            let keys = first..self.records.min(first + LOADED_AT_ONCE);
            let loaded: Vec<_> = keys.map(|key| (key, value(&mut random, self.value_bytes))).collect();
            engine.write(&loaded)?;
        }
        Ok(())
    }

    /// All threads of a case work until a given time. Returns the durations of operations, and the bytes of records
    /// written.
    fn work(
        &self,
        engine: &dyn Engine,
        case: Case,
        end: Instant,
        stop: &AtomicBool,
    ) -> Result<(Histogram<u64>, u64), Failure> {
        let written = AtomicU64::new(0);
        let [present, begun] = [(); 2].map(|()| AtomicU64::new(self.records));
        let draws = case.workload.draws(self.records);
        let latencies = std::thread::scope(|scope| {
            let run = |thread| {
                let random = Xoshiro256PlusPlus::seed_from_u64(self.seed << 8 | (thread + 1));
                let (draws, batch, value_bytes) = (draws.as_ref(), case.batch, self.value_bytes);
                let (written, records, begun) = (&written, &present, &begun);
                let worker = Worker { engine, records, begun, draws, batch, value_bytes, random, written };
                scope.spawn(move || worker.work(end, stop))
            };
            let handles: Vec<_> = (0..case.threads).map(run).collect();
            let done = handles.into_iter().map(|handle| handle.join().expect("a thread ends well"));
            done.collect::<Result<Vec<_>, _>>()
        })?;
        Ok((sum(&latencies)?, written.into_inner()))
    }
}

/// A transfer needs four different accounts.
const LEAST_RECORDS: u64 = 8;

fn sum<'a>(latencies: impl IntoIterator<Item = &'a Histogram<u64>>) -> Result<Histogram<u64>, Failure> {
    let mut all = Histogram::<u64>::new(3)?;
    latencies.into_iter().try_for_each(|latencies| all.add(latencies))?;
    Ok(all)
}

/// The median rate of all rounds, and the sum of the rest.
fn row(store: &str, case: Case, mut turns: Vec<Turn>) -> Result<Row, Failure> {
    turns.sort_by(|a, b| a.per_second().total_cmp(&b.per_second()));
    let all = sum(turns.iter().map(|turn| &turn.latencies))?;
    let written: u64 = turns.iter().map(|turn| turn.written_bytes).sum();
    let sent: u64 = turns.iter().map(|turn| turn.below.sent).sum();
    let programmed: Option<u64> = turns.iter().map(|turn| turn.below.programmed).sum();
    let per_byte = |bytes: u64| (written > 0).then(|| bytes as f64 / written as f64);
    let median = &turns[turns.len() / 2];
    Ok(Row {
        case,
        store: store.to_owned(),
        rounds: turns.len() as u64,
        operations: all.len(),
        per_second: median.per_second(),
        per_second_least: turns[0].per_second(),
        per_second_most: turns[turns.len() - 1].per_second(),
        p50_us: all.value_at_quantile(0.5) as f64 / 1000.0,
        p99_us: all.value_at_quantile(0.99) as f64 / 1000.0,
        written_per_byte: per_byte(sent),
        programmed_per_byte: programmed.and_then(per_byte),
        space_per_byte: median.space_per_byte,
    })
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { found.extend(files(&path)?) } else { found.push(path) }
    }
    Ok(found)
}

pub fn sync_all(folder: &Path) -> Result<(), Failure> {
    files(folder)?.iter().try_for_each(|path| Ok(std::fs::File::open(path)?.sync_all()?))
}

pub fn allocated_bytes(folder: &Path) -> Result<u64, Failure> {
    use std::os::unix::fs::MetadataExt;
    files(folder)?.iter().try_fold(0, |sum, path| Ok(sum + std::fs::metadata(path)?.blocks() * 512))
}

/// All cases: synced ones first, then by cache, workload, batch and threads.
pub fn cases(
    synced: &[bool],
    caches: &[CacheSize],
    workloads: &[Workload],
    batches: &[u64],
    threads: &[u64],
) -> Vec<Case> {
    let mut cases = Vec::new();
    for &synced in synced {
        for &cache in caches {
            for &workload in workloads {
                // Workloads other than U have one case for all batches.
                let batches = if workload == Workload::U { batches } else { &batches[..1] };
                for batch in batches.iter().map(|&batch| workload.batch(batch)) {
                    cases.extend(threads.iter().map(|&threads| Case {
                        workload,
                        synced,
                        cache,
                        threads,
                        batch,
                    }));
                }
            }
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::NAMES;

    /// A short run of everything.
    fn plan(folder: &Path) -> Plan {
        use clap::ValueEnum;
        Plan {
            stores: NAMES.iter().map(|name| name.to_string()).collect(),
            cases: cases(&[true, false], CacheSize::value_variants(), Workload::value_variants(), &[3], &[2]),
            rounds: 2,
            seconds: 0.01,
            records: 600,
            value_bytes: 200,
            folder: folder.to_owned(),
            seed: 1,
        }
    }

    #[test]
    fn every_case_has_a_row_for_each_store_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(folder.path());
        let rows = plan.measure(&AtomicBool::new(false)).unwrap();
        assert_eq!(rows.len(), plan.cases.len() * plan.stores.len());
        for row in &rows {
            assert!(row.operations > 0 && row.rounds == 2, "{row:?}");
            assert!(
                row.per_second_least <= row.per_second && row.per_second <= row.per_second_most,
                "{row:?}"
            );
            // a busy machine does few operations in this time, of which none may be an update
            let updates = row.case.workload != Workload::C && row.operations >= 200;
            assert!(row.written_per_byte.is_some() || !updates, "{row:?}");
            assert!(row.written_per_byte.is_none() || row.case.workload != Workload::C, "{row:?}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the stores are removed");
    }

    #[test]
    fn what_is_interrupted_leaves_no_stores() {
        let folder = tempfile::tempdir().unwrap();
        let mut plan = plan(folder.path());
        plan.seconds = 3600.0;
        let stop = AtomicBool::new(false);
        let failure = std::thread::scope(|scope| {
            let measured = scope.spawn(|| plan.measure(&stop));
            // in the middle of the work
            while std::fs::read_dir(folder.path()).unwrap().count() == 0 {
                std::thread::yield_now();
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            measured.join().unwrap().unwrap_err()
        });
        assert!(failure.is::<crate::work::Interrupted>(), "{failure}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the stores are removed");
    }
}
