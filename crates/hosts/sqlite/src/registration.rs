//! A VFS in SQLite's list.

#![allow(unsafe_code)]

use std::ffi::{CString, c_int};
use std::sync::{Arc, PoisonError};

use crate::api::Api;
use crate::entropy::Entropy;
use crate::ffi;
use crate::hosts::Hosts;
use crate::vfs::Vfs;
use crate::vfs_methods::object;

/// A VFS in SQLite's list. Dropping it removes it; open connections continue to work.
#[derive(Debug)]
pub struct Registration {
    vfs: Arc<Vfs>,
}

impl Registration {
    /// Registers a VFS under a name. Fails with SQLite's code.
    pub(crate) fn new(api: Api, hosts: Hosts, entropy: Entropy, name: &str) -> Result<Registration, c_int> {
        let name = CString::new(name).map_err(|_| ffi::SQLITE_ERROR)?;
        let vfs = Vfs::new(api, hosts, entropy, name, object);
        // SAFETY: the object is complete and stays where it is until it is unregistered.
        match unsafe { (api.vfs_register)(vfs.object, 0) } {
            ffi::SQLITE_OK => Ok(Registration { vfs }),
            code => Err(code),
        }
    }

    /// The name for `sqlite3_open_v2` and for `vfs=` in URIs.
    pub fn name(&self) -> &str {
        self.vfs.name.to_str().expect("it was made from a str")
    }

    pub(crate) fn last_error_text(&self) -> CString {
        self.vfs.last_error_text()
    }

    /// Whether SQLite's list has this VFS at that address.
    pub(crate) fn is_at(&self, object: *mut ffi::Vfs) -> bool {
        self.vfs.object == object
    }

    /// The last error below SQLite, which itself reports only a code. Empty if there was none.
    pub fn last_error(&self) -> String {
        self.vfs.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: it was registered.
        unsafe { (self.vfs.api.vfs_unregister)(self.vfs.object) };
    }
}
