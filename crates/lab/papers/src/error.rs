//! Errors that stop an experiment.

use std::io;
use std::path::{Path, PathBuf};

use tantalum::{DeviceError, InvalidField, ProfileError, Status};
use tantalum_report::{Interrupted, InvalidSetting, MissingFeature, ReportError};
use tantalum_sqlite::{Mode, SharedVolumeError};
use tantalum_volume::{UnmountError, VolumeError};
use tantalum_workloads::{OutOfMemory, TooSmall, WorkloadError, WrongData};

use crate::servers::ServerError;

/// Why an experiment was not completed. Wrong contents are not an error but a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// It was interrupted.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A setting that cannot be used.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// This build is without what the experiment needs.
    #[error(transparent)]
    Feature(#[from] MissingFeature),
    /// A workload failed.
    #[error(transparent)]
    Workload(WorkloadError),
    /// A report could not be drawn or written.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// No such profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A changed profile is invalid.
    #[error(transparent)]
    Field(#[from] InvalidField),
    /// The drive could not be created or opened.
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
    /// The storage manager failed.
    #[error(transparent)]
    Store(#[from] tantalum_store::StoreError),
    /// A program could not be installed.
    #[error(transparent)]
    Install(#[from] tantalum_spu::InstallError),
    /// A request to a program could not be sent.
    #[error(transparent)]
    Program(#[from] tantalum_spu::SpuError),
    /// A program's read or write failed.
    #[error(transparent)]
    ProgramIo(#[from] tantalum_spu::IoError),
    /// RocksDB failed.
    #[cfg(feature = "rocksdb")]
    #[error("RocksDB: {0}")]
    RocksDb(#[from] crate::rocks::Error),
    /// The log-structured file system failed.
    #[error(transparent)]
    LogStructured(#[from] tantalum_lfs::LfsError),
    /// The volume failed.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The volume could not be unmounted.
    #[error(transparent)]
    Unmount(#[from] Box<UnmountError>),
    /// The drive is too small for the experiment.
    #[error(transparent)]
    TooSmall(#[from] TooSmall),
    /// This machine is too small for the experiment.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    /// A file of SQL cannot be used.
    #[error("{}: {what}", path.display())]
    Script {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A read returned data other than those written.
    #[error(transparent)]
    WrongData(#[from] WrongData),
    /// Records of a drive differ from what was put.
    #[error("records: {what}: the drive lost data")]
    WrongRecords {
        /// What is wrong.
        what: String,
    },
    /// Files differ from what was synced.
    #[error("after a power cut: {what}: synced data are missing, or the file system is damaged")]
    WrongFiles {
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
    /// A database server failed, or the place for its files.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A database on a server violates its consistency conditions.
    #[error("{what} do not agree: transactions were lost or done only in part")]
    Inconsistent {
        /// What does not agree.
        what: &'static str,
    },
    /// The VFS could not be registered or removed.
    #[error(transparent)]
    SharedVolume(#[from] SharedVolumeError),
    /// SQLite failed unexpectedly.
    #[error("{doing}: {error}")]
    Sqlite {
        /// What was being done.
        doing: String,
        /// SQLite's error.
        error: rusqlite::Error,
    },
    /// One of the user's statements failed.
    #[error("{}, statement {number} ({text}): {message}", path.display())]
    Statement {
        /// The file of statements.
        path: PathBuf,
        /// The statement's number, from 1.
        number: usize,
        /// Its beginning.
        text: String,
        /// SQLite's error.
        message: String,
        /// Whether the database found no room.
        full: bool,
    },
    /// The statements end within a transaction.
    #[error("{}: the last transaction is still open; add COMMIT or ROLLBACK", path.display())]
    OpenTransaction {
        /// The file of statements.
        path: PathBuf,
    },
    /// The user's database cannot be used.
    #[error("{} cannot be used as a database: {reason}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// SQLite's error.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

impl From<WorkloadError> for ExperimentError {
    fn from(error: WorkloadError) -> ExperimentError {
        match error {
            WorkloadError::Interrupted(interrupted) => interrupted.into(),
            error => ExperimentError::Workload(error),
        }
    }
}

impl ExperimentError {
    /// Makes the error of something SQLite did.
    pub(crate) fn sqlite(doing: impl Into<String>) -> impl FnOnce(rusqlite::Error) -> ExperimentError {
        let doing = doing.into();
        move |error| ExperimentError::Sqlite { doing, error }
    }

    /// Makes the error of a file.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> ExperimentError {
        let path = path.to_owned();
        move |error| ExperimentError::File { path, error }
    }

    /// Reports that the drive is too small, with a capacity that would do, if that is the cause.
    pub(crate) fn if_too_small(
        self,
        capacity_bytes: u64,
        enough_bytes: impl FnOnce() -> Option<u64>,
    ) -> ExperimentError {
        if !self.is_full() {
            return self;
        }
        TooSmall { capacity_bytes, what: self.to_string(), enough_bytes: enough_bytes() }.into()
    }

    /// Whether it comes from a full drive.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            ExperimentError::Statement { full, .. } => *full,
            ExperimentError::Sqlite { error, .. } => {
                error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
            }
            ExperimentError::Workload(error) => error.is_full(),
            ExperimentError::Volume(VolumeError::NoSpace { .. }) => true,
            ExperimentError::Volume(VolumeError::Device(status)) | ExperimentError::Status(status) => {
                *status == Status::CapacityExceeded
            }
            _ => false,
        }
    }
}
