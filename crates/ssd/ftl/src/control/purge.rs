//! Erases every block that holds old data, for a host that wants nothing of them to stay on flash (NVMe's Sanitize, and Format with
//! a secure erase).
//!
//! What is deallocated or overwritten stays in its block until that is erased, and a drive erases a block only when it opens it. Here
//! every block in which something is no longer in use is emptied and erased. The erases follow the erase rule. Nothing changes for
//! reads, and a power cut at any point loses nothing; then some old data may still be there, and the purge is to be repeated.

use tantalum_nand::{BlockId, Nanoseconds};

use super::Ftl;
use super::parts::Parts;
use crate::error::FtlError;
use crate::placement::Handle;

impl Ftl {
    /// Erases all old data. Nothing may wait for flash. Returns when that is done, and how many blocks it could not erase because they are
    /// out of use.
    ///
    /// # Errors
    /// [`FtlError::CapacityExceeded`] if there is no room for what must be moved.
    pub fn purge(&mut self, at_ns: Nanoseconds) -> Result<(Nanoseconds, u32), FtlError> {
        // tombstones are in use until then, and have keys; and the one before knew what was deleted since
        self.take_checkpoint(at_ns, false)?;
        for handle in (0..self.config.handles() as u8).map(Handle) {
            self.begin_reclaim_unit(handle, at_ns);
        }
        let Parts { space, map, .. } = &mut self.allocator.parts;
        space.close_streams(map);
        // those that copies fill meanwhile hold nothing old
        let victims: Vec<BlockId> = self.map.candidates().collect();
        for victim in victims {
            let mut collection = self.begin_collection(at_ns);
            self.collect_into(&mut collection, victim, at_ns)?;
            self.finish_collection(collection, at_ns)?;
            self.allocator.erase_stale(u32::MAX, at_ns)?;
        }
        self.allocator.erase_stale(u32::MAX, at_ns)?;
        let Parts { log, nand, .. } = &mut self.allocator.parts;
        log.scrub_protected(nand)?;
        let blocks = (0..self.geometry.blocks()).map(BlockId);
        let kept = blocks.filter(|block| self.nand.is_bad(*block) && self.nand.next_page(*block) > 0).count();
        Ok((at_ns.max(self.nand.idle_ns()), kept as u32))
    }
}
