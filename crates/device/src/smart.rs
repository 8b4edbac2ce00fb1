//! The drive's counters.

use serde::{Deserialize, Serialize};
use tantalum_ftl::SpareBlocks;
use tantalum_nand::UNIT_BYTES;

/// Below this the drive is near the end of its life (NVMe: Available Spare Threshold).
pub const AVAILABLE_SPARE_THRESHOLD_PERCENT: u8 = 10;

/// Flash units programmed, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FlashUnits {
    /// Host data.
    pub host: u64,
    /// Records of key-value namespaces. Not told where there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub key_value: u64,
    /// Units into which garbage collection packed records. Not told where there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub key_value_copyback: u64,
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

fn is_zero(units: &u64) -> bool {
    *units == 0
}

impl FlashUnits {
    /// Units programmed for any reason.
    pub fn total(&self) -> u64 {
        let host = self.host + self.key_value;
        host + self.padding
            + self.copyback
            + self.key_value_copyback
            + self.journal
            + self.checkpoint
            + self.dump
    }
}

/// Counters since the drive was made (SMART-like). Units are 4 KiB.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Smart {
    /// Units the host wrote.
    pub host_units_written: u64,
    /// Units the host read.
    pub host_units_read: u64,
    /// Units programmed, by cause.
    pub flash_units: FlashUnits,
    /// Records put into key-value namespaces.
    pub records_put: u64,
    /// Bytes of their keys and values.
    pub record_bytes_put: u64,
    /// Records deleted.
    pub records_deleted: u64,
    /// Records got.
    pub records_got: u64,
    /// Bytes of their values.
    pub record_bytes_got: u64,
    /// Times that the index of a namespace was given up in DRAM, to be on flash only.
    pub indexes_swapped_out: u64,
    /// Times that one was loaded again.
    pub indexes_swapped_in: u64,
    /// Flash units read for indexes that are on flash only: to load them, and to copy them into the next checkpoint.
    pub index_units_read: u64,
    /// Checkpoints taken so that an index that had changed could be given up in DRAM. Their units are among those of
    /// checkpoints.
    pub index_checkpoints: u64,
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
    /// Programs that failed.
    pub program_failures: u64,
    /// Erases that failed.
    pub erase_failures: u64,
    /// Reads of units that found their flash page uncorrectable.
    pub uncorrectable_reads: u64,
    /// Blocks that may still go bad before the drive is read-only.
    pub spare_blocks: u32,
    /// These in percent of what a drive without bad blocks has (NVMe: Available Spare).
    pub available_spare_percent: u8,
    /// Below this the drive is near the end of its life (NVMe: Available Spare Threshold).
    pub available_spare_threshold_percent: u8,
    /// Whether too few good blocks are left to take writes.
    pub read_only: bool,
}

impl Smart {
    /// Write amplification: flash writes over host writes. The bytes of records count as units as well.
    pub fn write_amplification(&self) -> f64 {
        let written = self.host_units_written as f64 + self.record_bytes_put as f64 / UNIT_BYTES as f64;
        if written == 0.0 {
            return 0.0;
        }
        self.flash_units.total() as f64 / written
    }
}

/// Spare blocks in percent, rounded down. A drive that is made without any has 100 until it is read-only.
pub(crate) fn available_spare_percent(spare: SpareBlocks, read_only: bool) -> u8 {
    match (u64::from(spare.available) * 100).checked_div(spare.total.into()) {
        Some(percent) => percent as u8,
        None if read_only => 0,
        None => 100,
    }
}
