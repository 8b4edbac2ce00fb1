//! What ordered namespaces do with one, two and four threads: gets, scans and inserts, all in the cache, on a drive in memory. Nothing
//! waits for a disk, so this is the cost of locks on keys and ranges, of the cache, and of the one drive.
//!
//! `cargo run --release -p tantalum-kv --example ordered_threads -- [SECONDS [WORK]]`

mod threads;

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::time::ClockId;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Device, Profile};
use tantalum_kv::{Namespace, Options, Store, Sync};

/// Records with values in leaves.
const SMALL: u64 = 300_000;
const SMALL_BYTES: usize = 100;

/// Records whose values lie apart.
const LARGE: u64 = 20_000;
const LARGE_BYTES: usize = 1000;

/// Records of a prefix, and of a scan.
const IN_PREFIX: u64 = 100;
const IN_SCAN: usize = 50;

/// Operations between two looks at the clock.
const AT_ONCE: u64 = 32;

type Failure = Box<dyn Error + Send + std::marker::Sync>;

#[derive(Clone, Copy)]
enum Work {
    Get,
    Prefix,
    Scan,
    ScanLarge,
    Insert,
    InsertLarge,
    /// 95 % scans of large records, 5 % new ones.
    ScanOrInsertLarge,
}

const ALL: [(&str, Work); 7] = [
    ("get, in a snapshot", Work::Get),
    ("prefix of 100, in a snapshot", Work::Prefix),
    ("scan of 50, in a transaction", Work::Scan),
    ("scan of 50 whose values lie apart", Work::ScanLarge),
    ("insert", Work::Insert),
    ("insert of a value that lies apart", Work::InsertLarge),
    ("95 % scans, 5 % inserts, values apart", Work::ScanOrInsertLarge),
];

struct Filled {
    store: Store,
    small: Namespace,
    large: Namespace,
    /// The number of the next new record.
    next: AtomicU64,
}

fn main() -> Result<(), Failure> {
    let seconds: f64 = std::env::args().nth(1).map_or(Ok(1.0), |text| text.parse())?;
    let only = std::env::args().nth(2);
    println!("operations per second of 1, 2 and 4 threads, and microseconds of processors for each");
    println!("| work | 1 | 2 | 4 | 1 | 2 | 4 |");
    for (name, work) in ALL.iter().filter(|(name, _)| only.as_ref().is_none_or(|only| name.starts_with(only)))
    {
        // inserts would make each work's store larger than that of the one before
        let filled = filled()?;
        let time = Duration::from_secs_f64(seconds);
        let [one, two, four] = [1, 2, 4].map(|threads| rate(&filled, *work, threads, time));
        let (one, two, four) = (one?, two?, four?);
        let rates = format!("{:.0} | {:.0} | {:.0}", one.0, two.0, four.0);
        println!("| {name} | {rates} | {:.2} | {:.2} | {:.2} |", one.1, two.1, four.1);
    }
    Ok(())
}

/// Spread over all keys, so that neighbours were not written together.
fn key_of(number: u64, of: u64) -> [u8; 16] {
    let place = number.wrapping_mul(7919) % of;
    let text = format!("{:010}{:06}", place / IN_PREFIX, place % IN_PREFIX);
    text.into_bytes().try_into().expect("it has 16 digits")
}

/// A store on a drive in memory, with all records in its cache.
fn filled() -> Result<Filled, Failure> {
    let mut profile = Profile::load("tlc-nvme-plp")?;
    profile.capacity_bytes = 512 << 20;
    profile.over_provisioning_percent = 40.0;
    let options = Options::default().cache_bytes(256 << 20).sync(Sync::None);
    let store = Store::over(Device::in_memory(&profile)?, options)?;
    let (small, large) = (store.namespace("small")?, store.namespace("large")?);
    for (namespace, records, bytes) in [(small, SMALL, SMALL_BYTES), (large, LARGE, LARGE_BYTES)] {
        for begin in (0..records).step_by(500) {
            store.transact(|tx| {
                (begin..begin + 500)
                    .try_for_each(|key| tx.put(namespace, key_of(key, records), vec![1; bytes]))
            })?;
        }
    }
    Ok(Filled { store, small, large, next: AtomicU64::new(0) })
}

/// Time that processors worked for this process, in seconds.
fn processor_seconds() -> Result<f64, Failure> {
    Ok(Duration::from(ClockId::CLOCK_PROCESS_CPUTIME_ID.now()?).as_secs_f64())
}

/// Operations per second of all threads, and microseconds of processors for each.
fn rate(filled: &Filled, work: Work, threads: u64, time: Duration) -> Result<(f64, f64), Failure> {
    let (start, before) = (Instant::now(), processor_seconds()?);
    let counts = threads::together(threads, |seed| count_of_one(filled, work, seed, time));
    let seconds = start.elapsed().as_secs_f64();
    let count = counts.into_iter().sum::<Result<u64, Failure>>()? as f64;
    Ok((count / seconds, (processor_seconds()? - before) * 1e6 / count))
}

fn count_of_one(filled: &Filled, work: Work, seed: u64, time: Duration) -> Result<u64, Failure> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (start, mut operations) = (Instant::now(), 0);
    while start.elapsed() < time {
        let snapshot =
            matches!(work, Work::Get | Work::Prefix).then(|| filled.store.snapshot()).transpose()?;
        for _ in 0..AT_ONCE {
            match (work, &snapshot) {
                (Work::Get, Some(snapshot)) => {
                    let key = key_of(random.random_range(0..SMALL), SMALL);
                    assert!(snapshot.read(filled.small, key)?.is_some());
                }
                (Work::Prefix, Some(snapshot)) => {
                    let key = key_of(random.random_range(0..SMALL), SMALL);
                    let (mut records, mut found) = (snapshot.prefix(filled.small, &key[..10])?, 0);
                    while let Some(record) = records.lend() {
                        found += u64::from(!record?.1.is_empty());
                    }
                    assert_eq!(found, IN_PREFIX);
                }
                (Work::Scan, _) => {
                    scan(filled, filled.small, key_of(random.random_range(0..SMALL), SMALL))?;
                }
                (Work::Insert, _) => insert(filled, filled.small, SMALL_BYTES)?,
                (Work::InsertLarge, _) => insert(filled, filled.large, LARGE_BYTES)?,
                (Work::ScanOrInsertLarge, _) if random.random_range(0..20) == 0 => {
                    insert(filled, filled.large, LARGE_BYTES)?;
                }
                _ => scan(filled, filled.large, key_of(random.random_range(0..LARGE), LARGE))?,
            }
        }
        operations += AT_ONCE;
    }
    Ok(operations)
}

fn scan(filled: &Filled, namespace: Namespace, from: [u8; 16]) -> Result<(), Failure> {
    filled.store.transact(|tx| {
        let mut records = tx.range(namespace, from..)?;
        for _ in 0..IN_SCAN {
            let Some(record) = records.lend() else { break };
            assert!(!record?.1.is_empty());
        }
        Ok(())
    })
}

/// Behind a random record, so that its neighbours are anywhere.
fn insert(filled: &Filled, namespace: Namespace, bytes: usize) -> Result<(), Failure> {
    let number = filled.next.fetch_add(1, Ordering::Relaxed);
    let mut key = key_of(number, LARGE).to_vec();
    key.extend_from_slice(&number.to_be_bytes());
    filled.store.transact(|tx| Ok(tx.put(namespace, &key, vec![2; bytes])?))
}
