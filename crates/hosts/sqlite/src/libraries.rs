//! Loading libraries for connections of the VFS: `load_extension`.
//!
//! SQLite loads an extension through the VFS of the connection, and calls the four methods for that without checking
//! that they exist. Libraries are files of the host, so the methods are those of SQLite's own VFS.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use crate::api::Api;
use crate::ffi;

/// SQLite's own VFS on Unix. A program may have made another one the default.
const OWN_VFS: &CStr = c"unix";

/// What [`error`] reports if this SQLite cannot load libraries.
const CANNOT_LOAD: &CStr = c"this SQLite was built without the loading of extensions";

/// How this SQLite loads libraries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Libraries {
    /// SQLite's own VFS, which lives as long as SQLite; null if there is none.
    own: *mut ffi::Vfs,
}

impl Libraries {
    /// Looks up SQLite's own VFS, or else the default one.
    pub fn of(api: Api) -> Libraries {
        // SAFETY: the name is terminated, and null asks for the default.
        let own = unsafe {
            let own = (api.vfs_find)(OWN_VFS.as_ptr());
            if own.is_null() { (api.vfs_find)(ptr::null()) } else { own }
        };
        Libraries { own }
    }

    /// One method of SQLite's own VFS, and that VFS.
    fn method<M>(self, choose: impl FnOnce(&ffi::Vfs) -> Option<M>) -> Option<(*mut ffi::Vfs, M)> {
        // SAFETY: SQLite's own VFS is static; it is null or complete.
        let own = unsafe { self.own.as_ref() }?;
        choose(own).map(|method| (self.own, method))
    }

    /// Opens a library. Null if it cannot be opened.
    ///
    /// # Safety
    ///
    /// `path` is terminated.
    pub unsafe fn open(self, path: *const c_char) -> *mut c_void {
        match self.method(|own| own.dl_open) {
            // SAFETY: the method is called with its own VFS and the terminated path.
            Some((own, open)) => unsafe { open(own, path) },
            None => ptr::null_mut(),
        }
    }

    /// Writes why a library could not be opened.
    ///
    /// # Safety
    ///
    /// There is room for `bytes` at `out`.
    pub unsafe fn error(self, bytes: c_int, out: *mut c_char) {
        if let Some((own, error)) = self.method(|own| own.dl_open.and(own.dl_error)) {
            // SAFETY: the method is called with its own VFS and the caller's room.
            unsafe { error(own, bytes, out) };
            return;
        }
        let text = CANNOT_LOAD.to_bytes();
        let Some(room) = usize::try_from(bytes).ok().and_then(|bytes| bytes.checked_sub(1)) else { return };
        let length = text.len().min(room);
        // SAFETY: there is room for `length` bytes and an end.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), out.cast(), length);
            *out.add(length) = 0;
        }
    }

    /// Looks up a symbol of a library. Null if there is none of that name.
    ///
    /// # Safety
    ///
    /// `library` came from [`open`](Libraries::open) and is not closed; `symbol` is terminated.
    pub unsafe fn symbol(self, library: *mut c_void, symbol: *const c_char) -> *mut c_void {
        match self.method(|own| own.dl_sym) {
            // SAFETY: the method is called with its own VFS and what that VFS opened.
            Some((own, find)) => unsafe { find(own, library, symbol) },
            None => ptr::null_mut(),
        }
    }

    /// Closes a library.
    ///
    /// # Safety
    ///
    /// `library` came from [`open`](Libraries::open) and is not closed.
    pub unsafe fn close(self, library: *mut c_void) {
        if let Some((own, close)) = self.method(|own| own.dl_close) {
            // SAFETY: the method is called with its own VFS and what that VFS opened.
            unsafe { close(own, library) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sqlite_without_loading_says_so() {
        let none = Libraries { own: ptr::null_mut() };
        let mut message = [1 as c_char; 64];
        // SAFETY: the path is terminated, and the message has the stated room.
        let text = unsafe {
            assert!(none.open(c"/nonexistent".as_ptr()).is_null());
            none.error(message.len() as c_int, message.as_mut_ptr());
            CStr::from_ptr(message.as_ptr())
        };
        assert_eq!(text, CANNOT_LOAD);
        // SAFETY: there is room for eight bytes.
        let text = unsafe {
            none.error(8, message.as_mut_ptr());
            none.error(0, message.as_mut_ptr());
            CStr::from_ptr(message.as_ptr())
        };
        assert_eq!(text, c"this SQ");
    }
}
