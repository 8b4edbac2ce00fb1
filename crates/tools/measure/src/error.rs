//! Errors that stop a measurement.

use std::io;
use std::path::PathBuf;

use tantalum::{DeviceError, ProfileError};
use tantalum_control::ControlError;
use tantalum_filesystem::Errno;
use tantalum_fuse::{MountError, MountPointError};
use tantalum_record::SpoolError;
use tantalum_report::{Interrupted, NoTemporary};
use tantalum_volume::VolumeError;
use tantalum_workloads::WorkloadError;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// It was interrupted before anything was measured.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The mount's profile cannot be read.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The drive could not be created.
    #[error("{}the drive cannot be created: {error}", image.as_ref().map_or(String::new(), |path| format!("{}: ", path.display())))]
    Device {
        /// Its image, if it has one.
        image: Option<PathBuf>,
        /// The drive's error.
        error: DeviceError,
    },
    /// The volume could not be created.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The drive could not be aged.
    #[error("the drive cannot be aged: {0}")]
    Ageing(WorkloadError),
    /// The folder could not be mounted.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// Nothing is mounted there.
    #[error(transparent)]
    MountPoint(#[from] MountPointError),
    /// The mount did not answer, or refused.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A program could not be started.
    #[error("{program}: {error}")]
    Start {
        /// What should have been started.
        program: String,
        /// The system's error.
        error: io::Error,
    },
    /// The folder could not be prepared.
    #[error("--setup {command:?} ended with {status}")]
    Setup {
        /// The command.
        command: String,
        /// How it ended.
        status: std::process::ExitStatus,
    },
    /// The recording cannot be read.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// The recording could not be replayed.
    #[error("operation {operation} of the recording failed when it was replayed: {errno}")]
    Replay {
        /// The operation's number, from 0.
        operation: u64,
        /// The file system's error.
        errno: Errno,
    },
    /// Nothing was written.
    #[error(
        "nothing was written to the drive; a program gets its folder as {{}} in its arguments, as $TANTALUM_DIR, and as its \
         working directory, and of a mount only what is written while it is watched counts"
    )]
    NothingWritten,
    /// There is no folder for temporary files.
    #[error(transparent)]
    Temporary(#[from] NoTemporary),
    /// A file could not be created.
    #[error("{}: {error}", path.display())]
    Files {
        /// The folder or file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

impl MeasureError {
    pub(crate) fn files(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> MeasureError {
        let path = path.into();
        move |error| MeasureError::Files { path, error }
    }
}

impl From<WorkloadError> for MeasureError {
    fn from(error: WorkloadError) -> MeasureError {
        match error {
            WorkloadError::Interrupted(interrupted) => interrupted.into(),
            error => MeasureError::Ageing(error),
        }
    }
}
