//! Errors that stop a workload.

use tantalum::{DeviceError, Lpn, Status};
use tantalum_report::table::bytes;
use tantalum_report::{Interrupted, InvalidSetting};
use tantalum_volume::VolumeError;

/// Why a workload did not complete.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// Somebody asked to stop.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A setting that cannot be used.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// The drive could not be created or opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The drive refused a command.
    #[error("the drive refused a command: {0}")]
    Status(#[from] Status),
    /// The volume failed.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The file system refused something.
    #[error("the file system refused an operation: {}", .0.desc())]
    FileSystem(#[from] tantalum_filesystem::Errno),
    /// The drive is too small for the workload.
    #[error(transparent)]
    TooSmall(#[from] TooSmall),
    /// This machine is too small for the workload.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    /// A read returned data that were not written.
    #[error(transparent)]
    WrongData(#[from] WrongData),
    /// MariaDB refused something.
    #[cfg(feature = "servers")]
    #[error("MariaDB: {0}")]
    MariaDb(#[from] mysql::Error),
    /// PostgreSQL refused something.
    #[cfg(feature = "servers")]
    #[error("PostgreSQL: {0}")]
    Postgresql(#[from] postgres::Error),
}

impl WorkloadError {
    /// Whether it comes from a full drive.
    pub fn is_full(&self) -> bool {
        match self {
            WorkloadError::Volume(VolumeError::NoSpace { .. }) => true,
            WorkloadError::Volume(VolumeError::Device(status)) | WorkloadError::Status(status) => {
                *status == Status::CapacityExceeded
            }
            _ => false,
        }
    }
}

/// The drive is too small for the work.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a drive of {} is too small for this: {what}; {}", bytes(*capacity_bytes), advice(*enough_bytes))]
pub struct TooSmall {
    /// The drive's capacity.
    pub capacity_bytes: u64,
    /// What does not fit.
    pub what: String,
    /// A sufficient capacity, in whole MiB, if known.
    pub enough_bytes: Option<u64>,
}

fn advice(enough_bytes: Option<u64>) -> String {
    match enough_bytes {
        Some(enough) => format!("use --capacity {}M or more", enough >> 20),
        None => "increase --capacity".to_owned(),
    }
}

/// This machine has too little memory for the work.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("this needs {needed} MiB of memory, but only {available} MiB are available; reduce --capacity or --scale",
    needed = needed_bytes >> 20, available = available_bytes >> 20)]
pub struct OutOfMemory {
    /// The memory that the work takes.
    pub needed_bytes: u64,
    /// The memory that is available.
    pub available_bytes: u64,
}

/// A unit does not begin with its own number, as every unit written does.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unit {lpn} holds {found:#x} instead of {lpn}: the drive lost data")]
pub struct WrongData {
    /// The unit.
    pub lpn: Lpn,
    /// The number that it begins with instead of its own.
    pub found: u64,
}
