//! One store's turn: the steps, and what is measured of each.

use std::path::Path;
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use super::stores::{Key, SmallStore, open};
use crate::engines::Failure;
use crate::measure::{allocated_bytes, sync_all};
use crate::meter::sent_by_this_process;

/// Records that share a prefix.
const IN_PREFIX: u64 = 100;
/// Bytes of a prefix.
const PREFIX_BYTES: usize = 10;
/// Prefixes that are scanned, if there are as many.
const PREFIXES: u64 = 2_000;
/// Single records that are read, if there are as many.
const GETS: u64 = 100_000;

/// What all stores do.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Number of records.
    pub records: u64,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Records of a transaction.
    pub batch: usize,
    /// Bytes of the store's cache.
    pub cache_bytes: u64,
    /// Records are written in no order.
    pub is_shuffled: bool,
    /// Seed of all randomness.
    pub seed: u64,
}

impl Sizes {
    /// Bytes of all records.
    pub fn data_bytes(self) -> u64 {
        self.records * (size_of::<Key>() + self.value_bytes) as u64
    }
}

/// The figures of one turn, in the order of the steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Turn {
    /// Steps with their processor time, in seconds.
    pub steps: Vec<(String, f64)>,
    /// When the disk was looked at, with its bytes over those of all records.
    pub disk: Vec<(String, f64)>,
    /// Bytes sent to the disk for each byte loaded.
    pub sent_per_byte: f64,
    /// Bytes of memory of the process that no file is behind, at most, between steps.
    pub memory_bytes: u64,
    /// How long opening took, in seconds.
    pub open_seconds: f64,
}

/// What a step found: records, and the sum of the first bytes of their values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// Number of records.
    pub records: u64,
    /// Sum of the first bytes.
    pub sum: u64,
}

impl Found {
    /// Counts one more.
    pub fn add(&mut self, value: &[u8]) {
        self.records += 1;
        self.sum += u64::from(value[0]);
    }
}

/// The key of a record: ten digits for its prefix, six for the place within.
fn key(record: u64) -> Key {
    let text = format!("{:010}{:06}", record / IN_PREFIX, record % IN_PREFIX);
    text.into_bytes().try_into().expect("it has 16 digits")
}

struct Running<'a> {
    folder: &'a Path,
    sizes: Sizes,
    random: Xoshiro256PlusPlus,
    /// The first byte of each record's value.
    firsts: Vec<u8>,
    order: Vec<u64>,
    turn: Turn,
}

impl Turn {
    /// Does all steps in a folder.
    pub fn of(store: &str, sizes: Sizes, folder: &Path) -> Result<Turn, Failure> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(sizes.seed);
        let mut order: Vec<u64> = (0..sizes.records).collect();
        if sizes.is_shuffled {
            order.shuffle(&mut random);
        }
        let turn =
            Turn { steps: vec![], disk: vec![], sent_per_byte: 0.0, memory_bytes: 0, open_seconds: 0.0 };
        let firsts = vec![0; sizes.records as usize];
        let mut running = Running { folder, sizes, random, firsts, order, turn };
        running.all(store)?;
        Ok(running.turn)
    }
}

