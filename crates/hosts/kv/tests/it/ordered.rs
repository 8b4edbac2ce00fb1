//! Ordered namespaces compared with a map in memory, across crashes; and scans without phantoms. `SEED=17` runs one
//! seed, `SEEDS=200` seeds 0 to 199.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Device, PowerLoss, Profile};
use tantalum_kv::{Error, Namespace, Options, Order, Range, Store, Sync, Transaction};
use tempfile::TempDir;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().map(|text: String| text.parse::<u64>().unwrap());
    match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(default),
    }
}

fn open(folder: &TempDir) -> Store {
    Store::options().capacity_bytes(64 << 20).sync(Sync::None).open(folder.path().join("app.tant")).unwrap()
}

fn all(range: Range<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    range.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

fn backwards(range: Range<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    range.rev().map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

/// The kind of keys of a seed: short ones, ones with a long common prefix, ones of up to 1,024 bytes.
fn key(seed: u64, random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let number = random.random_range(0..400_u32);
    match seed % 3 {
        0 => number.to_string().into_bytes(),
        1 => format!("{}{number}", "prefix/".repeat(20)).into_bytes(),
        _ => {
            let bytes = if number % 2 == 0 { 1020 } else { number as usize % 40 };
            let mut key = vec![(number % 7) as u8; bytes];
            key.extend_from_slice(&number.to_be_bytes());
            key
        }
    }
}

fn bound(seed: u64, random: &mut Xoshiro256PlusPlus) -> Bound<Vec<u8>> {
    match random.random_range(0..3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(key(seed, random)),
        _ => Bound::Excluded(key(seed, random)),
    }
}

fn is_empty(range: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> bool {
    match range {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
            from >= to
        }
        _ => false,
    }
}

/// A random range is as in the model, from both ends.
fn compare(
    tx: &mut Transaction,
    namespace: Namespace,
    model: &Model,
    seed: u64,
    random: &mut Xoshiro256PlusPlus,
) {
    let range = (bound(seed, random), bound(seed, random));
    let expected: Vec<_> = match is_empty(&range) {
        true => Vec::new(),
        false => model.range(range.clone()).map(|(key, value)| (key.clone(), value.clone())).collect(),
    };
    assert_eq!(all(tx.range(namespace, range.clone()).unwrap()), expected, "seed {seed}");
    let mut reversed = expected.clone();
    reversed.reverse();
    assert_eq!(backwards(tx.range(namespace, range.clone()).unwrap()), reversed, "seed {seed}");
    // from both ends, until they meet
    let (mut range, mut front, mut back) = (tx.range(namespace, range).unwrap(), Vec::new(), Vec::new());
    loop {
        let from_back = random.random_range(0..2) == 0;
        let owned = |(key, value): (&[u8], &[u8])| (key.to_vec(), value.to_vec());
        let entry = match (from_back, random.random_range(0..2) == 0) {
            (true, true) => range.lend_back().map(|entry| owned(entry.unwrap())),
            (false, true) => range.lend().map(|entry| owned(entry.unwrap())),
            (true, false) => range.next_back().map(|entry| entry.map(|(k, v)| owned((&k, &v))).unwrap()),
            (false, false) => range.next().map(|entry| entry.map(|(k, v)| owned((&k, &v))).unwrap()),
        };
        let Some(entry) = entry else { break };
        if from_back { &mut back } else { &mut front }.push(entry);
    }
    back.reverse();
    assert_eq!([front, back].concat(), expected, "seed {seed}");
}

/// Some transactions, some of which abort; the model follows those that commit.
fn work(store: &Store, namespace: Namespace, model: &mut Model, seed: u64, random: &mut Xoshiro256PlusPlus) {
    // phases in which a tree grows, and in which it shrinks
    let deletes = [20, 50, 90][random.random_range(0..3)];
    for _ in 0..random.random_range(5..25) {
        let (mut tx, mut after) = (store.begin().unwrap(), model.clone());
        for number in 0..random.random_range(1..60) {
            let key = key(seed, random);
            assert_eq!(tx.read(namespace, &key).unwrap().as_deref(), after.get(&key).map(|value| &value[..]));
            if random.random_range(0..100) < deletes {
                assert_eq!(tx.delete(namespace, &key).unwrap(), after.remove(&key).is_some());
            } else {
                // some are too large to lie with their keys
                let value = vec![random.random(); random.random_range(0..[200, 200, 700][number % 3])];
                tx.put(namespace, &key, &value).unwrap();
                after.insert(key, value);
            }
        }
        compare(&mut tx, namespace, &after, seed, random);
        if random.random_range(0..5) == 0 {
            tx.abort();
        } else {
            tx.commit().unwrap();
            *model = after;
        }
        compare(&mut store.begin().unwrap(), namespace, model, seed, random);
    }
}

#[test]
fn an_ordered_namespace_is_a_sorted_map_over_reopening() {
    for seed in seeds(9) {
        let (folder, mut random) = (tempfile::tempdir().unwrap(), Xoshiro256PlusPlus::seed_from_u64(seed));
        let mut model = Model::new();
        for _ in 0..5 {
            let store = open(&folder);
            let namespace = store.namespace("a").unwrap();
            work(&store, namespace, &mut model, seed, &mut random);
            store.close().unwrap();
        }
        // until nothing is left, not even a node
        let store = open(&folder);
        let namespace = store.namespace("a").unwrap();
        let keys: Vec<_> = model.keys().cloned().collect();
        store
            .transact::<_, Error>(|tx| keys.iter().try_for_each(|key| tx.delete(namespace, key).map(drop)))
            .unwrap();
        assert!(all(store.begin().unwrap().all(namespace).unwrap()).is_empty());
        let left = store.with_drive(|drive| drive.namespaces()).unwrap();
        let left = left.iter().find(|info| info.namespace.0 == namespace.number()).unwrap().records;
        assert!(left <= 1, "seed {seed}: {left} records, beside that of the numbers");
    }
}

/// Power fails in the middle of commits. The store has what was committed, perhaps with the commit in progress.
#[test]
fn a_tree_is_whole_after_power_losses() {
    let mut unknown = 0;
    for seed in seeds(30) {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut profile = Profile::load(["tlc-nvme", "tlc-nvme-plp"][seed as usize % 2]).unwrap();
        profile.capacity_bytes = [32, 128][seed as usize % 2] << 20;
        profile.over_provisioning_percent = 40.0;
        let mut device = Device::in_memory(&profile).unwrap();
        let mut possible = vec![Model::new()];
        for _ in 0..4 {
            let store = Store::over(device, Options::default().sync(Sync::None)).unwrap();
            let namespace = store.namespace("a").unwrap();
            let found: Model = all(store.begin().unwrap().all(namespace).unwrap()).into_iter().collect();
            assert!(possible.contains(&found), "seed {seed}: {} keys", found.len());
            let mut model = found;
            store.with_drive(|drive| drive.cut_after(Some(random.random_range(1..150)))).unwrap();
            possible = loop {
                let (mut tx, mut after) = (store.begin().unwrap(), model.clone());
                for _ in 0..random.random_range(1..120) {
                    let key = key(seed, &mut random);
                    let value = vec![random.random(); random.random_range(0..200)];
                    match random.random_range(0..3) {
                        0 => drop((after.remove(&key), tx.delete(namespace, &key))),
                        _ => drop((tx.put(namespace, &key, &value), after.insert(key, value))),
                    }
                }
                match tx.commit() {
                    Ok(()) => model = after,
                    Err(Error::Drive(_) | Error::Stopped { .. }) => break vec![model, after],
                    Err(error) => panic!("seed {seed}: {error}"),
                }
            };
            unknown += 1;
            device = store.into_drive().unwrap();
            let now_ns = device.time_ns();
            device.cut_power(now_ns);
            device.power_on(&mut PowerLoss::seeded(random.random())).unwrap();
        }
    }
    println!("{unknown} power losses");
}

#[test]
fn kinds_are_kept_and_not_mixed_up() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let store = open(&folder);
        let (hashed, ordered) = (store.hashed_namespace("h").unwrap(), store.namespace("o").unwrap());
        assert_eq!(store.order_of(hashed).unwrap(), Order::Hashed);
        assert_eq!(store.order_of(ordered).unwrap(), Order::Ordered);
        assert!(matches!(store.hashed_namespace("o"), Err(Error::OtherOrder { order: Order::Ordered, .. })));
        let refused = store.hashed_namespace("o").unwrap_err().to_string();
        assert!(refused.ends_with("is an ordered namespace; open it with `namespace`"), "{refused}");
        // as programs did from before new namespaces were ordered
        assert_eq!(store.namespace("h").unwrap(), hashed);
        assert!(matches!(store.list(ordered, None, 1), Err(Error::NotListed)));
        let mut tx = store.begin().unwrap();
        assert!(matches!(tx.all(hashed), Err(Error::NotOrdered)));
        tx.put(hashed, b"key", b"value").unwrap();
        assert!(matches!(tx.put(hashed, [0; 17], b""), Err(Error::Key { bytes: 17, limit: 16, .. })));
        for bytes in [0, 1025] {
            let refused = tx.put(ordered, vec![0; bytes], b"");
            assert!(matches!(refused, Err(Error::Key { limit: 1024, .. })), "{refused:?}");
        }
        tx.put(ordered, [1; 1024], b"longest").unwrap();
        assert!(matches!(tx.insert(ordered, [1; 1024], b""), Err(Error::KeyExists { .. })));
        assert!(matches!(tx.update(ordered, b"other", b""), Err(Error::NoSuchKey { .. })));
        tx.commit().unwrap();
        store.close().unwrap();
    }
    let store = open(&folder);
    let ordered = store.namespace("o").unwrap();
    assert_eq!(store.begin().unwrap().read(ordered, [1; 1024]).unwrap().as_deref(), Some(&b"longest"[..]));
    store.delete_namespace("o").unwrap();
    assert!(matches!(store.begin().unwrap().all(ordered), Err(Error::NoSuchNamespace)));
    let again = store.namespace("o").unwrap();
    assert!(all(store.begin().unwrap().all(again).unwrap()).is_empty());
}

