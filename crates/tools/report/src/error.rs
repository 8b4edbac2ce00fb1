//! Interruption of long runs, and errors of writing a report.

use std::io;
use std::path::{Path, PathBuf};

use crate::temporary::system_error;

/// The user asked to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// A setting that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{option} {value}: {expected}")]
pub struct InvalidSetting {
    /// Its name on the command line.
    pub option: &'static str,
    /// The value given.
    pub value: String,
    /// What would be valid.
    pub expected: String,
}

impl InvalidSetting {
    /// Refuses `value` for `option`; `expected` says what would be accepted.
    pub fn new(option: &'static str, value: impl ToString, expected: impl Into<String>) -> InvalidSetting {
        InvalidSetting { option, value: value.to_string(), expected: expected.into() }
    }
}

/// This build of the command lacks an optional part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("this build has no {what}: build with `cargo install --path crates/cli --features {feature}`")]
pub struct MissingFeature {
    /// What is missing, in words that follow "no".
    pub what: &'static str,
    /// The feature of `tantalum-cli` that adds it.
    pub feature: &'static str,
}

/// Why a report was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A file cannot be written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// There is a folder in the file's place.
    #[error("{}: it is a folder; name a file", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// A plot could not be drawn.
    #[error("cannot draw the plot of {plot}: {reason}")]
    Plot {
        /// The plot's name.
        plot: &'static str,
        /// The library's message.
        reason: String,
    },
}

impl ReportError {
    /// Makes the error of a file.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> ReportError {
        let path = path.to_owned();
        move |error| ReportError::File { path, error: system_error(error) }
    }

    /// Makes the error of a plot.
    pub fn plot(plot: &'static str) -> impl FnOnce(Box<dyn std::error::Error>) -> ReportError {
        move |error| ReportError::Plot { plot, reason: error.to_string() }
    }
}
