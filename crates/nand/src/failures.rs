//! What will fail (`faults`), and what has failed for good: retired blocks and uncorrectable pages (M6).

use crate::error::NandError;
use crate::faults::{FaultGenerator, Faults};
use crate::geometry::{BlockId, PageId};
use crate::nand::Nand;
use crate::random::SplitMix64;
use crate::state::{Block, PageState};

impl Nand {
    /// From now on operations fail according to `faults`.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = FaultGenerator::new(faults);
    }

    /// Marks a block as permanently bad. Its contents can still be read.
    pub fn retire(&mut self, block: BlockId) -> Result<(), NandError> {
        self.powered()?;
        let record = Block { bad: true, ..self.blocks[block.index()] };
        self.image.write_block(block, &record)?;
        self.blocks[block.index()] = record;
        Ok(())
    }

    /// Retires `count` blocks (or all, if there are fewer) as bad from the factory. They are drawn from `seed`, so they
    /// are always the same ones.
    pub fn retire_factory_bad(&mut self, count: u32, seed: u64) -> Result<(), NandError> {
        let mut random = SplitMix64(seed);
        let mut good: Vec<BlockId> = (0..self.geometry.blocks()).map(BlockId).collect();
        for _ in 0..count.min(self.geometry.blocks()) {
            let drawn = random.below(good.len() as u64) as usize;
            self.retire(good.swap_remove(drawn))?;
        }
        Ok(())
    }

    /// Makes a programmed page uncorrectable until its block is erased. Other pages are not affected.
    pub fn mark_uncorrectable(&mut self, page: PageId) -> Result<(), NandError> {
        if self.page_state(page) != PageState::Programmed {
            return Ok(());
        }
        self.spoil(page)
    }
}
