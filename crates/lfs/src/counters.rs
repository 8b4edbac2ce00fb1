//! What was done since the mount.

/// How files were made durable since the mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SyncCounters {
    /// Syncs that wrote contents alone.
    pub listed: u64,
    /// Syncs that wrote contents and what had changed of the file's part of the index.
    pub indexed: u64,
    /// Checkpoints, for syncs or for other reasons.
    pub checkpoints: u64,
    /// Syncs whose file the drive refused to list.
    pub refused: u64,
    /// Units of contents that were written where they lay.
    pub units_in_place: u64,
}

/// What the cleaner has done since the mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CleanerCounters {
    /// Segments cleaned.
    pub segments: u64,
    /// Units read and written again, besides those that were to be written anyway.
    pub copied_units: u64,
    /// Units moved by the drive.
    pub remapped_units: u64,
    /// Units of contents that went into holes of full segments instead.
    pub filled_units: u64,
}
