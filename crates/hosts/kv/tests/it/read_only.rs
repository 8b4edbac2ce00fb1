//! Stores that are opened to be read, and images that are empty files.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tantalum_kv::{Error, Options, Store, Sync};

fn options() -> Options {
    Store::options().capacity_bytes(16 << 20).sync(Sync::None)
}

fn fill(path: &Path) {
    let store = options().open(path).unwrap();
    let (all, keys) = (store.hashed_namespace("all").unwrap(), store.namespace("keys").unwrap());
    for number in 0..100_u32 {
        let put = |tx: &mut tantalum_kv::Transaction| {
            tx.put(all, number.to_be_bytes(), [1; 100])?;
            tx.put(keys, number.to_be_bytes(), [2; 100])
        };
        store.transact(put).unwrap();
    }
}

#[test]
fn a_store_is_read_by_several_and_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.tant");
    fill(&path);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
    let before = std::fs::read(&path).unwrap();
    let open = || options().read_only(true).open(&path).unwrap();
    let (store, second) = (open(), open());
    for store in [&store, &second] {
        let (all, keys) = (store.hashed_namespace("all").unwrap(), store.namespace("keys").unwrap());
        let mut tx = store.begin().unwrap();
        assert_eq!(tx.read(all, 7_u32.to_be_bytes()).unwrap().as_deref(), Some(&[1; 100][..]));
        assert_eq!(tx.all(keys).unwrap().count(), 100);
        assert_eq!(store.snapshot().unwrap().all(keys).unwrap().count(), 100);
        assert!(matches!(store.transact(|tx| tx.put(all, b"a", b"1")), Err(Error::ReadOnly)));
        assert!(matches!(store.hashed_namespace("new"), Err(Error::ReadOnly)));
        assert!(matches!(store.delete_namespace("all"), Err(Error::ReadOnly)));
        assert!(store.refuses_changes().unwrap().contains("opened to be read"));
        assert_eq!(store.room_for(100).unwrap(), 0);
    }
    let backup = folder.path().join("backup");
    assert_eq!(store.back_up(&backup).unwrap().records, 200);
    let writer = options().open(&path).err().unwrap();
    assert!(writer.to_string().contains("in use by this process"), "{writer}");
    assert!(matches!(options().read_only(true).rebuild(&path), Err(Error::ReadOnly)));
    store.close().unwrap();
    drop(second);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let writer = options().open(&path).unwrap();
    let reader = options().read_only(true).open(&path).err().unwrap();
    assert!(reader.to_string().contains("or several that only read it"), "{reader}");
    drop(writer);
}

/// A process that is killed leaves work to recovery; a reader does that in memory.
#[test]
fn a_store_whose_process_was_killed_is_read_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (made, path) = (folder.path().join("made.tant"), folder.path().join("app.tant"));
    let store = options().open(&made).unwrap();
    let keys = store.namespace("keys").unwrap();
    store.transact(|tx| (0..3000_u32).try_for_each(|n| tx.put(keys, n.to_be_bytes(), [3; 50]))).unwrap();
    std::fs::copy(&made, &path).unwrap();
    let before = std::fs::read(&path).unwrap();
    for _ in 0..2 {
        let store = options().read_only(true).open(&path).unwrap();
        let keys = store.namespace("keys").unwrap();
        assert_eq!(store.begin().unwrap().all(keys).unwrap().count(), 3000);
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn an_empty_file_is_a_new_image_and_a_missing_one_is_not_made_to_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.tant");
    assert!(options().read_only(true).open(&path).is_err());
    assert!(!path.exists());
    std::fs::write(&path, "").unwrap();
    assert!(options().read_only(true).open(&path).is_err());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    fill(&path);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let store = options().open(&path).unwrap();
    assert_eq!(store.namespaces().unwrap(), ["all", "keys"]);
}
