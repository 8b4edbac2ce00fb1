//! Which trace is read, and how.

use std::io;
use std::path::{Path, PathBuf};

use super::blkparse::Action;
use super::blkparse_format::BlkparseFormat;
use super::columns::Columns;
use super::format::Format;
use super::input;

/// Where a trace is, and what of it is replayed.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file, `-` for standard input, or the name before `.blktrace.` of the files that blktrace wrote.
    pub path: PathBuf,
    /// Its format; `None` to detect it.
    pub format: Option<Format>,
    /// Its columns, if it is of no format that has a name.
    pub columns: Option<Columns>,
    /// How blkparse printed it, if not in its default format.
    pub blkparse_format: Option<BlkparseFormat>,
    /// Which events to take from blktrace's files and blkparse's text; `None` for the default. Other traces have none.
    pub action: Option<Action>,
    /// Which volumes; empty for all.
    pub volumes: Vec<String>,
    /// The maximum number of requests.
    pub most_requests: Option<u64>,
}

impl Source {
    /// All of a trace.
    pub fn of(path: &Path) -> Source {
        Source {
            path: path.to_owned(),
            format: None,
            columns: None,
            blkparse_format: None,
            action: None,
            volumes: Vec::new(),
            most_requests: None,
        }
    }

    /// The files at its path: one, or those of a recording by blktrace.
    pub fn files(&self) -> io::Result<Vec<PathBuf>> {
        input::files(&self.path)
    }

    /// The format, if the user said it.
    pub(super) fn given(&self) -> Option<Format> {
        match (&self.columns, &self.blkparse_format) {
            (Some(_), _) => Some(Format::Columns),
            (None, Some(_)) => Some(Format::Blkparse),
            (None, None) => self.format,
        }
    }
}
