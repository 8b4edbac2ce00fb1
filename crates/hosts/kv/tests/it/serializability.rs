//! Concurrent transactions, interrupted by power losses, are as if they had run one after the other; and what was
//! acknowledged stays. `SEED=17` runs one seed, `SEEDS=200` seeds 0 to 199.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::history::{Done, Version, check};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Device, PowerLoss, Profile};
use tantalum_kv::{Error, Namespace, Options, Store, Sync, Transaction};

const RECORDS: u8 = 8;
const THREADS: u64 = 4;

fn profile(seed: u64) -> Profile {
    let mut profile = Profile::load(["tlc-nvme", "tlc-nvme-plp"][seed as usize % 2]).unwrap();
    profile.capacity_bytes = [16, 128][seed as usize % 2] << 20;
    profile.over_provisioning_percent = 40.0;
    profile
}

fn read(tx: &mut Transaction, namespace: Namespace, record: u8) -> Result<Version, Error> {
    let value = tx.read(namespace, [record])?;
    Ok(value.map_or(0, |value| Version::from_le_bytes(value[..8].try_into().unwrap())))
}

/// The isolation of transactions from each other.
#[derive(Clone, Copy, PartialEq)]
enum Isolation {
    Locks,
    /// Reads are in transactions other than those of the writes: a canary.
    None,
}

/// One transaction: reads some records, writes some of them.
fn transaction(
    store: &Store,
    namespace: Namespace,
    version: Version,
    random: &mut Xoshiro256PlusPlus,
    isolation: Isolation,
) -> Result<Option<Done>, Error> {
    let touched: Vec<u8> = (0..random.random_range(1..5)).map(|_| random.random_range(0..RECORDS)).collect();
    let writes: BTreeSet<u8> = touched.iter().filter(|_| random.random_range(0..2) == 0).copied().collect();
    let mut done = Done { version, reads: BTreeMap::new(), writes, acknowledged: true };
    let mut tx = store.begin()?;
    for record in touched {
        match read(&mut tx, namespace, record) {
            Ok(found) => drop(done.reads.entry(record).or_insert(found)),
            Err(Error::Deadlock) => return Ok(None),
            Err(error) => return Err(error),
        }
        std::thread::yield_now();
    }
    if isolation == Isolation::None {
        tx.abort();
        tx = store.begin()?;
    }
    let mut value = vec![version as u8; 8 + random.random_range(0..300)];
    value[..8].copy_from_slice(&version.to_le_bytes());
    for record in &done.writes {
        match tx.put(namespace, [*record], &value) {
            Ok(()) => {}
            Err(Error::Deadlock) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    if random.random_range(0..10) == 0 {
        tx.abort();
        return Ok(None);
    }
    match tx.commit() {
        Ok(()) => Ok(Some(done)),
        Err(Error::Drive(_) | Error::Stopped { .. }) => Ok(Some(Done { acknowledged: false, ..done })),
        Err(error) => panic!("{error}"),
    }
}

/// Several lives of one store, each ended by a power loss. Returns the histories, and the final contents.
fn run(seed: u64, lives: u64, isolation: Isolation) -> (Vec<Done>, BTreeMap<u8, Version>) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut device = Device::in_memory(&profile(seed)).unwrap();
    let (history, next) = (Mutex::new(Vec::new()), AtomicU64::new(1));
    for life in 0..lives {
        let cache_bytes = [0, 1 << 20][(seed + life) as usize / 2 % 2];
        let options = Options::default().sync(Sync::None).cache_bytes(cache_bytes);
        let store = Store::over(device, options.records_per_lock([1, 4][random.random_range(0..2)])).unwrap();
        let namespace = store.hashed_namespace("a").unwrap();
        store.with_drive(|drive| drive.cut_after(Some(random.random_range(1..120)))).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(seed << 16 | life << 8 | thread);
                let (store, history, next) = (&store, &history, &next);
                scope.spawn(move || {
                    for _ in 0..400 {
                        let version = next.fetch_add(1, Ordering::SeqCst);
                        match transaction(store, namespace, version, &mut random, isolation) {
                            Ok(done) => history.lock().unwrap().extend(done),
                            Err(Error::Stopped { .. } | Error::Drive(_)) => break,
                            Err(error) => panic!("seed {seed}: {error}"),
                        }
                    }
                });
            }
        });
        device = store.into_drive().unwrap();
        let now_ns = device.time_ns();
        device.cut_power(now_ns);
        device.power_on(&mut PowerLoss::seeded(random.random())).unwrap();
    }
    let store = Store::over(device, Options::default().sync(Sync::None)).unwrap();
    let namespace = store.hashed_namespace("a").unwrap();
    let mut tx = store.begin().unwrap();
    let last = (0..RECORDS).map(|record| (record, read(&mut tx, namespace, record).unwrap())).collect();
    (history.into_inner().unwrap(), last)
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().map(|text: String| text.parse::<u64>().unwrap());
    match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(default),
    }
}

