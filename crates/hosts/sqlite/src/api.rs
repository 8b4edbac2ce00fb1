//! The SQLite functions that the VFS calls.
//!
//! There may be two libraries in one process: the one linked in, and the one that loads the extension. So the VFS never
//! calls the functions by name, but through this table.

#![allow(unsafe_code)]

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
    /// `sqlite3_uri_key`, which SQLite has since 3.33.
    pub uri_key: Option<UriKey>,
    /// `sqlite3_log`.
    pub log: unsafe extern "C" fn(c_int, *const c_char, ...),
    /// `sqlite3_mprintf`.
    pub mprintf: unsafe extern "C" fn(*const c_char, ...) -> *mut c_char,
}

/// The type of `sqlite3_uri_key`.
pub type UriKey = unsafe extern "C" fn(*const c_char, c_int) -> *const c_char;

/// The first version with [`UriKey`].
const URI_KEY_VERSION: c_int = 3_033_000;

/// The part of `sqlite3_api_routines` that the VFS needs. A library passes this table to the extensions that it loads,
/// and SQLite only ever appends to it.
#[repr(C)]
#[derive(Debug)]
pub struct ApiRoutines {
    _before_libversion_number: [*const c_void; 67],
    libversion_number: unsafe extern "C" fn() -> c_int,
    _before_mprintf: [*const c_void; 1],
    mprintf: unsafe extern "C" fn(*const c_char, ...) -> *mut c_char,
    _before_result_text: [*const c_void; 15],
    pub(crate) result_text: ResultText,
    _before_vfs_find: [*const c_void; 55],
    vfs_find: unsafe extern "C" fn(*const c_char) -> *mut ffi::Vfs,
    vfs_register: unsafe extern "C" fn(*mut ffi::Vfs, c_int) -> c_int,
    vfs_unregister: unsafe extern "C" fn(*mut ffi::Vfs) -> c_int,
    _before_create_function: [*const c_void; 18],
    pub(crate) create_function: CreateFunction,
    _before_log: [*const c_void; 4],
    log: unsafe extern "C" fn(c_int, *const c_char, ...),
    _before_uri_parameter: [*const c_void; 21],
    uri_parameter: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
}

/// `sqlite3_api_routines` from SQLite 3.33 on.
#[repr(C)]
struct RoutinesWithKeys {
    first: ApiRoutines,
    _before_uri_key: [*const c_void; 55],
    uri_key: UriKey,
}

/// A function of SQL in C: its context, and its arguments.
pub(crate) type SqlFunction = unsafe extern "C" fn(*mut c_void, c_int, *mut *mut c_void);

/// `sqlite3_create_function_v2`.
pub(crate) type CreateFunction = unsafe extern "C" fn(
    *mut c_void,
    *const c_char,
    c_int,
    c_int,
    *mut c_void,
    Option<SqlFunction>,
    Option<SqlFunction>,
    Option<unsafe extern "C" fn(*mut c_void)>,
    Option<unsafe extern "C" fn(*mut c_void)>,
) -> c_int;

/// `sqlite3_result_text`. The last parameter says who frees the text; -1 has SQLite copy it.
pub(crate) type ResultText = unsafe extern "C" fn(*mut c_void, *const c_char, c_int, isize);

impl Api {
    /// The functions of the library whose table this is.
    ///
    /// # Safety
    ///
    /// `routines` is what a library passed to an extension.
    pub unsafe fn of(routines: *const ApiRoutines) -> Api {
        // SAFETY: by the caller's word; all versions with extensions have that part.
        let first = unsafe { &*routines };
        // SAFETY: the function takes nothing.
        let has_keys = unsafe { (first.libversion_number)() } >= URI_KEY_VERSION;
        // SAFETY: a library of that version has the longer table.
        let uri_key = has_keys.then(|| unsafe { (*routines.cast::<RoutinesWithKeys>()).uri_key });
        let routines = first;
        Api {
            vfs_find: routines.vfs_find,
            vfs_register: routines.vfs_register,
            vfs_unregister: routines.vfs_unregister,
            uri_parameter: routines.uri_parameter,
            uri_key,
            log: routines.log,
            mprintf: routines.mprintf,
        }
    }
}

#[cfg(all(test, feature = "bundled"))]
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
        // SAFETY: the table is static, and longer than the part that is read.
        let (routines, api) = unsafe {
            let routines = ROUTINES.load(Ordering::SeqCst);
            (&*routines, Api::of(routines))
        };
        assert_eq!(
            routines.create_function as usize,
            rusqlite::ffi::sqlite3_create_function_v2 as *const () as usize
        );
        assert_eq!(
            routines.libversion_number as usize,
            rusqlite::ffi::sqlite3_libversion_number as *const () as usize
        );
        assert_eq!(routines.mprintf as usize, rusqlite::ffi::sqlite3_mprintf as *const () as usize);
        assert_eq!(routines.result_text as usize, rusqlite::ffi::sqlite3_result_text as *const () as usize);
        let uri_key = api.uri_key.expect("the linked SQLite has it");
        assert_eq!(uri_key as usize, rusqlite::ffi::sqlite3_uri_key as *const () as usize);
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
