//! The reason for the last error, for programs that see only SQLite's code: the SQL function and the pragma
//! `tantalum_error`.
//!
//! A connection that could not be opened cannot be queried. So the function exists on every connection that loads the
//! extension; the pragma exists on connections of the VFS.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::panic::catch_unwind;
use std::sync::OnceLock;

use crate::api::{ApiRoutines, ResultText};
use crate::ffi;
use crate::registration::Registration;
use crate::vfs::ERROR_NAME;

/// Makes SQLite copy a text.
const TRANSIENT: isize = -1;

/// What the function works with: the VFS, and the library that calls it.
struct Context {
    registration: &'static Registration,
    result_text: ResultText,
}

/// Set by the first library that loads the extension. A second library in the same process has only the pragma.
static CONTEXT: OnceLock<Context> = OnceLock::new();

/// Adds the function to a connection. Fails with SQLite's code.
///
/// # Safety
///
/// `connection` and `routines` came to an extension's entry point.
pub(crate) unsafe fn add(
    connection: *mut c_void,
    routines: &ApiRoutines,
    registration: &'static Registration,
) -> Result<(), c_int> {
    let result_text = routines.result_text;
    let context = CONTEXT.get_or_init(|| Context { registration, result_text });
    if context.result_text as usize != result_text as usize {
        return Ok(());
    }
    let (name, no_data) = (ERROR_NAME.as_ptr(), std::ptr::null_mut());
    // SAFETY: the connection is open, the name is terminated, and the function takes what SQLite passes.
    let code = unsafe {
        (routines.create_function)(
            connection,
            name,
            0,
            ffi::SQLITE_UTF8,
            no_data,
            Some(error),
            None,
            None,
            None,
        )
    };
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(code) }
}

/// The SQL function: the last error, or an empty text.
unsafe extern "C" fn error(sqlite: *mut c_void, _count: c_int, _arguments: *mut *mut c_void) {
    let Some(context) = CONTEXT.get() else { return };
    // If this panics, the answer is NULL (S4).
    let Ok(text) = catch_unwind(|| context.registration.last_error_text()) else { return };
    // SAFETY: `sqlite` is this call's context, of the library that has the function, and the text is terminated.
    unsafe { (context.result_text)(sqlite, text.as_ptr(), -1, TRANSIENT) };
}
