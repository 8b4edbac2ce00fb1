//! Records whose flash cannot be read are named as their users know them; others are read, and what is lost can be dropped.

use std::collections::BTreeSet;
use std::path::Path;

use tantalum::{Device, PowerLoss, Status};
use tantalum_kv::{Error, Namespace, Options, Part, Snapshot, Store, Sync};

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
    let (hashed, ordered) = (store.hashed_namespace("hashed").unwrap(), store.namespace("ordered").unwrap());
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
    let (hashed, ordered) = (store.hashed_namespace("hashed").unwrap(), store.namespace("ordered").unwrap());
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
fn a_damaged_node_loses_its_keys_alone_and_is_taken_out_of_its_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.tant");
    load(&path);
    corrupt(&path, b"key 1500key 1501key 1502");
    let store = options().open(&path).unwrap();
    let ordered = store.namespace("ordered").unwrap();
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

/// What is lost of a snapshot, by key, and how many keys it has in all.
fn lost_in(snapshot: &Snapshot, namespace: Namespace) -> (BTreeSet<u32>, usize) {
    let keys = snapshot.list(namespace, None, usize::MAX).unwrap();
    let mut lost = BTreeSet::new();
    for key in &keys {
        let number = std::str::from_utf8(&key.as_bytes()[4..]).unwrap().parse().unwrap();
        match snapshot.read(namespace, key) {
            Ok(read) => assert_eq!(read.as_deref(), Some(&value("HASHED", number)[..])),
            Err(error) => is_lost(&error, "hashed", &mut lost),
        }
    }
    (lost, keys.len())
}

/// What a change replaces is kept for snapshots, so that a damaged record could neither be deleted nor written anew while one was
/// open, and a commit of several steps stopped the store.
#[test]
fn a_snapshot_goes_on_and_reports_what_is_lost_of_it_when_that_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.tant");
    load(&path);
    corrupt(&path, &value("HASHED", 7));
    corrupt(&path, &value("HASHED", 2007));
    corrupt(&path, &value("ORDERED", 1234));
    let store = options().open(&path).unwrap();
    let (hashed, ordered) = (store.hashed_namespace("hashed").unwrap(), store.namespace("ordered").unwrap());
    let first = store.snapshot().unwrap();
    let (lost, all) = lost_in(&first, hashed);
    assert!(lost.contains(&7) && lost.contains(&2007) && lost.len() < 40, "{lost:?}");
    let in_order = |snapshot: &Snapshot| {
        walk(snapshot.all(ordered).unwrap().map(|entry| entry.map(|(key, _)| key.to_vec())))
    };
    let (errors, there) = in_order(&first);
    // one of them is written anew: the second snapshot has only the others
    store.transact(|tx| tx.put(hashed, key(7), value("HASHED", 7))).unwrap();
    let second = store.snapshot().unwrap();
    let damage = store.find_damage().unwrap();
    assert_eq!(damage.len(), lost.len() - 1 + errors.len());
    store.drop_damaged(&damage).unwrap();
    assert_eq!(store.find_damage().unwrap().len(), 0);
    assert_eq!(lost_in(&first, hashed), (lost.clone(), all));
    let mut others = lost.clone();
    others.remove(&7);
    assert_eq!(lost_in(&second, hashed), (others.clone(), all));
    assert_eq!(lost_in(&store.snapshot().unwrap(), hashed), (BTreeSet::new(), all - others.len()));
    for snapshot in [&first, &second] {
        let (again, still_there) = in_order(snapshot);
        assert_eq!((again.len(), &still_there), (errors.len(), &there));
        let error = snapshot.read(ordered, key(1234)).unwrap_err();
        assert!(error.to_string().contains("key \"key 1234\" in namespace \"ordered\""), "{error}");
    }
    drop((first, second));
    assert_eq!(store.counters().snapshot_bytes, 0);
}

/// In a commit of several steps, too.
#[test]
fn a_large_transaction_replaces_damaged_records_while_a_snapshot_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.tant");
    load(&path);
    corrupt(&path, &value("HASHED", 7));
    let store = options().open(&path).unwrap();
    let hashed = store.hashed_namespace("hashed").unwrap();
    let snapshot = store.snapshot().unwrap();
    let before = lost_in(&snapshot, hashed);
    store.transact(|tx| (0..RECORDS).try_for_each(|n| tx.put(hashed, key(n), value("HASHED", n)))).unwrap();
    assert_eq!(store.refuses_changes(), None);
    assert_eq!(lost_in(&snapshot, hashed), before);
    assert_eq!(lost_in(&store.snapshot().unwrap(), hashed), (BTreeSet::new(), RECORDS as usize));
}

