//! Erases every block that holds old data, for a host that wants nothing of them to stay on flash (NVMe's Sanitize, and Format with
//! a secure erase).
//!
//! What is deallocated or overwritten stays in its block until that is erased, and a drive erases a block only when it opens it. Here
//! every block in which something is no longer in use is emptied and erased. The erases follow the erase rule. Nothing changes for
//! reads, and a power cut at any point loses nothing; then some old data may still be there, and the purge is to be repeated.

use tantalum_nand::{BlockId, Nanoseconds, Ppn};

use super::Ftl;
use super::parts::Parts;
use crate::error::FtlError;
use crate::placement::Handle;
use crate::space::BlockUse;

impl Ftl {
    /// Erases all old data. Nothing may wait for flash. Returns when that is done, and how many blocks it could not erase because they are
    /// out of use.
    ///
    /// # Errors
    /// [`FtlError::CapacityExceeded`] if there is no room for what must be moved.
    pub fn purge(&mut self, at_ns: Nanoseconds) -> Result<(Nanoseconds, u32), FtlError> {
        self.tidy_zones(at_ns)?;
        // tombstones are in use until then, and have keys; and the one before knew what was deleted since
        self.take_checkpoint(at_ns, false)?;
        for handle in (0..self.config.handles() as u8).map(Handle) {
            self.begin_reclaim_unit(handle, at_ns);
        }
        let Parts { space, map, .. } = &mut self.allocator.parts;
        space.close_streams(map);
        // those that copies fill meanwhile hold nothing old
        let candidates = self.map.candidates();
        // a block whose records need all of its units when moved is no candidate, and may have others that were deleted
        let packed = self.space.blocks_with(BlockUse::Closed).filter(|block| self.map.has_packed(*block));
        let mut victims: Vec<BlockId> = candidates.chain(packed).collect();
        victims.sort_unstable_by_key(|block| (self.map.valid(*block), *block));
        victims.dedup();
        for victim in victims {
            let mut collection = self.begin_collection(at_ns);
            self.collect_into(&mut collection, victim, at_ns)?;
            self.finish_collection(collection, at_ns)?;
            self.allocator.erase_stale(u32::MAX, at_ns)?;
        }
        self.allocator.erase_stale(u32::MAX, at_ns)?;
        let Parts { log, nand, .. } = &mut self.allocator.parts;
        log.scrub_protected(nand)?;
        let kept =
            (0..self.geometry.blocks()).map(BlockId).filter(|block| self.keeps_old_data(*block)).count();
        Ok((at_ns.max(self.nand.idle_ns()), kept as u32))
    }

    /// Whether a block that is out of use still has pages that can be read: nobody erases it.
    fn keeps_old_data(&self, block: BlockId) -> bool {
        let is_out = self.nand.is_bad(block) || self.space.block_use(block) == BlockUse::Bad;
        let mut units =
            (self.geometry.first_unit(block).0..).map(Ppn).take(self.geometry.units_per_block() as usize);
        is_out && units.any(|ppn| self.nand.is_readable(ppn))
    }
}
