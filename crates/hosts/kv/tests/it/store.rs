//! What a store does, and what it refuses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::Kind;
use tantalum_kv::{Error, Namespace, Order, Store, Sync, Transaction};
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn open(folder: &TempDir, sync: Sync) -> Store {
    Store::options().capacity_bytes(64 << 20).sync(sync).open(folder.path().join("app.tant")).unwrap()
}

fn value(store: &Store, namespace: Namespace, key: &[u8]) -> Option<Vec<u8>> {
    store.transact::<_, Error>(|tx| Ok(tx.read(namespace, key)?.map(|value| value.to_vec()))).unwrap()
}

#[test]
fn a_store_without_configuration_keeps_what_was_committed() {
    let folder = folder();
    let path = folder.path().join("app.tant");
    let store = Store::open(&path).unwrap();
    let accounts = store.hashed_namespace("accounts").unwrap();
    let mut tx = store.begin().unwrap();
    tx.insert(accounts, b"alice", b"100").unwrap();
    tx.insert(accounts, b"bob", b"20").unwrap();
    tx.commit().unwrap();
    store.close().unwrap();
    let store = Store::open(&path).unwrap();
    let accounts = store.hashed_namespace("accounts").unwrap();
    assert_eq!(value(&store, accounts, b"alice").as_deref(), Some(&b"100"[..]));
    let mut tx = store.begin().unwrap();
    assert_eq!(
        tx.scan(accounts, ["bob", "eve"]).unwrap().iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, false]
    );
    assert!(tx.delete(accounts, b"bob").unwrap() && !tx.delete(accounts, b"bob").unwrap());
    assert_eq!(tx.read(accounts, b"bob").unwrap(), None, "a transaction sees its own changes");
    tx.abort();
    assert_eq!(value(&store, accounts, b"bob").as_deref(), Some(&b"20"[..]), "an abort forgets them");
    assert_eq!(store.list(accounts, None, 10).unwrap().len(), 2);
    assert_eq!(store.namespaces().unwrap(), ["accounts"]);
}

#[test]
fn values_of_every_size_come_back_and_too_large_ones_are_refused() {
    let folder = folder();
    let store = open(&folder, Sync::None);
    let blobs = store.hashed_namespace("blobs").unwrap();
    let sizes = [0, 1, 100, 4095, 4096, 100_000, 2 << 20];
    for bytes in sizes {
        store.transact::<_, Error>(|tx| tx.put(blobs, (bytes as u32).to_be_bytes(), vec![7; bytes])).unwrap();
    }
    store.close().unwrap();
    let store = open(&folder, Sync::None);
    let blobs = store.hashed_namespace("blobs").unwrap();
    for bytes in sizes {
        assert_eq!(value(&store, blobs, &(bytes as u32).to_be_bytes()), Some(vec![7; bytes]));
    }
    let mut tx = store.begin().unwrap();
    assert!(matches!(
        tx.put(blobs, b"a", vec![0; (64 << 20) + 1]),
        Err(Error::ValueTooLarge { bytes: 67_108_865, limit: 67_108_864, .. })
    ));
    assert!(matches!(tx.put(blobs, b"", b""), Err(Error::Key { .. })));
    assert!(matches!(tx.put(blobs, [0; 17], b""), Err(Error::Key { .. })));
}

/// Both hung for ever: the inner transaction waited for the outer one, which waited for it.
#[test]
fn a_transaction_within_another_one_is_refused_what_that_has_locked() {
    let folder = folder();
    let store = open(&folder, Sync::None);
    let (all, keys) = (store.hashed_namespace("all").unwrap(), store.namespace("keys").unwrap());
    let begun = Instant::now();
    let done = store.transact::<(), Error>(|tx| {
        tx.put(all, b"a", b"1")?;
        assert_eq!(tx.range::<&[u8]>(keys, ..)?.count(), 0);
        let inner = store.transact(|inner| inner.put(keys, b"k", b"2"));
        assert!(matches!(&inner, Err(Error::SelfDeadlock { key }) if **key == *b"k"), "{inner:?}");
        store.transact(|inner| inner.put(all, b"b", b"another key"))?;
        store.transact(|inner| inner.read(all, b"a")).map(drop)
    });
    assert!(matches!(&done, Err(Error::SelfDeadlock { key }) if **key == *b"a"), "{done:?}");
    assert!(begun.elapsed() < Duration::from_millis(900), "at once, not after a time");
    assert_eq!((value(&store, all, b"a"), value(&store, all, b"b").is_some()), (None, true));
}

