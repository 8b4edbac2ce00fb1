//! The drive's counters.

use serde::Serialize;

/// Flash units programmed, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct FlashUnits {
    /// Host data.
    pub host: u64,
    /// The empty rest of partly filled pages.
    pub padding: u64,
    /// Valid units moved by garbage collection and wear levelling.
    pub copyback: u64,
    /// Journal pages.
    pub journal: u64,
    /// Checkpoints.
    pub checkpoint: u64,
    /// Dumped by the capacitor when power went.
    pub dump: u64,
}

impl FlashUnits {
    /// Units programmed for any reason.
    pub fn total(&self) -> u64 {
        self.host + self.padding + self.copyback + self.journal + self.checkpoint + self.dump
    }
}

/// Counters since the drive was made (SMART-like). Units are 4 KiB.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Smart {
    /// Units the host wrote.
    pub host_units_written: u64,
    /// Units the host read.
    pub host_units_read: u64,
    /// Units programmed, by cause.
    pub flash_units: FlashUnits,
    /// Blocks erased.
    pub blocks_erased: u64,
    /// Units whose mapping was shared.
    pub units_shared: u64,
    /// Units of these that were brought home by their hint, without a journal record.
    pub units_brought_home: u64,
    /// Units whose mapping was moved (`remap`).
    pub units_remapped: u64,
    /// Transactions committed.
    pub transactions_committed: u64,
    /// Flush commands.
    pub flushes: u64,
    /// Times that power was lost without a shutdown.
    pub unsafe_shutdowns: u64,
    /// The least-worn block's erase count.
    pub erase_count_min: u32,
    /// The most-worn block's erase count.
    pub erase_count_max: u32,
    /// The mean erase count.
    pub erase_count_mean: f64,
    /// Blocks retired.
    pub bad_blocks: u32,
    /// Blocks emptied by garbage collection and wear levelling.
    pub collections: u64,
    /// Checkpoints taken.
    pub checkpoints: u64,
}

impl Smart {
    /// Write amplification: flash writes over host writes.
    pub fn write_amplification(&self) -> f64 {
        if self.host_units_written == 0 {
            return 0.0;
        }
        self.flash_units.total() as f64 / self.host_units_written as f64
    }
}
