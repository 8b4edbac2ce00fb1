//! Errors of a trace.

use std::io;
use std::path::PathBuf;

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The trace.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Its first line is of no known format.
    #[error(
        "{}, line {line}: {found:?} is of no known format; known are fio's iologs of versions 2 and 3, the text of blkparse, and the \
         CSV of MSR Cambridge and of Alibaba (--format names one)",
        path.display()
    )]
    Unknown {
        /// The trace.
        path: PathBuf,
        /// The first non-empty line.
        line: u64,
        /// What stands there.
        found: String,
    },
    /// A line cannot be parsed.
    #[error("{}, line {line}: expected {expected}, found {found:?}", path.display())]
    Line {
        /// The trace.
        path: PathBuf,
        /// The line number, from 1.
        line: u64,
        /// What was expected there.
        expected: &'static str,
        /// What was found there, or its beginning.
        found: String,
    },
    /// The trace as a whole does not have the expected form.
    #[error("{}: expected {expected}", path.display())]
    End {
        /// The trace.
        path: PathBuf,
        /// What it should have.
        expected: &'static str,
    },
    /// It has too many volumes.
    #[error("{}, line {line}: more than {most} volumes", path.display())]
    TooManyVolumes {
        /// The trace.
        path: PathBuf,
        /// The line of the first one too many.
        line: u64,
        /// The limit.
        most: usize,
    },
    /// It has no such volume.
    #[error("{}: no volume {name:?}; it has {known}", path.display())]
    NoSuchVolume {
        /// The trace.
        path: PathBuf,
        /// The volume requested.
        name: String,
        /// Some of its volumes.
        known: String,
    },
}

/// The beginning of a line, for an error.
pub(super) fn beginning(line: &str) -> String {
    const MOST: usize = 80;
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}
