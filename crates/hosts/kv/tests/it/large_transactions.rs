//! Transactions larger than one `put` of the drive are all or nothing, wherever the process ends or power fails.
//! `SEED=17` runs one seed.

use std::path::Path;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Access, Device, Mapping, PowerLoss, Profile, TestHost};
use tantalum_kv::{Error, Options, Store, Sync};

const RECORDS: u32 = 2500;
const LARGE: u32 = 4;
/// Places at which a process ends.
const PLACES: u32 = 60;
/// More stores than there are.
const MANY: u64 = 1 << 40;

fn options() -> Options {
    Options::default().capacity_bytes(64 << 20).sync(Sync::None)
}

/// Writes a number to all records, of both kinds of namespaces, in one transaction; every other number deletes some.
fn write_all(store: &Store, number: u8) -> Result<(), Error> {
    let (hashed, ordered) = (store.hashed_namespace("hashed")?, store.namespace("ordered")?);
    let mut tx = store.begin()?;
    for record in 0..RECORDS {
        tx.put(hashed, record.to_be_bytes(), [number; 50])?;
        let key = format!("key {record}");
        if number % 2 == 1 && record % 3 == 0 {
            tx.delete(ordered, key)?;
        } else {
            tx.put(ordered, key, [number; 50])?;
        }
    }
    (RECORDS..RECORDS + LARGE)
        .try_for_each(|record| tx.put(hashed, record.to_be_bytes(), vec![number; 1_000_000]))?;
    tx.commit()
}

/// The number that all records share.
fn number_of_all(store: &Store) -> u8 {
    let (hashed, ordered) = (store.hashed_namespace("hashed").unwrap(), store.namespace("ordered").unwrap());
    let mut tx = store.begin().unwrap();
    let number = tx.read(hashed, 0_u32.to_be_bytes()).unwrap().map_or(0, |value| value[0]);
    if number == 0 {
        assert_eq!((store.list(hashed, None, 9).unwrap().len(), tx.all(ordered).unwrap().count()), (0, 0));
        return 0;
    }
    for record in 0..RECORDS + LARGE {
        let value = tx.read(hashed, record.to_be_bytes()).unwrap().unwrap();
        assert!(value.iter().all(|byte| *byte == number), "record {record}: {} beside {number}", value[0]);
    }
    let mut found: Vec<(String, u8)> = tx
        .all(ordered)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|(key, value)| (String::from_utf8(key.to_vec()).unwrap(), value[0]))
        .collect();
    let keys = (0..RECORDS).filter(|record| number.is_multiple_of(2) || record % 3 > 0);
    let mut expected: Vec<(String, u8)> = keys.map(|record| (format!("key {record}"), number)).collect();
    found.sort();
    expected.sort();
    assert!(found == expected, "{} keys beside {number}", found.len());
    let records = store.with_drive(|drive| drive.namespaces()).unwrap()[0].records;
    assert_eq!(records, 1, "what the commit was written to is gone");
    number
}

fn make(path: &Path) {
    let store = options().open(path).unwrap();
    write_all(&store, 1).unwrap();
    assert_eq!(number_of_all(&store), 1);
    store.close().unwrap();
}

