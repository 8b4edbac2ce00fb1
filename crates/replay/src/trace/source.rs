//! Which trace is read, and how.

use std::path::{Path, PathBuf};

use super::blkparse::Action;
use super::format::Format;

/// Where a trace is, and what of it is replayed.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file, `-` for standard input, or the name before `.blktrace.` of the files that blktrace wrote.
    pub path: PathBuf,
    /// Its format; `None` to detect it.
    pub format: Option<Format>,
    /// Which events to take from blktrace's files and blkparse's text.
    pub action: Action,
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
            action: Action::default(),
            volumes: Vec::new(),
            most_requests: None,
        }
    }
}
