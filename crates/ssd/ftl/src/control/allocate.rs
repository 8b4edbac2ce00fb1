//! Opens blocks: for the streams, the journal, checkpoints and the dump, and so erases them (`erase`). What it has of them was
//! promised before ([`crate::reservation`]); it collects no garbage of its own accord.
//!
//! Whoever appends to the journal has room for it, with an open journal block; the next one is opened when the open one is half
//! full, between steps. Erasing a block for the journal may itself append what that block proves, to the block that is open.

use std::ops::{Deref, DerefMut};

use tantalum_nand::{BlockId, Nanoseconds, PageId, PlaneId};

use super::parts::Parts;
use crate::error::FtlError;
use crate::metadata::Record;
use crate::page_image::PageImage;
use crate::reservation::{Reservation, finds_no_room};
use crate::space::{BlockUse, Marked, Target, Wear};
use crate::types::Seq;

/// Journal pages reserved for failed programs.
pub(super) const SPARE_PAGES: u32 = 1;

/// The parts, and the right to open blocks for them: a block is erased when it is opened.
#[derive(Debug)]
pub struct Allocator {
    pub(super) parts: Parts,
}

impl Deref for Allocator {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl DerefMut for Allocator {
    fn deref_mut(&mut self) -> &mut Parts {
        &mut self.parts
    }
}

impl Allocator {
    /// Takes a free block of a plane.
    pub(super) fn take_free(
        &mut self,
        plane: PlaneId,
        block_use: BlockUse,
        marked: Marked,
        wear: Wear,
    ) -> Option<BlockId> {
        let parts = &mut self.parts;
        parts.space.take(plane, block_use, marked, wear, &parts.nand)
    }

    /// Nothing in a block is needed any more.
    pub(super) fn release_block(&mut self, block: BlockId) {
        let parts = &mut self.parts;
        parts.space.release(block, &parts.nand);
    }

    /// Opens a block for what the host writes, if the stream wants one and there is space beyond the reserve, or a part of that may
    /// be used. To keep its speed, a log leaves its dies if none of them has a free block.
    pub(super) fn open_host_block(
        &mut self,
        target: Target,
        may_use_reserve: bool,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        if !self.space.wants_block(target) {
            return Ok(());
        }
        let is_needed = !self.space.has_open(target);
        let elsewhere = matches!(target, Target::Logs(_));
        if (self.spare_blocks() > self.space.collection_reserve() || may_use_reserve && is_needed)
            && self.open_for(target, elsewhere, at_ns)?
        {
            return Ok(());
        }
        if self.space.has_open(target) { Ok(()) } else { Err(FtlError::CapacityExceeded) }
    }

