//! A full store can delete any of its records in one transaction, and then be filled again.
//!
//! `CAPACITY_MIB=64` fills a larger one than 16 MiB; `VALUE_BYTES=100` one with values of this size alone.

use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Access, Device, Mapping, PowerLoss, Profile, Status, TestHost};
use tantalum_kv::{Error, Namespace, Options, Order, Store, Sync, Transaction};

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}

fn options(capacity_bytes: u64) -> Options {
    Options::default().capacity_bytes(capacity_bytes).sync(Sync::None)
}

/// Which of a store's records a transaction deletes.
#[derive(Clone, Copy, Debug)]
enum Which {
    FirstHalf,
    EverySecond,
    RandomHalf,
    FewAnywhere,
    /// One or two of each leaf.
    EveryTenth,
    All,
}

impl Which {
    const ALL: [Which; 6] = [
        Which::FirstHalf,
        Which::EverySecond,
        Which::RandomHalf,
        Which::FewAnywhere,
        Which::EveryTenth,
        Which::All,
    ];

    fn has(self, number: u32, records: u32) -> bool {
        match self {
            Which::FirstHalf => number < records / 2,
            Which::EverySecond => number % 2 == 1,
            Which::RandomHalf => number.wrapping_mul(2_654_435_761) >> 31 == 0,
            Which::FewAnywhere => number.wrapping_mul(2_654_435_761) >> 26 == 0,
            Which::EveryTenth => number % 10 == 3,
            Which::All => true,
        }
    }
}

struct Case {
    order: Order,
    value_bytes: usize,
    /// Keys in the order of their numbers, or anywhere.
    is_scattered: bool,
}

impl Case {
    fn key(&self, number: u32) -> Vec<u8> {
        let number = if self.is_scattered { number.wrapping_mul(2_654_435_769) } else { number };
        match self.order {
            Order::Hashed => number.to_be_bytes().to_vec(),
            Order::Ordered => format!("key {number:010}").into_bytes(),
        }
    }

    fn value(&self, number: u32) -> Vec<u8> {
        (number.wrapping_mul(0x9e37_79b9)).to_le_bytes().repeat(self.value_bytes.div_ceil(4))
            [..self.value_bytes]
            .to_vec()
    }

    fn namespace(&self, store: &Store) -> Namespace {
        match self.order {
            Order::Hashed => store.hashed_namespace("all").unwrap(),
            Order::Ordered => store.namespace("all").unwrap(),
        }
    }

    /// Puts records from a number on, until none fits any more. Returns the next number.
    fn fill(&self, store: &Store, mut next: u32) -> u32 {
        let namespace = self.namespace(store);
        let mut at_once = 500.min((1 << 19) / self.value_bytes as u32).max(1);
        loop {
            let put = store.transact(|tx: &mut Transaction| {
                (next..next + at_once)
                    .try_for_each(|number| tx.put(namespace, self.key(number), self.value(number)))
            });
            match put {
                Ok(()) => next += at_once,
                Err(Error::Drive(Status::CapacityExceeded)) if at_once > 1 => at_once /= 4,
                Err(Error::Drive(Status::CapacityExceeded)) => return next,
                Err(error) => panic!("{error}"),
            }
            at_once = at_once.max(1);
        }
    }

    /// Compares the store with what it should have.
    fn check(&self, store: &Store, records: u32, is_there: impl Fn(u32) -> bool) {
        let namespace = self.namespace(store);
        let mut tx = store.begin().unwrap();
        let expected = (0..records).filter(|number| is_there(*number)).count();
        let found = match self.order {
            Order::Hashed => store.list(namespace, None, usize::MAX).unwrap().len(),
            Order::Ordered => {
                store.snapshot().unwrap().all(namespace).unwrap().keys().map(Result::unwrap).count()
            }
        };
        assert_eq!(found, expected);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for _ in 0..10_000.min(records) {
            let number = random.random_range(0..records);
            let value = tx.read(namespace, self.key(number)).unwrap();
            let expected = is_there(number).then(|| self.value(number));
            assert_eq!(value.as_deref(), expected.as_deref(), "record {number}");
        }
        let own = store.with_drive(|drive| drive.namespaces()[0].records).unwrap();
        assert_eq!(own, 1, "what the commit was logged in is gone");
    }

