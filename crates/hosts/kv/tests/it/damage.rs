//! Records whose flash cannot be read are named as their users know them; others are read, and what is lost can be dropped.

use std::collections::BTreeSet;
use std::path::Path;

use tantalum_kv::{Error, Namespace, Options, Part, Store, Sync};

const RECORDS: u32 = 3000;

fn options() -> Options {
    Store::options().capacity_bytes(16 << 20).sync(Sync::None)
}

fn key(number: u32) -> Vec<u8> {
    format!("key {number:04}").into_bytes()
}

fn value(name: &str, number: u32) -> Vec<u8> {
    format!("{name} {number:04} ").repeat(40).into_bytes()
}

/// A store of two namespaces, each loaded in one transaction.
fn load(path: &Path) {
    let store = options().open(path).unwrap();
    let (hashed, ordered) = (store.namespace("hashed").unwrap(), store.ordered("ordered").unwrap());
    for (namespace, name) in [(hashed, "HASHED"), (ordered, "ORDERED")] {
        let put = |tx: &mut tantalum_kv::Transaction| {
            (0..RECORDS).try_for_each(|number| tx.put(namespace, key(number), value(name, number)))
        };
        store.transact(put).unwrap();
    }
    store.close().unwrap();
}

/// Changes a bit of every place that holds these bytes; there is one at least.
pub fn corrupt(path: &Path, pattern: &[u8]) {
    let mut image = std::fs::read(path).unwrap();
    let places: Vec<usize> =
        image.windows(pattern.len()).enumerate().filter(|(_, at)| *at == pattern).map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| image[at + 3] ^= 0x40);
    std::fs::write(path, image).unwrap();
}

/// What is lost according to the walk of an iterator, and the numbers of all others.
fn walk(entries: impl Iterator<Item = Result<Vec<u8>, Error>>) -> (Vec<Error>, BTreeSet<u32>) {
    let (mut lost, mut there) = (Vec::new(), BTreeSet::new());
    for entry in entries {
        match entry {
            Ok(found) => assert!(there.insert(std::str::from_utf8(&found[4..]).unwrap().parse().unwrap())),
            Err(error) => lost.push(error),
        }
    }
    (lost, there)
}

fn is_lost(error: &Error, name: &str, lost: &mut BTreeSet<u32>) {
    match error {
        Error::Damaged { namespace, key } if namespace == name => {
            lost.insert(std::str::from_utf8(&key[4..]).unwrap().parse().unwrap());
        }
        Error::DamagedIndex { namespace, from, to } if namespace == name => {
            let in_gap = |number: &u32| {
                let key = key(*number);
                key[..] >= **from && to.as_ref().is_none_or(|to| key[..] < **to)
            };
            lost.extend((0..RECORDS).filter(in_gap));
        }
        error => panic!("{error}"),
    }
}

/// Reads everything in every way. Returns what is lost of the ordered namespace, and how many errors said so.
fn read_all(store: &Store, ordered: Namespace) -> (BTreeSet<u32>, usize) {
    let snapshot = store.snapshot().unwrap();
    let (errors, there) =
        walk(snapshot.all(ordered).unwrap().map(|entry| entry.map(|(key, _)| key.to_vec())));
    let mut lost = BTreeSet::new();
    errors.iter().for_each(|error| is_lost(error, "ordered", &mut lost));
    assert_eq!(lost.len() + there.len(), RECORDS as usize, "each is there or lost");
    let mut tx = store.begin().unwrap();
    for (more, again) in [
        walk(tx.all(ordered).unwrap().map(|entry| entry.map(|(key, _)| key.to_vec()))),
        walk(tx.all(ordered).unwrap().rev().map(|entry| entry.map(|(key, _)| key.to_vec()))),
        walk(snapshot.all(ordered).unwrap().rev().map(|entry| entry.map(|(key, _)| key.to_vec()))),
    ] {
        assert_eq!((more.len(), &again), (errors.len(), &there));
    }
    for backwards in [false, true] {
        let (mut bounds, mut found) = ((std::ops::Bound::Unbounded, std::ops::Bound::Unbounded), 0);
        loop {
            let range = tx.range(ordered, bounds.clone()).unwrap();
            let Part { records, rest, .. } = range.part(bounds, 64, backwards);
            found += records.len();
            let Some(next) = rest else { break };
            bounds = next;
        }
        assert_eq!(found, there.len());
    }
    for number in 0..RECORDS {
        match tx.read(ordered, key(number)) {
            Ok(read) => assert_eq!(read.as_deref(), Some(&value("ORDERED", number)[..])),
            Err(error) => {
                let mut which = BTreeSet::new();
                is_lost(&error, "ordered", &mut which);
                assert!(which.contains(&number) && lost.contains(&number), "{error}");
            }
        }
    }
    (lost, errors.len())
}

