//! A client of the document store: a store on an aged drive, and YCSB's load on it.

use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Counters, Device, Nanoseconds, Profile, UNIT_BYTES, Usage};
use tantalum_couch::{Batch, Options, RECORD_HEADER_BYTES, Store, VolumeStorage, Way};
use tantalum_volume::Volume;
use tantalum_workloads::ageing::age_leaving;
use tantalum_workloads::distributions::{Shuffle, Zipf};

use super::Run;
use super::binds::Phase;
use crate::compare::HOST_NS_PER_STATEMENT;
use crate::error::ExperimentError;

/// The paper's: 1 GB of documents on a drive of 4 GB.
pub(super) const DOCUMENTS: u64 = 250_000;

/// Operations of a measurement, and before it, for each document.
pub(super) const OPERATIONS: f64 = 0.1;
const WARM_UP: f64 = 0.01;

/// What stays free in addition to the store and other data, for each document: what the original way appends, and
/// another copy of the store, which a compaction needs.
const FREE_UNITS: f64 = 1.4;

const EXPONENT: f64 = 0.99;
const NAME: &str = "ycsb.couch";

/// Bytes of a YCSB key.
const KEY_BYTES: usize = 23;

/// A record is one unit.
const VALUE_BYTES: usize = UNIT_BYTES - RECORD_HEADER_BYTES - KEY_BYTES;

/// The volume's page cache; the store reads and writes past it.
const CACHE_BYTES: u64 = 4 << 20;

/// The index is in memory, whatever the scale.
const INDEX_BYTES: usize = 256 << 20;

fn key(number: u64) -> Vec<u8> {
    format!("user{number:019}").into_bytes()
}

fn options(way: Way) -> Options {
    Options { way, cache_bytes: INDEX_BYTES, ..Options::default() }
}

/// What one client does.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) letter: char,
    /// The share of operations that only read.
    pub(super) reads: f64,
    /// Whether an update reads first.
    pub(super) reads_first: bool,
}

/// What was measured.
pub(super) struct Measured {
    pub(super) per_second: f64,
    pub(super) phase: Phase,
    pub(super) counters: Counters,
    updates: u64,
}

impl Measured {
    /// Bytes that the host wrote for each update, in units.
    pub(super) fn host_units(&self) -> f64 {
        self.counters.host_units_written as f64 / self.updates.max(1) as f64
    }

    pub(super) fn for_update(&self, count: u64) -> f64 {
        count as f64 / self.updates.max(1) as f64
    }
}

pub(super) fn documents_of(run: &Run<'_>) -> u64 {
    run.scaled(DOCUMENTS, 1000)
}

/// A store with all its documents, compacted, on an aged drive.
pub(super) fn aged(run: &Run<'_>, profile: &Profile, way: Way) -> Result<Volume, ExperimentError> {
    let volume = Volume::format(Device::in_memory(profile)?, CACHE_BYTES)?;
    let storage = VolumeStorage::new(volume);
    let store = Store::open(storage.clone(), NAME, options(way))?;
    let documents = documents_of(run);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(run.seed);
    let bar = run.monitor.bar("loading", documents);
    let mut value = vec![0; VALUE_BYTES];
    for first in (1..=documents).step_by(1000) {
        let mut batch = Batch::new();
        let last = documents.min(first + 999);
        for number in first..=last {
            random.fill_bytes(&mut value[..64]);
            batch.put(&key(number), &value)?;
        }
        store.commit(&batch)?;
        bar.advance(last + 1 - first)?;
    }
    store.compact()?;
    drop(store);
    let mut volume = storage.into_volume().expect("the store is closed");
    volume.sync_all()?;
    age_leaving(&mut volume, (documents as f64 * FREE_UNITS) as u64, run.seed, run.monitor)?;
    Ok(volume)
}

/// One client of a store.
pub(super) struct Client {
    store: Store<VolumeStorage>,
    zipf: Zipf,
    shuffle: Shuffle,
    random: Xoshiro256PlusPlus,
    value: Vec<u8>,
    batch: Batch,
    /// Updates in the batch.
    waiting: usize,
    updates: u64,
}

impl Client {
    pub(super) fn new(run: &Run<'_>, volume: Volume, way: Way) -> Result<Client, ExperimentError> {
        let documents = documents_of(run);
        let store = Store::open(VolumeStorage::new(volume), NAME, options(way))?;
        // the index is in memory before anything is measured
        store.snapshot().load_index()?;
        Ok(Client {
            store,
            zipf: Zipf::new(documents, EXPONENT),
            shuffle: Shuffle::new(documents),
            random: Xoshiro256PlusPlus::seed_from_u64(run.seed),
            value: vec![0; VALUE_BYTES],
            batch: Batch::new(),
            waiting: 0,
            updates: 0,
        })
    }

    fn mark(&self) -> (Counters, Usage, Nanoseconds) {
        let volume = self.store.storage().volume();
        let counters = volume.device().smart().counters;
        let usage = volume.device().usage();
        (counters, usage, volume.now_ns())
    }

    fn measured(&self, operations: u64, before: (Counters, Usage, Nanoseconds)) -> Measured {
        let (counters, usage, now_ns) = self.mark();
        let elapsed_ns = now_ns - before.2;
        Measured {
            per_second: operations as f64 * 1e9 / elapsed_ns as f64,
            phase: Phase { usage: usage.since(&before.1), elapsed_ns },
            counters: counters.since(&before.0),
            updates: self.updates,
        }
    }

    pub(super) fn measure(
        &mut self,
        run: &Run<'_>,
        load: Load,
        batch: usize,
    ) -> Result<Measured, ExperimentError> {
        let operations = |share: f64| run.scaled((DOCUMENTS as f64 * share) as u64, 100);
        self.work(run, load, batch, operations(WARM_UP))?;
        self.updates = 0;
        let before = self.mark();
        let count = operations(OPERATIONS);
        self.work(run, load, batch, count)?;
        Ok(self.measured(count, before))
    }

    fn work(
        &mut self,
        run: &Run<'_>,
        load: Load,
        batch: usize,
        operations: u64,
    ) -> Result<(), ExperimentError> {
        for number in 0..operations {
            if number.is_multiple_of(256) {
                run.monitor.check()?;
            }
            let key = key(self.shuffle.of(self.zipf.draw(&mut self.random)));
            let only_reads = self.random.random_bool(load.reads);
            if only_reads || load.reads_first {
                self.read(&key)?;
            }
            if !only_reads {
                self.update(&key, batch)?;
            }
            self.store.storage().volume().advance_ns(HOST_NS_PER_STATEMENT);
        }
        self.commit()
    }

    fn read(&self, key: &[u8]) -> Result<(), ExperimentError> {
        if self.batch.get(key).is_some() {
            return Ok(());
        }
        let found = self.store.get(key)?;
        assert_eq!(found.map(|document| document.value().len()), Some(VALUE_BYTES), "a document is lost");
        Ok(())
    }

    fn update(&mut self, key: &[u8], batch: usize) -> Result<(), ExperimentError> {
        self.random.fill_bytes(&mut self.value[..64]);
        self.batch.put(key, &self.value)?;
        self.waiting += 1;
        self.updates += 1;
        if self.waiting < batch { Ok(()) } else { self.commit() }
    }

    fn commit(&mut self) -> Result<(), ExperimentError> {
        self.store.commit(&self.batch)?;
        self.batch.clear();
        self.waiting = 0;
        Ok(())
    }

    pub(super) fn compact(&self) -> Result<Measured, ExperimentError> {
        let before = self.mark();
        self.store.compact()?;
        Ok(self.measured(1, before))
    }
}
