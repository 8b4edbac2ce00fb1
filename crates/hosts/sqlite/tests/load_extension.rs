//! `load_extension` on a connection of the VFS. SQLite asks the connection's VFS to load libraries, and does not look
//! whether it can: a VFS that cannot ends the process.

#![allow(unsafe_code)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::drive;
use tantalum_sqlite::rusqlite::{self, Connection};
use tantalum_sqlite::{Mode, SharedVolume};

/// An extension with two entry points, one of which fails.
const LIBRARY: &str = "
int sqlite3_extension_init(void *connection, char **message, const void *routines) { return 0; }
int failing_init(void *connection, char **message, const void *routines) { return 1; }
";

fn compile(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("library.c"), folder.join("library.so"));
    std::fs::write(&source, LIBRARY).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(&compiler).args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(status.as_ref().is_ok_and(|status| status.success()), "{compiler}: {status:?}");
    library
}

/// A connection of the VFS that may load extensions.
fn connection(drive: &SharedVolume) -> Connection {
    let connection = drive.open("app.db").unwrap();
    // SAFETY: the connection is open.
    let code = unsafe { rusqlite::ffi::sqlite3_enable_load_extension(connection.handle(), 1) };
    assert_eq!(code, 0);
    connection
}

fn load(connection: &Connection, library: &Path, entry: Option<&str>) -> Result<(), String> {
    let library = library.to_str().unwrap();
    let loaded = match entry {
        None => connection.query_row("SELECT load_extension(?1)", [library], |_| Ok(())),
        Some(entry) => connection.query_row("SELECT load_extension(?1, ?2)", [library, entry], |_| Ok(())),
    };
    loaded.map_err(|error| error.to_string())
}

#[test]
fn a_library_that_is_not_there_is_an_error_and_the_connection_goes_on() {
    let drive = drive(Mode::Share, 1);
    let connection = connection(&drive);
    let error = load(&connection, Path::new("/nonexistent"), None).unwrap_err();
    assert!(error.contains("/nonexistent") && error.contains("cannot open shared object"), "{error}");
    connection.execute_batch("CREATE TABLE t(a)").unwrap();
}

#[test]
fn a_library_is_loaded_and_its_entry_points_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let library = compile(folder.path());
    let drive = drive(Mode::Share, 2);
    let connection = connection(&drive);
    for _ in 0..2 {
        load(&connection, &library, None).unwrap();
    }
    let error = load(&connection, &library, Some("failing_init")).unwrap_err();
    assert!(error.contains("initialization"), "{error}");
    let error = load(&connection, &library, Some("no_such_init")).unwrap_err();
    assert!(error.contains("no_such_init"), "{error}");
}
