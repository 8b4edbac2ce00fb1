//! Wear levelling: moves cold data out of the least-worn blocks, so that these can be reused.

use tantalum_nand::{BlockId, Nanoseconds};

use crate::error::FtlError;
use crate::ftl::Ftl;

/// Average erases per block between two checks of the wear spread: one in this many.
const WEAR_CHECKS_PER_CYCLE: u32 = 8;

impl Ftl {
    /// Moves the coldest block when the spread of erase counts is too wide (static wear levelling).
    pub(crate) fn level_wear(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let blocks = self.geometry.blocks();
        self.space.next_wear_check =
            self.counters.blocks_erased + u64::from(blocks.div_ceil(WEAR_CHECKS_PER_CYCLE));
        let Some(coldest) = self.space.blocks.coldest(&self.nand) else { return Ok(()) };
        let most = (0..blocks).map(|block| self.nand.erase_count(BlockId(block))).max().unwrap_or(0);
        if most - self.nand.erase_count(coldest) > self.config.wear_spread && self.spare_blocks() > 1 {
            self.collect_block(coldest, at_ns)?;
        }
        Ok(())
    }
}