    /// Takes a free block of a plane and erases it if necessary. Nothing is programmed there until recovery has room without
    /// it.
    pub(super) fn open_block(
        &mut self,
        plane: PlaneId,
        block_use: BlockUse,
        marked: Marked,
        wear: Wear,
        at_ns: Nanoseconds,
    ) -> Result<Option<BlockId>, FtlError> {
        while let Some(block) = self.take_free(plane, block_use, marked, wear) {
            let erased = if self.space.is_erased(block) { Ok(true) } else { self.erase(block, at_ns) };
            match erased {
                Ok(true) => {
                    let ready_ns = self.system_blocks_ready_ns();
                    let parts = &mut self.parts;
                    parts.space.opened(block, &mut parts.nand, ready_ns);
                    return Ok(Some(block));
                }
                Ok(false) => {}
                Err(error) => {
                    self.release_block(block);
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    /// Opens a block for a stream if one of its planes has a free one, or, with `elsewhere`, if any plane has.
    pub(super) fn open_for(
        &mut self,
        target: Target,
        elsewhere: bool,
        at_ns: Nanoseconds,
    ) -> Result<bool, FtlError> {
        if finds_no_room(&mut self.nand) {
            return Ok(false);
        }
        loop {
            let plane = self.space.plane_to_open(target, elsewhere, &self.nand, at_ns);
            let Some(plane) = plane else { return Ok(false) };
            // a plane whose free blocks all failed has none left: the next one is tried
            let wear = self.space.wear_for(target);
            if let Some(block) = self.open_block(plane, BlockUse::Open, Marked::Ranked, wear, at_ns)? {
                self.space.give(target, block);
                return Ok(true);
            }
        }
    }

    /// Opens a block for what garbage collection moves, if the stream wants one. Copies of records go to their
    /// namespace's logs, if those have an open block or one can be opened on their dies from their part of the reserve;
    /// otherwise to the stream that is returned. Copies of a handle that is kept apart go nowhere else.
    pub(super) fn ensure_copy_block(
        &mut self,
        target: Target,
        at_ns: Nanoseconds,
    ) -> Result<Target, FtlError> {
        if let Target::LogCopies(_) = target {
            let has_block = self.space.has_open(target)
                || self.spare_blocks() > self.space.reserve_without_logs()
                    && self.open_for(target, false, at_ns)?;
            if has_block {
                return Ok(target);
            }
        }
        if self.space.layout().isolates {
            let target = Target::of_copies(target.handle());
            return self.ensure_isolated_block(target, at_ns).map(|()| target);
        }
        let has_open = self.space.has_open(Target::Collect);
        if !self.space.wants_block(Target::Collect) || self.spare_blocks() == 0 && has_open {
            return Ok(Target::Collect);
        }
        if self.open_for(Target::Collect, false, at_ns)? || self.space.has_open(Target::Collect) {
            return Ok(Target::Collect);
        }
        let parts = &mut self.parts;
        match parts.space.reopen_for_copies(Target::Collect, &mut parts.map, &parts.nand) {
            true => Ok(Target::Collect),
            false => Err(FtlError::CapacityExceeded),
        }
    }

    /// The same for copies of a handle that is kept apart. What a power cut left partly filled is filled first: otherwise repeated
    /// cuts would use up the free blocks for one handle, and the others would have none. Beyond its first block, a stream leaves
    /// one for each of those that have none.
    fn ensure_isolated_block(&mut self, target: Target, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let has_open = self.space.has_open(target);
        let is_enough =
            !self.space.wants_block(target) || self.spare_blocks() <= self.space.copies_without_block();
        if has_open && is_enough {
            return Ok(());
        }
        let parts = &mut self.parts;
        if !has_open && parts.space.reopen_for_copies(target, &mut parts.map, &parts.nand) {
            return Ok(());
        }
        if self.open_for(target, false, at_ns)? || self.space.has_open(target) {
            return Ok(());
        }
        Err(FtlError::CapacityExceeded)
    }

    // -- blocks of the metadata log ------------------------------------------------------------------------------

    /// This many records can be appended and made durable in the journal's open blocks.
    pub(super) fn open_journal_blocks(&mut self, records: usize, at_ns: Nanoseconds) -> Result<(), FtlError> {
        self.open_journal_block(at_ns)?;
        // waiting records may have to go first, and the step itself flushes the last page
        let pages = records.div_ceil(self.records_per_page()) as u32 + 2;
        if self.log.pages_left(&self.nand) < pages + SPARE_PAGES && !self.log.has_next() {
            self.open_next_journal_block(at_ns)?;
        }
        Ok(())
    }

    /// Opens a journal block if none is open. No block is erased if records wait already, as they do once a page of them
    /// has found no block; and none whose erase must be recorded, as there is no page for that yet.
    pub(super) fn open_journal_block(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if !self.log.wants_open() {
            return Ok(());
        }
        if !self.log.nothing_waits() {
            let kept = self.kept(0, 0);
            let parts = &mut self.parts;
            return parts.log.open_erased(&mut parts.nand, &mut parts.space, kept);
        }
        let block = self.take_system_block(BlockUse::Journal, Marked::Never, at_ns)?;
        self.log.give_block(block);
        Ok(())
    }

    /// As [`Parts::flush_records`]. The next journal block is opened if the open one is half full.
    pub fn flush_journal(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let is_idle = self.log.nothing_waits();
        let done_ns = self.flush_records(at_ns)?;
        if !is_idle {
            self.prepare_journal_block(at_ns)?;
        }
        Ok(done_ns)
    }

    /// Opens the next journal block once the open one is half full.
    pub(super) fn prepare_journal_block(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if !self.log.wants_next(&self.nand) {
            return Ok(());
        }
        match self.open_next_journal_block(at_ns) {
            // the open one is still there; the next page tries again
            Err(FtlError::CapacityExceeded) => Ok(()),
            opened => opened,
        }
    }

    fn open_next_journal_block(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let block = self.take_system_block(BlockUse::Journal, Marked::Ranked, at_ns)?;
        self.log.give_block(block);
        Ok(())
    }

    /// Takes a block for journal, checkpoint or dump, on the plane that is idle first.
    pub(super) fn take_system_block(
        &mut self,
        block_use: BlockUse,
        marked: Marked,
        at_ns: Nanoseconds,
    ) -> Result<BlockId, FtlError> {
        if finds_no_room(&mut self.nand) {
            return Err(FtlError::CapacityExceeded);
        }
        loop {
            let plane = self.space.system_plane(marked, &self.nand, at_ns);
            let plane = plane.ok_or(FtlError::CapacityExceeded)?;
            if let Some(block) = self.open_block(plane, block_use, marked, Wear::Least, at_ns)? {
                return Ok(block);
            }
        }
    }

    // -- pages of steps under way ----------------------------------------------------------------------------------

    /// Programs a page of a step that is under way, in room that was made for all of its pages: nothing is collected. A block whose
    /// program fails is set aside and another one is tried.
    pub(super) fn program_reserved(
        &mut self,
        room: &mut Reservation,
        target: Target,
        page: &PageImage,
        step: Seq,
        at_ns: Nanoseconds,
    ) -> Result<(PageId, Nanoseconds), FtlError> {
        loop {
            // program failures use up the room
            self.open_host_block(target, true, at_ns)?;
            if let Some(programmed) = self.program(room, target, page, step, at_ns)? {
                return Ok(programmed);
            }
        }
    }

    /// Freed room is usable once no cut can bring back what was there. Returns that time.
    pub(super) fn settle_unmapped(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let unmaps =
            |record: &Record| matches!(record, Record::Trim { .. } | Record::NamespaceDeleted { .. });
        if self.has_plp() {
            return Ok(at_ns);
        }
        if self.log.waiting().any(unmaps) {
            return self.flush_journal(at_ns);
        }
        Ok(at_ns.max(self.log.steps_done_ns()))
    }
}
