//! Blocks that go bad, units that are lost with a page, and the end of a drive's life (M6).
//!
//! - A block that fails a program is emptied and retired; one that fails an erase is retired at once; one that keeps
//!   lost units is retired when everything else has been moved out of it.
//! - A lost unit stays mapped to the place that cannot be read, and reads as an error until it is written or trimmed.
//!   What its spare area asserted is lost too: when a loss is met, a checkpoint tells where the unit is, so that no
//!   older copy comes back after a cut.
//! - What cannot be laid out any more is read-only: with fewer good blocks than [`Layout::least_blocks`], the drive
//!   takes no writes. That follows from the bad blocks alone, so it holds after every power cycle. So it is when the
//!   last free blocks fail while others hold data; then every recovery finds again that there is no room.

use tantalum_nand::{BlockId, NandError, Nanoseconds, PageState, Ppn};

use crate::blocks::BlockUse;
use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::layout::Layout;
use crate::map::Owner;

/// The good blocks that a drive has beyond those that it needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpareBlocks {
    /// As many may still go bad before the drive is read-only.
    pub available: u32,
    /// As many it would have if none were bad.
    pub total: u32,
}

impl Ftl {
    /// Whether too few good blocks are left to take writes.
    pub fn is_read_only(&self) -> bool {
        self.out_of_blocks || self.good_blocks < self.layout.least_blocks
    }

    /// There was no room for something. If no block is left to make any, and blocks are bad, it is not the host's data
    /// that fill the flash: the drive is at the end of its life, though more good blocks may hold data than the least.
    /// That is how it ends when all blocks wear out together.
    pub fn note_exhaustion(&mut self) {
        self.out_of_blocks |= self.spare_blocks() == 0 && self.good_blocks < self.geometry.blocks();
    }

    /// Spare blocks in the sense of SMART: those that may still go bad.
    pub fn spare_good_blocks(&self) -> SpareBlocks {
        let available = if self.out_of_blocks { 0 } else { self.good_blocks };
        SpareBlocks {
            available: available.saturating_sub(self.layout.least_blocks),
            total: self.geometry.blocks().saturating_sub(self.layout.least_blocks),
        }
    }

    /// Marks a block bad for good, and plans with what is left. What the block holds can still be read.
    pub(crate) fn retire(&mut self, block: BlockId) -> Result<(), FtlError> {
        debug_assert_eq!(self.blocks.block_use(block), BlockUse::Bad, "block {block} is out of use");
        if self.nand.is_bad(block) {
            return Ok(());
        }
        self.nand.retire(block)?;
        self.good_blocks -= 1;
        self.layout = Layout::with_good_blocks(&self.geometry, &self.config, self.good_blocks);
        self.host.set_width(self.layout.host_width);
        self.collect.set_width(self.layout.collect_width);
        Ok(())
    }

    /// A block failed a program: it is to be emptied and retired.
    pub(crate) fn program_failed(&mut self, block: BlockId) {
        self.counters.program_failures += 1;
        self.failing.push(block);
    }

    /// Empties failing blocks and retires them. What their spare areas say stays readable, and recovery reads retired
    /// blocks too, so the erase rule has no part in this.
    pub(crate) fn retire_failing(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let mut failing = std::mem::take(&mut self.failing);
        while let Some(block) = failing.pop() {
            if self.blocks.block_use(block) == BlockUse::Closed {
                let emptied = self.collect_block(block, at_ns);
                if emptied.is_err() {
                    self.failing.append(&mut failing);
                    self.failing.push(block);
                }
                match emptied {
                    // it is tried again when there is room
                    Err(FtlError::CapacityExceeded) => return Ok(()),
                    emptied => emptied?,
                }
            }
            match self.blocks.block_use(block) {
                BlockUse::Free => {
                    self.blocks.take_block(self.geometry.plane_of(block), block, BlockUse::Bad);
                    self.retire(block)?;
                }
                BlockUse::Bad => self.retire(block)?,
                // journal and checkpoint blocks go when the next checkpoint frees them
                _ => self.failing.push(block),
            }
        }
        Ok(())
    }

    // -- lost units ---------------------------------------------------------------------------------------------

    fn is_lost(&self, ppn: Ppn) -> bool {
        self.nand.page_state(self.geometry.page_of(ppn)) == PageState::Uncorrectable
    }

    /// Whether units are left in a block, and none of them can be read.
    pub(crate) fn keeps_only_lost_units(&self, block: BlockId) -> bool {
        let first = self.geometry.first_unit(block).0;
        let mut owned = (first..first + self.geometry.units_per_block())
            .map(Ppn)
            .filter(|ppn| self.map.owner(*ppn) != Owner::None);
        self.map.valid(block) > 0 && owned.all(|ppn| self.is_lost(ppn))
    }

    /// Units of a block are lost. If they were programmed since the last checkpoint, the next one is due.
    pub(crate) fn note_loss_in(&mut self, block: BlockId) {
        self.checkpoint.wanted |= self.blocks.last_step(block) > self.checkpoint.step;
    }

    /// A read failed: before the host learns of it, a checkpoint tells where the unit is, if only its spare area did.
    /// Others of the page, which nobody has read yet, are told with it.
    pub(crate) fn lost(&mut self, ppn: Ppn, at_ns: Nanoseconds) -> Result<(), FtlError> {
        self.counters.uncorrectable_reads += 1;
        self.note_loss_in(self.geometry.block_of_unit(ppn));
        if !self.checkpoint.wanted {
            return Ok(());
        }
        match self.take_checkpoint(at_ns, false) {
            // a drive at its end has no room for it, and takes no writes that could be told from older ones
            Err(FtlError::CapacityExceeded) => Ok(()),
            taken => taken.map(drop),
        }
    }

    /// Reads a place; `None` if it is lost.
    pub(crate) fn read_place(
        &mut self,
        ppn: Ppn,
        data: &mut [u8],
        at_ns: Nanoseconds,
    ) -> Result<Option<Nanoseconds>, FtlError> {
        match self.nand.read(ppn, data, at_ns) {
            Err(NandError::Uncorrectable { .. }) => self.lost(ppn, at_ns).map(|()| None),
            read => Ok(Some(read?)),
        }
    }
}
