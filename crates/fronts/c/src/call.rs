//! What all functions have in common: numbers and texts of errors, and the caller's pointers.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Success.
pub const TANTALUM_OK: i32 = 0;
/// No such key.
pub const TANTALUM_NOT_FOUND: i32 = 1;
/// The buffer is too short; only the required length was stored.
pub const TANTALUM_SHORT_BUFFER: i32 = 2;
/// A null pointer, a text that is not UTF-8, or an invalid key, value or option.
pub const TANTALUM_INVALID: i32 = 3;
/// The transaction gave way to an older one: abort it and begin again.
pub const TANTALUM_DEADLOCK: i32 = 4;
/// No such namespace.
pub const TANTALUM_NO_NAMESPACE: i32 = 5;
/// The store was opened by another process: this one was forked.
pub const TANTALUM_FORKED: i32 = 6;
/// The store has stopped and must be reopened.
pub const TANTALUM_STOPPED: i32 = 7;
/// The drive or the host failed.
pub const TANTALUM_REFUSED: i32 = 8;
/// An internal error of this library.
pub const TANTALUM_BUG: i32 = 9;
/// The drive has no power.
pub const TANTALUM_POWER_LOST: i32 = 10;

/// The key already exists.
pub const TANTALUM_EXISTS: i32 = 11;
/// The lock belongs to another open transaction, which cannot end while this thread waits: a transaction within another one.
pub const TANTALUM_SELF_DEADLOCK: i32 = 12;
/// The store was opened to be read.
pub const TANTALUM_READ_ONLY: i32 = 13;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Why something failed: a number and a text.
pub struct Refusal(pub i32, pub String);

/// A null pointer.
pub fn null(what: &str) -> Refusal {
    Refusal(TANTALUM_INVALID, format!("{what} is null"))
}

/// Does the work of a function: catches panics, and keeps the text of an error for the calling thread.
pub fn run(work: impl FnOnce() -> Result<(), Refusal>) -> i32 {
    let (number, text) = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return TANTALUM_OK,
        Ok(Err(Refusal(number, text))) => (number, text),
        Err(_) => (TANTALUM_BUG, "internal error of the library".to_owned()),
    };
    LAST_ERROR.with_borrow_mut(|last| *last = CString::new(text.replace('\0', " ")).unwrap_or_default());
    number
}

/// The caller's bytes; the pointer may be null if there are none.
///
/// # Safety
/// If `data` is not null, `bytes` bytes can be read there, and do not change meanwhile.
pub unsafe fn bytes_of<'a>(data: *const u8, bytes: usize, what: &str) -> Result<&'a [u8], Refusal> {
    match (data.is_null(), bytes) {
        (true, 0) => Ok(&[]),
        (true, _) => Err(null(what)),
        // SAFETY: by the caller's promise.
        (false, bytes) => Ok(unsafe { std::slice::from_raw_parts(data, bytes) }),
    }
}

/// The caller's text.
///
/// # Safety
/// If `text` is not null, it ends with a zero.
pub unsafe fn text_of<'a>(text: *const c_char, what: &str) -> Result<&'a str, Refusal> {
    if text.is_null() {
        return Err(null(what));
    }
    // SAFETY: by the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Refusal(TANTALUM_INVALID, format!("{what} is not UTF-8")))
}

/// Stores a value and its length, or only its length if there is too little room.
///
/// # Safety
/// If `value` is not null, it has room for `capacity` bytes.
pub unsafe fn copy_out(
    found: &[u8],
    value: *mut u8,
    capacity: usize,
    value_bytes: &mut usize,
) -> Result<(), Refusal> {
    *value_bytes = found.len();
    if found.len() > capacity {
        let text = format!("the value has {} bytes, but the buffer only {capacity}", found.len());
        return Err(Refusal(TANTALUM_SHORT_BUFFER, text));
    }
    if found.is_empty() {
        return Ok(());
    }
    if value.is_null() {
        return Err(null("value"));
    }
    // SAFETY: there is room for `capacity` bytes, and the value found is in the library's own memory.
    unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), value, found.len()) };
    Ok(())
}

/// Stores a result where the caller wants it.
///
/// # Safety
/// `place` is null or can be written.
pub unsafe fn store<T>(place: *mut T, what: T) {
    if !place.is_null() {
        // SAFETY: by the caller's promise.
        unsafe { place.write(what) };
    }
}

/// Frees what an opening function allocated.
///
/// # Safety
/// `made` is null or was made by a Box, and nobody uses it again.
pub unsafe fn free<T>(made: *mut T) -> Result<(), Refusal> {
    if !made.is_null() {
        // SAFETY: by the caller's promise.
        drop(unsafe { Box::from_raw(made) });
    }
    Ok(())
}

/// The text of the last error in this thread; valid until the next call in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn tantalum_last_error() -> *const c_char {
    LAST_ERROR.with_borrow(|last| last.as_ptr())
}