impl Running<'_> {
    fn all(&mut self, name: &str) -> Result<(), Failure> {
        let store = open(name, self.folder, self.sizes)?;
        let sent = sent_by_this_process()?;
        self.write("load", &*store)?;
        self.weigh()?;
        self.look("loaded")?;
        self.turn.sent_per_byte = (sent_by_this_process()? - sent) as f64 / self.sizes.data_bytes() as f64;
        self.read_all(&*store)?;
        self.weigh()?;
        drop(store);
        let begun = Instant::now();
        let (folder, sizes) = (self.folder, self.sizes);
        let store = self.step("open", || open(name, folder, sizes))?;
        self.turn.open_seconds = begun.elapsed().as_secs_f64();
        self.scan("scan of all after opening", &*store, false)?;
        for step in ["overwrite", "overwrite again"] {
            self.write(step, &*store)?;
            self.weigh()?;
        }
        self.look("overwritten twice")?;
        let (order, batch) = (std::mem::take(&mut self.order), self.sizes.batch);
        self.step("delete all", || {
            order.chunks(batch).try_for_each(|keys| {
                let keys: Vec<Key> = keys.iter().map(|record| key(*record)).collect();
                store.delete(&keys)
            })
        })?;
        self.weigh()?;
        expect("delete all", store.scan(false)?, Found::default())?;
        self.look("all deleted")?;
        drop(store);
        self.look("all deleted, closed")
    }

    /// Does a step, and notes its processor time.
    fn step<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        let begun = processor_seconds()?;
        let done = work()?;
        self.turn.steps.push((name.to_owned(), processor_seconds()? - begun));
        Ok(done)
    }

    /// Notes the memory of the process, which has little but the store's.
    fn weigh(&mut self) -> Result<(), Failure> {
        self.turn.memory_bytes = self.turn.memory_bytes.max(own_memory_bytes()?);
        Ok(())
    }

    /// Notes what the folder takes of the disk.
    fn look(&mut self, when: &str) -> Result<(), Failure> {
        sync_all(self.folder)?;
        let bytes = allocated_bytes(self.folder)? as f64 / self.sizes.data_bytes() as f64;
        self.turn.disk.push((when.to_owned(), bytes));
        Ok(())
    }

    /// Writes all records with new values.
    fn write(&mut self, name: &str, store: &dyn SmallStore) -> Result<(), Failure> {
        // values that do not compress, made before the clock starts
        let mut values = vec![0; self.sizes.records as usize * self.sizes.value_bytes];
        self.random.fill(&mut values[..]);
        let values: Vec<&[u8]> = values.chunks(self.sizes.value_bytes).collect();
        let order = std::mem::take(&mut self.order);
        let batch = self.sizes.batch;
        self.step(name, || {
            order.chunks(batch).try_for_each(|records| {
                let records: Vec<(Key, &[u8])> =
                    records.iter().map(|record| (key(*record), values[*record as usize])).collect();
                store.put(&records)
            })
        })?;
        self.order = order;
        self.firsts = values.iter().map(|value| value[0]).collect();
        Ok(())
    }

    fn everything(&self) -> Found {
        let mut found = Found::default();
        self.firsts.iter().for_each(|first| found.add(&[*first]));
        found
    }

    fn scan(&mut self, name: &str, store: &dyn SmallStore, backwards: bool) -> Result<(), Failure> {
        let found = self.step(name, || store.scan(backwards))?;
        expect(name, found, self.everything())
    }

    fn read_all(&mut self, store: &dyn SmallStore) -> Result<(), Failure> {
        self.scan("scan of all", store, false)?;
        self.scan("scan of all, backwards", store, true)?;
        let groups = self.sizes.records / IN_PREFIX;
        let groups: Vec<u64> =
            (0..PREFIXES.min(groups)).map(|_| self.random.random_range(0..groups)).collect();
        let prefixes: Vec<Key> = groups.iter().map(|group| key(group * IN_PREFIX)).collect();
        let found = self.step("prefixes", || {
            let prefixes: Vec<&[u8]> = prefixes.iter().map(|key| &key[..PREFIX_BYTES]).collect();
            store.prefixes(&prefixes)
        })?;
        let records = groups.iter().flat_map(|group| group * IN_PREFIX..(group + 1) * IN_PREFIX);
        expect("prefixes", found, self.found(records))?;
        let records: Vec<u64> = (0..GETS.min(self.sizes.records))
            .map(|_| self.random.random_range(0..self.sizes.records))
            .collect();
        let keys: Vec<Key> = records.iter().map(|record| key(*record)).collect();
        let found = self.step("gets", || store.gets(&keys))?;
        expect("gets", found, self.found(records.into_iter()))
    }

    fn found(&self, records: impl Iterator<Item = u64>) -> Found {
        let mut found = Found::default();
        records.for_each(|record| found.add(&[self.firsts[record as usize]]));
        found
    }
}

fn expect(step: &str, found: Found, expected: Found) -> Result<(), Failure> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{step}: found {found:?} instead of {expected:?}").into()),
    }
}

/// Time that processors worked for this process, its other threads and the kernel included.
fn processor_seconds() -> Result<f64, Failure> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let times = [usage.user_time(), usage.system_time()];
    Ok(times.iter().map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6).sum())
}

/// Memory that no file is behind. Mapped files are the page cache's.
fn own_memory_bytes() -> Result<u64, Failure> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kilobytes.ok_or("/proc/self/status says nothing of RssAnon")?.trim().parse::<u64>()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::small::stores::NAMES;

    #[test]
    fn every_store_finds_what_was_written_in_any_order() {
        for is_shuffled in [false, true] {
            let sizes = Sizes {
                records: 1234,
                value_bytes: 20,
                batch: 100,
                cache_bytes: 1 << 20,
                is_shuffled,
                seed: 3,
            };
            for name in NAMES {
                let folder = tempfile::tempdir().unwrap();
                let turn = Turn::of(name, sizes, folder.path()).unwrap_or_else(|e| panic!("{name}: {e}"));
                assert_eq!((turn.steps.len(), turn.disk.len()), (10, 4), "{name}");
                assert!(turn.disk[0].1 >= 1.0 && turn.memory_bytes > 0, "{name}");
                // zero where the folder is in memory
                assert!(turn.sent_per_byte >= 0.0, "{name}");
            }
        }
    }

    #[test]
    fn what_is_not_as_it_was_written_is_noticed() {
        let (one, mut two) = (Found { records: 1, sum: 7 }, Found::default());
        two.add(&[7, 9]);
        expect("scan", two, one).unwrap();
        two.add(&[0]);
        assert!(expect("scan", two, one).is_err());
    }

    #[test]
    fn keys_have_the_order_of_their_numbers_and_prefixes_of_a_hundred() {
        let keys: Vec<Key> = (0..1000).map(key).collect();
        assert!(keys.is_sorted());
        assert_eq!(keys.iter().filter(|key| key[..PREFIX_BYTES] == keys[250][..PREFIX_BYTES]).count(), 100);
    }
}