/// Each of two transactions counts the other's keys, and inserts one of its own if there are none: in any serial order
/// one of them does not insert.
#[test]
fn two_that_scan_where_the_other_inserts_do_not_both_commit() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    for turn in 0..300 {
        let namespace = store.namespace(&format!("turn {turn}")).unwrap();
        let (inserted, store) = (AtomicU64::new(0), &store);
        std::thread::scope(|scope| {
            for (mine, other) in [("a", "b"), ("b", "a")] {
                let inserted = &inserted;
                scope.spawn(move || {
                    let did = store.transact::<_, Error>(|tx| {
                        let others = tx.prefix(namespace, other)?.count();
                        std::thread::yield_now();
                        if others == 0 {
                            tx.insert(namespace, format!("{mine}{turn}"), b"1")?;
                        }
                        Ok(others == 0)
                    });
                    inserted.fetch_add(u64::from(did.unwrap()), Ordering::SeqCst);
                });
            }
        });
        assert_eq!(inserted.into_inner(), 1, "turn {turn}");
        store.delete_namespace(&format!("turn {turn}")).unwrap();
    }
    assert!(store.counters().deadlocks > 0, "they met");
}

/// Threads move money between accounts that they create and delete; adding up all accounts always gives the same sum.
#[test]
fn a_scan_sees_all_of_a_commit_or_nothing_while_keys_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let namespace = store.namespace("accounts").unwrap();
    let number = |value: &[u8]| u64::from_le_bytes(value.try_into().unwrap());
    store
        .transact::<_, Error>(|tx| {
            (0..100_u32).try_for_each(|key| tx.put(namespace, (key * 7).to_be_bytes(), 10_u64.to_le_bytes()))
        })
        .unwrap();
    let (done, sums) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (store, done) = (&store, &done);
            scope.spawn(move || {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(thread);
                while !done.load(Ordering::SeqCst) {
                    let [from, to] = [(); 2].map(|()| random.random_range(0..700_u32).to_be_bytes());
                    store
                        .transact::<_, Error>(|tx| {
                            // the whole of the first account from here on goes to another key
                            let first = tx.range(namespace, &from[..]..)?.for_update().next().transpose()?;
                            let Some((key, value)) = first else { return Ok(()) };
                            tx.delete(namespace, &key)?;
                            let has = tx.read_for_update(namespace, to)?.map_or(0, |value| number(&value));
                            tx.put(namespace, to, (has + number(&value)).to_le_bytes())
                        })
                        .unwrap();
                }
            });
        }
        let (store, done, sums) = (&store, &done, &sums);
        scope.spawn(move || {
            let start = Instant::now();
            // at least this many, however busy the machine is
            let is_enough = || sums.load(Ordering::SeqCst) > 10 && start.elapsed() > Duration::from_secs(2);
            while !is_enough() && start.elapsed() < Duration::from_secs(60) {
                let sum: u64 = store
                    .transact::<_, Error>(|tx| {
                        tx.all(namespace)?.map(|entry| entry.map(|(_, value)| number(&value))).sum()
                    })
                    .unwrap();
                assert_eq!(sum, 1000);
                let snapshot = store.snapshot().unwrap();
                for _ in 0..2 {
                    std::thread::yield_now();
                    let range = snapshot.all(namespace).unwrap().rev();
                    assert_eq!(range.map(|entry| number(&entry.unwrap().1)).sum::<u64>(), 1000);
                }
                sums.fetch_add(1, Ordering::SeqCst);
            }
            done.store(true, Ordering::SeqCst);
        });
    });
    assert!(sums.into_inner() > 10);
}

