//! The VFS in the linked SQLite.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, OpenFlags};

use crate::api::Api;
use crate::ffi;
use crate::registration::Registration;
use crate::shared_volume::{SharedVolume, SharedVolumeError};

unsafe extern "C" fn vfs_find(name: *const c_char) -> *mut ffi::Vfs {
    // SAFETY: the caller keeps to SQLite's terms, and the structures are the same, see the tests of `ffi`.
    unsafe { rusqlite::ffi::sqlite3_vfs_find(name).cast() }
}

unsafe extern "C" fn vfs_register(vfs: *mut ffi::Vfs, make_default: c_int) -> c_int {
    // SAFETY: the structures are the same, see the tests of `ffi`.
    unsafe { rusqlite::ffi::sqlite3_vfs_register(vfs.cast(), make_default) }
}

unsafe extern "C" fn vfs_unregister(vfs: *mut ffi::Vfs) -> c_int {
    // SAFETY: as above.
    unsafe { rusqlite::ffi::sqlite3_vfs_unregister(vfs.cast()) }
}

unsafe extern "C" fn uri_parameter(name: *const c_char, key: *const c_char) -> *const c_char {
    // SAFETY: the caller keeps to SQLite's terms.
    unsafe { rusqlite::ffi::sqlite3_uri_parameter(name, key) }
}

unsafe extern "C" fn uri_key(name: *const c_char, number: c_int) -> *const c_char {
    // SAFETY: the caller keeps to SQLite's terms.
    unsafe { rusqlite::ffi::sqlite3_uri_key(name, number) }
}

impl Api {
    /// The functions of the linked library.
    pub fn bundled() -> Api {
        Api {
            vfs_find,
            vfs_register,
            vfs_unregister,
            uri_parameter,
            uri_key: Some(uri_key),
            log: rusqlite::ffi::sqlite3_log,
            mprintf: rusqlite::ffi::sqlite3_mprintf,
        }
    }
}

/// Names for the VFS of each drive.
static NEXT_NAME: AtomicU64 = AtomicU64::new(1);

impl SharedVolume {
    /// Registers a VFS under a name, for as long as the registration lives.
    pub fn register(&self, vfs_name: &str) -> Result<Registration, SharedVolumeError> {
        self.register_with(Api::bundled(), vfs_name)
    }

    /// Opens a database, which is created if it does not exist, and sets the mode's `journal_mode`.
    ///
    /// If the drive has a seed, SQLite's own generator is set to it. A process has only one generator, so only one run
    /// at a time can be reproducible byte for byte.
    pub fn open(&self, name: &str) -> rusqlite::Result<Connection> {
        let vfs = self.own_registration().map_err(|error| match error {
            SharedVolumeError::Register { code, .. } => {
                rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), Some(error.to_string()))
            }
            SharedVolumeError::InUse { .. } => unreachable!("registering takes nothing away"),
        })?;
        if let Some(seed) = self.seed() {
            seed_sqlite(seed);
        }
        let connection = Connection::open_with_flags_and_vfs(name, OpenFlags::default(), vfs.name())?;
        let mode = self.mode().journal_mode();
        connection.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(()))?;
        Ok(connection)
    }

    /// The last error below SQLite for a connection of [`SharedVolume::open`]; SQLite itself reports only a code. None if
    /// there was none.
    pub fn last_error(&self) -> Option<String> {
        self.own.get().map(Registration::last_error).filter(|message| !message.is_empty())
    }

    fn own_registration(&self) -> Result<&Registration, SharedVolumeError> {
        if let Some(own) = self.own.get() {
            return Ok(own);
        }
        let name = format!("tantalum-{}", NEXT_NAME.fetch_add(1, Ordering::Relaxed));
        let registration = self.register(&name)?;
        Ok(self.own.get_or_init(|| registration))
    }
}

/// Seeds SQLite's generator. Zero would undo the seeding.
fn seed_sqlite(seed: u64) {
    let seed = (seed ^ (seed >> 32)) as u32 as c_int;
    let no_database = std::ptr::null_mut::<rusqlite::ffi::sqlite3>();
    // SAFETY: this control takes an int and a connection that may be null.
    unsafe {
        rusqlite::ffi::sqlite3_test_control(
            rusqlite::ffi::SQLITE_TESTCTRL_PRNG_SEED,
            if seed == 0 { 1 } else { seed },
            no_database,
        );
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ErrorCode;
    use tantalum::{Device, HostError, Profile, Status};
    use tantalum_volume::Volume;

    use super::*;
    use crate::mode::Mode;

    const CACHE_BYTES: u64 = 2 << 20;

    /// Rolling a journal back needs writes: a database with one could not be read without room for them.
    #[test]
    fn what_can_only_be_read_is_recovered_by_sqlite_and_takes_no_changes() {
        let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme").unwrap() };
        for mode in Mode::ALL {
            let volume = Volume::format(Device::in_memory(&profile).unwrap(), CACHE_BYTES).unwrap();
            let drive = SharedVolume::new(volume, mode, Some(1));
            let writer = drive.open("app.db").unwrap();
            let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) \
                        INSERT INTO t(b) SELECT zeroblob(3000) FROM n;";
            writer
                .execute_batch("PRAGMA cache_size = 5; CREATE TABLE t(a INTEGER PRIMARY KEY, b BLOB);")
                .unwrap();
            writer.execute_batch(rows).unwrap();
            writer.execute_batch("BEGIN; UPDATE t SET b = zeroblob(2999);").unwrap();
            // the process is killed in the middle of a transaction
            let client = drive.volume().try_clone().unwrap().into_client_without_sync();
            let left = SharedVolume::new(Volume::mount(client, CACHE_BYTES).unwrap(), mode, Some(1));
            let has_journal = left.volume().find("app.db-journal").is_some();
            assert!(has_journal || mode != Mode::Rollback, "there is nothing to roll back");
            let host = HostError {
                path: "a.tant".into(),
                action: "write a unit",
                kind: std::io::ErrorKind::StorageFull,
                reason: "No space left on device".to_owned(),
            };
            left.host.lock().only_read = Some(Status::WriteProtected(host));
            let reader = left.open("app.db").unwrap();
            let sum = || reader.query_row("SELECT sum(length(b)) FROM t", [], |row| row.get::<_, i64>(0));
            assert_eq!(sum().unwrap(), 120_000, "{mode}");
            for change in ["INSERT INTO t(b) VALUES(1)", "CREATE TABLE u(x)", "PRAGMA user_version = 3"] {
                let refused = reader.execute_batch(change).expect_err(&format!("{mode}: {change}"));
                assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::ReadOnly), "{mode}: {change}");
            }
            assert_eq!(sum().unwrap(), 120_000, "{mode}");
            assert!(left.last_error().unwrap().contains("No space left"), "{mode}");
            let made = left.open("new.db");
            assert!(made.is_err(), "{mode}: {made:?}");
            assert!(left.volume().find("new.db").is_none(), "{mode}");
        }
    }
}