#[test]
fn of_two_transactions_of_one_thread_the_second_waits_for_the_first_but_not_for_ever() {
    let folder = folder();
    let store = open(&folder, Sync::None);
    let all = store.hashed_namespace("all").unwrap();
    let (mut first, mut second) = (store.begin().unwrap(), store.begin().unwrap());
    first.put(all, b"a", b"1").unwrap();
    assert!(matches!(second.read(all, b"a"), Err(Error::SelfDeadlock { .. })));
    // it goes on, and may try again
    second.put(all, b"b", b"2").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            first.commit().unwrap();
        });
        assert_eq!(second.read(all, b"a").unwrap().as_deref(), Some(&b"1"[..]));
    });
    second.commit().unwrap();
}

/// Several times what fits in one `put` of the drive, in records and in bytes, over both kinds of namespaces.
#[test]
fn a_transaction_may_be_larger_than_a_put_of_the_drive() {
    let folder = folder();
    let store = open(&folder, Sync::Host);
    let (blobs, keys) = (store.hashed_namespace("blobs").unwrap(), store.namespace("keys").unwrap());
    let number = |number: u32| number.to_be_bytes();
    for round in 0..2_u8 {
        let mut tx = store.begin().unwrap();
        for record in 0..3000_u32 {
            tx.put(blobs, number(record), [round; 100]).unwrap();
            tx.put(keys, number(record), [round; 10]).unwrap();
        }
        for record in 3000..3008 {
            tx.put(blobs, number(record), vec![round; 1_000_000]).unwrap();
        }
        tx.commit().unwrap();
        let mut tx = store.begin().unwrap();
        assert_eq!(tx.read(blobs, number(2999)).unwrap().as_deref(), Some(&[round; 100][..]));
        assert_eq!(tx.read(blobs, number(3007)).unwrap().map(|value| value.len()), Some(1_000_000));
        assert_eq!(
            tx.all(keys).unwrap().filter(|entry| entry.as_ref().unwrap().1[..] == [round; 10]).count(),
            3000
        );
    }
    // the first namespace has the names, and nothing of the transactions is left there
    let first = store.with_drive(|drive| drive.namespaces()).unwrap()[0];
    assert_eq!(first.records, 1);
    store.close().unwrap();
    let store = open(&folder, Sync::Host);
    let keys = store.namespace("keys").unwrap();
    assert_eq!(store.begin().unwrap().all(keys).unwrap().count(), 3000);
}

#[test]
fn a_transaction_for_which_there_is_no_room_changes_nothing() {
    let folder = folder();
    let store = open(&folder, Sync::None);
    let (blobs, keys) = (store.hashed_namespace("blobs").unwrap(), store.namespace("keys").unwrap());
    store.transact::<_, Error>(|tx| tx.put(keys, b"k", b"1")).unwrap();
    let large = |megabytes: u32| {
        let mut tx = store.begin().unwrap();
        for record in 0..megabytes {
            tx.put(blobs, record.to_be_bytes(), vec![1; 1_000_000]).unwrap();
            tx.put(keys, record.to_be_bytes(), b"2").unwrap();
        }
        tx.delete(keys, b"k").unwrap();
        tx.commit()
    };
    for megabytes in [40, 70, 40] {
        let refused = large(megabytes);
        assert!(matches!(refused, Err(Error::Drive(tantalum::Status::CapacityExceeded))), "{refused:?}");
        assert_eq!(store.list(blobs, None, 10).unwrap().len(), 0);
        assert_eq!(store.begin().unwrap().all(keys).unwrap().count(), 1);
        assert_eq!(store.with_drive(|drive| drive.namespaces()).unwrap()[0].records, 1, "nothing is left");
    }
    large(20).unwrap();
    assert_eq!(store.begin().unwrap().all(keys).unwrap().count(), 20);
}

#[test]
fn a_transaction_of_any_size_in_a_namespace_that_was_deleted_changes_nothing() {
    let folder = folder();
    let store = open(&folder, Sync::None);
    let (a, b) = (store.hashed_namespace("a").unwrap(), store.hashed_namespace("b").unwrap());
    let mut tx = store.begin().unwrap();
    for record in 0..3000_u32 {
        tx.put([a, b][record as usize % 2], record.to_be_bytes(), b"1").unwrap();
    }
    store.delete_namespace("b").unwrap();
    assert!(matches!(tx.commit(), Err(Error::NoSuchNamespace)));
    assert_eq!(store.list(a, None, 10).unwrap().len(), 0);
    store.transact::<_, Error>(|tx| tx.put(a, b"k", b"1")).unwrap();
}

