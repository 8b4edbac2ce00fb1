//! Backups while others write, what is restored from them, and stores that are rebuilt.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tantalum_kv::{Error, Options, Order, Store, Sync};
use tempfile::TempDir;

const ACCOUNTS: u32 = 3000;

fn options() -> Options {
    Store::options().capacity_bytes(64 << 20).sync(Sync::None)
}

fn paths<const N: usize>(folder: &TempDir, names: [&str; N]) -> [PathBuf; N] {
    names.map(|name| folder.path().join(name))
}

type Contents = BTreeMap<(String, Vec<u8>), Vec<u8>>;

fn contents(store: &Store) -> Contents {
    let (snapshot, mut contents) = (store.snapshot().unwrap(), Contents::new());
    for (name, namespace, order) in snapshot.namespaces() {
        let mut add =
            |key: &[u8], value: &[u8]| contents.insert((name.to_owned(), key.to_vec()), value.to_vec());
        match order {
            Order::Hashed => {
                for key in snapshot.list(namespace, None, usize::MAX).unwrap() {
                    add(key.as_ref(), &snapshot.read(namespace, key).unwrap().unwrap());
                }
            }
            Order::Ordered => snapshot.all(namespace).unwrap().for_each(|entry| {
                let (key, value) = entry.unwrap();
                add(&key, &value);
            }),
        }
    }
    contents
}

fn fill(store: &Store) {
    let (hashed, ordered) = (store.hashed_namespace("hashed").unwrap(), store.namespace("ordered").unwrap());
    store.hashed_namespace("empty").unwrap();
    store
        .transact::<_, Error>(|tx| {
            for account in 0..ACCOUNTS {
                tx.put(hashed, account.to_be_bytes(), 100_u64.to_le_bytes())?;
                tx.put(
                    ordered,
                    format!("account {account}").repeat(4),
                    vec![account as u8; account as usize % 400],
                )?;
            }
            tx.put(hashed, b"large", vec![7; 2 << 20])
        })
        .unwrap();
}

#[test]
fn a_backup_that_is_made_while_others_write_is_what_was_there_at_one_time() {
    let folder = tempfile::tempdir().unwrap();
    let [image, backup, restored] = paths(&folder, ["app.tant", "backup", "restored"]);
    let store = options().open(&image).unwrap();
    fill(&store);
    let (hashed, done) = (store.hashed_namespace("hashed").unwrap(), AtomicBool::new(false));
    let turns = AtomicU64::new(0);
    let wait_for_turns = |count| {
        let until = turns.load(Ordering::SeqCst) + count;
        while turns.load(Ordering::SeqCst) < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let number = |value: &[u8]| u64::from_le_bytes(value.try_into().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut turn = 0_u32;
            while !done.load(Ordering::SeqCst) {
                let [from, to] = [turn, turn * 7 + 1].map(|account| (account % ACCOUNTS).to_be_bytes());
                turn = turn.wrapping_add(13);
                store
                    .transact::<_, Error>(|tx| {
                        let [a, b] = [from, to].map(|key| tx.read_for_update(hashed, key));
                        let (a, b) = (number(&a?.unwrap()), number(&b?.unwrap()));
                        if from == to || a == 0 {
                            return Ok(());
                        }
                        tx.put(hashed, from, (a - 1).to_le_bytes())?;
                        tx.put(hashed, to, (b + 1).to_le_bytes())
                    })
                    .unwrap();
                turns.fetch_add(1, Ordering::SeqCst);
            }
        });
        wait_for_turns(1);
        let copied = store.back_up(&backup).unwrap();
        wait_for_turns(2);
        assert_eq!((copied.namespaces, copied.records), (3, u64::from(2 * ACCOUNTS) + 1));
        done.store(true, Ordering::SeqCst);
    });
    let copied = options().restore(&backup, &restored).unwrap();
    assert_eq!(copied.records, u64::from(2 * ACCOUNTS) + 1);
    let after = options().open(&restored).unwrap();
    let (found, now) = (contents(&after), contents(&store));
    assert_eq!(after.namespaces().unwrap(), ["empty", "hashed", "ordered"]);
    let of = |contents: &Contents, name: &str| -> Contents {
        contents
            .iter()
            .filter(|((of, _), _)| of == name)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    assert_eq!(of(&found, "ordered"), of(&now, "ordered"));
    let accounts = of(&found, "hashed");
    let sum: u64 = accounts.values().filter(|value| value.len() == 8).map(|value| number(value)).sum();
    assert_eq!(sum, 100 * u64::from(ACCOUNTS));
    assert_ne!(accounts, of(&now, "hashed"), "others wrote meanwhile");
    for refused in [store.back_up(&backup), options().restore(&backup, &restored)] {
        assert!(matches!(refused, Err(Error::Exists { .. })), "{refused:?}");
    }
}

