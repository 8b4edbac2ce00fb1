//! What a store writes, and what it refuses.

use std::sync::atomic::{AtomicBool, Ordering};

use tantalum::{
    Access, Device, HostError, HostFailure, HostFault, Mapping, Profile, Status, TestHost, UNIT_BYTES,
};
use tantalum_couch::{Batch, Error, Folder, Options, Storage, Store, VolumeStorage, Way};
use tantalum_volume::Volume;

const NAME: &str = "docs.couch";

/// A value whose record is one unit, with keys of eight bytes.
const VALUE: [u8; 4096 - 32 - 8] = [7; 4096 - 32 - 8];

fn volume() -> VolumeStorage {
    let mut profile = Profile::load("tlc-nvme").unwrap();
    profile.capacity_bytes = 256 << 20;
    VolumeStorage::new(Volume::format(Device::in_memory(&profile).unwrap(), 1 << 20).unwrap())
}

fn key(number: u32) -> [u8; 8] {
    format!("{number:08}").into_bytes().try_into().unwrap()
}

fn loaded(way: Way, documents: u32) -> Store<VolumeStorage> {
    let store = Store::open(volume(), NAME, Options { way, ..Options::default() }).unwrap();
    let mut batch = Batch::new();
    (0..documents).for_each(|number| batch.put(&key(number), &VALUE).unwrap());
    store.commit(&batch).unwrap();
    store.compact().unwrap();
    store
}

fn written(store: &Store<VolumeStorage>) -> u64 {
    store.storage().volume().device().smart().counters.host_units_written
}

/// Of 20,000 documents both trees have two levels: an update appends the document, a leaf and the root by key, two leaves
/// and the root by change (one loses the change before, one gets the new one), and a header. Shared, it writes the document.
#[test]
fn an_update_writes_seven_units_or_one() {
    for (way, units) in [(Way::Original, 7), (Way::Share, 1)] {
        let store = loaded(way, 20_000);
        // the first lets the file grow
        store.put(&key(5), &VALUE).unwrap();
        let before = written(&store);
        for number in 0..10 {
            store.put(&key(number * 1999), &VALUE).unwrap();
        }
        assert_eq!(written(&store) - before, 10 * units, "{way:?}");
    }
}

#[test]
fn compaction_copies_documents_or_writes_the_index_alone() {
    for way in [Way::Original, Way::Share] {
        let store = loaded(way, 5000);
        let before = written(&store);
        store.compact().unwrap();
        let units = written(&store) - before;
        match way {
            Way::Original => assert!(units > 5000, "{units}"),
            Way::Share => assert!(units < 200, "{units}"),
        }
        assert_eq!(store.snapshot().iter().unwrap().map(Result::unwrap).count(), 5000);
    }
}

/// The staging area is used over and over, so that few units are shared at any time and the file hardly grows.
#[test]
fn shared_updates_do_not_let_the_file_grow() {
    let store = loaded(Way::Share, 2000);
    let before = store.statistics();
    for round in 0..4_u32 {
        for number in 0..2000 {
            store.put(&key(number), &vec![round as u8; VALUE.len()]).unwrap();
        }
    }
    let after = store.statistics();
    assert_eq!(after.documents_shared - before.documents_shared, 8000);
    let grown = (after.file_bytes - before.file_bytes) / UNIT_BYTES as u64;
    assert!(grown < 200, "{grown} units");
}

/// Found by the torture test: a header also contained the checksum of the documents that its commit appended, and was
/// given up once one of them had been shared over.
#[test]
fn a_header_counts_although_its_documents_were_shared_over() {
    let storage = volume();
    let store = Store::open(storage.clone(), NAME, Options::default()).unwrap();
    let mut batch = Batch::new();
    (0..3).for_each(|number| batch.put(&key(number), &VALUE).unwrap());
    store.commit(&batch).unwrap();
    store.put(&key(1), b"shorter").unwrap();
    assert_eq!(store.statistics().documents_shared, 1);
    drop(store);
    let store = Store::open(storage, NAME, Options::default()).unwrap();
    assert_eq!(store.get(&key(1)).unwrap().unwrap().value(), b"shorter");
    assert_eq!(store.get(&key(2)).unwrap().unwrap().value(), VALUE);
    let changes: Vec<u64> =
        store.snapshot().changes(0).unwrap().map(|change| change.unwrap().seq()).collect();
    assert_eq!(changes, [1, 3, 4]);
}