#[test]
fn an_image_of_another_capacity_is_said_to_be_one() {
    let folder = folder();
    open(&folder, Sync::None).close().unwrap();
    let larger = Store::options().capacity_bytes(128 << 20).open(folder.path().join("app.tant"));
    assert!(matches!(larger, Err(Error::Capacity { has: 67_108_864, asked: 134_217_728, .. })));
    assert!(Store::open(folder.path().join("app.tant")).is_ok(), "who asks for nothing takes what is there");
}

#[test]
fn keys_that_are_there_and_keys_that_are_not_are_told_apart() {
    let folder = folder();
    let store = open(&folder, Sync::None);
    let namespace = store.hashed_namespace("a").unwrap();
    let mut tx = store.begin().unwrap();
    assert!(matches!(tx.update(namespace, b"k", b"1"), Err(Error::NoSuchKey { .. })));
    tx.insert(namespace, b"k", b"1").unwrap();
    assert!(matches!(tx.insert(namespace, b"k", b"2"), Err(Error::KeyExists { .. })));
    tx.update(namespace, b"k", b"3").unwrap();
    tx.commit().unwrap();
    assert_eq!(value(&store, namespace, b"k").as_deref(), Some(&b"3"[..]));
}

/// Records read and put stay in memory, and would be found there after the commit of a delete.
#[test]
fn a_record_whose_delete_was_committed_is_not_there_for_any_other_transaction() {
    let folder = folder();
    let store = open(&folder, Sync::None);
    let namespace = store.hashed_namespace("a").unwrap();
    for _ in 0..2 {
        store.transact::<_, Error>(|tx| tx.insert(namespace, b"k", b"1")).unwrap();
        assert_eq!(value(&store, namespace, b"k").as_deref(), Some(&b"1"[..]));
        assert!(store.transact::<_, Error>(|tx| tx.delete(namespace, b"k")).unwrap());
        assert_eq!(value(&store, namespace, b"k"), None);
        assert!(!store.transact::<_, Error>(|tx| tx.delete(namespace, b"k")).unwrap());
    }
}

#[test]
fn a_namespace_that_was_deleted_is_refused_and_its_name_can_be_used_again() {
    let folder = folder();
    let store = open(&folder, Sync::Host);
    let old = store.hashed_namespace("a").unwrap();
    store.transact::<_, Error>(|tx| tx.put(old, b"k", b"1")).unwrap();
    let mut open_before = store.begin().unwrap();
    open_before.put(old, b"k", b"2").unwrap();
    store.delete_namespace("a").unwrap();
    assert!(matches!(open_before.read(old, b"k"), Err(Error::NoSuchNamespace)));
    assert!(matches!(open_before.commit(), Err(Error::NoSuchNamespace)));
    assert!(matches!(store.delete_namespace("a"), Err(Error::NoSuchNamespace)));
    let new = store.hashed_namespace("a").unwrap();
    assert_eq!(value(&store, new, b"k"), None);
    assert!(matches!(store.hashed_namespace(""), Err(Error::Name { bytes: 0 })));
    assert!(matches!(store.list(old, None, 1), Err(Error::NoSuchNamespace)));
}

#[test]
fn a_full_store_says_so_and_goes_on() {
    let folder = folder();
    let store =
        Store::options().capacity_bytes(16 << 20).sync(Sync::None).open(folder.path().join("a")).unwrap();
    let namespace = store.hashed_namespace("a").unwrap();
    let put = |number: u32| {
        store.transact::<_, Error>(|tx| tx.put(namespace, number.to_be_bytes(), vec![number as u8; 3000]))
    };
    let mut count = 0;
    let refused = loop {
        match put(count) {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::Drive(tantalum::Status::CapacityExceeded)), "{refused}");
    assert!(count > 2000, "{count} records of 3,000 bytes in 16 MiB");
    for number in 0..count {
        assert_eq!(value(&store, namespace, &number.to_be_bytes()), Some(vec![number as u8; 3000]));
    }
    store
        .transact::<_, Error>(|tx| {
            (0..100_u32).try_for_each(|number| tx.delete(namespace, number.to_be_bytes()).map(drop))
        })
        .unwrap();
    put(count).unwrap();
}

