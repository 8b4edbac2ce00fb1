//! What can stop an experiment.

use std::io;
use std::path::{Path, PathBuf};

use crate::servers::ServerError;
use tantalum::{DeviceError, InvalidField, Lpn, ProfileError, Status};
use tantalum_sqlite::{DriveError, Mode};
use tantalum_volume::{UnmountError, VolumeError};

/// Why an experiment did not come to its end. Wrong contents are no error: they are an outcome.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Someone asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// A setting that cannot be.
    #[error("{option} {value}: {expected}")]
    Setting {
        /// What it is called on the command line.
        option: &'static str,
        /// What was given.
        value: String,
        /// What would be right.
        expected: String,
    },
    /// No such profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A profile that was changed into one that cannot be.
    #[error(transparent)]
    Field(#[from] InvalidField),
    /// The drive could not be made or opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The drive refused a command.
    #[error("the drive refused a command: {0}")]
    Status(#[from] Status),
    /// The key-value store failed.
    #[error(transparent)]
    KeyValueStore(#[from] tantalum_kv::Error),
    /// The document store failed.
    #[error(transparent)]
    DocumentStore(#[from] tantalum_couch::Error),
    /// RocksDB failed.
    #[cfg(feature = "rocksdb")]
    #[error("RocksDB: {0}")]
    RocksDb(#[from] crate::rocks::Error),
    /// The volume failed.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The volume could not be unmounted.
    #[error(transparent)]
    Unmount(#[from] Box<UnmountError>),
    /// The drive is too small for the experiment.
    #[error("a drive of {capacity_bytes} bytes is too small for this: {what}; give a larger --capacity")]
    TooSmall {
        /// What it has.
        capacity_bytes: u64,
        /// What does not fit.
        what: String,
    },
    /// This machine is too small for the experiment.
    #[error("this takes {needed} MiB of memory and {available} MiB are available; give a smaller --capacity or --scale",
        needed = needed_bytes >> 20, available = available_bytes >> 20)]
    Memory {
        /// What it takes.
        needed_bytes: u64,
        /// What there is.
        available_bytes: u64,
    },
    /// A read gave other data than were written.
    #[error("unit {lpn} holds {found:#x} where {lpn} was written: the drive lost data")]
    WrongData {
        /// The unit.
        lpn: Lpn,
        /// What its first eight bytes hold instead of its number.
        found: u64,
    },
    /// Records of a drive are not as they were put.
    #[error("of the records, {what}: the drive lost data")]
    WrongRecords {
        /// What is wrong.
        what: String,
    },
    /// A database of a comparison did not hold what was written to it.
    #[error("{mode}: the database does not hold what was written to it: {what}")]
    WrongContents {
        /// The mode.
        mode: Mode,
        /// What is wrong.
        what: String,
    },
    /// A database server, or the place for its files.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A database on a server is not as its transactions leave it.
    #[error("{what} do not agree: transactions were lost or done in part")]
    Inconsistent {
        /// What does not agree.
        what: &'static str,
    },
    /// The VFS could not be set up or taken down.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// SQLite failed where it should not.
    #[error("{doing}: {error}")]
    Sqlite {
        /// What was being done.
        doing: String,
        /// What SQLite says.
        error: rusqlite::Error,
    },
    /// One of the user's statements failed.
    #[error("{}, statement {number} ({text}): {message}", path.display())]
    Statement {
        /// The file of statements.
        path: PathBuf,
        /// Which, from 1.
        number: usize,
        /// How it begins.
        text: String,
        /// What SQLite says.
        message: String,
    },
    /// The statements end within a transaction.
    #[error("{}: the last transaction is not ended; add COMMIT or ROLLBACK", path.display())]
    OpenTransaction {
        /// The file of statements.
        path: PathBuf,
    },
    /// The user's database cannot be used.
    #[error("{} cannot be used as a database: {reason}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A plot could not be drawn.
    #[error("drawing the plot of {plot}: {reason}")]
    Plot {
        /// Which.
        plot: &'static str,
        /// What the library says.
        reason: String,
    },
}

impl LabError {
    /// Makes the error of something SQLite did.
    pub(crate) fn sqlite(doing: impl Into<String>) -> impl FnOnce(rusqlite::Error) -> LabError {
        let doing = doing.into();
        move |error| LabError::Sqlite { doing, error }
    }

    /// Makes the error of a file.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> LabError {
        let path = path.to_owned();
        move |error| LabError::File { path, error }
    }

    /// Whether it comes from a full drive.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            LabError::Sqlite { error, .. } => {
                error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
            }
            LabError::Volume(VolumeError::NoSpace { .. }) => true,
            LabError::Volume(VolumeError::Device(status)) | LabError::Status(status) => {
                *status == Status::CapacityExceeded
            }
            _ => false,
        }
    }
}
