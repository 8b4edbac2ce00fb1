//! What the medium has done since it was created or opened.

/// Counts of operations. A power cut that undoes an operation does not take back its count.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Pages programmed.
    pub pages_programmed: u64,
    /// Units programmed, without padding.
    pub units_programmed: u64,
    /// Units programmed as copies of others; part of `units_programmed`.
    pub units_copied: u64,
    /// Units left as padding.
    pub units_padded: u64,
    /// Reads of units, spare areas or whole pages.
    pub reads: u64,
    /// Blocks erased.
    pub blocks_erased: u64,
    /// Reads that found the page uncorrectable.
    pub uncorrectable_reads: u64,
    /// Programs that failed.
    pub program_failures: u64,
    /// Erases that failed.
    pub erase_failures: u64,
}