#[test]
fn a_snapshot_sees_what_it_saw_of_a_damaged_index_that_is_mended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.tant");
    load(&path);
    corrupt(&path, b"key 1500key 1501key 1502");
    let store = options().open(&path).unwrap();
    let ordered = store.namespace("ordered").unwrap();
    let snapshot = store.snapshot().unwrap();
    let walk_all = || {
        let (errors, there) = walk(snapshot.all(ordered).unwrap().map(|entry| {
            entry.map(|(key, value)| {
                let number = std::str::from_utf8(&key[4..]).unwrap().parse().unwrap();
                assert_eq!(value[..], value_of(number)[..]);
                key.to_vec()
            })
        }));
        (errors.iter().map(ToString::to_string).collect::<Vec<_>>(), there)
    };
    let before = walk_all();
    assert!(!before.0.is_empty() && !before.1.contains(&1501));
    store.drop_damaged(&store.find_damage().unwrap()).unwrap();
    assert_eq!(store.find_damage().unwrap().len(), 0);
    assert_eq!(walk_all(), before);
    let error = snapshot.read(ordered, key(1501)).unwrap_err();
    assert!(matches!(error, Error::DamagedIndex { .. }), "{error}");
}

fn value_of(number: u32) -> Vec<u8> {
    value("ORDERED", number)
}

/// It was deleted, although its value could be read.
#[test]
fn what_was_written_anew_since_it_was_found_damaged_is_not_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.tant");
    load(&path);
    corrupt(&path, &value("HASHED", 7));
    let store = options().open(&path).unwrap();
    let hashed = store.hashed_namespace("hashed").unwrap();
    let damage = store.find_damage().unwrap();
    store.transact(|tx| tx.put(hashed, key(7), b"new")).unwrap();
    store.drop_damaged(&damage).unwrap();
    let read = store.begin().unwrap().read(hashed, key(7)).unwrap();
    assert_eq!(read.as_deref(), Some(&b"new"[..]));
    assert_eq!(store.list(hashed, None, usize::MAX).unwrap().len(), RECORDS as usize + 1 - damage.len());
}

#[test]
fn a_store_opened_to_be_read_drops_nothing_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.tant");
    load(&path);
    corrupt(&path, &value("HASHED", 7));
    corrupt(&path, b"key 1500key 1501key 1502");
    let store = options().read_only(true).open(&path).unwrap();
    let damage = store.find_damage().unwrap();
    for damage in [&damage[..], &damage[..1], &damage[damage.len() - 1..]] {
        let refused = store.drop_damaged(damage);
        assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
    }
    assert_eq!(store.find_damage().unwrap().len(), damage.len());
}

/// Power goes at each flash operation while damage is dropped; afterwards the rest is dropped.
#[test]
fn power_that_goes_while_damage_is_dropped_loses_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let [damaged, image] = ["damaged.tant", "image.tant"].map(|name| folder.path().join(name));
    load(&damaged);
    corrupt(&damaged, &value("HASHED", 7));
    corrupt(&damaged, &value("ORDERED", 234));
    corrupt(&damaged, b"key 1500key 1501key 1502");
    let mut cuts = 0;
    for operation in 1.. {
        std::fs::copy(&damaged, &image).unwrap();
        let store = Store::over(Device::open(&image).unwrap(), options()).unwrap();
        let (hashed, ordered) =
            (store.hashed_namespace("hashed").unwrap(), store.namespace("ordered").unwrap());
        let damage = store.find_damage().unwrap();
        let (lost_hashed, _) = lost_in(&store.snapshot().unwrap(), hashed);
        let (lost_ordered, _) = read_all(&store, ordered);
        store.with_drive(|drive| drive.cut_after(Some(operation))).unwrap();
        let dropped = store.drop_damaged(&damage);
        let mut device = store.into_drive().unwrap();
        let is_done = device.has_power();
        assert!(dropped.is_ok() || !is_done, "{dropped:?}");
        cuts += u32::from(!is_done);
        let now_ns = device.time_ns();
        device.cut_power(now_ns);
        device.power_on(&mut PowerLoss::seeded(operation)).unwrap();
        let store = Store::over(device, options()).unwrap();
        let rest = store.find_damage().unwrap();
        assert!(rest.is_empty() || dropped.is_err(), "{rest:?}");
        assert!(rest.iter().all(|rest| damage.iter().any(|error| error.to_string() == rest.to_string())));
        store.drop_damaged(&rest).unwrap();
        assert_eq!(store.find_damage().unwrap().len(), 0);
        let (lost, keys) = lost_in(&store.snapshot().unwrap(), hashed);
        assert_eq!((lost.len(), keys), (0, RECORDS as usize - lost_hashed.len()), "operation {operation}");
        let (errors, there) = walk(
            store.begin().unwrap().all(ordered).unwrap().map(|entry| entry.map(|(key, _)| key.to_vec())),
        );
        assert!(errors.is_empty());
        assert_eq!(there, (0..RECORDS).filter(|number| !lost_ordered.contains(number)).collect());
        if is_done {
            break;
        }
    }
    assert!(cuts >= 2, "{cuts} cuts");
}

