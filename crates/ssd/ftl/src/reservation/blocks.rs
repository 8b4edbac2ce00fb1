//! Makes room for pages, records and owners: collects garbage, and empties a log in memory.

use tantalum_nand::Nanoseconds;

use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::space::Target;

impl Ftl {
    /// The next checkpoint has room for this many more owners whose versions no spare area records.
    pub(crate) fn make_owner_room(&mut self, owners: usize, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if owners > 0 && (self.finds_no_room() || !self.checkpoint_has_place(owners, 0)) {
            return Err(FtlError::CapacityExceeded);
        }
        while owners > 0 && self.space.free_blocks() < self.system_blocks_with(owners) {
            if !self.collect_one(at_ns)? {
                return Err(FtlError::CapacityExceeded);
            }
        }
        Ok(())
    }

    /// This many records can be appended and made durable without another block.
    pub(crate) fn make_journal_room(&mut self, records: usize, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if canary::out(Guard::JournalBlockMissing) {
            return Ok(());
        }
        if self.finds_no_room() {
            return Err(FtlError::CapacityExceeded);
        }
        if self.metadata.is_in_memory() {
            return self.make_memory_room(records, at_ns);
        }
        self.open_journal_blocks(records, at_ns)
    }

    /// The same for a log in memory, which a checkpoint empties.
    fn make_memory_room(&mut self, records: usize, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if !self.metadata.memory_has_room(records) {
            self.take_checkpoint(at_ns, false)?;
        }
        if self.metadata.memory_has_room(records) { Ok(()) } else { Err(FtlError::CapacityExceeded) }
    }

    /// A stream of the host has an open block for its next page.
    pub(crate) fn make_page_room(&mut self, target: Target, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if !self.space.wants_block(target) {
            return Ok(());
        }
        self.collect_for(target, at_ns)?;
        // copies may have opened one
        if !self.space.wants_block(target) {
            return Ok(());
        }
        // a read-only drive accepts nothing that would need the reserve, but stores what it has acknowledged
        let may_use_reserve = self.is_read_only();
        self.open_host_block(target, may_use_reserve, at_ns)
    }

    /// Collects garbage to open a block: on the whole drive if it has no space beyond the reserve, and on the planes of
    /// a log.
    fn collect_for(&mut self, target: Target, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if self.spare_blocks() <= self.collection_reserve() {
            self.collect_garbage(at_ns)?;
        }
        if target == Target::Host || self.spare_blocks() <= self.collection_reserve() {
            return Ok(());
        }
        self.collect_for_logs(target, at_ns)
    }

    /// There is room for this many pages of each stream, and for another open block, as for any other page. Without the latter,
    /// a drive that executed only batches was down to one plane.
    pub(crate) fn make_pages_room(
        &mut self,
        pages: &[(Target, u32)],
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        if self.finds_no_room() {
            return Err(FtlError::CapacityExceeded);
        }
        for &(target, _) in pages {
            if self.space.wants_block(target) {
                self.collect_for(target, at_ns)?;
            }
        }
        // each victim frees something; more rounds than blocks mean that nothing is gained
        for _ in 0..2 * self.geometry.blocks() {
            let blocks = self.spare_blocks().saturating_sub(self.collection_reserve());
            let missing: u32 = pages.iter().map(|&(target, pages)| self.missing_blocks(target, pages)).sum();
            if missing <= blocks {
                return Ok(());
            }
            if !self.collect_one(at_ns)? {
                break;
            }
        }
        Err(FtlError::CapacityExceeded)
    }
}