/// Whoever hit a damaged record was told a number of the drive, and a scan ended there.
#[test]
fn a_damaged_record_is_named_and_passed_and_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.tant");
    load(&path);
    corrupt(&path, &value("HASHED", 7));
    corrupt(&path, &value("ORDERED", 1234));
    let store = options().open(&path).unwrap();
    let (hashed, ordered) = (store.namespace("hashed").unwrap(), store.ordered("ordered").unwrap());
    let (lost, _) = read_all(&store, ordered);
    assert!(lost.contains(&1234) && lost.len() < 20, "{lost:?}");
    let error = store.begin().unwrap().read(ordered, key(1234)).unwrap_err();
    assert!(error.to_string().contains("key \"key 1234\" in namespace \"ordered\""), "{error}");
    let error = store.begin().unwrap().read(hashed, key(7)).unwrap_err();
    assert!(error.to_string().contains("key \"key 0007\" in namespace \"hashed\""), "{error}");
    // the key is there; to write it anew or to delete it mends it
    let again = store.transact(|tx| tx.insert(ordered, key(1234), b"new"));
    assert!(matches!(again, Err(Error::KeyExists { .. })));
    store.transact(|tx| tx.update(ordered, key(1234), value("ORDERED", 1234))).unwrap();
    assert!(store.transact(|tx| tx.delete(hashed, key(7))).unwrap());
    let damage = store.find_damage().unwrap();
    let concerns = |name: &str| damage.iter().filter(|error| error.to_string().contains(name)).count();
    assert_eq!(concerns("\"ordered\""), lost.len() - 1);
    assert_eq!(concerns("\"hashed\"") + concerns("\"ordered\""), damage.len());
    store.drop_damaged(&damage).unwrap();
    assert_eq!(store.find_damage().unwrap().len(), 0);
    let left = store.begin().unwrap().all(ordered).unwrap().map(Result::unwrap).count();
    assert_eq!(left, RECORDS as usize + 1 - lost.len());
}

#[test]
fn a_damaged_node_loses_its_keys_alone_and_the_index_is_built_anew_without_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.tant");
    load(&path);
    corrupt(&path, b"key 1500key 1501key 1502");
    let store = options().open(&path).unwrap();
    let ordered = store.ordered("ordered").unwrap();
    let (lost, errors) = read_all(&store, ordered);
    assert!(lost.contains(&1501) && (50..400).contains(&lost.len()), "{} lost", lost.len());
    assert!(errors < lost.len());
    // what is elsewhere can be changed, and what is there cannot
    store.transact(|tx| tx.put(ordered, key(3), value("ORDERED", 3))).unwrap();
    let refused = store.transact(|tx| tx.put(ordered, key(1501), b"new"));
    assert!(matches!(refused, Err(Error::DamagedIndex { .. })), "{refused:?}");
    let damage = store.find_damage().unwrap();
    store.drop_damaged(&damage).unwrap();
    assert_eq!(store.find_damage().unwrap().len(), 0);
    let (errors, there) =
        walk(store.begin().unwrap().all(ordered).unwrap().map(|entry| entry.map(|(key, _)| key.to_vec())));
    assert!(errors.is_empty());
    assert_eq!(there, (0..RECORDS).filter(|number| !lost.contains(number)).collect());
    // numbers of values are not used twice
    store
        .transact(|tx| lost.iter().try_for_each(|n| tx.put(ordered, key(*n), value("ORDERED", *n))))
        .unwrap();
    store.close().unwrap();
    let store = options().open(&path).unwrap();
    assert_eq!(read_all(&store, ordered), (BTreeSet::new(), 0));
}