#[test]
fn concurrent_transactions_are_serializable_through_power_losses() {
    let (mut acknowledged, mut unknown) = (0, 0);
    for seed in seeds(12) {
        let (history, last) = run(seed, 5, Isolation::Locks);
        check(&history, &last).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        acknowledged += history.iter().filter(|done| done.acknowledged).count();
        unknown += history.iter().filter(|done| !done.acknowledged).count();
    }
    println!("{acknowledged} commits acknowledged, {unknown} unknown");
    if std::env::var("SEED").is_err() {
        assert!(acknowledged > 500 && unknown > 10, "power went while many committed");
    }
}

#[test]
fn the_checker_notices_transactions_that_are_not_isolated() {
    let noticed = (0..5).find(|seed| {
        let (history, last) = run(*seed, 1, Isolation::None);
        check(&history, &last).is_err()
    });
    assert!(noticed.is_some(), "5 seeds without locks, and nothing was noticed");
}

#[test]
fn the_checker_notices_a_lost_commit() {
    let (history, mut last) = run(1, 2, Isolation::Locks);
    check(&history, &last).unwrap();
    let (record, version) = last.iter().find(|(_, version)| **version > 0).map(|(r, v)| (*r, *v)).unwrap();
    let before = history.iter().find(|done| done.version == version).unwrap().reads[&record];
    last.insert(record, before);
    assert!(check(&history, &last).is_err());
}

fn done(version: Version, reads: &[(u8, Version)], writes: &[u8]) -> Done {
    let (reads, writes) = (reads.iter().copied().collect(), writes.iter().copied().collect());
    Done { version, reads, writes, acknowledged: true }
}

#[test]
fn the_checker_notices_each_known_anomaly() {
    let serial = [done(1, &[(1, 0)], &[1]), done(2, &[(1, 1), (2, 0)], &[2])];
    check(&serial, &BTreeMap::from([(1, 1), (2, 2)])).unwrap();
    let write_skew = [done(1, &[(1, 0), (2, 0)], &[1]), done(2, &[(1, 0), (2, 0)], &[2])];
    assert!(check(&write_skew, &BTreeMap::from([(1, 1), (2, 2)])).is_err());
    let lost_update = [done(1, &[(1, 0)], &[1]), done(2, &[(1, 0)], &[1])];
    assert!(check(&lost_update, &BTreeMap::from([(1, 2)])).is_err());
    let read_of_an_abort = [done(2, &[(1, 1)], &[])];
    assert!(check(&read_of_an_abort, &BTreeMap::new()).is_err());
    let read_skew = [done(1, &[(1, 0), (2, 0)], &[1, 2]), done(2, &[(1, 0), (2, 1)], &[])];
    assert!(check(&read_skew, &BTreeMap::from([(1, 1), (2, 1)])).is_err());
    let half_of_a_commit = [done(1, &[(1, 0), (2, 0)], &[1, 2])];
    let unknown = half_of_a_commit.map(|done| Done { acknowledged: false, ..done });
    assert!(check(&unknown, &BTreeMap::from([(1, 1)])).is_err());
    check(&unknown, &BTreeMap::new()).unwrap();
}
