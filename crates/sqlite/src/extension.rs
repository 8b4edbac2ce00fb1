//! The VFS in the SQLite that loads it as an extension.

use std::ffi::c_int;

use crate::api::{Api, ApiRoutines};
use crate::entropy::Entropy;
use crate::hosts::Hosts;
use crate::image::Images;
use crate::vfs::Registration;

/// The name of the extension's VFS, for `vfs=` in URIs.
pub const EXTENSION_VFS: &str = "tantalum";

/// Registers the VFS [`EXTENSION_VFS`], which opens the images that URIs name, with the library that loads the
/// extension, for as long as the process lives. Fails with SQLite's code.
pub fn register_extension(routines: &ApiRoutines) -> Result<(), c_int> {
    let hosts = Hosts::Images(Images::default());
    let registration = Registration::new(Api::from(routines), hosts, Entropy::new(None), EXTENSION_VFS)?;
    // Connections may be open as long as the process lives.
    std::mem::forget(registration);
    Ok(())
}