/// Readers of one key do not keep others from inserting next to it; readers of a range do.
#[test]
fn only_ranges_that_were_read_keep_others_from_inserting() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let namespace = store.namespace("a").unwrap();
    store
        .transact::<_, Error>(|tx| ["b", "d", "f"].iter().try_for_each(|key| tx.put(namespace, key, b"1")))
        .unwrap();
    let mut reader = store.begin().unwrap();
    assert!(reader.read(namespace, "d").unwrap().is_some() && reader.read(namespace, "x").unwrap().is_none());
    assert_eq!(reader.range(namespace, "a".."c").unwrap().count(), 1);
    let mut writer = store.begin().unwrap();
    assert!(writer.try_lock(namespace, "c").unwrap() && writer.try_lock(namespace, "y").unwrap());
    for key in ["a", "bb", "d", "x"] {
        assert!(!writer.try_lock(namespace, key).unwrap(), "{key}");
    }
    drop(reader);
    for key in ["a", "bb", "d", "x"] {
        assert!(writer.try_lock(namespace, key).unwrap(), "{key}");
    }
}

#[test]
fn keys_are_iterated_over_to_be_changed() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::options()
        .capacity_bytes(16 << 20)
        .sync(tantalum_kv::Sync::None)
        .open(folder.path().join("app.tant"))
        .unwrap();
    let names = store.namespace("names").unwrap();
    store.transact(|tx| ["a", "b", "c"].iter().try_for_each(|key| tx.put(names, key, b"1"))).unwrap();
    let (mut first, mut second) = (store.begin().unwrap(), store.begin().unwrap());
    assert_eq!(first.all(names).unwrap().keys().for_update().count(), 3);
    assert!(!second.try_lock(names, b"b").unwrap());
    drop(first);
    assert!(second.try_lock(names, b"b").unwrap(), "and the locks go with the transaction");
}

