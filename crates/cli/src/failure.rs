//! How the command ends badly.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use tantalum::{DeviceError, InvalidField, ProfileError, Status};
use tantalum_drive::control::ControlError;
use tantalum_fuse::{MountError, MountPointError};
use tantalum_lab::LabError;
use tantalum_nvme::serve::ServeError;
use tantalum_volume::VolumeError;

/// Why the command did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A database was not as it should be. The outcome has been printed.
    #[error("a database did not hold what was written to it; see the outcome above")]
    Mismatch,
    /// An image has damage. What was found has been printed.
    #[error("{}: {findings} found; see above", path.display())]
    Damaged {
        /// The image.
        path: PathBuf,
        /// How many findings, in words.
        findings: String,
    },
    /// Promises were not kept. The outcome has been printed.
    #[error("{violations} promises were not kept; see the outcome above")]
    Violations {
        /// How many.
        violations: usize,
    },
    /// Whoever read the output has seen enough.
    #[error("standard output was closed")]
    OutputClosed,
    /// The output cannot be written.
    #[error("standard output: {0}")]
    Output(io::Error),
    /// An experiment failed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// Where this program is cannot be told.
    #[error("this program cannot tell where its own file is: {error}")]
    OwnProgram {
        /// What the system says.
        error: io::Error,
    },
    /// No such profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A profile that the command line changed into one that cannot be.
    #[error("{option}: {invalid}")]
    Override {
        /// The option that changed it.
        option: &'static str,
        /// What cannot be.
        invalid: InvalidField,
    },
    /// An image cannot be made or opened.
    #[error("image {}: {error}", path.display())]
    Image {
        /// The image.
        path: PathBuf,
        /// Why.
        error: DeviceError,
    },
    /// The drive refused to shut down.
    #[error("image {}: the drive could not be shut down: {status}", path.display())]
    Shutdown {
        /// The image.
        path: PathBuf,
        /// Why.
        status: Status,
    },
    /// A drive without a volume.
    #[error("image {} holds no volume; add --format to make one (what the drive holds is lost)", path.display())]
    NoVolume {
        /// The image.
        path: PathBuf,
    },
    /// A volume cannot be made or opened.
    #[error("image {}: {error}", path.display())]
    Volume {
        /// The image.
        path: PathBuf,
        /// Why.
        error: VolumeError,
    },
    /// A volume cannot be mounted or closed.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// An image cannot be served or closed.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// A namespace for keys and values cannot be made.
    #[error("image {}: a namespace for keys and values cannot be made: {status}", path.display())]
    Namespace {
        /// The image.
        path: PathBuf,
        /// Why.
        status: Status,
    },
    /// Nothing to cut.
    #[error("{} is no folder with a mounted volume, and no image that is served", path.display())]
    NotInUse {
        /// What was given.
        path: PathBuf,
    },
    /// A served image was not closed.
    #[error("image {}: {message}{}", image.display(), named(log.as_ref()))]
    NotStopped {
        /// The image.
        image: PathBuf,
        /// Why.
        message: String,
        /// The log that says more, if there is one.
        log: Option<PathBuf>,
    },
    /// A volume was unmounted, and its image not closed.
    #[error("image {} is unmounted, but {message}; what was not synced is lost; mount it again to recover the rest{}",
        image.display(), named(log.as_ref()))]
    NotClosed {
        /// The image.
        image: PathBuf,
        /// Why.
        message: String,
        /// The log that says more, if there is one.
        log: Option<PathBuf>,
    },
    /// A folder on which nothing is mounted, or that is in use.
    #[error(transparent)]
    MountPoint(#[from] MountPointError),
    /// The process that has an image mounted did not do what it was asked for.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The process that was to go on in the background cannot be started.
    #[error("the process in the background cannot be started: {0}")]
    Background(io::Error),
    /// It ended, and has said why.
    #[error("{message}")]
    BackgroundEnded {
        /// What it said.
        message: String,
    },
}

fn named(log: Option<&PathBuf>) -> String {
    log.map_or_else(String::new, |log| format!(" (see {})", log.display()))
}

impl Failure {
    /// Says why on standard error and gives the exit code.
    pub fn report(&self) -> ExitCode {
        match self {
            Failure::OutputClosed => return ExitCode::SUCCESS,
            Failure::Lab(LabError::Interrupted) => return ExitCode::from(130),
            Failure::BackgroundEnded { message } => crate::output::complain(message),
            other => crate::output::complain(&format!("error: {other}")),
        }
        let found = matches!(self, Failure::Mismatch | Failure::Damaged { .. } | Failure::Violations { .. });
        ExitCode::from(if found { 1 } else { 2 })
    }
}
