//! Errors of a sweep.

use std::io;
use std::path::PathBuf;

use tantalum::ProfileError;
use tantalum_replay::ReplayError;
use tantalum_report::{Interrupted, InvalidSetting, MissingFeature, ReportError};

/// Why a sweep, or one of its runs, was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// It was interrupted. Complete runs are kept.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// An option that cannot be used.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The grid is not TOML, or its contents are not a grid.
    #[error("{origin}: {reason}")]
    Grid {
        /// The grid's file.
        origin: String,
        /// What is wrong.
        reason: String,
    },
    /// A setting has an invalid value.
    #[error("{origin}: {key} = {value}: {expected}")]
    Value {
        /// The grid's file.
        origin: String,
        /// The setting.
        key: String,
        /// The value given.
        value: String,
        /// What would be valid.
        expected: String,
    },
    /// The settings do not describe a valid drive.
    #[error("{origin}{}: {error}", with(values))]
    Profile {
        /// The grid's file.
        origin: String,
        /// The run's values; empty if it has no axes.
        values: String,
        /// What is wrong with the drive.
        error: Box<ProfileError>,
    },
    /// A run of these values would fail at once.
    #[error("{origin}{}: {reason}", with(values))]
    Impossible {
        /// The grid's file.
        origin: String,
        /// The run's values; empty if it has no axes.
        values: String,
        /// Why.
        reason: String,
    },
    /// The grid has too many runs.
    #[error("{origin}: the grid has more than {most} runs")]
    TooMany {
        /// The grid's file.
        origin: String,
        /// The limit.
        most: u64,
    },
    /// The stored result of a run is not what a sweep writes.
    #[error("{}: {reason}; remove the file to repeat the run", path.display())]
    Kept {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A run failed.
    #[error(transparent)]
    Run(Box<ReplayError>),
    /// A table cannot be written.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// There is a Parquet table, and this build cannot write it again.
    #[error("{} would be out of date: {missing}, or remove the file", path.display())]
    OldParquet {
        /// The file.
        path: PathBuf,
        /// What this build lacks.
        missing: MissingFeature,
    },
    /// A Parquet table cannot be written.
    #[cfg(feature = "parquet")]
    #[error("{}: {error}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The library's error.
        error: parquet::errors::ParquetError,
    },
}

fn with(values: &str) -> String {
    if values.is_empty() { String::new() } else { format!(": with {values}") }
}

impl SweepError {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> SweepError {
        let path = path.into();
        move |error| SweepError::File { path, error }
    }
}

impl From<ReplayError> for SweepError {
    fn from(error: ReplayError) -> SweepError {
        match error {
            ReplayError::Interrupted(interrupted) => interrupted.into(),
            error => SweepError::Run(Box::new(error)),
        }
    }
}
