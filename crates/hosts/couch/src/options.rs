//! How a store is opened, and what it counts.

/// How updates and compaction are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Way {
    /// By sharing, if the storage can share.
    #[default]
    Share,
    /// By appending only, as on any file system: documents without gaps, and the path to the root with each commit.
    Original,
}

/// How a store is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// How updates are done. A file created the original way is updated that way until it is compacted.
    pub way: Way,
    /// Bytes of index nodes kept in memory.
    pub cache_bytes: usize,
    /// Units of the staging area of a file that shares, which limits the shared updates between two headers. At least 4.
    pub stage_units: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { way: Way::Share, cache_bytes: 64 << 20, stage_units: 512 }
    }
}

/// Counters since the store was opened, and what its file contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Number of documents.
    pub documents: u64,
    /// The last change.
    pub seq: u64,
    /// Bytes of the file up to its last header.
    pub file_bytes: u64,
    /// Bytes of these that the last header reaches (documents and nodes), and the staging area.
    pub live_bytes: u64,
    /// Documents appended, including deletions.
    pub documents_appended: u64,
    /// Documents shared over their predecessors.
    pub documents_shared: u64,
    /// Nodes of the index written.
    pub nodes_written: u64,
    /// Headers written.
    pub headers_written: u64,
    /// Commits of any kind.
    pub commits: u64,
}

impl Statistics {
    /// The share of the file that a compaction would free, in percent.
    pub fn garbage_percent(&self) -> f64 {
        100.0 * (1.0 - self.live_bytes as f64 / self.file_bytes.max(1) as f64)
    }
}