/// A value that grows moves out of its leaf into a record, and one that shrinks moves in. Whoever has a snapshot reads what was there.
#[test]
fn a_value_moves_out_of_its_leaf_and_in_again_and_snapshots_see_each() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let namespace = store.namespace("a").unwrap();
    let records = |store: &Store| {
        let number = namespace.number();
        let count = |drive: &mut Device| {
            drive.namespaces().iter().find(|info| info.namespace.0 == number).map(|info| info.records)
        };
        store.with_drive(count).unwrap().unwrap()
    };
    let put = |bytes: usize| {
        store
            .transact(|tx| {
                (0..40_u32).try_for_each(|n| tx.put(namespace, n.to_be_bytes(), vec![n as u8; bytes]))
            })
            .unwrap();
        store.snapshot().unwrap()
    };
    let mut seen = Vec::new();
    for (bytes, is_apart) in [(10, false), (500, true), (3, false), (316, false), (317, true), (0, false)] {
        seen.push((bytes, put(bytes)));
        let records = records(&store);
        assert_eq!(records > 40, is_apart, "{records} records with values of {bytes} bytes");
    }
    for (bytes, snapshot) in seen.iter().rev() {
        let expected: Vec<_> =
            (0..40_u32).map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; *bytes])).collect();
        assert_eq!(all(snapshot.all(namespace).unwrap()), expected, "{bytes} bytes");
        assert_eq!(backwards(snapshot.all(namespace).unwrap()).len(), 40);
        let read = snapshot.read(namespace, 7_u32.to_be_bytes()).unwrap();
        assert_eq!(read.as_deref(), Some(&vec![7; *bytes][..]), "{bytes} bytes");
    }
    drop(seen);
    store.close().unwrap();
    let store = open(&folder);
    assert_eq!(all(store.begin().unwrap().all(namespace).unwrap()).len(), 40);
    assert!(records(&store) < 10, "{} records are left", records(&store));
}

/// What looks like the head of a large value is a value, of one that is there too.
#[test]
fn a_small_value_that_looks_like_a_head_is_read_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let namespace = store.namespace("a").unwrap();
    let large = vec![3; 1_500_000];
    store.transact(|tx| tx.put(namespace, "large", &large)).unwrap();
    let heads: Vec<Vec<u8>> = (0..4_u64).map(|n| [&b"large"[..], &n.to_le_bytes()].concat()).collect();
    store.transact(|tx| heads.iter().try_for_each(|head| tx.put(namespace, head, head))).unwrap();
    for _ in 0..2 {
        let mut tx = store.begin().unwrap();
        for head in &heads {
            assert_eq!(tx.read(namespace, head).unwrap().as_deref(), Some(&head[..]));
        }
        assert_eq!(tx.read(namespace, "large").unwrap().as_deref(), Some(&large[..]));
        assert_eq!(tx.all(namespace).unwrap().count(), 5);
        drop(tx);
        store.transact(|tx| tx.put(namespace, "large", &large)).unwrap();
    }
}
