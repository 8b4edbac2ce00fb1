//! What a store takes of the host's disk.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Access, Device, Faults, Mapping, TestHost};
use tantalum_kv::{Namespace, Options, Store, Sync};
use tempfile::TempDir;

const RECORDS: u32 = 20_000;
/// Bytes of keys and values.
const DATA: u64 = RECORDS as u64 * 116;

fn options() -> Options {
    Store::options().capacity_bytes(256 << 20)
}

fn key(number: u32) -> Vec<u8> {
    format!("{number:016}").into_bytes()
}

fn write(store: &Store, namespace: Namespace, byte: u8) {
    for first in (0..RECORDS).step_by(500) {
        let all = first..first + 500;
        store
            .transact(|tx| all.clone().try_for_each(|number| tx.put(namespace, key(number), [byte; 100])))
            .unwrap();
    }
}

fn delete(store: &Store, namespace: Namespace) {
    for first in (0..RECORDS).step_by(500) {
        let all = first..first + 500;
        let deleted = store
            .transact(|tx| all.clone().try_for_each(|number| tx.delete(namespace, key(number)).map(drop)));
        deleted.unwrap();
    }
}

fn assert_all(store: &Store, namespace: Namespace, byte: u8) {
    let snapshot = store.snapshot().unwrap();
    let mut records = 0;
    for entry in snapshot.all(namespace).unwrap() {
        let (_, value) = entry.unwrap();
        assert_eq!(value[..], [byte; 100]);
        records += 1;
    }
    assert_eq!(records, RECORDS);
}

/// A new store with an ordered namespace, in a folder of its own.
fn new_store(options: Options) -> (TempDir, PathBuf, Store, Namespace) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.tant");
    let store = options.open(&path).unwrap();
    let namespace = store.namespace("all").unwrap();
    (folder, path, store, namespace)
}

/// Bytes on the disk beside what an empty store takes.
fn on_disk(path: &Path) -> u64 {
    (path.metadata().unwrap().blocks() * 512).saturating_sub(3 << 20)
}

#[test]
fn an_image_shrinks_as_records_are_overwritten_and_deleted() {
    let (_folder, path, store, namespace) = new_store(options());
    write(&store, namespace, 1);
    let loaded = on_disk(&path);
    let snapshot = store.snapshot().unwrap();
    (2..6).for_each(|round| write(&store, namespace, round));
    let overwritten = on_disk(&path);
    // a quarter is garbage that may stay, and so may 4 MiB
    assert!(overwritten < loaded * 5 / 4 + (6 << 20), "{overwritten} instead of {loaded}, for {DATA}");
    // a snapshot sees what it saw: that is in memory
    assert_eq!(snapshot.read(namespace, key(7)).unwrap().as_deref(), Some(&[1; 100][..]));
    drop(snapshot);
    assert_all(&store, namespace, 5);
    store.compact().unwrap();
    let compact = on_disk(&path);
    assert!(compact < loaded + (1 << 20), "{compact} instead of {loaded}");
    assert_all(&store, namespace, 5);
    delete(&store, namespace);
    store.compact().unwrap();
    assert!(on_disk(&path) < DATA / 2, "{} of {DATA} bytes are left", on_disk(&path));
    write(&store, namespace, 9);
    store.close().unwrap();
    let store = options().open(&path).unwrap();
    assert_all(&store, store.namespace("all").unwrap(), 9);
}

#[test]
fn a_store_that_is_closed_takes_little_for_what_was_deleted() {
    let (_folder, path, store, namespace) = new_store(options());
    write(&store, namespace, 1);
    write(&store, namespace, 2);
    store.delete_namespace("all").unwrap();
    store.close().unwrap();
    assert!(on_disk(&path) < 3 << 20, "{} bytes are left", on_disk(&path));
}

/// Another thread commits meanwhile.
#[test]
fn a_store_is_compacted_while_others_commit() {
    let (_folder, _path, store, namespace) = new_store(options());
    (1..4).for_each(|round| write(&store, namespace, round));
    let other = store.namespace("other").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..300_u32 {
                store.transact(|tx| tx.put(other, key(number), [7; 50])).unwrap();
            }
        });
        (0..3).for_each(|_| store.compact().unwrap());
    });
    assert_all(&store, namespace, 3);
    assert_eq!(store.snapshot().unwrap().all(other).unwrap().count(), 300);
}

