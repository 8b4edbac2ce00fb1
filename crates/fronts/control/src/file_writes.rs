//! What is written to each file of what is on the drive, since somebody began to watch.

use serde::{Deserialize, Serialize};

/// What was written to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileWrites {
    /// Its inode number.
    pub inode: u64,
    /// Writes and their bytes.
    #[serde(flatten)]
    pub count: Count,
}

/// Writes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Count {
    /// Requests.
    pub writes: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Syncs of the file.
    pub syncs: u64,
}

impl Count {
    /// Adds other writes.
    pub fn add(&mut self, more: Count) {
        self.writes += more.writes;
        self.bytes += more.bytes;
        self.syncs += more.syncs;
    }
}
