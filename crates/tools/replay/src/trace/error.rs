//! Errors of a trace.

use std::io;
use std::path::PathBuf;

use tantalum_report::Interrupted;

use super::format::Format;

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The trace.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// What comes from a pipe cannot be kept, so that it could be read again.
    #[error(
        "{}: cannot keep in {} what comes from it, which is read twice: {error}; set TMPDIR to a folder with room",
        path.display(), folder.display()
    )]
    Copy {
        /// The trace.
        path: PathBuf,
        /// Where its copy would be.
        folder: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The user asked to stop while it was copied.
    #[error(transparent)]
    Interrupted(Interrupted),
    /// It is an archive, or is compressed in another way than with gzip or Zstandard.
    #[error("{}: it is {what}; {instead}", path.display())]
    Packed {
        /// The trace.
        path: PathBuf,
        /// The archive's or compression's name.
        what: &'static str,
        /// What to do.
        instead: &'static str,
    },
    /// It has no line, or only empty ones and comments.
    #[error("{}: the trace is empty", path.display())]
    Empty {
        /// The trace.
        path: PathBuf,
    },
    /// An action was chosen, which only traces of blktrace have.
    #[error(
        "{}: the action chooses events of blktrace and blkparse, but this trace is of the format {}; leave it out",
        path.display(), format.name()
    )]
    Action {
        /// The trace.
        path: PathBuf,
        /// Its format.
        format: Format,
    },
    /// Its first line is of no known format.
    #[error(
        "{}, line {line}: {found:?} is of no known format; --format names one of {known}; --columns or --blkparse-format describes \
         others",
        path.display(), known = Format::names()
    )]
    Unknown {
        /// The trace.
        path: PathBuf,
        /// The first non-empty line.
        line: u64,
        /// What stands there.
        found: String,
    },
    /// Its first line can be of several formats, or of one that consists of numbers alone.
    #[error(
        "{}, line {line}: {found:?} can be of the format {}, but does not show it; use --format, or --columns to say what its \
         columns are",
        path.display(), formats.join(" or ")
    )]
    Ambiguous {
        /// The trace.
        path: PathBuf,
        /// The first line.
        line: u64,
        /// What stands there.
        found: String,
        /// The names of the formats.
        formats: Vec<&'static str>,
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
    /// A binary record cannot be parsed.
    #[error("{}, record {record}: expected {expected}, found {found}", path.display())]
    Record {
        /// The trace.
        path: PathBuf,
        /// The number of the record, from 1.
        record: u64,
        /// What was expected there.
        expected: &'static str,
        /// What was found there.
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
