//! Which block takes the next page, and that there is one: collection makes room before a stream runs out.

use tantalum_nand::{BlockId, Nanoseconds};

use crate::blocks::BlockUse;
use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::layout::JOURNAL_RESERVE_BLOCKS;

/// Which stream a page goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    Host,
    Collect,
}

impl Ftl {
    /// Free blocks that journal and checkpoints may still need.
    pub(crate) fn system_blocks(&self) -> u32 {
        if canary::out(Guard::SystemBlocksForgotten) {
            return 0;
        }
        let journal = JOURNAL_RESERVE_BLOCKS.saturating_sub(self.journal.blocks.len() as u32);
        let checkpoint_blocks = self.layout.checkpoint_blocks + self.index_blocks(0);
        let checkpoint = (2 * checkpoint_blocks).saturating_sub(self.checkpoint.blocks.len() as u32);
        journal + checkpoint
    }

    /// Free blocks beyond those.
    pub(crate) fn spare_blocks(&self) -> u32 {
        self.blocks.free().saturating_sub(self.system_blocks())
    }

    /// Spare blocks that only garbage collection may use.
    pub(crate) fn collection_reserve(&self) -> u32 {
        self.layout.collect_width + 1
    }

    /// Takes a free block of a plane and erases it if that is needed.
    pub(crate) fn open_block(
        &mut self,
        plane: tantalum_nand::PlaneId,
        block_use: BlockUse,
        at_ns: Nanoseconds,
    ) -> Result<Option<BlockId>, FtlError> {
        while let Some(block) = self.blocks.take(plane, block_use, &self.nand) {
            let erased = if self.blocks.is_erased(block) { Ok(true) } else { self.erase(block, at_ns) };
            match erased {
                Ok(true) => {
                    self.blocks.set_erased(block, false);
                    return Ok(Some(block));
                }
                Ok(false) => {}
                Err(error) => {
                    self.blocks.release(plane, block);
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    fn open_for(&mut self, target: Target, at_ns: Nanoseconds) -> Result<bool, FtlError> {
        loop {
            let stream = if target == Target::Host { &self.host } else { &self.collect };
            let has_free = |plane| self.blocks.free_in(plane) > 0;
            let Some(plane) = stream.plane_to_open(&self.nand, at_ns, has_free) else { return Ok(false) };
            // a plane whose free blocks all failed has none any more: the next one is tried
            if let Some(block) = self.open_block(plane, BlockUse::Open, at_ns)? {
                let stream = if target == Target::Host { &mut self.host } else { &mut self.collect };
                stream.add(plane, block);
                return Ok(true);
            }
        }
    }

    /// Opens a block for the host stream if it wants one and there is space beyond the reserve; collects garbage
    /// to make that space.
    pub(crate) fn ensure_host_block(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if !self.host.wants_block() {
            return Ok(());
        }
        if self.spare_blocks() <= self.collection_reserve() && !self.batch_under_way {
            self.collect_garbage(at_ns)?;
        }
        // room was made for a batch before it began; what program failures took comes out of the reserve
        let forced = self.batch_under_way && self.host.opened() == 0;
        if (self.spare_blocks() > self.collection_reserve() || forced)
            && self.open_for(Target::Host, at_ns)?
        {
            return Ok(());
        }
        if self.host.opened() == 0 { Err(FtlError::CapacityExceeded) } else { Ok(()) }
    }

    pub(crate) fn ensure_collect_block(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if !self.collect.wants_block() || self.spare_blocks() == 0 && self.collect.opened() > 0 {
            return Ok(());
        }
        if !self.open_for(Target::Collect, at_ns)? && self.collect.opened() == 0 {
            return Err(FtlError::CapacityExceeded);
        }
        Ok(())
    }

    /// Makes room for `pages` host pages, so that no garbage is collected while they are programmed; and for another open
    /// block, as for any other page: with room alone, a drive that did nothing but batches was down to one plane.
    pub(crate) fn ensure_space(&mut self, pages: u32, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if self.host.wants_block() && self.spare_blocks() <= self.collection_reserve() {
            self.collect_garbage(at_ns)?;
        }
        // each victim frees something; more rounds than blocks mean that nothing is gained
        for _ in 0..2 * self.geometry.blocks() {
            let open: u32 = self
                .host
                .blocks()
                .map(|block| self.geometry.pages_per_block - self.nand.next_page(block))
                .sum();
            let blocks = self.spare_blocks().saturating_sub(self.collection_reserve());
            if open + blocks * self.geometry.pages_per_block >= pages {
                return Ok(());
            }
            if !self.collect_one(at_ns)? {
                break;
            }
        }
        Err(FtlError::CapacityExceeded)
    }

    /// A block takes no more pages: it may be collected from now on.
    pub(crate) fn close_block(&mut self, block: BlockId) {
        self.blocks.set_use(block, BlockUse::Closed);
        self.map.valid_counts_mut().add_candidate(block);
    }
}
