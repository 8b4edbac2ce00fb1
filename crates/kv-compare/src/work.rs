//! The workloads: YCSB's A, B, C and F, and transfers that change four records in a transaction, as in TPC-B.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use clap::ValueEnum;
use hdrhistogram::Histogram;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

use crate::engines::{Engine, Failure};

/// Bytes of a key.
pub const KEY_BYTES: u64 = 8;

/// Bytes of an account of a transfer.
const ACCOUNT_BYTES: usize = 100;

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Half reads, half writes.
    A,
    /// 95 % reads, 5 % writes.
    B,
    /// Reads.
    C,
    /// Half reads, half records that are read and written anew.
    F,
    /// Four records of 100 bytes are read and written anew.
    T,
}

impl Workload {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Workload::A => "a",
            Workload::B => "b",
            Workload::C => "c",
            Workload::F => "f",
            Workload::T => "t",
        }
    }

    /// Bytes of a value; those of YCSB have `value_bytes`.
    pub fn value_bytes(self, value_bytes: usize) -> usize {
        if self == Workload::T { ACCOUNT_BYTES } else { value_bytes }
    }

    fn reads_percent(self) -> u32 {
        match self {
            Workload::A | Workload::F => 50,
            Workload::B => 95,
            Workload::C => 100,
            Workload::T => 0,
        }
    }

    fn records_at_once(self) -> u64 {
        if self == Workload::T { 4 } else { 1 }
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
    /// What it does.
    pub workload: Workload,
    /// Which records.
    pub zipf: &'a Zipf,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Where its random numbers come from.
    pub random: Xoshiro256PlusPlus,
    /// Bytes of records written by all threads.
    pub written: &'a AtomicU64,
}

impl Worker<'_> {
    /// Works until a time; what each operation took, in nanoseconds.
    pub fn work(mut self, end: Instant, stop: &AtomicBool) -> Result<Histogram<u64>, Failure> {
        let mut latencies = Histogram::<u64>::new(3)?;
        let mut now = Instant::now();
        loop {
            check(stop)?;
            self.operation()?;
            let done = Instant::now();
            latencies.record((done - now).as_nanos() as u64)?;
            now = done;
            // one operation at least, however busy the machine is
            if now >= end {
                return Ok(latencies);
            }
        }
    }

    fn operation(&mut self) -> Result<(), Failure> {
        let key = self.zipf.draw(&mut self.random);
        if self.random.random_range(0..100) < self.workload.reads_percent() {
            let bytes = self.engine.read(key)?;
            if bytes != self.value_bytes {
                return Err(format!("record {key} has {bytes} bytes instead of {}", self.value_bytes).into());
            }
            return Ok(());
        }
        match self.workload {
            Workload::T => self.engine.change(&four(self.zipf.records, &mut self.random), &add_one)?,
            Workload::F => {
                let fresh = value(&mut self.random, self.value_bytes);
                self.engine.change(&[key], &|_| fresh.clone())?;
            }
            _ => self.engine.write(&[(key, value(&mut self.random, self.value_bytes))])?,
        }
        let bytes = self.workload.records_at_once() * (KEY_BYTES + self.value_bytes as u64);
        self.written.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
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

/// YCSB's choice of records: Zipfian with 0.99, scattered over the keys.
pub struct Zipf {
    records: u64,
    sums: Vec<f64>,
}

impl Zipf {
    /// For this many records.
    pub fn new(records: u64) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=records).map(|rank| {
            sum += 1.0 / (rank as f64).powf(0.99);
            sum
        });
        Zipf { records, sums: sums.collect() }
    }

    fn draw(&self, random: &mut Xoshiro256PlusPlus) -> u64 {
        let last = self.sums.last().expect("there are records");
        let drawn = random.random::<f64>() * last;
        let rank = self.sums.partition_point(|sum| *sum < drawn) as u64;
        (rank.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1) % self.records
    }
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
    fn few_records_are_chosen_often_and_all_are_there() {
        let (mut random, zipf) = (Xoshiro256PlusPlus::seed_from_u64(1), Zipf::new(1000));
        let mut counts = [0; 1000];
        (0..100_000).for_each(|_| counts[zipf.draw(&mut random) as usize] += 1);
        counts.sort_unstable();
        let tenth: u32 = counts[900..].iter().sum();
        assert!(
            (50_000..90_000).contains(&tenth),
            "a tenth of the records is chosen {tenth} times of 100,000"
        );
    }

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
