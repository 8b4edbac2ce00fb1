//! The VFS in the SQLite that loads it as an extension.
//!
//! A program may load the extension any number of times; only the first time registers the VFS. A second VFS of the
//! same name would hide the first one and know nothing of the images that it has open.

#![allow(unsafe_code)]

use std::ffi::{CString, c_int};
use std::sync::{Mutex, PoisonError};

use crate::api::{Api, ApiRoutines};
use crate::entropy::Entropy;
use crate::hosts::Hosts;
use crate::image::Images;
use crate::registration::Registration;

/// The name of the extension's VFS, for `vfs=` in URIs.
pub const EXTENSION_VFS: &str = "tantalum";

/// Held while a thread checks whether the VFS exists and registers it.
static REGISTERING: Mutex<()> = Mutex::new(());

/// Registers the VFS [`EXTENSION_VFS`], which opens the images that URIs name, with the library that loads the
/// extension, for the life of the process. Does nothing if it is already registered. Fails with SQLite's code.
pub fn register_extension(routines: &ApiRoutines) -> Result<(), c_int> {
    register_once(Api::from(routines))
}

fn register_once(api: Api) -> Result<(), c_int> {
    let _registering = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
    let name = CString::new(EXTENSION_VFS).expect("the name has no zero in it");
    // SAFETY: the name is terminated.
    if !unsafe { (api.vfs_find)(name.as_ptr()) }.is_null() {
        return Ok(());
    }
    let hosts = Hosts::Images(Images::default());
    let registration = Registration::new(api, hosts, Entropy::new(None), EXTENSION_VFS)?;
    // Connections may be open as long as the process lives.
    std::mem::forget(registration);
    Ok(())
}

#[cfg(all(test, feature = "bundled"))]
mod tests {
    use super::*;
    use rusqlite::Connection;

    #[test]
    fn an_image_that_is_open_is_found_after_the_extension_was_loaded_again() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("app.tant");
        let uri = format!("file:app.db?vfs={EXTENSION_VFS}&image={}&capacity=64M", image.display());
        register_once(Api::bundled()).unwrap();
        let before = Connection::open(&uri).unwrap();
        before.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1)").unwrap();
        register_once(Api::bundled()).unwrap();
        let after = Connection::open(&uri).unwrap();
        let rows = after.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
        assert_eq!(rows.expect("the connection joins the first one"), 1);
    }
}
