//! How fast transactions are that read or update one record in the cache, with one thread and with two: nothing waits
//! for a disk, so this is the cost of locks, the cache and the transaction itself.
//!
//! `cargo run --release -p tantalum-kv --example reads -- [SECONDS]`

mod threads;

use std::error::Error;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Device, Profile};
use tantalum_kv::{Namespace, Options, Store, Sync};

const RECORDS: u32 = 20_000;

const VALUE_BYTES: usize = 1000;

/// Operations between two looks at the clock.
const AT_ONCE: u64 = 64;

type Failure = Box<dyn Error + Send + std::marker::Sync>;

#[derive(Clone, Copy)]
enum Work {
    Read,
    Update,
    /// Half reads, half updates.
    Mixed,
}

fn main() -> Result<(), Failure> {
    let seconds = std::env::args().nth(1).map_or(Ok(2.0), |text| text.parse())?;
    let (store, namespace) = filled()?;
    println!("{RECORDS} records of {VALUE_BYTES} bytes, all in the cache; operations per second");
    println!("| work | 1 thread | 2 threads | ratio |");
    for (work, name) in [(Work::Read, "read"), (Work::Update, "update"), (Work::Mixed, "read or update")] {
        let time = Duration::from_secs_f64(seconds);
        let [one, two] = [1, 2].map(|threads| rate(&store, namespace, work, threads, time));
        let (one, two) = (one?, two?);
        println!("| {name} | {one:.0} | {two:.0} | {:.2} |", two / one);
    }
    Ok(())
}

/// A store on a drive in memory, with all records in its cache.
fn filled() -> Result<(Store, Namespace), Failure> {
    let mut profile = Profile::load("tlc-nvme-plp")?;
    profile.capacity_bytes = 256 << 20;
    profile.over_provisioning_percent = 40.0;
    let store = Store::over(Device::in_memory(&profile)?, Options::default().sync(Sync::None))?;
    let namespace = store.hashed_namespace("records")?;
    for key in 0..RECORDS {
        store.transact(|tx| tx.put(namespace, key.to_be_bytes(), [1; VALUE_BYTES]))?;
    }
    Ok((store, namespace))
}

/// Operations per second of all threads.
fn rate(
    store: &Store,
    namespace: Namespace,
    work: Work,
    threads: u64,
    time: Duration,
) -> Result<f64, Failure> {
    let rates = threads::together(threads, |seed| rate_of_one(store, namespace, work, seed, time));
    rates.into_iter().sum()
}

fn rate_of_one(
    store: &Store,
    namespace: Namespace,
    work: Work,
    seed: u64,
    time: Duration,
) -> Result<f64, Failure> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (start, mut operations) = (Instant::now(), 0);
    while start.elapsed() < time {
        for _ in 0..AT_ONCE {
            let key = random.random_range(0..RECORDS).to_be_bytes();
            let reads = match work {
                Work::Read => true,
                Work::Update => false,
                Work::Mixed => random.random(),
            };
            if reads {
                let value = store.transact(|tx| tx.read(namespace, key))?;
                assert_eq!(value.map(|value| value.len()), Some(VALUE_BYTES));
            } else {
                store.transact(|tx| tx.put(namespace, key, [2; VALUE_BYTES]))?;
            }
        }
        operations += AT_ONCE;
    }
    Ok(operations as f64 / start.elapsed().as_secs_f64())
}
