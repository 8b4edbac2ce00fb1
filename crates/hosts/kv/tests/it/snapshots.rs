//! Snapshots see what was committed when they were opened, whatever is committed later. `SEED=17` runs one seed.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum_kv::{Error, Namespace, Snapshot, Store, Sync};
use tempfile::TempDir;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(folder: &TempDir, cache_bytes: usize, snapshot_bytes: usize) -> Store {
    let options = Store::options().capacity_bytes(64 << 20).sync(Sync::None);
    let options = options.cache_bytes(cache_bytes).snapshot_bytes(snapshot_bytes);
    options.open(folder.path().join("app.tant")).unwrap()
}

/// All of a hashed namespace, listed in pages.
fn listed(snapshot: &Snapshot, namespace: Namespace, page: usize) -> Model {
    let mut model = Model::new();
    let mut from: Option<Vec<u8>> = None;
    loop {
        let keys = snapshot.list(namespace, from.as_deref(), page).unwrap();
        let ended = keys.len() < page;
        from = keys.last().map(|key| key.as_bytes().to_vec());
        for key in keys {
            let value = snapshot.read(namespace, key).unwrap().expect("it is listed");
            model.insert(key.as_bytes().to_vec(), value.to_vec());
        }
        if ended {
            return model;
        }
    }
}

#[test]
fn snapshots_are_as_the_store_was() {
    let seeds = std::env::var("SEED").map_or(0..12, |seed| {
        let seed: u64 = seed.parse().unwrap();
        seed..seed + 1
    });
    for seed in seeds {
        let (folder, mut random) = (tempfile::tempdir().unwrap(), Xoshiro256PlusPlus::seed_from_u64(seed));
        let store = open(&folder, [0, 100_000, 64 << 20][seed as usize % 3], 64 << 20);
        let (hashed, ordered) = (store.hashed_namespace("h").unwrap(), store.namespace("o").unwrap());
        let (mut model, mut snapshots) = (Model::new(), Vec::<(Snapshot, Model)>::new());
        for _ in 0..60 {
            let mut tx = store.begin().unwrap();
            for _ in 0..random.random_range(1..80) {
                let key = random.random_range(0..300_u32).to_string().into_bytes();
                if random.random_range(0..3) == 0 {
                    tx.delete(hashed, &key).unwrap();
                    tx.delete(ordered, &key).unwrap();
                    model.remove(&key);
                } else {
                    let value = vec![random.random(); random.random_range(0..300)];
                    tx.put(hashed, &key, &value).unwrap();
                    tx.put(ordered, &key, &value).unwrap();
                    model.insert(key, value);
                }
            }
            tx.commit().unwrap();
            match random.random_range(0..4) {
                0 => snapshots.push((store.snapshot().unwrap(), model.clone())),
                1 if !snapshots.is_empty() => {
                    drop(snapshots.swap_remove(random.random_range(0..snapshots.len())))
                }
                _ => {}
            }
            for (snapshot, model) in &snapshots {
                let key = random.random_range(0..300_u32).to_string().into_bytes();
                for namespace in [hashed, ordered] {
                    let found = snapshot.read(namespace, &key).unwrap();
                    assert_eq!(found.as_deref(), model.get(&key).map(|value| &value[..]), "seed {seed}");
                }
            }
            if let Some((snapshot, model)) = snapshots.last() {
                let page = [2, 7, 1000][random.random_range(0..3)];
                assert_eq!(&listed(snapshot, hashed, page), model, "seed {seed}");
                let found = snapshot.all(ordered).unwrap().map(|entry| entry.unwrap());
                let found: Vec<_> = found.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
                assert!(found.iter().map(|(key, value)| (key, value)).eq(model), "seed {seed}");
                let reversed = snapshot.all(ordered).unwrap().rev().map(|entry| entry.unwrap().0.to_vec());
                assert!(reversed.eq(model.keys().rev().cloned()), "seed {seed}");
            }
        }
        drop(snapshots);
        assert_eq!(store.counters().snapshot_bytes, 0, "nothing is kept for nobody");
    }
}

/// A writer holds locks on everything that the snapshot reads, and vice versa.
#[test]
fn a_snapshot_waits_for_nobody_and_nobody_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder, 1 << 20, 1 << 20);
    let (hashed, ordered) = (store.hashed_namespace("h").unwrap(), store.namespace("o").unwrap());
    let put = |value: &[u8]| {
        let mut tx = store.begin().unwrap();
        tx.put(hashed, b"k", value).unwrap();
        tx.put(ordered, b"k", value).unwrap();
        tx
    };
    put(b"1").commit().unwrap();
    let uncommitted = put(b"2");
    let snapshot = store.snapshot().unwrap();
    for namespace in [hashed, ordered] {
        assert_eq!(snapshot.read(namespace, b"k").unwrap().as_deref(), Some(&b"1"[..]));
    }
    let range = snapshot.all(ordered).unwrap();
    uncommitted.commit().unwrap();
    assert_eq!(range.count(), 1);
    assert_eq!(snapshot.read(hashed, b"k").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(store.snapshot().unwrap().read(hashed, b"k").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(store.counters().conflicts, 0);
    assert_eq!(snapshot.namespaces().map(|(name, ..)| name).collect::<Vec<_>>(), ["h", "o"]);
    store.delete_namespace("h").unwrap();
    assert!(matches!(snapshot.read(hashed, b"k"), Err(Error::NoSuchNamespace)));
    assert_eq!(snapshot.read(ordered, b"k").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_snapshot_for_which_too_much_was_overwritten_says_so_and_writers_do_not_notice() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder, 1 << 20, 100_000);
    let (hashed, ordered) = (store.hashed_namespace("h").unwrap(), store.namespace("o").unwrap());
    let write = |number: u8| {
        store.transact::<_, Error>(|tx| {
            (0..50_u8).try_for_each(|key| tx.put(hashed, [key], [number; 500]))?;
            (0..50_u8).try_for_each(|key| tx.put(ordered, [key], [number; 500]))
        })
    };
    write(1).unwrap();
    let old = store.snapshot().unwrap();
    write(2).unwrap();
    assert_eq!(old.read(hashed, [3]).unwrap().as_deref(), Some(&[1; 500][..]));
    let new = store.snapshot().unwrap();
    write(3).unwrap();
    for lost in [old.read(hashed, [3]).map(drop), old.list(hashed, None, 1).map(drop)] {
        assert!(matches!(lost, Err(Error::SnapshotLost { budget_bytes: 100_000 })), "{lost:?}");
    }
    let mut range = old.all(ordered).unwrap();
    assert!(matches!(range.next(), Some(Err(Error::SnapshotLost { .. }))) && range.next().is_none());
    assert_eq!(new.read(ordered, [3]).unwrap().as_deref(), Some(&[2; 500][..]));
    drop(range);
    drop((old, new));
    assert_eq!(store.counters().snapshot_bytes, 0);
}