#[test]
fn without_syncs_and_in_memory_there_is_nothing_to_give_back() {
    let (_folder, path, store, namespace) = new_store(options().sync(Sync::None));
    (1..4).for_each(|round| write(&store, namespace, round));
    let before = store.with_drive(|drive| drive.counters().blocks_erased).unwrap();
    store.compact().unwrap();
    assert_eq!(store.with_drive(|drive| drive.counters().blocks_erased).unwrap(), before);
    assert!(on_disk(&path) > 2 * DATA);
    let read_only = options().read_only(true);
    store.close().unwrap();
    assert!(read_only.open(&path).unwrap().compact().is_err());
}

/// Machines are lost while space goes back, with every commit durable.
#[test]
fn a_lost_machine_leaves_every_commit_whatever_went_back() {
    for seed in 0..12 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.tant");
        let options = Store::options().capacity_bytes(20 << 20);
        options.clone().open(&path).unwrap().close().unwrap();
        let host = TestHost::new(Mapping::Never, seed);
        for life in 0..3_u32 {
            let device = Device::open_on(&path, Access::Ordered, &host).unwrap();
            let store = Store::over(device, options.clone()).unwrap();
            let namespace = store.namespace("all").unwrap();
            let rounds = store.snapshot().unwrap().read(namespace, b"rounds").unwrap();
            assert_eq!(rounds.map_or(0, |rounds| u32::from(rounds[0])), life * 8, "seed {seed}");
            for round in life * 8 + 1..=life * 8 + 8 {
                let put = store.transact(|tx| {
                    tx.put(namespace, b"rounds", [round as u8])?;
                    (0..2000).try_for_each(|number| tx.put(namespace, key(number * 7), [round as u8; 300]))
                });
                put.unwrap();
                if round % 5 == 0 {
                    store.compact().unwrap();
                }
            }
            for number in 0..2000 {
                let value = store.snapshot().unwrap().read(namespace, key(number * 7)).unwrap();
                assert_eq!(value.as_deref(), Some(&[life as u8 * 8 + 8; 300][..]));
            }
            host.life.end();
            drop(store);
            host.life.end_after(None);
            host.faults.lose_machine(&path).unwrap();
        }
    }
}

/// Dead units in failed blocks were garbage that could be collected for ever: compacting a store on a drive of which programs and
/// erases fail wore the drive out, by tens of thousands of erases.
#[test]
fn a_drive_with_failed_blocks_is_not_worn_out() {
    let mut compacted = 0;
    for seed in 0..8 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (_folder, _path, store, namespace) = new_store(Store::options().capacity_bytes(64 << 20));
        let faults = Faults { seed, program_failure_ppm: 2000, erase_failure_ppm: 4000, ..Faults::default() };
        let blocks =
            store.with_drive(|device| device.set_faults(faults).map(|()| device.profile().geometry()));
        let blocks = u64::from(blocks.unwrap().unwrap().unwrap().blocks());
        for step in 0..200 {
            let keys: Vec<u32> =
                (0..random.random_range(1..600)).map(|_| random.random_range(0..8600)).collect();
            let is_delete = random.random_range(0..4) == 0;
            let done = store.transact(|tx| {
                keys.iter().try_for_each(|number| match is_delete {
                    true => tx.delete(namespace, key(*number)).map(drop),
                    false => tx.put(namespace, key(*number), vec![7; 100 + *number as usize % 400]),
                })
            });
            let erased = || store.with_drive(|device| device.counters().blocks_erased);
            let Ok(before) = done.and_then(|()| erased()) else { break };
            if step % 7 == 0 {
                if store.compact().is_err() {
                    break;
                }
                let erased = erased().unwrap() - before;
                assert!(erased <= blocks / 4, "seed {seed}, step {step}: {erased} erases of {blocks} blocks");
                compacted += 1;
            }
        }
    }
    assert!(compacted > 20, "{compacted}");
}
