//! The drive's counters.

use serde::{Deserialize, Serialize};
use tantalum_ftl::{BlockState, Counters, SpareBlocks};
use tantalum_nand::{BlockId, UNIT_BYTES};

use crate::controller::Device;

/// Below this the drive is near the end of its life (NVMe: Available Spare Threshold).
pub const AVAILABLE_SPARE_THRESHOLD_PERCENT: u8 = 10;

/// Counters since the drive was created, and its state (SMART-like).
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Smart {
    /// The counters.
    #[serde(flatten)]
    pub counters: Counters,
    /// The least-worn block's erase count.
    pub erase_count_min: u32,
    /// The most-worn block's erase count.
    pub erase_count_max: u32,
    /// The mean erase count.
    pub erase_count_mean: f64,
    /// Blocks retired.
    pub bad_blocks: u32,
    /// Blocks that may still fail before the drive becomes read-only.
    pub spare_blocks: u32,
    /// `spare_blocks` as a percentage of those of a drive without bad blocks (NVMe: Available Spare).
    pub available_spare_percent: u8,
    /// Below this the drive is near the end of its life (NVMe: Available Spare Threshold).
    pub available_spare_threshold_percent: u8,
    /// Whether too few good blocks are left for writes.
    pub read_only: bool,
}

impl Device {
    /// The counters.
    pub fn smart(&self) -> Smart {
        let Some(ftl) = self.ftl() else { return Smart::default() };
        let (wear, spare) = (ftl.wear(), ftl.spare_good_blocks());
        Smart {
            counters: *ftl.counters(),
            erase_count_min: wear.min,
            erase_count_max: wear.max,
            erase_count_mean: wear.mean,
            bad_blocks: wear.bad_blocks,
            spare_blocks: spare.available,
            available_spare_percent: available_spare_percent(spare, ftl.is_read_only()),
            available_spare_threshold_percent: AVAILABLE_SPARE_THRESHOLD_PERCENT,
            read_only: ftl.is_read_only(),
        }
    }

    /// The counters only, without looking at the blocks; zeros without power.
    pub fn counters(&self) -> Counters {
        self.ftl().map_or_else(Counters::default, |ftl| *ftl.counters())
    }

    /// The states of the flash's blocks, starting at `first`, up to the length of `states`. Returns their number: 0 if
    /// the drive has no power and will not get it back. It is not a command: it takes no time and counts nowhere.
    pub fn block_states(&self, first: BlockId, states: &mut [BlockState]) -> usize {
        self.ftl().map_or(0, |ftl| ftl.block_states(first, states))
    }

    /// Bytes of host memory for maps, per logical unit, without data and spare areas.
    pub fn dram_bytes_per_unit(&self) -> f64 {
        let Some(ftl) = self.ftl() else { return 0.0 };
        ftl.dram_bytes() as f64 / f64::from(ftl.map().logical_units())
    }
}

impl Smart {
    /// Write amplification: flash writes divided by host writes. The bytes of records count as units as well.
    pub fn write_amplification(&self) -> f64 {
        let counters = &self.counters;
        let records = counters.record_bytes_put as f64 / UNIT_BYTES as f64;
        let written = counters.host_units_written as f64 + records;
        if written == 0.0 {
            return 0.0;
        }
        counters.flash_units.total() as f64 / written
    }
}

/// Spare blocks in percent, rounded down. A drive made without spare blocks has 100 until it is read-only.
pub(crate) fn available_spare_percent(spare: SpareBlocks, read_only: bool) -> u8 {
    let SpareBlocks { available, total } = spare;
    debug_assert!(available <= total, "{available} spare blocks are left of {total}");
    match (u64::from(available) * 100).checked_div(total.into()) {
        Some(percent) => percent as u8,
        None if read_only => 0,
        None => 100,
    }
}
