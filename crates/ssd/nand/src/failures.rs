//! What will fail (`faults`), and what has failed for good: retired blocks and uncorrectable pages (M6).

use crate::faults::{FailingStep, FaultGenerator, Faults, StepFault};
use crate::nand::Nand;
use tantalum_image::NandError;
use tantalum_image::SplitMix64;
use tantalum_image::{Block, PageState};
use tantalum_image::{BlockId, PageId};

impl Nand {
    /// From now on operations fail according to `faults`.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = FaultGenerator::new(faults);
    }

    /// A step from now on fails; `None` disarms it. For tests.
    pub fn fail_step(&mut self, fault: Option<StepFault>) {
        self.faults.arm(fault);
        self.slots.refuse_all(fault.is_some_and(|fault| fault.step == FailingStep::Buffer));
    }

    /// Whether the step of [`Nand::fail_step`] has failed.
    pub fn step_has_failed(&self) -> bool {
        self.faults.has_failed()
    }

    /// Whether this is the step to fail, for steps that are not operations of the medium.
    #[inline]
    pub fn step_fails(&mut self, step: FailingStep) -> bool {
        self.faults.step_fails(step)
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