#[test]
fn a_damaged_backup_is_refused_and_leaves_no_image() {
    let folder = tempfile::tempdir().unwrap();
    let [image, backup, damaged, restored] = paths(&folder, ["app.tant", "backup", "damaged", "restored"]);
    let store = options().open(&image).unwrap();
    let namespace = store.namespace("a").unwrap();
    store
        .transact::<_, Error>(|tx| {
            (0..2000_u32).try_for_each(|key| tx.put(namespace, key.to_be_bytes(), [1; 300]))
        })
        .unwrap();
    store.back_up(&backup).unwrap();
    let whole = std::fs::read(&backup).unwrap();
    let refused = |bytes: &[u8]| {
        std::fs::write(&damaged, bytes).unwrap();
        let result = options().restore(&damaged, &restored);
        assert!(matches!(result, Err(Error::Backup { .. })), "{result:?}");
        assert!(!restored.exists());
    };
    let step = whole.len() / 40;
    for at in (0..20).chain((0..whole.len()).step_by(step)).chain(whole.len() - 17..whole.len()) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        refused(&bytes);
        refused(&whole[..at]);
    }
    // a frame that is left out
    let first = 16 + u32::from_le_bytes(whole[8..12].try_into().unwrap()) as usize;
    refused(&[&whole[..8], &whole[first..]].concat());
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "nothing is left: {names:?}");
    let missing = options().restore(folder.path().join("missing"), &restored);
    assert!(matches!(missing, Err(Error::Io { .. })));
}

fn allocated(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().blocks() * 512
}

#[test]
fn a_rebuilt_store_has_another_capacity_and_gives_space_back() {
    let folder = tempfile::tempdir().unwrap();
    let [image] = paths(&folder, ["app.tant"]);
    let store = options().open(&image).unwrap();
    fill(&store);
    let other = store.hashed_namespace("other").unwrap();
    for number in 0..30_u32 {
        store.transact::<_, Error>(|tx| tx.put(other, number.to_be_bytes(), vec![1; 1 << 20])).unwrap();
    }
    let full = store.transact::<_, Error>(|tx| {
        (30..70_u32).try_for_each(|number| tx.put(other, number.to_be_bytes(), vec![1; 1 << 20]))
    });
    assert!(full.is_err(), "that is too much for 64 MiB");
    let in_use = options().rebuild(&image);
    assert!(matches!(in_use, Err(Error::Device(_))), "{in_use:?}");
    store.delete_namespace("other").unwrap();
    let before = contents(&store);
    store.close().unwrap();
    let took = allocated(&image);
    options().rebuild(&image).unwrap();
    assert!(allocated(&image) < took / 2, "{} of {took}", allocated(&image));
    // larger, and the smallest there is
    Store::options().capacity_bytes(256 << 20).rebuild(&image).unwrap();
    let store = Store::options().capacity_bytes(256 << 20).open(&image).unwrap();
    assert_eq!(contents(&store), before);
    let other = store.hashed_namespace("other").unwrap();
    store
        .transact::<_, Error>(|tx| {
            (0..100_u32).try_for_each(|number| tx.put(other, number.to_be_bytes(), vec![1; 1 << 20]))
        })
        .unwrap();
    store.close().unwrap();
    let too_small = options().rebuild(&image);
    assert!(matches!(too_small, Err(Error::Drive(tantalum::Status::CapacityExceeded))), "{too_small:?}");
    let store = Store::open(&image).unwrap();
    let other = store.hashed_namespace("other").unwrap();
    assert_eq!(store.list(other, None, 1000).unwrap().len(), 100, "it is as it was");
    assert!(matches!(Store::options().rebuild(folder.path().join("missing")), Err(Error::Device(_))));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left");
}
