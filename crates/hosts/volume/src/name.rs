//! Names of files: bytes, as POSIX has them.

use std::sync::Arc;

use tantalum_filesystem::{FileId, NAME_BYTES};

use crate::error::VolumeError;

/// A name that a file has.
pub(crate) type Name = Arc<[u8]>;

/// A name and its folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NamePlace {
    pub folder: FileId,
    pub name: Name,
}

/// Whether a file may have this name.
pub(crate) fn is_valid_name(name: &[u8]) -> bool {
    (1..=NAME_BYTES).contains(&name.len())
        && !name.iter().any(|&byte| byte == 0 || byte == b'/')
        && name != b"."
        && name != b".."
}

/// Refuses an invalid name.
pub(crate) fn check_name(name: &[u8]) -> Result<(), VolumeError> {
    if is_valid_name(name) {
        return Ok(());
    }
    Err(VolumeError::BadName { bytes: name.len(), most: NAME_BYTES })
}

/// A name for display.
pub(crate) fn display(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