#[test]
fn transactions_that_lock_in_opposite_orders_all_end() {
    let folder = folder();
    let store = open(&folder, Sync::None);
    let namespace = store.hashed_namespace("a").unwrap();
    let number = |value: Option<tantalum_kv::Value>| {
        value.map_or(0, |value| u64::from_le_bytes(value[..].try_into().unwrap()))
    };
    let threads = 4;
    let turns = 300_u64;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let store = &store;
            scope.spawn(move || {
                for turn in 0..turns {
                    let (a, b) = if (turn + thread) % 2 == 0 { (b"a", b"b") } else { (b"b", b"a") };
                    store
                        .transact::<_, Error>(|tx| {
                            for key in [a, b] {
                                let next = number(tx.read(namespace, key)?) + 1;
                                std::thread::yield_now();
                                tx.put(namespace, key, next.to_le_bytes())?;
                            }
                            Ok(())
                        })
                        .unwrap();
                }
            });
        }
    });
    for key in [b"a", b"b"] {
        let found = value(&store, namespace, key).unwrap();
        assert_eq!(u64::from_le_bytes(found.try_into().unwrap()), threads * turns);
    }
    assert!(store.counters().deadlocks > 0, "the dirty path ran");
}

#[test]
fn readers_and_writers_of_other_records_do_not_wait_and_those_of_one_do() {
    let folder = folder();
    for (records_per_lock, waits) in [(1, false), (16, true)] {
        let store = Store::options()
            .capacity_bytes(64 << 20)
            .sync(Sync::None)
            .records_per_lock(records_per_lock)
            .open(folder.path().join("app.tant"))
            .unwrap();
        let namespace = store.hashed_namespace("a").unwrap();
        let mut tx = store.begin().unwrap();
        tx.put(namespace, 16_u64.to_be_bytes(), b"1").unwrap();
        let done = Arc::new(AtomicBool::new(false));
        std::thread::scope(|scope| {
            let (other, flag) = (store.clone(), done.clone());
            scope.spawn(move || {
                other.transact::<_, Error>(|tx| tx.read(namespace, 17_u64.to_be_bytes()).map(drop)).unwrap();
                flag.store(true, Ordering::SeqCst);
            });
            let start = Instant::now();
            while !done.load(Ordering::SeqCst) && store.counters().conflicts == 0 {
                assert!(start.elapsed() < Duration::from_secs(60));
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(store.counters().conflicts > 0, waits);
            tx.commit().unwrap();
        });
    }
}

#[test]
fn a_lock_that_is_taken_is_told_of_and_not_waited_for() {
    let folder = folder();
    let store = open(&folder, Sync::None);
    let namespace = store.hashed_namespace("a").unwrap();
    let (mut first, mut second) = (store.begin().unwrap(), store.begin().unwrap());
    assert!(first.try_lock(namespace, b"k").unwrap() && first.try_lock(namespace, b"k").unwrap());
    assert_eq!(store.counters().conflicts, 0);
    assert!(!second.try_lock(namespace, b"k").unwrap());
    assert_eq!(store.counters().conflicts, 1);
    first.put(namespace, b"k", b"1").unwrap();
    second.put(namespace, b"other", b"2").unwrap();
    second.commit().unwrap();
    first.commit().unwrap();
    let mut third = store.begin().unwrap();
    assert!(third.try_lock(namespace, b"k").unwrap(), "what ended holds nothing");
    assert_eq!(third.read(namespace, b"k").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(third.try_lock(namespace, b"").is_err());
}

#[test]
fn a_commit_is_one_command_of_the_drive() {
    let folder = folder();
    let store = open(&folder, Sync::None);
    let namespace = store.hashed_namespace("a").unwrap();
    let puts = || store.with_drive(|drive| drive.latencies().of(Kind::Put).len()).unwrap();
    let before = puts();
    for number in 1..=10 {
        let mut tx = store.begin().unwrap();
        (0..4).for_each(|key| tx.put(namespace, [key], [number]).unwrap());
        tx.commit().unwrap();
        assert_eq!(puts(), before + u64::from(number));
    }
}

#[test]
fn a_client_in_the_drives_time_has_its_locks_until_its_commit_is_done() {
    let folder = folder();
    let store = open(&folder, Sync::None);
    let namespace = store.hashed_namespace("a").unwrap();
    let now_ns = store.with_drive(|drive| drive.time_ns()).unwrap();
    let mut tx = store.begin_in_time(now_ns).unwrap();
    tx.put(namespace, b"k", b"1").unwrap();
    let mut other = store.begin().unwrap();
    let mut waited = false;
    tx.commit_then_wait(|done_ns| {
        waited = done_ns > now_ns;
        assert!(!other.try_lock(namespace, b"k").unwrap());
    })
    .unwrap();
    assert!(waited && other.try_lock(namespace, b"k").unwrap());
}

#[test]
fn a_store_is_opened_once_at_a_time_and_options_are_checked() {
    let folder = folder();
    let store = open(&folder, Sync::None);
    let again = Store::open(folder.path().join("app.tant"));
    assert!(matches!(again, Err(Error::Device(_))));
    drop(store);
    assert!(matches!(
        Store::options().records_per_lock(0).open(folder.path().join("b")),
        Err(Error::Option { asked: 0, .. })
    ));
    assert!(matches!(
        Store::options().profile("no-such").open(folder.path().join("b")),
        Err(Error::Profile(_))
    ));
    assert!(!folder.path().join("b").exists());
    assert!(matches!(Store::open(folder.path()), Err(Error::Device(_))), "a folder is not an image");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn after_power_is_lost_the_store_stops_and_what_was_committed_is_there() {
    let folder = folder();
    let store = open(&folder, Sync::Host);
    let namespace = store.hashed_namespace("a").unwrap();
    store.transact::<_, Error>(|tx| tx.put(namespace, b"k", b"1")).unwrap();
    store.with_drive(|drive| drive.cut_after(Some(1))).unwrap();
    // too much to wait for a full page, so it is on its way to flash
    let failed = store.transact::<_, Error>(|tx| tx.put(namespace, b"k", [2; 5000]));
    assert!(matches!(failed, Err(Error::Drive(tantalum::Status::PowerLost))));
    // nobody knows what it is now, and nothing else is changed
    assert!(matches!(store.begin().unwrap().read(namespace, b"k"), Err(Error::Stopped { .. })));
    let refused = store.transact::<_, Error>(|tx| tx.put(namespace, b"l", b"1"));
    assert!(matches!(refused, Err(Error::Stopped { .. })));
    drop(store);
    let store = open(&folder, Sync::Host);
    let namespace = store.hashed_namespace("a").unwrap();
    assert!(value(&store, namespace, b"k").is_some());
}

#[test]
fn small_commits_of_threads_share_units_of_the_drive() {
    let folder = folder();
    let store = open(&folder, Sync::Host);
    let namespace = store.hashed_namespace("a").unwrap();
    let before = store.with_drive(|drive| drive.smart().counters.flash_units.key_value).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..100_u8 {
                    let put = |tx: &mut Transaction| tx.put(namespace, [thread, number], [number; 1000]);
                    store.transact::<_, Error>(put).unwrap();
                }
            });
        }
    });
    let units = store.with_drive(|drive| drive.smart().counters.flash_units.key_value).unwrap() - before;
    // three records to a unit; commits that were put together would leave more room than that
    assert!((125..=134).contains(&units), "{units}");
}

