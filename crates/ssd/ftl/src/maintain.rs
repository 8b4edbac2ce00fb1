//! What is due between commands.

use tantalum_nand::Nanoseconds;

use crate::error::FtlError;
use crate::ftl::Ftl;

impl Ftl {
    /// The work due between commands: empties failing blocks, takes a checkpoint, levels wear, and swaps out indexes
    /// that do not fit in DRAM.
    pub fn maintain(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        self.nand.advance(at_ns);
        if !self.space.failing().is_empty() {
            self.retire_failing(at_ns)?;
        }
        if self.checkpoint_due() {
            self.take_checkpoint(at_ns, false)?;
        }
        let erases = self.counters.blocks_erased;
        if self.space.wear_check_is_due(erases) {
            self.level_wear(at_ns)?;
        }
        self.fit_indexes(at_ns)
    }
}