/// A value may hold what looks like a header of this file, at the very place where it would count.
#[test]
fn a_header_within_a_document_is_not_taken_for_one() {
    let storage = volume();
    let store =
        Store::open(storage.clone(), NAME, Options { way: Way::Original, ..Options::default() }).unwrap();
    store.put(b"a", b"1").unwrap();
    let file = storage.volume().find(NAME).unwrap();
    let mut content = vec![0; storage.volume().size(file).unwrap() as usize];
    storage.volume().read(file, 0, &mut content).unwrap();
    store.put(b"b", &content).unwrap();
    store.put(b"c", b"3").unwrap();
    drop(store);
    let store = Store::open(storage, NAME, Options::default()).unwrap();
    assert_eq!(store.get(b"b").unwrap().unwrap().value(), content);
    assert_eq!(store.get(b"c").unwrap().unwrap().value(), b"3");
}

#[test]
fn what_is_no_store_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(NAME);
    for content in [vec![], b"a text".to_vec(), vec![0xaa; 3 * UNIT_BYTES]] {
        std::fs::write(&path, &content).unwrap();
        let error = Store::open(Folder::new(folder.path()).unwrap(), NAME, Options::default()).unwrap_err();
        assert!(matches!(error, Error::NotAStore { .. }), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
}

#[test]
fn keys_and_values_have_limits() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(Folder::new(folder.path()).unwrap(), NAME, Options::default()).unwrap();
    assert!(matches!(store.put(b"", b"v").unwrap_err(), Error::BadKey { bytes: 0, limit: 512 }));
    assert!(matches!(store.put(&[1; 513], b"v").unwrap_err(), Error::BadKey { bytes: 513, .. }));
    assert!(matches!(store.get(&[1; 513]).unwrap_err(), Error::BadKey { .. }));
    store.put(&[1; 512], &vec![3; 5 << 20]).unwrap();
    assert_eq!(store.get(&[1; 512]).unwrap().unwrap().into_value(), vec![3; 5 << 20]);
    assert_eq!(store.delete(b"nothing").unwrap(), 1);
}

/// A volume on a drive that can only be read, beside which a compaction was interrupted.
#[test]
fn a_store_on_a_drive_that_takes_no_changes_is_read() {
    let store = loaded(Way::Share, 3);
    let storage = store.storage().clone();
    drop(store);
    storage.create(&format!("{NAME}.compact")).unwrap();
    storage.sync_names().unwrap();
    let host = HostError {
        path: "drive.tant".into(),
        action: "be changed",
        kind: std::io::ErrorKind::StorageFull,
        reason: "the disk is full".to_owned(),
    };
    storage.volume().device().refuse_changes(Status::WriteProtected(host));
    let store = Store::open(storage, NAME, Options::default()).unwrap();
    assert_eq!(store.get(&key(2)).unwrap().unwrap().value(), VALUE);
    let error = store.put(&key(2), &VALUE).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    assert!(store.refuses_changes().is_some_and(|why| why.contains("the disk is full")));
}

/// The store could not be opened: what may have been left unsynced was to be synced first, and where the commit that failed was
/// to write nothing can be read.
#[test]
fn a_store_on_a_drive_whose_host_has_failed_is_read() {
    let mut profile = Profile::load("tlc-nvme").unwrap();
    profile.capacity_bytes = 64 << 20;
    let full = |after| HostFault { after, failure: HostFailure::NoSpace, lasts: true };
    // a new document is appended, an update is shared
    for number in [3, 2] {
        let (mut failures, mut unreadable) = (0, 0);
        for after in 0.. {
            let folder = tempfile::tempdir().unwrap();
            let image = folder.path().join("drive.tant");
            Device::create(&image, &profile).unwrap().shutdown(0).unwrap();
            let disk = TestHost::new(Mapping::Never, 1);
            let device = Device::open_on(&image, Access::Write, &disk).unwrap();
            let storage = VolumeStorage::new(Volume::format(device, 1 << 20).unwrap());
            let open = || Store::open(storage.clone(), NAME, Options::default());
            let store = open().unwrap();
            for number in [1, 2] {
                store.put(&key(number), &VALUE).unwrap();
            }
            disk.faults.fail(full(after));
            let Err(_) = store.put(&key(number), &[8; VALUE.len()]) else { break };
            drop(store);
            failures += 1;
            let store = open().unwrap_or_else(|error| panic!("document {number}, call {after}: {error}"));
            assert_eq!(store.get(&key(1)).unwrap().unwrap().value(), VALUE);
            match store.get(&key(number)) {
                Err(_) => unreadable += 1,
                Ok(found) => {
                    let new = [8; VALUE.len()];
                    let found = found.map(|document| document.value().to_vec());
                    let before = (number == 2).then(|| VALUE.to_vec());
                    assert!(found == before || found == Some(new.to_vec()), "call {after}");
                }
            }
            let error = store.put(&key(1), &VALUE).unwrap_err();
            assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
            assert!(store.refuses_changes().is_some_and(|why| why.contains("No space left")));
        }
        assert!(failures > 2 && (number == 3 || unreadable > 0), "{failures}, {unreadable}");
    }
}