/// The index was built anew, for which a full store has no room.
#[test]
fn a_full_store_drops_damaged_records_and_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.tant");
    load(&path);
    let store = options().open(&path).unwrap();
    let ordered = store.namespace("ordered").unwrap();
    let more = |number: u32| format!("more {number:06}").into_bytes();
    let (mut records, mut at_once) = (0, 500);
    while at_once > 0 {
        let put = store.transact(|tx| {
            (records..records + at_once).try_for_each(|number| tx.put(ordered, more(number), [7; 300]))
        });
        match put {
            Ok(()) => records += at_once,
            Err(Error::Drive(Status::CapacityExceeded)) => at_once /= 2,
            Err(error) => panic!("{error}"),
        }
    }
    store.close().unwrap();
    corrupt(&path, &value("HASHED", 7));
    corrupt(&path, &value("ORDERED", 234));
    let store = options().open(&path).unwrap();
    let damage = store.find_damage().unwrap();
    assert!(!damage.is_empty());
    store.drop_damaged(&damage).unwrap();
    assert_eq!(store.find_damage().unwrap().len(), 0);
    store.close().unwrap();
    corrupt(&path, b"key 1500key 1501key 1502");
    let store = options().open(&path).unwrap();
    let damage = store.find_damage().unwrap();
    assert!(damage.iter().any(|error| matches!(error, Error::DamagedIndex { .. })), "{damage:?}");
    store.drop_damaged(&damage).unwrap();
    assert_eq!(store.find_damage().unwrap().len(), 0);
    let ordered = store.namespace("ordered").unwrap();
    let kept = store.begin().unwrap().prefix(ordered, "more").unwrap().keys().map(Result::unwrap).count();
    assert_eq!(kept, records as usize);
    store.transact(|tx| (0..records).try_for_each(|n| tx.delete(ordered, more(n)).map(drop))).unwrap();
}

/// Changes a bit of every node right above the leaves whose second child begins with these bytes.
fn corrupt_inner(path: &Path, second: &[u8]) {
    let mut image = std::fs::read(path).unwrap();
    // format, level, number of children; the first child's key is empty
    let is_meant = |node: &[u8]| {
        let children = usize::from(u16::from_le_bytes([node[2], node[3]]));
        let keys = node.get(4 + 10 * children..);
        node[..2] == [1, 1] && node[4..6] == [0, 0] && keys.is_some_and(|keys| keys.starts_with(second))
    };
    let nodes: Vec<usize> =
        image.windows(2048).enumerate().filter(|(_, node)| is_meant(node)).map(|(at, _)| at).collect();
    assert!(!nodes.is_empty());
    nodes.iter().for_each(|at| image[at + 8] ^= 0x40);
    std::fs::write(path, image).unwrap();
}

/// The nodes and values below a lost inner node cannot be found any more.
#[test]
fn what_is_below_a_damaged_inner_node_leaves_no_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.tant");
    let store = options().open(&path).unwrap();
    let ordered = store.namespace("ordered").unwrap();
    let key = |number: u32| format!("key {number:05}").into_bytes();
    const MANY: u32 = 20_000;
    for first in (0..MANY).step_by(500) {
        store
            .transact(|tx| (first..first + 500).try_for_each(|n| tx.put(ordered, key(n), b"value")))
            .unwrap();
    }
    let records = |store: &Store| store.with_drive(|drive| drive.namespaces()[1].records).unwrap();
    store.close().unwrap();
    corrupt_inner(&path, b"key 00");
    let store = options().open(&path).unwrap();
    let damage = store.find_damage().unwrap();
    assert!(matches!(&damage[..], [Error::DamagedIndex { to: Some(_), .. }]), "{damage:?}");
    let before = records(&store);
    store.drop_damaged(&damage).unwrap();
    assert_eq!(store.find_damage().unwrap().len(), 0);
    let (errors, left) =
        walk(store.begin().unwrap().all(ordered).unwrap().map(|entry| entry.map(|(key, _)| key.to_vec())));
    let lost = MANY - left.len() as u32;
    assert!(errors.is_empty() && (1000..MANY).contains(&lost), "{lost} keys are lost");
    assert_eq!(left, (lost..MANY).collect());
    // twenty small values lie in a leaf
    let gone = u64::from(lost) / 25;
    assert!(records(&store) <= before - gone, "{before} records, then {}", records(&store));
    store.transact(|tx| (0..MANY).try_for_each(|n| tx.delete(ordered, key(n)).map(drop))).unwrap();
    assert_eq!(records(&store), 1, "which numbers are issued");
    store.transact(|tx| tx.put(ordered, "new", "value")).unwrap();
    store.close().unwrap();
    let store = options().open(&path).unwrap();
    assert_eq!(store.find_damage().unwrap().len(), 0);
}
