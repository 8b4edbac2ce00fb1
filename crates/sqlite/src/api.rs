//! The SQLite functions that the VFS calls.
//!
//! There may be two libraries in one process: the one linked in, and the one that loads the extension. So the VFS never
//! calls the functions by name, but through this table.

use std::ffi::{c_char, c_int, c_void};

use crate::ffi;

/// Functions of one SQLite library.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    /// `sqlite3_vfs_find`.
    pub vfs_find: unsafe extern "C" fn(*const c_char) -> *mut ffi::Vfs,
    /// `sqlite3_vfs_register`.
    pub vfs_register: unsafe extern "C" fn(*mut ffi::Vfs, c_int) -> c_int,
    /// `sqlite3_vfs_unregister`.
    pub vfs_unregister: unsafe extern "C" fn(*mut ffi::Vfs) -> c_int,
    /// `sqlite3_uri_parameter`.
    pub uri_parameter: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
    /// `sqlite3_log`.
    pub log: unsafe extern "C" fn(c_int, *const c_char, ...),
}

/// The part of `sqlite3_api_routines` that the VFS needs. A library passes this table to the extensions that it loads,
/// and SQLite only ever appends to it.
#[repr(C)]
#[derive(Debug)]
pub struct ApiRoutines {
    _before_vfs_find: [*const c_void; 141],
    vfs_find: unsafe extern "C" fn(*const c_char) -> *mut ffi::Vfs,
    vfs_register: unsafe extern "C" fn(*mut ffi::Vfs, c_int) -> c_int,
    vfs_unregister: unsafe extern "C" fn(*mut ffi::Vfs) -> c_int,
    _before_log: [*const c_void; 23],
    log: unsafe extern "C" fn(c_int, *const c_char, ...),
    _before_uri_parameter: [*const c_void; 21],
    uri_parameter: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
}

impl From<&ApiRoutines> for Api {
    fn from(routines: &ApiRoutines) -> Api {
        Api {
            vfs_find: routines.vfs_find,
            vfs_register: routines.vfs_register,
            vfs_unregister: routines.vfs_unregister,
            uri_parameter: routines.uri_parameter,
            log: routines.log,
        }
    }
}

#[cfg(all(test, feature = "bundled"))]
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicPtr, Ordering};

    static ROUTINES: AtomicPtr<ApiRoutines> = AtomicPtr::new(std::ptr::null_mut());

    unsafe extern "C" fn note_routines(
        _connection: *mut rusqlite::ffi::sqlite3,
        _message: *mut *mut c_char,
        routines: *const rusqlite::ffi::sqlite3_api_routines,
    ) -> c_int {
        ROUTINES.store(routines.cast_mut().cast(), Ordering::SeqCst);
        0
    }

    #[test]
    fn routines_are_where_sqlite_has_them() {
        // SAFETY: the function is an entry point of an extension, which notes the table that extensions are given.
        let code = unsafe { rusqlite::ffi::sqlite3_auto_extension(Some(note_routines)) };
        assert_eq!(code, 0);
        drop(rusqlite::Connection::open_in_memory().unwrap());
        // SAFETY: the table is static, and longer than the part that is looked at.
        let routines = unsafe { &*ROUTINES.load(Ordering::SeqCst) };
        assert_eq!(routines.vfs_find as usize, rusqlite::ffi::sqlite3_vfs_find as *const () as usize);
        assert_eq!(routines.vfs_register as usize, rusqlite::ffi::sqlite3_vfs_register as *const () as usize);
        assert_eq!(
            routines.vfs_unregister as usize,
            rusqlite::ffi::sqlite3_vfs_unregister as *const () as usize
        );
        assert_eq!(routines.log as usize, rusqlite::ffi::sqlite3_log as *const () as usize);
        assert_eq!(
            routines.uri_parameter as usize,
            rusqlite::ffi::sqlite3_uri_parameter as *const () as usize
        );
    }
}
