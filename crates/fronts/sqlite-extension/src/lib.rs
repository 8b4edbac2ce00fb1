//! The Tantalum VFS for an existing SQLite: Debian's, Python's, or a program's own.
//!
//! ```text
//! $ cargo build --release -p tantalum-sqlite-extension
//! $ sqlite3
//! sqlite> .load target/release/libtantalum_sqlite_extension
//! sqlite> .open 'file:app.db?vfs=tantalum&image=app.tant&capacity=1G&interface=sw-wal'
//! sqlite> PRAGMA journal_mode=wal;
//! ```
//!
//! `image` is the drive's file (else the environment's `TANTALUM_IMAGE`, else `tantalum.tant`). If it does not exist,
//! it is created from the `profile` (else `tlc-nvme`) with the `capacity` (else the profile's). `interface` is the
//! mode, else `share`. You may set `PRAGMA journal_mode` to a value that suits the mode: `wal` with `wal`, `share` and
//! `sw-wal`, `memory` with `x-ftl`, `delete` with `rollback` and `atomic`. `atomic` needs a SQLite built with
//! `SQLITE_ENABLE_BATCH_ATOMIC_WRITE`, which Debian's is not; without it, `atomic` behaves as `rollback`.
//!
//! SQLite reports only a code for an error. `SELECT tantalum_error()` on the connection that loaded the extension, or
//! `PRAGMA tantalum_error` on one of the VFS, reports the reason for the last one; `sqlite3_log` gets all of them.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::panic::catch_unwind;

use tantalum_sqlite::{ApiRoutines, register_extension};

const SQLITE_ERROR: c_int = 1;
const SQLITE_OK_LOAD_PERMANENTLY: c_int = 256;

/// The extension's entry point. The library stays loaded when the connection that loaded it is closed.
///
/// # Safety
///
/// SQLite calls it, with its table of functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    connection: *mut c_void,
    _message: *mut *mut c_char,
    routines: *const ApiRoutines,
) -> c_int {
    let registered = catch_unwind(|| {
        // SAFETY: both are SQLite's.
        unsafe { register_extension(connection, routines) }
    });
    match registered {
        Ok(Ok(())) => SQLITE_OK_LOAD_PERMANENTLY,
        Ok(Err(code)) => code,
        Err(_) => SQLITE_ERROR,
    }
}
