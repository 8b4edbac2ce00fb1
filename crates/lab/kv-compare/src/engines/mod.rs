//! The stores, each configured as its users would: one transaction for each change, synced or not.
//!
//! - A change reads records and rewrites each of them, all or nothing, isolated from others.
//! - Synced: a commit survives the loss of the machine. Unsynced: it survives the end of the process, because its
//!   writes have reached the system. redb has no such commits; its unsynced ones survive only once a later one is
//!   synced. The document store (`couch`) syncs every commit.
//! - The records do not compress, so nothing is compressed.

mod couch;
mod engine;
mod fjall;
mod lmdb;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod tantalum;

use std::path::Path;

use tantalum_couch::Way;

pub use engine::{CacheSize, Engine, Failure, Setting};
pub use lmdb::open_env;

/// The names of all stores in this build.
pub const NAMES: &[&str] = &[
    "tantalum",
    "redb",
    "fjall",
    "lmdb",
    "couch",
    "couch-original",
    #[cfg(feature = "rocksdb")]
    "rocksdb",
];

/// The stores that are compared unless others are named. The document store keeps large documents, and has no commits
/// without a sync.
pub fn usual() -> impl Iterator<Item = &'static str> {
    NAMES.iter().copied().filter(|name| !name.starts_with("couch"))
}

/// Opens a store in a folder.
pub fn open(name: &str, folder: &Path, setting: Setting) -> Result<Box<dyn Engine>, Failure> {
    Ok(match name {
        "tantalum" => Box::new(self::tantalum::Tantalum::open(folder, setting)?),
        "redb" => Box::new(self::redb::Redb::open(folder, setting)?),
        "fjall" => Box::new(self::fjall::Fjall::open(folder, setting)?),
        "lmdb" => Box::new(self::lmdb::Lmdb::open(folder, setting)?),
        "couch" => Box::new(self::couch::Couch::open(folder, setting, Way::Share)?),
        "couch-original" => Box::new(self::couch::Couch::open(folder, setting, Way::Original)?),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => Box::new(self::rocksdb::RocksDb::open(folder, setting)?),
        _ => return Err(format!("no store named {name}; use one of {}", NAMES.join(", ")).into()),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    const VICTIM: &str = "TANTALUM_KV_COMPARE_VICTIM";
    /// The signal of a process that aborts.
    const ABORTED: i32 = 6;

    const SETTINGS: [Setting; 4] = [
        Setting { synced: true, cache: CacheSize::Fits, data_bytes: DATA_BYTES, scans: false },
        Setting { synced: true, cache: CacheSize::Quarter, data_bytes: DATA_BYTES, scans: false },
        Setting { synced: false, cache: CacheSize::Fits, data_bytes: DATA_BYTES, scans: false },
        Setting { synced: false, cache: CacheSize::Quarter, data_bytes: DATA_BYTES, scans: false },
    ];

    const RECORDS: u64 = 4000;
    const DATA_BYTES: u64 = RECORDS * 1008;

    fn load(engine: &dyn Engine) {
        let records: Vec<_> = (0..RECORDS).map(|key| (key, vec![key as u8; 1000])).collect();
        records.chunks(500).for_each(|records| engine.write(records).unwrap());
        engine.loaded().unwrap();
    }

    #[test]
    fn every_store_reads_what_it_wrote_and_changes_it() {
        for setting in SETTINGS {
            for name in NAMES {
                let folder = tempfile::tempdir().unwrap();
                let engine = open(name, folder.path(), setting).unwrap();
                load(&*engine);
                assert!((0..RECORDS).all(|key| engine.read(key).unwrap() == 1000), "{name}, {setting:?}");
                assert!(engine.read(RECORDS).is_err(), "{name}: a record that is not there");
                engine.change(&[3, 4], &|old| [old, &[1]].concat()).unwrap();
                engine.write(&[(5, vec![0; 10])]).unwrap();
                let lengths = [2, 3, 4, 5].map(|key| engine.read(key).unwrap());
                assert_eq!(lengths, [1000, 1001, 1001, 10], "{name}, {setting:?}");
                engine.settle().unwrap();
            }
        }
    }

    #[test]
    fn every_store_scans_in_the_order_of_keys() {
        for name in NAMES {
            let folder = tempfile::tempdir().unwrap();
            let setting = Setting { scans: true, ..SETTINGS[2] };
            let engine = open(name, folder.path(), setting).unwrap();
            load(&*engine);
            engine.write(&[(RECORDS + 10, vec![0; 10])]).unwrap();
            let counts = [(0, 7), (RECORDS - 3, 100), (RECORDS + 1, 5), (RECORDS + 11, 5)];
            let found = counts.map(|(from, count)| engine.scan(from, count).unwrap());
            assert_eq!(found, [7, 4, 1, 0], "{name}");
        }
    }

    /// The work of a process to be killed, if this is one: it commits a change and ends without any clean-up, as a
    /// killed process would.
    #[test]
    fn victim() {
        let Ok(what) = std::env::var(VICTIM) else { return };
        let [name, setting, folder] = what.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{what}") };
        let setting = SETTINGS[setting.parse::<usize>().unwrap()];
        let engine = open(name, Path::new(folder), setting).unwrap();
        load(&*engine);
        engine.settle().unwrap();
        engine.change(&[7], &|_| vec![1; 55]).unwrap();
        std::process::abort();
    }

    #[test]
    fn commits_survive_the_end_of_the_process_where_they_are_said_to() {
        for (number, setting) in SETTINGS.into_iter().enumerate() {
            for name in NAMES {
                let folder = tempfile::tempdir().unwrap();
                let ended = Command::new(std::env::current_exe().unwrap())
                    .args(["engines::tests::victim", "--exact", "--nocapture", "--test-threads=1"])
                    .env(VICTIM, format!("{name} {number} {}", folder.path().display()))
                    .output()
                    .unwrap();
                assert_eq!(ended.status.signal(), Some(ABORTED), "{name}, {setting:?}: {ended:?}");
                let after = open(name, folder.path(), setting).unwrap();
                let expected = if *name == "redb" && !setting.synced { 1000 } else { 55 };
                assert_eq!(after.read(7).unwrap(), expected, "{name}, {setting:?}");
            }
        }
    }
}