    fn run(
        &self,
        which: Which,
        capacity_bytes: u64,
        full: &std::path::Path,
        records: u32,
        image: &std::path::Path,
    ) {
        let begun = Instant::now();
        std::fs::copy(full, image).unwrap();
        let store = options(capacity_bytes).open(image).unwrap();
        let namespace = self.namespace(&store);
        let mut tx = store.begin().unwrap();
        let mut deleted = 0;
        for number in (0..records).filter(|number| which.has(*number, records)) {
            assert!(tx.delete(namespace, self.key(number)).unwrap());
            deleted += 1;
        }
        let committing = Instant::now();
        tx.commit().unwrap_or_else(|error| panic!("{which:?} of {} bytes: {error}", self.value_bytes));
        let committed = committing.elapsed();
        let is_left = |number| !which.has(number, records);
        self.check(&store, records, is_left);
        store.close().unwrap();
        let store = options(capacity_bytes).open(image).unwrap();
        self.check(&store, records, is_left);
        store.with_drive(|drive| drive.audit()).unwrap();
        let again = self.fill(&store, records);
        self.check(&store, again, |number| number >= records || is_left(number));
        println!(
            "{:?} of {} bytes, {which:?}: {deleted} of {records} deleted in {committed:.1?}, then {} put; {:.1?}",
            self.order,
            self.value_bytes,
            again - records,
            begun.elapsed()
        );
        // three records of 1000 bytes fill a unit but weigh more, so that few of them give nothing back
        let least = match which {
            Which::FewAnywhere | Which::EveryTenth => 0,
            // a leaf that loses half of its values keeps its head, and takes whole chunks
            Which::EverySecond | Which::RandomHalf
                if self.order == Order::Ordered && self.value_bytes < 300 =>
            {
                deleted * 7 / 10
            }
            _ => deleted * 8 / 10,
        };
        assert!(again - records >= least, "{} put where {deleted} were deleted", again - records);
    }
}

#[test]
fn a_full_store_deletes_any_of_its_records_in_one_transaction() {
    let capacity_bytes = setting("CAPACITY_MIB").map_or(16 << 20, |mib| mib << 20);
    let folder = tempfile::tempdir().unwrap();
    let [full, image] = ["full", "image"].map(|name| folder.path().join(name));
    for order in [Order::Hashed, Order::Ordered] {
        for (value_bytes, is_scattered) in [(8, false), (100, true), (1000, false), (100_000, true)] {
            if setting("VALUE_BYTES").is_some_and(|bytes| bytes != value_bytes as u64) {
                continue;
            }
            let case = Case { order, value_bytes, is_scattered };
            let store = options(capacity_bytes).open(&full).unwrap();
            let records = case.fill(&store, 0);
            store.close().unwrap();
            for which in Which::ALL {
                case.run(which, capacity_bytes, &full, records, &image);
            }
            std::fs::remove_file(&full).unwrap();
        }
    }
}

/// A store in which both kinds of namespaces are full of records, and how many these are.
fn full_of_both(store: &Store) -> u32 {
    let (hashed, ordered) = (store.hashed_namespace("hashed").unwrap(), store.namespace("ordered").unwrap());
    let mut records = 0;
    loop {
        let put = store.transact(|tx: &mut Transaction| {
            (records..records + 200).try_for_each(|number| {
                tx.put(hashed, both_key(number), [7; 150])?;
                tx.put(ordered, both_key(number), [7; 150])
            })
        });
        match put {
            Ok(()) => records += 200,
            Err(Error::Drive(Status::CapacityExceeded)) => return records,
            Err(error) => panic!("{error}"),
        }
    }
}

fn both_key(number: u32) -> [u8; 4] {
    number.wrapping_mul(2_654_435_769).to_be_bytes()
}

/// Deletes about half of all records.
fn delete_half(store: &Store, records: u32) -> Result<(), Error> {
    let (hashed, ordered) = (store.hashed_namespace("hashed")?, store.namespace("ordered")?);
    let mut tx = store.begin()?;
    for number in (0..records).filter(|number| Which::RandomHalf.has(*number, records)) {
        tx.delete(hashed, both_key(number))?;
        tx.delete(ordered, both_key(number))?;
    }
    tx.commit()
}

