//! The host's disk becomes full below a store.

use tantalum::{Access, Device, HostFailure, HostFault, Mapping, TestHost};
use tantalum_kv::{Error, Namespace, Options, Store};

const FULL: HostFault = HostFault { after: 0, failure: HostFailure::NoSpace, lasts: true };

fn options() -> Options {
    Store::options().capacity_bytes(64 << 20)
}

fn key(number: u32) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

/// Commits of several records each until one fails. Returns how many returned, and the error.
fn commit_until_failure(store: &Store, namespace: Namespace, first: u32) -> (u32, Error) {
    for number in first.. {
        let done = store.transact(|tx| {
            tx.put(namespace, key(2 * number), [number as u8; 900])?;
            tx.put(namespace, key(2 * number + 1), [number as u8; 900])
        });
        if let Err(error) = done {
            return (number, error);
        }
    }
    unreachable!("the disk is full before that")
}

fn assert_read(store: &Store, namespace: Namespace, commits: u32) {
    let mut tx = store.begin().unwrap();
    for number in 0..commits {
        for record in [2 * number, 2 * number + 1] {
            let value = tx.read(namespace, key(record)).unwrap();
            assert_eq!(
                value.as_deref(),
                Some(&[number as u8; 900][..]),
                "record {record} of {commits} commits"
            );
        }
    }
    tx.commit().unwrap();
}

/// Every commit was lost: the image could not be opened any more, not even with room, and nothing could be read meanwhile.
#[test]
fn a_store_on_a_full_disk_is_read_opened_and_complete() {
    for (order, calls) in [("hashed", 40), ("ordered", 90), ("hashed", 300), ("ordered", 700)] {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("app.tant");
        options().open(&image).unwrap().close().unwrap();
        let host = TestHost::new(Mapping::Never, calls);
        let open = || {
            let (device, why) = Device::open_or_read_on(&image, Access::Ordered, &host).unwrap();
            let store = Store::over(device, options()).unwrap();
            why.into_iter().for_each(|why| store.refuse_changes(why));
            let namespace =
                if order == "hashed" { store.hashed_namespace("all") } else { store.namespace("all") };
            (store, namespace)
        };
        let (store, namespace) = open();
        let namespace = namespace.unwrap();
        host.faults.fail(HostFault { after: calls, ..FULL });
        let (commits, error) = commit_until_failure(&store, namespace, 0);
        assert!(error.to_string().contains("No space left"), "{error}");
        assert!(store.refuses_changes().is_some());
        // reading goes on, but for what nobody knows
        if order == "hashed" {
            assert_read(&store, namespace, commits);
            let read = store.begin().unwrap().read(namespace, key(2 * commits));
            assert!(matches!(read, Err(Error::Stopped { is_host: true, .. })), "{read:?}");
        }
        let refused = store.transact(|tx| tx.put(namespace, b"more", b"data"));
        assert!(matches!(refused, Err(Error::Stopped { is_host: true, .. })), "{refused:?}");
        drop(store);
        // still without room
        let (store, namespace) = open();
        let reason = store.refuses_changes().expect("there is no room");
        assert!(reason.contains("No space left"), "{reason}");
        if commits > 0 {
            let namespace = namespace.unwrap();
            assert_read(&store, namespace, commits);
            let refused = store.transact(|tx| tx.put(namespace, b"more", b"data"));
            assert!(matches!(refused, Err(Error::Stopped { is_host: true, .. })), "{refused:?}");
            let message = refused.unwrap_err().to_string();
            let is_short = message.starts_with("the store can only be read: ") && !message.contains("commit");
            assert!(is_short && message.contains("No space left"), "{message}");
            assert!(message.ends_with("; make room on the disk, and open the image again"), "{message}");
        }
        drop(store);
        host.faults.heal();
        let (store, namespace) = open();
        assert_read(&store, namespace.unwrap(), commits);
        store.transact(|tx| tx.put(store.hashed_namespace("new").unwrap(), b"more", b"data")).unwrap();
        store.close().unwrap();
    }
}
