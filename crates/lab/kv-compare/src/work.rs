//! The workloads: YCSB's A to F, transfers that change four records in a transaction, as in TPC-B, and commits that
//! update several records.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use clap::ValueEnum;
use hdrhistogram::Histogram;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use tantalum_workloads::ycsb::{self, Draws, Operation};

use crate::engines::{Engine, Failure};

/// Bytes of a key.
pub const KEY_BYTES: u64 = 8;

/// Bytes of an account of a transfer.
const ACCOUNT_BYTES: usize = 100;

/// What a thread does with the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Half reads, half writes.
    A,
    /// 95 % reads, 5 % writes.
    B,
    /// Reads.
    C,
    /// 95 % reads of the latest records, 5 % new ones.
    D,
    /// 95 % scans of 1 to 100 records, 5 % new records.
    E,
    /// Half reads, half read-modify-writes of a record.
    F,
    /// Four records of 100 bytes are read and rewritten.
    T,
    /// One commit rewrites several records, drawn like F's.
    U,
}

/// The workloads that are measured unless others are named.
pub const USUAL_WORKLOADS: [Workload; 7] =
    [Workload::A, Workload::B, Workload::C, Workload::D, Workload::E, Workload::F, Workload::T];

/// The longest scan; all lengths are equally likely (YCSB's workload E).
const MOST_SCANNED: usize = 100;

impl Workload {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Workload::A => "a",
            Workload::B => "b",
            Workload::C => "c",
            Workload::D => "d",
            Workload::E => "e",
            Workload::F => "f",
            Workload::T => "t",
            Workload::U => "u",
        }
    }

    /// Bytes of a value; those of YCSB have `value_bytes`.
    pub fn value_bytes(self, value_bytes: usize) -> usize {
        if self == Workload::T { ACCOUNT_BYTES } else { value_bytes }
    }

    /// The corresponding YCSB workload, if it is one.
    fn ycsb(self) -> Option<ycsb::Workload> {
        match self {
            Workload::A => Some(ycsb::Workload::A),
            Workload::B => Some(ycsb::Workload::B),
            Workload::C => Some(ycsb::Workload::C),
            Workload::D => Some(ycsb::Workload::D),
            Workload::E => Some(ycsb::Workload::E),
            Workload::F | Workload::U => Some(ycsb::Workload::F),
            Workload::T => None,
        }
    }

    /// Records updated by one commit: several only in U.
    pub fn batch(self, batch: u64) -> Option<u64> {
        (self == Workload::U).then_some(batch)
    }

    /// Draws its operations and records, from this many records; `None` for transfers.
    pub fn draws(self, records: u64) -> Option<Draws> {
        self.ycsb().map(|workload| Draws::new(workload, records))
    }
}

/// The run was interrupted.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; the stores are removed")]
pub struct Interrupted;

/// Fails if the run was interrupted.
pub fn check(stop: &AtomicBool) -> Result<(), Failure> {
    if stop.load(Ordering::Relaxed) { Err(Interrupted.into()) } else { Ok(()) }
}

/// One thread's work on a store.
pub struct Worker<'a> {
    /// The store.
    pub engine: &'a dyn Engine,
    /// The number of existing records.
    pub records: &'a AtomicU64,
    /// The number of existing records and of those that threads are inserting.
    pub begun: &'a AtomicU64,
    /// Its YCSB workload; transfers if `None`.
    pub draws: Option<&'a Draws>,
    /// If it only updates records: how many in one commit.
    pub batch: Option<u64>,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Its source of random numbers.
    pub random: Xoshiro256PlusPlus,
    /// Bytes of records written by all threads.
    pub written: &'a AtomicU64,
}

