//! What the methods of a VFS and of its files share: the hosts, and how a failed method is reported.
//!
//! Each method is entered through [`guard`]: no panic leaves it. Errors are kept for `xGetLastError` and written to
//! SQLite's log.
//!
//! A VFS lives as long as its `Registration` or a file opened through it: SQLite uses a connection's VFS until the
//! connection's database file is closed.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tantalum_volume::Timestamp;

use crate::api::Api;
use crate::entropy::{Entropy, UNIX_EPOCH_JULIAN_MS};
use crate::fault::Fault;
use crate::ffi;
use crate::hosts::Hosts;
use crate::libraries::Libraries;

/// The name of the SQL function and of the pragma that report the last error.
pub(crate) const ERROR_NAME: &CStr = c"tantalum_error";

/// A VFS and what belongs to it.
pub(crate) struct Vfs {
    pub api: Api,
    pub hosts: Hosts,
    pub libraries: Libraries,
    pub entropy: Mutex<Entropy>,
    pub last_error: Mutex<String>,
    /// The object that SQLite links into its list. It points to the name and to the whole VFS.
    pub object: *mut ffi::Vfs,
    pub name: CString,
}

// SAFETY: `object` is touched only by SQLite, under its own mutex, between registration and unregistration, and
// freed by the last owner. `libraries` points to what SQLite shares between threads itself. Everything else is Send
// and Sync.
unsafe impl Send for Vfs {}
// SAFETY: as above.
unsafe impl Sync for Vfs {}

impl std::fmt::Debug for Vfs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vfs").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Drop for Vfs {
    fn drop(&mut self) {
        // SAFETY: it came from a box in `Vfs::new`, and SQLite has unlinked it (`Registration`).
        drop(unsafe { Box::from_raw(self.object) });
    }
}

impl Vfs {
    /// A VFS; `object` makes what SQLite gets, from its name and its address.
    pub fn new(
        api: Api,
        hosts: Hosts,
        entropy: Entropy,
        name: CString,
        object: impl FnOnce(&CStr, *const Vfs) -> ffi::Vfs,
    ) -> Arc<Vfs> {
        Arc::new_cyclic(|vfs: &Weak<Vfs>| {
            let object = Box::into_raw(Box::new(object(&name, vfs.as_ptr())));
            Vfs {
                libraries: Libraries::of(api),
                api,
                hosts,
                entropy: Mutex::new(entropy),
                last_error: Mutex::default(),
                object,
                name,
            }
        })
    }

    /// SQLite's code for a fault, which is kept and logged.
    pub fn report(&self, fault: &Fault, otherwise: c_int) -> c_int {
        let code = fault.code(otherwise);
        if fault.is_reported() {
            self.tell(code, format!("tantalum: {fault}"));
        }
        code
    }

    /// Keeps a message, and writes it to SQLite's log.
    pub fn tell(&self, code: c_int, message: String) {
        if let Ok(text) = CString::new(message.as_str()) {
            // SAFETY: the format takes one string, and both are terminated.
            unsafe { (self.api.log)(code, c"%s".as_ptr(), text.as_ptr()) };
        }
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = message;
    }

    /// The last error, for C.
    pub fn last_error_text(&self) -> CString {
        let message = self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        CString::new(message.replace('\0', " ")).expect("there is no zero in it")
    }

    /// The time as a Julian day, in milliseconds.
    pub fn julian_ms(&self) -> i64 {
        let now_ns = self.hosts.now_ns();
        self.entropy.lock().unwrap_or_else(PoisonError::into_inner).julian_ms(now_ns)
    }

    /// The time that files get, if they get one.
    pub fn file_time(&self) -> Option<Timestamp> {
        self.hosts.dates_files().then(|| {
            let unix_ms = self.julian_ms() - UNIX_EPOCH_JULIAN_MS;
            Timestamp {
                seconds: unix_ms.div_euclid(1000),
                nanoseconds: unix_ms.rem_euclid(1000) as u32 * 1_000_000,
            }
        })
    }
}

/// Runs a method. A panic becomes `SQLITE_IOERR`.
pub(crate) fn guard(method: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(method)).unwrap_or(ffi::SQLITE_IOERR)
}
