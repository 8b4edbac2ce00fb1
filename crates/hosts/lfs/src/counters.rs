//! What was done since the mount.

/// How files were made durable since the mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SyncCounters {
    /// Syncs that wrote only contents.
    pub listed: u64,
    /// Syncs that wrote contents and the changes of the file's part of the index.
    pub indexed: u64,
    /// Checkpoints, for syncs or for other reasons.
    pub checkpoints: u64,
    /// Syncs whose file the drive refused to list.
    pub refused: u64,
    /// Units of contents written in place.
    pub units_in_place: u64,
}

/// Units sent to the drive since the mount, or about to be, by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WrittenCounters {
    /// Contents of files, folders and symbolic links, including those that the cleaner copied.
    pub contents: u64,
    /// Nodes, and inodes of syncs.
    pub nodes: u64,
    /// Summaries, which say what the units of a segment, or of a part of one, belong to.
    pub summaries: u64,
    /// Tables: of nodes or virtual numbers, and of segments.
    pub tables: u64,
    /// Where a mount starts: superblocks, packs, super roots, anchors, lists of files without names.
    pub roots: u64,
}

impl WrittenCounters {
    /// The sum of all.
    pub fn total(&self) -> u64 {
        self.contents + self.nodes + self.summaries + self.tables + self.roots
    }
}

/// What the cleaner has done since the mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CleanerCounters {
    /// Segments cleaned.
    pub segments: u64,
    /// Units read and rewritten, not counting those that were due to be written anyway.
    pub copied_units: u64,
    /// Units moved by the drive.
    pub remapped_units: u64,
    /// Units of contents that went into holes of full segments instead.
    pub filled_units: u64,
}
