//! What is written to each file, counted while somebody watches.
//!
//! The watcher gets inode numbers: finding names takes a search, which the watcher does on the mounted folder.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tantalum_control::{Count, FileWrites, Look};
use tantalum_filesystem::FileId;

use crate::convert::inode_number;

/// Number of files reported: those with the most bytes written.
pub const MOST_TOLD: usize = 50;

/// Number of files counted individually. Further files are counted together.
const MOST_COUNTED: usize = 100_000;

/// A mounted drive at a glance.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Looked {
    /// The drive; after a cut whose recovery was tried, as recovery leaves it.
    #[serde(flatten)]
    pub look: Look,
    /// Where it is mounted.
    #[serde(with = "tantalum_control::path")]
    pub mounted_on: std::path::PathBuf,
    /// Whether recovery was tried since power failed.
    pub is_tried: bool,
    /// The error that stopped the drive for good, if any.
    pub stopped: Option<String>,
    /// What was written since somebody began to watch, by file, in descending order.
    pub files: Vec<FileWrites>,
    /// What was written to all files.
    pub all_files: Count,
    /// How many files were written to.
    pub files_written: usize,
}

/// The counts, and the number of watchers.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub watchers: usize,
    of: HashMap<FileId, Count>,
    all: Count,
}

impl Watched {
    /// Something was written to a file.
    pub fn wrote(&mut self, file: FileId, bytes: u64) {
        self.note(file, Count { writes: 1, bytes, syncs: 0 });
    }

    /// A file was synced.
    pub fn synced(&mut self, file: FileId) {
        self.note(file, Count { syncs: 1, ..Count::default() });
    }

    fn note(&mut self, file: FileId, count: Count) {
        self.all.add(count);
        let is_full = self.of.len() >= MOST_COUNTED;
        match self.of.get_mut(&file) {
            Some(counted) => counted.add(count),
            None if is_full => {}
            None => drop(self.of.insert(file, count)),
        }
    }

    /// The files with the most bytes written, the total, and the number of files.
    pub fn told(&self) -> (Vec<FileWrites>, Count, usize) {
        let told =
            self.of.iter().map(|(file, count)| FileWrites { inode: inode_number(*file).0, count: *count });
        let mut told: Vec<FileWrites> = told.collect();
        if told.len() > MOST_TOLD {
            told.select_nth_unstable_by_key(MOST_TOLD, |file| Reverse(file.count.bytes));
            told.truncate(MOST_TOLD);
        }
        told.sort_unstable_by_key(|file| (Reverse(file.count.bytes), file.inode));
        (told, self.all, self.of.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: u64) -> FileId {
        crate::convert::file_of(fuser::INodeNo(number)).unwrap()
    }

    #[test]
    fn files_with_most_bytes_are_told_first_and_all_are_counted() {
        let mut watched = Watched::default();
        for number in 1..=60 {
            watched.wrote(file(number), 100 * number);
        }
        watched.wrote(file(7), 1_000_000);
        watched.synced(file(7));
        let (told, all, files) = watched.told();
        assert_eq!((told.len(), files), (MOST_TOLD, 60));
        assert_eq!(told[0], FileWrites { inode: 7, count: Count { writes: 2, bytes: 1_000_700, syncs: 1 } });
        assert_eq!(told[1].inode, 60);
        assert_eq!(all, Count { writes: 61, bytes: 1_183_000, syncs: 1 });
    }

    #[test]
    fn beyond_the_limit_files_count_together() {
        let mut watched = Watched::default();
        for number in 0..MOST_COUNTED as u64 + 10 {
            watched.wrote(file(number + 1), 1);
        }
        let (_, all, files) = watched.told();
        assert_eq!((all.bytes, files), (MOST_COUNTED as u64 + 10, MOST_COUNTED));
    }
}