/// Whether half of all records are deleted; all or none are.
fn is_half_deleted(store: &Store, records: u32) -> bool {
    let (hashed, ordered) = (store.hashed_namespace("hashed").unwrap(), store.namespace("ordered").unwrap());
    let sorted = |keys: &mut dyn Iterator<Item = Vec<u8>>| {
        let mut keys: Vec<Vec<u8>> = keys.collect();
        keys.sort_unstable();
        keys
    };
    let in_hashed =
        sorted(&mut store.list(hashed, None, usize::MAX).unwrap().iter().map(|key| key.as_bytes().to_vec()));
    let is_deleted = in_hashed.len() < records as usize;
    let is_there = |number: &u32| !is_deleted || !Which::RandomHalf.has(*number, records);
    let expected = sorted(&mut (0..records).filter(is_there).map(|number| both_key(number).to_vec()));
    assert!(in_hashed == expected, "{} hashed keys of {}", in_hashed.len(), expected.len());
    let snapshot = store.snapshot().unwrap();
    let in_order = snapshot.all(ordered).unwrap().map(|entry| {
        let (key, value) = entry.unwrap();
        assert_eq!(value[..], [7; 150]);
        key.to_vec()
    });
    assert!(in_order.eq(expected));
    let own = store.with_drive(|drive| drive.namespaces()[0].records).unwrap();
    assert_eq!(own, 1, "what the commit was logged in is gone");
    is_deleted
}

/// A process ends at any store to the image while a full store deletes half of itself, and again while it is opened.
#[test]
fn a_process_that_ends_while_a_full_store_deletes_leaves_all_or_nothing() {
    const MANY: u64 = 1 << 40;
    let folder = tempfile::tempdir().unwrap();
    let [full, image] = ["full", "image"].map(|name| folder.path().join(name));
    let store = options(16 << 20).open(&full).unwrap();
    let records = full_of_both(&store);
    store.close().unwrap();
    let lives = |ends_after: Option<u64>| {
        std::fs::copy(&full, &image).unwrap();
        let host = TestHost::new(Mapping::Allowed, 0);
        host.life.end_after(Some(MANY));
        let device = Device::open_on(&image, Access::Write, &host).unwrap();
        let store = Store::over(device, options(16 << 20)).unwrap();
        let begun = MANY - host.life.stores_left().unwrap();
        host.life.end_after(ends_after.or(Some(MANY)));
        let deleted = delete_half(&store, records);
        let stores = MANY - host.life.stores_left().unwrap_or(0);
        drop(store);
        (host, deleted.is_ok(), begun, stores)
    };
    let (_, deleted, _, stores) = lives(None);
    assert!(deleted && records > 10_000, "{records} records");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let (mut seen, mut ended_twice) = ([0; 2], 0);
    for _ in 0..30 {
        // often early: the log is short
        let within = stores >> random.random_range(0..8);
        let (host, ..) = lives(Some(random.random_range(0..within)));
        host.life.end_after(Some(random.random_range(0..stores / 2)));
        let again = Device::open_on(&image, Access::Write, &host)
            .map(|device| Store::over(device, options(16 << 20)).map(drop));
        ended_twice += u32::from(!matches!(again, Ok(Ok(()))));
        let store = options(16 << 20).open(&image).unwrap();
        seen[usize::from(is_half_deleted(&store, records))] += 1;
        store.with_drive(|drive| drive.audit()).unwrap();
    }
    println!("{records} records, {stores} stores: {seen:?}, {ended_twice} twice");
    assert!(seen[0] > 2 && seen[1] > 2 && ended_twice > 2, "{seen:?}, {ended_twice}");
}

/// The same with power that fails at any flash operation, on drives with a capacitor and without.
#[test]
fn power_that_goes_while_a_full_store_deletes_leaves_all_or_nothing() {
    let mut seen = [0; 2];
    for name in ["tlc-nvme", "tlc-nvme-plp"] {
        let mut profile = Profile::load(name).unwrap();
        profile.capacity_bytes = 16 << 20;
        profile.over_provisioning_percent = 120.0;
        let store = Store::over(Device::in_memory(&profile).unwrap(), Options::default()).unwrap();
        let records = full_of_both(&store);
        let full = store.into_drive().unwrap();
        for seed in 0..20 {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let store = Store::over(full.try_clone().unwrap(), Options::default()).unwrap();
            let within = 1500 >> random.random_range(0..8);
            store.with_drive(|drive| drive.cut_after(Some(random.random_range(1..within)))).unwrap();
            let acknowledged = delete_half(&store, records).is_ok();
            let mut device = store.into_drive().unwrap();
            let now_ns = device.time_ns();
            device.cut_power(now_ns);
            device.power_on(&mut PowerLoss::seeded(random.random())).unwrap();
            // and again while the commit is brought in place
            device.cut_after(Some(random.random_range(1..1500)));
            let device = match Store::over_or_back(device, Options::default()) {
                Ok(store) => store.into_drive().unwrap(),
                Err((_, device)) => *device,
            };
            let mut device = device;
            let now_ns = device.time_ns();
            device.cut_power(now_ns);
            device.power_on(&mut PowerLoss::seeded(random.random())).unwrap();
            let store = Store::over(device, Options::default()).unwrap();
            let is_deleted = is_half_deleted(&store, records);
            assert!(is_deleted || !acknowledged, "{name}, seed {seed}: a commit was lost");
            seen[usize::from(is_deleted)] += 1;
        }
    }
    println!("{seen:?}");
    assert!(seen[0] > 3 && seen[1] > 3, "{seen:?}");
}

