//! Errors that stop a run.

use std::env;
use std::io;
use std::path::{Path, PathBuf};

use tantalum::{DeviceError, ProfileError, Status};
use tantalum_filesystem::Errno;
use tantalum_fuse::MountError;
use tantalum_record::SpoolError;
use tantalum_record::blocks::BlockRecordingError;
use tantalum_report::{Interrupted, NoTemporary};
use tantalum_volume::VolumeError;
use tempfile::TempDir;

use crate::check::ended;

/// Why a run was not completed. A failed check is a result, not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It was interrupted.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// No such profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The drive could not be created.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The volume could not be created.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The folder could not be mounted.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// A program could not be started.
    #[error("{program}: {error}{hint}")]
    Start {
        /// What should have been started.
        program: String,
        /// The system's error.
        error: io::Error,
        /// What may help.
        hint: String,
    },
    /// The program failed although power stayed on.
    #[error(
        "{role}{program} ended with {status} although power stayed on; power cuts are tried on a run that works{hint}"
    )]
    Failed {
        /// What it is, if not the program: `the setup, `.
        role: &'static str,
        /// The program.
        program: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// What may help.
        hint: String,
    },
    /// The check fails although nothing was lost.
    #[error("the check {} on what the program left, although power stayed on: {said}{hint}", ended(status))]
    CheckFails {
        /// How it ended.
        status: String,
        /// The last line that it printed.
        said: String,
        /// What may help.
        hint: String,
    },
    /// The program changed nothing.
    #[error(
        "the program changed nothing in its folder; it gets the folder as {{}} in its arguments, as $TANTALUM_DIR, and as its working directory"
    )]
    NothingRecorded,
    /// The place for findings is in use.
    #[error("{} is not an empty folder; name a new one for the findings", path.display())]
    PlaceInUse {
        /// Where findings should be saved.
        path: PathBuf,
    },
    /// The folder holds no finding.
    #[error(
        "{} holds no finding; name a folder that crash run --save left, for example FOLDER/finding-1",
        folder.display()
    )]
    NoFinding {
        /// The folder that was named.
        folder: PathBuf,
    },
    /// A finding cannot be read.
    #[error("{} was not written by crash run --save, or is damaged: {error}", path.display())]
    DamagedFinding {
        /// The file.
        path: PathBuf,
        /// What is wrong there.
        error: String,
    },
    /// A finding of a test has no check of its own.
    #[error("the check was a function of a test; name one with --check, or a folder to mount the files on")]
    NoCheck,
    /// The files of a finding could not be copied; `cp` has printed why.
    #[error("the files in {} could not be copied to {}", from.display(), to.display())]
    NotCopied {
        /// The folder they are in.
        from: PathBuf,
        /// The folder they should go to.
        to: PathBuf,
    },
    /// There is no folder for temporary files.
    #[error(transparent)]
    Temporary(#[from] NoTemporary),
    /// A file could not be read or written.
    #[error("{}: {error}{}", path.display(), room_elsewhere(path, error))]
    Files {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A recording of blocks cannot be read.
    #[error("{}: {error}; name a file of tantalum serve --record", path.display())]
    Recording {
        /// The file.
        path: PathBuf,
        /// Why.
        error: BlockRecordingError,
    },
    /// It was written to meanwhile.
    #[error("{}: the recording has changed; stop the drive that is recorded first", path.display())]
    RecordingChanged {
        /// The file.
        path: PathBuf,
    },
    /// A recorded command fails on the drive.
    #[error("{}: event {number} of the recording fails on this drive: {status}", path.display())]
    Event {
        /// The file.
        path: PathBuf,
        /// The event's number, from 0.
        number: usize,
        /// The drive's error.
        status: Status,
    },
    /// There is no place to cut power.
    #[error("{}: nothing in the recording reached the flash after the first acknowledgement", path.display())]
    NoFlashOperations {
        /// The file.
        path: PathBuf,
    },
    /// A recovered drive cannot be read: a bug of Tantalum.
    #[error("unit {unit} of the recovered drive cannot be read: {status}")]
    DiskUnreadable {
        /// The first of the units that were read.
        unit: u32,
        /// The drive's error.
        status: Status,
    },
    /// The recording could not be replayed on the drive.
    #[error("operation {operation} of the recording failed on the drive: {errno}")]
    Replay {
        /// The operation's number.
        operation: usize,
        /// The file system's error.
        errno: Errno,
    },
    /// The drive or the volume on it did not recover: a bug of Tantalum.
    #[error("after a cut at flash operation {operation} (0: after the last command): {what}")]
    NotRecovered {
        /// The flash operation of the replay, counted from 1; 0 after the last command.
        operation: u64,
        /// What was wrong.
        what: String,
    },
}

impl RunError {
    /// The same failure, of the setup.
    pub(crate) fn in_setup(self) -> RunError {
        match self {
            RunError::Failed { program, status, hint, .. } => {
                RunError::Failed { role: "the setup, ", program, status, hint }
            }
            other => other,
        }
    }

    /// Why a recording of blocks could not be read on.
    pub(crate) fn recording(path: &Path) -> impl FnOnce(SpoolError) -> RunError {
        let path = path.to_owned();
        move |error| RunError::Recording { path, error: error.into() }
    }

    /// Why a file could not be used.
    pub(crate) fn files(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> RunError {
        let path = path.into();
        move |error| RunError::Files { path, error }
    }
}

/// What to do if there is no room for temporary files.
fn room_elsewhere(path: &Path, error: &io::Error) -> &'static str {
    match error.kind() == io::ErrorKind::StorageFull && path.starts_with(env::temp_dir()) {
        true => "; make room there, or name a folder with more in $TMPDIR",
        false => "",
    }
}

/// A new folder in `$TMPDIR`, else in `/tmp`.
pub(crate) fn temporary_folder() -> Result<TempDir, RunError> {
    Ok(tantalum_report::temporary_folder(&tantalum_record::folder_prefix("crash-run"))?)
}
