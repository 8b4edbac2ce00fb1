//! What can stop a torture.

use tantalum::{DeviceError, InvalidField, ProfileError, Status};
use tantalum_report::{Interrupted, InvalidSetting};
use tantalum_sqlite::DriveError;
use tantalum_volume::{UnmountError, VolumeError};

/// Why a torture did not come to its end. A promise that was not kept is no error: it is an outcome.
#[derive(Debug, thiserror::Error)]
pub enum CrashError {
    /// Somebody asked to stop.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A setting that cannot be used.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
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
    /// The volume failed.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The volume could not be unmounted.
    #[error(transparent)]
    Unmount(#[from] Box<UnmountError>),
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
}

impl CrashError {
    /// Makes the error of something SQLite did.
    pub(crate) fn sqlite(doing: impl Into<String>) -> impl FnOnce(rusqlite::Error) -> CrashError {
        let doing = doing.into();
        move |error| CrashError::Sqlite { doing, error }
    }
}