impl Worker<'_> {
    /// Works until a given time; returns the duration of each operation, in nanoseconds.
    pub fn work(mut self, end: Instant, stop: &AtomicBool) -> Result<Histogram<u64>, Failure> {
        let mut latencies = Histogram::<u64>::new(3)?;
        let mut now = Instant::now();
        loop {
            check(stop)?;
            self.operation(stop)?;
            let done = Instant::now();
            latencies.record((done - now).as_nanos() as u64)?;
            now = done;
            // one operation at least, however busy the machine is
            if now >= end {
                return Ok(latencies);
            }
        }
    }

    fn operation(&mut self, stop: &AtomicBool) -> Result<(), Failure> {
        match (self.draws, self.batch) {
            (None, _) => self.transfer(),
            (Some(draws), Some(batch)) => self.update(draws, batch),
            (Some(draws), None) => {
                let operation = draws.operation(&mut self.random);
                let key = draws.record(self.present(), &mut self.random);
                self.ycsb(operation, key, stop)
            }
        }
    }

    fn present(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    fn transfer(&mut self) -> Result<(), Failure> {
        let keys = four(self.present(), &mut self.random);
        self.engine.change(&keys, &add_one)?;
        self.has_written(4);
        Ok(())
    }

    /// Different records, since a commit would write a record only once however often it was updated.
    fn update(&mut self, draws: &Draws, batch: u64) -> Result<(), Failure> {
        let mut keys = BTreeSet::new();
        let records = self.present();
        while (keys.len() as u64) < batch.min(records) {
            keys.insert(draws.record(records, &mut self.random));
        }
        let fresh = |key| (key, value(&mut self.random, self.value_bytes));
        let records: Vec<_> = keys.into_iter().map(fresh).collect();
        self.engine.write(&records)?;
        self.has_written(records.len() as u64);
        Ok(())
    }

    fn ycsb(&mut self, operation: Operation, key: u64, stop: &AtomicBool) -> Result<(), Failure> {
        match operation {
            Operation::Read => {
                let bytes = self.engine.read(key)?;
                if bytes != self.value_bytes {
                    return Err(
                        format!("record {key} has {bytes} bytes instead of {}", self.value_bytes).into()
                    );
                }
                return Ok(());
            }
            Operation::Update => self.engine.write(&[(key, value(&mut self.random, self.value_bytes))])?,
            Operation::ReadModifyWrite => {
                let fresh = value(&mut self.random, self.value_bytes);
                self.engine.change(&[key], &|_| fresh.clone())?;
            }
            Operation::Insert => {
                let key = self.begun.fetch_add(1, Ordering::Relaxed);
                let written = self.engine.write(&[(key, value(&mut self.random, self.value_bytes))]);
                // others wait for it even if that failed
                self.is_inserted(key, stop)?;
                written?;
            }
            Operation::Scan => {
                let count = self.random.random_range(1..=MOST_SCANNED);
                if self.engine.scan(key, count)? == 0 {
                    return Err(format!("no record from {key} on").into());
                }
                return Ok(());
            }
        }
        self.has_written(1);
        Ok(())
    }

    /// Others may now read a record, since all before it exist as well.
    fn is_inserted(&self, key: u64, stop: &AtomicBool) -> Result<(), Failure> {
        while self.present() < key {
            check(stop)?;
            std::thread::yield_now();
        }
        self.records.store(key + 1, Ordering::Relaxed);
        Ok(())
    }

    fn has_written(&self, records: u64) {
        self.written.fetch_add(records * (KEY_BYTES + self.value_bytes as u64), Ordering::Relaxed);
    }
}

/// An account with its balance increased by one.
fn add_one(old: &[u8]) -> Vec<u8> {
    let mut new = old.to_vec();
    let (number, _) = new.split_first_chunk_mut::<8>().expect("a record has eight bytes at least");
    *number = (u64::from_le_bytes(*number).wrapping_add(1)).to_le_bytes();
    new
}

/// A value of random bytes.
pub fn value(random: &mut Xoshiro256PlusPlus, bytes: usize) -> Vec<u8> {
    let mut value = vec![0; bytes];
    random.fill(&mut value[..]);
    value
}

/// Four different records, all equally likely, in order, so that there are no deadlocks.
fn four(records: u64, random: &mut Xoshiro256PlusPlus) -> [u64; 4] {
    loop {
        let mut keys = [(); 4].map(|()| random.random_range(0..records));
        keys.sort_unstable();
        if keys.windows(2).all(|pair| pair[0] != pair[1]) {
            return keys;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn transfers_change_four_different_records_in_order() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for _ in 0..1000 {
            let keys = four(5, &mut random);
            assert!(keys.is_sorted_by(|a, b| a < b) && keys[3] < 5, "{keys:?}");
        }
    }

    #[test]
    fn adding_one_keeps_the_rest() {
        let old = [&u64::MAX.to_le_bytes()[..], b"rest"].concat();
        assert_eq!(add_one(&old), [&[0; 8][..], b"rest"].concat());
    }
}
