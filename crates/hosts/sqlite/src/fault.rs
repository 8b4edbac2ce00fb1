//! Why a request of SQLite failed, and the code returned to SQLite.

use std::ffi::c_int;

use tantalum::Status;
use tantalum_volume::VolumeError;

use crate::batch::BatchError;
use crate::ffi;
use crate::image_error::ImageError;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The volume or the drive failed.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// An atomic batch failed.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// The image behind the extension's file failed.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The file to open does not exist.
    #[error("no file {0:?} on the volume")]
    NoSuchFile(String),
    /// The file to create already exists.
    #[error("file {0:?} already exists on the volume")]
    Exists(String),
    /// The log's database is not open.
    #[error("the log {0:?} cannot be opened without its database")]
    LogAlone(String),
    /// An invalid offset or length.
    #[error("{0} is not a valid file offset")]
    Offset(i64),
    /// The drive refused a part of the transaction to commit.
    #[error("the transaction cannot be committed: the drive did not accept all of it")]
    Doomed,
    /// Others hold a lock. SQLite retries, so it is not reported.
    #[error("the file is locked")]
    Busy,
    /// A request that this file does not support.
    #[error("this request is not supported for this file")]
    Unknown,
}

impl Fault {
    /// SQLite's code; `otherwise` is that of the method that failed.
    pub fn code(&self, otherwise: c_int) -> c_int {
        match self {
            Fault::Busy => ffi::SQLITE_BUSY,
            Fault::Unknown => ffi::SQLITE_NOTFOUND,
            Fault::Volume(
                VolumeError::NoSpace { .. }
                | VolumeError::TableFull { .. }
                | VolumeError::Device(Status::CapacityExceeded | Status::OverLimit { .. }),
            ) => ffi::SQLITE_FULL,
            Fault::Volume(VolumeError::Device(Status::WriteProtected(_))) => ffi::SQLITE_READONLY,
            _ => otherwise,
        }
    }

    /// Whether it is worth a line in SQLite's log.
    pub fn is_reported(&self) -> bool {
        !matches!(self, Fault::Busy | Fault::Unknown | Fault::Batch(BatchError::TooLarge { .. }))
    }
}

#[cfg(test)]
mod tests {
    use tantalum::HostError;

    use super::*;

    #[test]
    fn a_full_volume_is_told_as_such() {
        let full = Fault::from(VolumeError::NoSpace { needed: 2, free: 1 });
        assert_eq!(full.code(ffi::SQLITE_IOERR_WRITE), ffi::SQLITE_FULL);
        let lost = Fault::from(VolumeError::Device(Status::PowerLost));
        assert_eq!(lost.code(ffi::SQLITE_IOERR_WRITE), ffi::SQLITE_IOERR_WRITE);
        assert!(lost.is_reported());
        let host = HostError {
            path: "a.tant".into(),
            action: "write",
            kind: std::io::ErrorKind::StorageFull,
            reason: "No space left on device".to_owned(),
        };
        let protected = Fault::from(VolumeError::Device(Status::WriteProtected(host)));
        assert_eq!(protected.code(ffi::SQLITE_IOERR_WRITE), ffi::SQLITE_READONLY);
        assert_eq!(Fault::Busy.code(ffi::SQLITE_IOERR_LOCK), ffi::SQLITE_BUSY);
    }
}
