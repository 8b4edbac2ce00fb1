//! The VFS in the SQLite that loads it as an extension.
//!
//! A program may load the extension any number of times; only the first time registers the VFS. A second VFS with the
//! same name would hide the first one and know nothing about the images that it has open.

#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use crate::api::{Api, ApiRoutines};
use crate::entropy::Entropy;
use crate::error_function;
use crate::hosts::Hosts;
use crate::image::Images;
use crate::registration::Registration;

/// The name of the extension's VFS, for `vfs=` in URIs.
pub const EXTENSION_VFS: &str = "tantalum";

/// What this library has registered, for the life of the process. Held while a thread checks and registers.
static REGISTERED: Mutex<Vec<&'static Registration>> = Mutex::new(Vec::new());

/// Registers the VFS [`EXTENSION_VFS`], which opens the images that URIs name, with the library that loads the
/// extension, for the life of the process; does nothing if it is already registered. Gives the connection the SQL
/// function `tantalum_error`. Fails with SQLite's code.
///
/// # Safety
///
/// `connection` and `routines` came to an extension's entry point.
pub unsafe fn register_extension(connection: *mut c_void, routines: *const ApiRoutines) -> Result<(), c_int> {
    // SAFETY: by the caller's word.
    let (api, routines) = unsafe { (Api::of(routines), &*routines) };
    match register_once(api)? {
        // SAFETY: by the caller's word.
        Some(registration) => unsafe { error_function::add(connection, routines, registration) },
        None => Ok(()),
    }
}

/// The registration of the VFS; `None` if another copy of this library has registered one.
fn register_once(api: Api) -> Result<Option<&'static Registration>, c_int> {
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    let name = CString::new(EXTENSION_VFS).expect("the name has no zero in it");
    // SAFETY: the name is terminated.
    let found = unsafe { (api.vfs_find)(name.as_ptr()) };
    if !found.is_null() {
        return Ok(registered.iter().copied().find(|registration| registration.is_at(found)));
    }
    let hosts = Hosts::Images(Images::default());
    let registration = Registration::new(api, hosts, Entropy::new(None), EXTENSION_VFS)?;
    // Connections may be open as long as the process lives.
    let registration: &'static Registration = Box::leak(Box::new(registration));
    registered.push(registration);
    Ok(Some(registration))
}

#[cfg(all(test, feature = "bundled"))]
mod tests {
    use super::*;
    use rusqlite::{Connection, OpenFlags};
    use std::ffi::c_char;
    use std::path::{Path, PathBuf};
    use tantalum::Device;
    use tantalum_volume::Volume;

    unsafe extern "C" fn entry_point(
        connection: *mut rusqlite::ffi::sqlite3,
        _message: *mut *mut c_char,
        routines: *const rusqlite::ffi::sqlite3_api_routines,
    ) -> c_int {
        // SAFETY: SQLite calls it as an extension's entry point.
        match unsafe { register_extension(connection.cast(), routines.cast()) } {
            Ok(()) => 0,
            Err(code) => code,
        }
    }

    /// A connection that has loaded the extension, as in a program that then opens databases by URIs.
    fn loader() -> Connection {
        static LOADED: Mutex<()> = Mutex::new(());
        let _one_at_a_time = LOADED.lock().unwrap();
        // SAFETY: the function is an entry point. Connections that other tests open meanwhile load it too.
        assert_eq!(unsafe { rusqlite::ffi::sqlite3_auto_extension(Some(entry_point)) }, 0);
        let loader = Connection::open_in_memory().unwrap();
        // SAFETY: as above.
        unsafe { rusqlite::ffi::sqlite3_cancel_auto_extension(Some(entry_point)) };
        loader
    }