/// A process ends between any two stores to the image.
#[test]
fn a_process_that_ends_at_any_store_leaves_all_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let [base, image] = ["base", "image"].map(|name| folder.path().join(name));
    make(&base);
    let copy = || assert!(std::fs::copy(&base, &image).unwrap() > 0);
    // how many stores there are until the commit returns, and until it begins
    copy();
    let host = TestHost::new(Mapping::Allowed, 0);
    let life = &host.life;
    life.end_after(Some(MANY));
    let store = Store::over(Device::open_on(&image, Access::Write, &host).unwrap(), options()).unwrap();
    let before = MANY - life.stores_left().unwrap();
    write_all(&store, 2).unwrap();
    let after = MANY - life.stores_left().unwrap();
    drop(store);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let (mut seen, mut ended_twice) = ([0; 3], 0);
    for _ in 0..PLACES {
        copy();
        let host = TestHost::new(Mapping::Allowed, 0);
        let life = &host.life;
        life.end_after(Some(random.random_range(before..after)));
        let store = Store::over(Device::open_on(&image, Access::Write, &host).unwrap(), options()).unwrap();
        let _ = write_all(&store, 2);
        drop(store);
        // and again while the commit is brought in place
        life.end_after(Some(random.random_range(0..(after - before) / 2)));
        let again = Device::open_on(&image, Access::Write, &host)
            .map(|device| Store::over(device, options()).map(drop));
        ended_twice += u32::from(!matches!(again, Ok(Ok(()))));
        let store = options().open(&image).unwrap();
        seen[usize::from(number_of_all(&store))] += 1;
        store.with_drive(|drive| drive.audit()).unwrap();
    }
    println!("{before} to {after}: {seen:?}, {ended_twice} twice");
    assert!(seen[1] > 5 && seen[2] > 5 && ended_twice > 5, "{seen:?}, {ended_twice}");
}

/// Power fails at any flash operation, on drives with a capacitor and without.
#[test]
fn power_that_goes_at_any_time_leaves_all_or_nothing() {
    let seeds = std::env::var("SEED").map_or(0..40, |seed| {
        let seed: u64 = seed.parse().unwrap();
        seed..seed + 1
    });
    let mut seen = [0; 2];
    for seed in seeds {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut profile = Profile::load(["tlc-nvme", "tlc-nvme-plp"][seed as usize % 2]).unwrap();
        profile.capacity_bytes = 128 << 20;
        profile.over_provisioning_percent = 40.0;
        let store = Store::over(Device::in_memory(&profile).unwrap(), Options::default()).unwrap();
        write_all(&store, 1).unwrap();
        store.with_drive(|drive| drive.cut_after(Some(random.random_range(1..2500)))).unwrap();
        let acknowledged = write_all(&store, 2).is_ok();
        let mut device = store.into_drive().unwrap();
        let now_ns = device.time_ns();
        device.cut_power(now_ns);
        device.power_on(&mut PowerLoss::seeded(random.random())).unwrap();
        let store = Store::over(device, Options::default()).unwrap();
        let number = number_of_all(&store);
        assert!(number == 2 || number == 1 && !acknowledged, "seed {seed}: a commit was lost");
        seen[usize::from(number) - 1] += 1;
    }
    println!("{seen:?}");
    assert!(std::env::var("SEED").is_ok() || (seen[0] > 3 && seen[1] > 3), "{seen:?}");
}

/// The commit first writes a copy, and there may be room for the copy but not for the records as well. Then it must be
/// refused before it counts, or the store could never finish it.
#[test]
fn a_transaction_that_does_not_fit_changes_nothing() {
    const BYTES: usize = 60_000;
    let folder = tempfile::tempdir().unwrap();
    let store = options().capacity_bytes(16 << 20).open(folder.path().join("app.tant")).unwrap();
    let namespace = store.hashed_namespace("hashed").unwrap();
    let (mut held, mut refused) = ((0, 0), 0);
    for count in 40_u32.. {
        let number = count as u8;
        let put = store.transact::<_, Error>(|tx| {
            (0..count).try_for_each(|record| tx.put(namespace, record.to_be_bytes(), vec![number; BYTES]))
        });
        match put {
            Ok(()) => held = (count, number),
            Err(Error::Drive(tantalum::Status::CapacityExceeded)) => refused += 1,
            Err(error) => panic!("{count} records: {error}"),
        }
        let mut tx = store.begin().unwrap();
        for record in 0..count {
            let value = tx.read(namespace, record.to_be_bytes()).unwrap();
            let expected = (record < held.0).then_some(held.1);
            assert_eq!(
                value.map(|value| value[0]),
                expected,
                "record {record} of {count}, {refused} refused"
            );
        }
        drop(tx);
        store.transact::<_, Error>(|tx| tx.put(namespace, [1], [number])).unwrap();
        if refused == 20 {
            break;
        }
    }
    assert!(held.0 > 40, "some of them fit");
}