#[test]
fn a_folder_is_for_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let first = Folder::new(folder.path()).unwrap();
    assert!(Folder::new(folder.path()).unwrap_err().to_string().contains("in use by this process"));
    drop(first);
    Folder::new(folder.path()).unwrap();
}

/// Changes every byte of a file: what is read is right, or damage is reported.
#[test]
fn damage_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Store::open(Folder::new(folder.path()).unwrap(), NAME, Options::default());
    let store = open().unwrap();
    for number in 0..40 {
        store.put(&key(number), &[number as u8; 100]).unwrap();
    }
    let used = store.statistics().file_bytes as usize;
    drop(store);
    let path = folder.path().join(NAME);
    let whole = std::fs::read(&path).unwrap();
    let mut told = 0;
    for place in (0..used).step_by(997) {
        let mut content = whole.clone();
        content[place] ^= 0x21;
        std::fs::write(&path, &content).unwrap();
        let Ok(store) = open() else {
            told += 1;
            continue;
        };
        let snapshot = store.snapshot();
        for number in 0..40 {
            match store.get(&key(number)) {
                // the last commit may be given up with its header
                Ok(None) => assert_eq!((number, snapshot.seq()), (39, 39)),
                Ok(Some(document)) => assert_eq!(document.value(), [number as u8; 100]),
                Err(Error::Damaged { .. }) => told += 1,
                Err(other) => panic!("{other}"),
            }
        }
        let _ = snapshot.iter().unwrap().count();
        let _ = snapshot.changes(0).map(Iterator::count);
    }
    assert!(told > 0);
}

/// Readers and a compaction in separate threads, while one thread writes.
#[test]
fn readers_and_compaction_go_on_while_one_writes() {
    for way in [Way::Share, Way::Original] {
        let store = loaded(way, 500);
        let done = AtomicBool::new(false);
        let (done, store) = (&done, &store);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        let snapshot = store.snapshot();
                        let read = || -> Vec<_> { snapshot.iter().unwrap().map(Result::unwrap).collect() };
                        let first = read();
                        // all documents have the value of one round, except for those of the round in progress
                        assert_eq!(first.len(), 500);
                        assert!(first.windows(2).all(|pair| pair[0].value()[0] >= pair[1].value()[0]));
                        assert!(first == read());
                    }
                });
            }
            scope.spawn(move || (0..3).for_each(|_| store.compact().unwrap()));
            for round in 8..20_u8 {
                for first in (0..500).step_by(50) {
                    let mut batch = Batch::new();
                    (first..first + 50).for_each(|n| batch.put(&key(n), &vec![round; 4000]).unwrap());
                    store.commit(&batch).unwrap();
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        let snapshot = store.snapshot();
        assert!(snapshot.iter().unwrap().all(|document| document.unwrap().value()[0] == 19));
        assert_eq!(snapshot.changes(0).unwrap().count(), 500);
    }
}

/// A compaction that is left over would give its file the name of a store that was opened after it.
#[test]
fn a_store_on_a_volume_is_open_once() {
    let store = loaded(Way::Share, 10);
    let storage = store.storage().clone();
    let open = |name: &str| Store::open(storage.clone(), name, Options::default());
    let compaction = store.compaction(0).unwrap();
    let snapshot = store.snapshot();
    drop(store);
    for _ in 0..2 {
        let error = open(NAME).expect_err("its compaction is under way").to_string();
        assert!(error.contains("the store docs.couch is open"), "{error}");
    }
    open("other.couch").unwrap();
    drop(compaction);
    open(NAME).expect_err("a snapshot is open");
    drop(snapshot);
    assert_eq!(open(NAME).unwrap().snapshot().len(), 10);
}