    fn text(connection: &Connection, sql: &str) -> String {
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    fn uri(image: &Path, name: &str, more: &str) -> String {
        format!("file:{name}?vfs={EXTENSION_VFS}&image={}&capacity=64M{more}", image.display())
    }

    fn open(uri: &str) -> Result<Connection, rusqlite::Error> {
        Connection::open(uri)
    }

    fn image(folder: &tempfile::TempDir) -> PathBuf {
        folder.path().join("app.tant")
    }

    #[test]
    fn an_image_that_is_open_is_found_after_the_extension_was_loaded_again() {
        let folder = tempfile::tempdir().unwrap();
        let uri = uri(&image(&folder), "again.db", "");
        drop(loader());
        let before = open(&uri).unwrap();
        before.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1)").unwrap();
        drop(loader());
        let after = open(&uri).unwrap();
        let rows = after.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
        assert_eq!(rows.expect("the connection joins the first one"), 1);
    }

    /// One test, since the last error is the process's: others must not fail meanwhile.
    #[test]
    fn what_cannot_be_opened_tells_why_in_sql_and_leaves_no_image() {
        let folder = tempfile::tempdir().unwrap();
        let (path, loader) = (image(&folder), loader());
        let refused = |uri: &str, flags: OpenFlags, reason: &str| {
            let error = Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI).unwrap_err();
            assert!(error.to_string().contains("unable to open database file"), "{error}");
            let told = text(&loader, "SELECT tantalum_error()");
            assert!(told.starts_with("tantalum: ") && told.contains(reason), "{told}");
            assert!(!path.exists(), "{reason}");
        };
        let (creating, existing) = (OpenFlags::default(), OpenFlags::SQLITE_OPEN_READ_WRITE);
        let misspelt = uri(&path, "app.db", "&interfase=wal");
        refused(&misspelt, creating, "unknown parameter \"interfase\"; this VFS has image, profile,");
        refused(&uri(&path, "app.db", "&interface=fast"), creating, "fast");
        refused(&uri(&path, "app.db", "").replace("64M", "1K"), creating, "capacity");
        refused(&uri(&path, "app.db", ""), existing, "without permission to create it");
        refused(&uri(&path, "app.db", "&mode=ro"), creating, "without permission to create it");
        // The image is made before the volume refuses the name.
        refused(&uri(&path, "sub/app.db", ""), creating, "no slash");

        // SQLite's own parameters are not refused.
        let database = open(&uri(&path, "app.db", "&mode=rwc&cache=private&psow=1&interface=wal")).unwrap();
        database.execute_batch("CREATE TABLE t(a)").unwrap();
        // A missing database in an existing image: nothing is removed.
        let other =
            Connection::open_with_flags(uri(&path, "other.db", ""), existing | OpenFlags::SQLITE_OPEN_URI);
        assert!(other.is_err() && path.exists());
        assert!(text(&database, "PRAGMA tantalum_error").contains("no file \"other.db\""));
        database.execute_batch("INSERT INTO t VALUES (1)").unwrap();
    }

    #[test]
    fn files_have_the_date_of_their_last_change() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _loader) = (image(&folder), loader());
        let now = || std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() as i64;
        let before = now();
        let database = open(&uri(&path, "dated.db", "")).unwrap();
        database.execute_batch("CREATE TABLE t(a)").unwrap();
        drop(database);
        let dates = || {
            let volume = Volume::mount(Device::open(&path).unwrap(), 1 << 20).unwrap();
            let of = volume.metadata(volume.find("dated.db").unwrap()).unwrap();
            volume.unmount().unwrap().into_device().unwrap().shutdown(u64::MAX / 2).unwrap();
            (of.created.seconds, of.modified)
        };
        let (created, modified) = dates();
        assert!((before..=now()).contains(&created) && modified.seconds >= created);
        let database = open(&uri(&path, "dated.db", "")).unwrap();
        assert_eq!(text(&database, "SELECT count(*) || '' FROM t"), "0");
        drop(database);
        assert_eq!(dates().1, modified, "reading is no change");
        std::thread::sleep(std::time::Duration::from_millis(5));
        let database = open(&uri(&path, "dated.db", "")).unwrap();
        database.execute_batch("INSERT INTO t VALUES (1)").unwrap();
        drop(database);
        assert!(dates().1 > modified);
    }
}