#[test]
fn a_record_that_is_read_to_be_changed_is_the_record() {
    let folder = folder();
    let store = open(&folder, Sync::None);
    let namespace = store.hashed_namespace("a").unwrap();
    store.transact::<_, Error>(|tx| tx.put(namespace, b"k", b"1")).unwrap();
    let mut tx = store.begin().unwrap();
    assert_eq!(tx.read_for_update(namespace, b"k").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_namespace_is_found_by_its_number() {
    let folder = folder();
    let store = open(&folder, Sync::None);
    let namespaces = ["a", "b", "c"].map(|name| store.hashed_namespace(name).unwrap());
    for namespace in namespaces {
        assert_eq!(Namespace::from_number(namespace.number()), namespace);
    }
}

#[test]
fn only_a_client_in_the_drives_time_has_a_time() {
    let folder = folder();
    let store = open(&folder, Sync::None);
    let now_ns = store.with_drive(|drive| drive.time_ns()).unwrap() + 5;
    assert_eq!(store.begin_in_time(now_ns).unwrap().now_ns(), Some(now_ns));
    assert_eq!(store.begin().unwrap().now_ns(), None);
}

/// A store that is filled, emptied and filled again holds as much each time, of records of any size and of either kind. One
/// that is full can delete.
#[test]
fn the_room_of_what_was_deleted_is_used_again() {
    let folder = folder();
    let options = Store::options().capacity_bytes(16 << 20).sync(Sync::None);
    let store = options.open(folder.path().join("app.tant")).unwrap();
    let both = [store.hashed_namespace("h").unwrap(), store.namespace("o").unwrap()];
    let fill = |bytes: usize| {
        let put = |number: &u32| {
            let put = store.transact::<_, Error>(|tx| {
                both.iter().try_for_each(|namespace| tx.put(*namespace, number.to_be_bytes(), vec![1; bytes]))
            });
            match put {
                Ok(()) => true,
                Err(Error::Drive(tantalum::Status::CapacityExceeded)) => false,
                Err(error) => panic!("{error}"),
            }
        };
        (0_u32..).take_while(put).count() as u32
    };
    let delete = |numbers: &[u32]| {
        store.transact::<_, Error>(|tx| {
            numbers.iter().try_for_each(|number| {
                both.iter().try_for_each(|namespace| tx.delete(*namespace, number.to_be_bytes()).map(drop))
            })
        })
    };
    for bytes in [700, 30_000] {
        let first = fill(bytes);
        for turn in 0..4 {
            // one by one at first, while there is no room at all
            (0..5).for_each(|number| delete(&[number]).unwrap());
            (5..first * 2).collect::<Vec<_>>().chunks(200).for_each(|numbers| delete(numbers).unwrap());
            let again = fill(bytes);
            assert!(again >= first * 9 / 10, "turn {turn}, {bytes} bytes: {first} pairs, then {again}");
        }
        (0..first * 2).collect::<Vec<_>>().chunks(200).for_each(|numbers| delete(numbers).unwrap());
    }
}

#[test]
fn a_store_says_how_many_records_of_a_size_it_has_room_for() {
    // of small records some of the drive goes to their index, and more of it is reserved than is needed at last
    for (value_bytes, tolerance) in [(20, 0.3), (100, 0.15), (984, 0.06), (1000, 0.06), (30_000, 0.06)] {
        let folder = folder();
        let store = Store::options()
            .capacity_bytes(24 << 20)
            .sync(Sync::None)
            .open(folder.path().join("app.tant"))
            .unwrap();
        let all = store.hashed_namespace("all").unwrap();
        let told = store.room_for(value_bytes).unwrap();
        let mut records = 0_u64;
        let full = loop {
            let put = store.transact(|tx| {
                (records..records + 64).try_for_each(|n| tx.put(all, n.to_be_bytes(), vec![7; value_bytes]))
            });
            match put {
                Ok(()) => records += 64,
                Err(error) => break error,
            }
        };
        assert!(matches!(full, Error::Drive(tantalum::Status::CapacityExceeded)), "{full}");
        let missed = records as f64 - told as f64;
        assert!(
            (-64.0..tolerance * records as f64).contains(&missed),
            "{value_bytes}: {told} told, {records} fit"
        );
        assert!(store.room_for(value_bytes).unwrap() < 200, "it is full");
    }
    let folder = folder();
    let store = open(&folder, Sync::None);
    assert_eq!(store.capacity_bytes(), 64 << 20);
}

/// It told a few more than fit: what waits for the rest of its unit takes a whole one, and so does what is left over in each block of
/// the drive by values of more than a unit. It told a store of large values that were all deleted that nothing fits, because of what
/// the drive remembers of deletes.
#[test]
fn a_store_has_room_for_as_many_records_as_it_says() {
    for value_bytes in [100_000, 200, 984, 2000, 4056, 4057, 8113, 50_000, 500_000, 3 << 20] {
        is_filled_as_told(20, value_bytes, Order::Hashed);
    }
}

/// Such stores had so little room to collect garbage that each victim was moved by itself, which freed nothing: puts for which there
/// was room failed, and then the store could neither delete nor be closed. `SMALL_STORES=all` tries many more.
#[test]
fn small_stores_full_of_large_values_can_be_emptied() {
    for (mib, value_bytes) in [(15, 100_000), (15, 130_000), (16, 60_000), (17, 100_000), (18, 130_000)] {
        is_filled_as_told(mib, value_bytes, Order::Hashed);
    }
    is_filled_as_told(16, 60_000, Order::Ordered);
    if std::env::var("SMALL_STORES").is_ok_and(|which| which == "all") {
        for order in [Order::Hashed, Order::Ordered] {
            for value_bytes in
                [1000, 3000, 4056, 10_000, 40_000, 60_000, 100_000, 130_000, 250_000, 700_000, 3 << 20]
            {
                (15..=20).for_each(|mib| is_filled_as_told(mib, value_bytes, order));
            }
        }
    }
}

/// A store whose values are of all sizes said a few more of the next size than fit.
#[test]
fn what_fits_beside_values_of_all_sizes_is_told() {
    let all = std::env::var("SMALL_STORES").is_ok_and(|which| which == "all");
    let sizes: Vec<u64> = if all { (16..=64).step_by(4).collect() } else { vec![24, 40] };
    for mib in sizes {
        for seed in 0..if all { 6 } else { 1 } {
            let folder = folder();
            let options = Store::options().capacity_bytes(mib << 20).sync(Sync::None);
            let store = options.open(folder.path().join("app.tant")).unwrap();
            let namespaces = [store.hashed_namespace("hashed").unwrap(), store.namespace("ordered").unwrap()];
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut refused = 0;
            for number in 0_u64.. {
                let value_bytes =
                    10 * (150_000_usize >> random.random_range(0..14)).max(1) + random.random_range(0..10);
                let place = namespaces[random.random_range(0..2)];
                match store.transact(|tx| tx.put(place, number.to_be_bytes(), vec![7; value_bytes])) {
                    Ok(()) => refused = 0,
                    Err(_) if refused < 20 => refused += 1,
                    Err(_) => break,
                }
            }
            for value_bytes in [1000, 5000, 100] {
                let told = store.room_for(value_bytes).unwrap();
                for number in 0..told {
                    let put = store.transact(|tx| {
                        tx.put(
                            namespaces[0],
                            [&[9; 3][..], &number.to_be_bytes()].concat(),
                            vec![7; value_bytes],
                        )
                    });
                    put.unwrap_or_else(|error| {
                        panic!(
                            "{mib} MiB, seed {seed}, {value_bytes} bytes: {error} after {number} of {told}"
                        )
                    });
                }
            }
        }
    }
}

/// Fills a store, deletes every second value and then all, and fills it again: each time at least as many fit as were told, but in
/// ordered namespaces, whose nodes take room as well.
fn is_filled_as_told(mib: u64, value_bytes: usize, order: Order) {
    let folder = folder();
    let options = Store::options().capacity_bytes(mib << 20).sync(Sync::None);
    let store = options.open(folder.path().join("app.tant")).unwrap();
    let what = format!("{mib} MiB, {value_bytes} bytes, {order:?}");
    let all = match order {
        Order::Hashed => store.hashed_namespace("all").unwrap(),
        Order::Ordered => store.namespace("all").unwrap(),
    };
    let put = |number: u64| store.transact(|tx| tx.put(all, number.to_be_bytes(), vec![7; value_bytes]));
    let delete = |from: u64, to: u64, step: usize| {
        let mut numbers = (from..to).step_by(step);
        let deleted = store
            .transact(|tx| numbers.try_for_each(|number| tx.delete(all, number.to_be_bytes()).map(drop)));
        deleted.unwrap_or_else(|error| panic!("{what}: {error} while it deletes"));
    };
    let fill = |from: u64| {
        let told = if order == Order::Hashed { store.room_for(value_bytes).unwrap() } else { 0 };
        for number in 0..told {
            put(from + number).unwrap_or_else(|error| panic!("{what}: {error} after {number} of {told}"));
        }
        let more = (from + told..).take_while(|number| put(*number).is_ok()).count() as u64;
        assert!(order == Order::Ordered || store.room_for(value_bytes).unwrap() == 0, "{what}: it is full");
        (told, told + more)
    };
    let (told, fit) = fill(0);
    assert!(
        order == Order::Ordered || fit <= told + 2 + told / 20,
        "{what}: {told} were told, and {fit} fit"
    );
    delete(0, fit, 2);
    let (_, more) = fill(fit);
    delete(0, fit + more, 1);
    let (again, _) = fill(fit + more);
    assert!(again + told / 20 + 2 >= told, "{what}: {told} were told, and {again} when all were deleted");
    store.close().unwrap_or_else(|error| panic!("{what}: {error} while it is closed"));
}