/// What some hundred deletes change fits in one `put` of the drive, but a full store has no room for that many leaves at once.
#[test]
fn a_full_store_deletes_some_hundred_records_of_as_many_leaves() {
    full_store_deletes_some_hundred(100, 1000);
    full_store_deletes_some_hundred(1000, 300);
}

fn full_store_deletes_some_hundred(key_bytes: usize, value_bytes: usize) {
    let folder = tempfile::tempdir().unwrap();
    let [full, image] = ["full", "image"].map(|name| folder.path().join(name));
    let store = options(16 << 20).open(&full).unwrap();
    let namespace = store.namespace("all").unwrap();
    let key = |number: u32| {
        let mut key = number.wrapping_mul(2_654_435_769).to_be_bytes().to_vec();
        key.resize(key_bytes, 7);
        key
    };
    let (mut records, mut at_once) = (0, 500);
    while at_once > 0 {
        let mut new = records..records + at_once;
        match store.transact(|tx: &mut Transaction| {
            new.try_for_each(|n| tx.put(namespace, key(n), vec![8; value_bytes]))
        }) {
            Ok(()) => records += at_once,
            Err(Error::Drive(Status::CapacityExceeded)) => at_once /= 4,
            Err(error) => panic!("{error}"),
        }
    }
    let all =
        store.snapshot().unwrap().all(namespace).unwrap().keys().map(Result::unwrap).collect::<Vec<_>>();
    store.close().unwrap();
    for count in [100, 200, 300, 400, 500] {
        std::fs::copy(&full, &image).unwrap();
        let store = options(16 << 20).open(&image).unwrap();
        let some: Vec<_> = all.iter().step_by(all.len() / count).take(count).collect();
        store
            .transact::<_, Error>(|tx| some.iter().try_for_each(|key| tx.delete(namespace, key).map(drop)))
            .unwrap_or_else(|error| panic!("{count} of {}: {error}", all.len()));
        let left = store.snapshot().unwrap().all(namespace).unwrap().keys().map(Result::unwrap).count();
        assert_eq!(left, all.len() - count);
    }
}

/// Leaves without values, too, give back less than they take when few keys of each are deleted.
#[test]
fn a_full_store_deletes_a_few_of_the_records_that_lie_apart_from_their_leaves() {
    let mut profile = Profile::load("tlc-nvme-plp").unwrap();
    profile.capacity_bytes = 16 << 20;
    profile.over_provisioning_percent = 120.0;
    let store = Store::over(Device::in_memory(&profile).unwrap(), Options::default()).unwrap();
    let namespace = store.namespace("all").unwrap();
    let key = |number: u32| [&number.to_be_bytes()[..], &[7; 12]].concat();
    let (mut records, mut at_once) = (0, 4000);
    while at_once > 0 {
        let mut new = records..records + at_once;
        match store.transact(|tx: &mut Transaction| new.try_for_each(|n| tx.put(namespace, key(n), [8; 350])))
        {
            Ok(()) => records += at_once,
            Err(Error::Drive(Status::CapacityExceeded)) => at_once /= 4,
            Err(error) => panic!("{error}"),
        }
    }
    let full = store.into_drive().unwrap();
    for permille in [10, 30, 60, 100] {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(permille);
        let store = Store::over(full.try_clone().unwrap(), Options::default()).unwrap();
        let some: Vec<u32> = (0..records).filter(|_| random.random_range(0..1000) < permille).collect();
        store
            .transact::<_, Error>(|tx| some.iter().try_for_each(|n| tx.delete(namespace, key(*n)).map(drop)))
            .unwrap_or_else(|error| panic!("{} of {records}: {error}", some.len()));
        let left = store.snapshot().unwrap().all(namespace).unwrap().keys().map(Result::unwrap).count();
        assert_eq!(left, records as usize - some.len());
    }
}
