//! Errors that stop a torture test.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;

use tantalum::{DeviceError, InvalidField, ProfileError, Status};
use tantalum_report::{Interrupted, InvalidSetting, system_error, temporary_file};
use tantalum_sqlite::SharedVolumeError;
use tantalum_volume::{UnmountError, VolumeError};

/// Why a torture test was not completed. A broken promise is not an error but a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CrashError {
    /// It was interrupted.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A setting that cannot be used.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// No such profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A changed profile is invalid.
    #[error(transparent)]
    Field(#[from] InvalidField),
    /// The machine's disk failed where the test has its images. That breaks no promise.
    #[error("an image in {} cannot be used: {detail}; set TMPDIR to a folder with room", folder.display())]
    Machine {
        /// The folder.
        folder: PathBuf,
        /// How it failed.
        detail: String,
    },
    /// The drive could not be created or opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The key-value store failed before any cut.
    #[error("the key-value store failed: {0}")]
    Store(#[from] tantalum_kv::Error),
    /// The drive refused a command.
    #[error("the drive refused a command: {0}")]
    Status(#[from] Status),
    /// The volume failed.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The volume could not be unmounted.
    #[error(transparent)]
    Unmount(#[from] Box<UnmountError>),
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
}

/// A disk with less room than this has none.
const ROOM_BYTES: usize = 1 << 20;

/// Why the machine's disk has no room for images, if it has none: then a host that is to fail has failed by itself as well.
pub(crate) fn no_room() -> Option<io::Error> {
    let room = match temporary_file("tantalum-crash-") {
        Ok(mut file) => file.write_all(&vec![1; ROOM_BYTES]).map_err(system_error),
        Err(none) => Err(none.error),
    };
    room.err()
}

impl CrashError {
    /// The machine's disk failed.
    pub(crate) fn machine(detail: impl Display) -> CrashError {
        CrashError::Machine { folder: std::env::temp_dir(), detail: detail.to_string() }
    }

    /// Makes the error of something SQLite did.
    pub(crate) fn sqlite(doing: impl Into<String>) -> impl FnOnce(rusqlite::Error) -> CrashError {
        let doing = doing.into();
        move |error| CrashError::Sqlite { doing, error }
    }
}
