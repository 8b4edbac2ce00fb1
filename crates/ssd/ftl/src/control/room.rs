//! Makes room: collects garbage, takes checkpoints, levels wear, retires blocks, swaps out indexes. All of it happens before a step
//! or between commands.

use tantalum_canaries::guard;
use tantalum_nand::{BlockId, Nanoseconds, PageId, Slot, UNIT_BYTES};

use super::Ftl;
use super::parts::Parts;
use super::zones::units_for_checkpoints;
use crate::error::FtlError;
use crate::key::NamespaceId;
use crate::map::UNIT_WEIGHT;
use crate::metadata::{Attempt, CheckpointBytes, Facts, KeptBytes, NewCheckpoint};
use crate::page_image::PageImage;
use crate::reservation::{Need, Pages, Reservation, finds_no_room};
use crate::space::{BlockUse, Marked, Target};
use crate::types::Seq;
use crate::zones::Zones;

impl Ftl {
    // -- for a step ---------------------------------------------------------------------------------------------

    /// Makes room. Nothing has changed for the command yet, and if this fails, nothing will.
    pub(super) fn reserve(&mut self, need: &Need<'_>, at_ns: Nanoseconds) -> Result<Reservation, FtlError> {
        self.make_owner_room(need.owners, at_ns)?;
        if need.records > 0 {
            self.make_journal_room(need.records, at_ns)?;
        }
        match need.pages {
            Pages::None => {}
            Pages::One(target) => self.make_page_room(target, at_ns)?,
            Pages::All(pages) => self.make_pages_room(pages, at_ns)?,
        }
        if need.records > 0 && need.pages.count() > 0 {
            // collection may have used it
            self.make_journal_room(need.records, at_ns)?;
        }
        Ok(Reservation::new(need.purpose, need.pages.count(), need.records, need.owners))
    }

    /// The next checkpoint has room for this many more owners whose versions no spare area records.
    pub(super) fn make_owner_room(&mut self, owners: usize, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if owners > 0 && (finds_no_room(&mut self.nand) || !self.checkpoint_has_place(owners, 0)) {
            return Err(FtlError::CapacityExceeded);
        }
        if owners == 0 {
            return Ok(());
        }
        self.collect_until(|parts| parts.space.free_blocks() >= parts.kept_blocks(owners), at_ns)
    }

    /// This many records can be appended and made durable without another block.
    pub(super) fn make_journal_room(&mut self, records: usize, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if finds_no_room(&mut self.nand) {
            return Err(FtlError::CapacityExceeded);
        }
        if self.log.is_in_memory() {
            return self.make_memory_room(records, at_ns);
        }
        guard!(JournalBlockMissing, self.open_journal_blocks(records, at_ns))
    }

    /// The same for a log in memory, which a checkpoint empties.
    fn make_memory_room(&mut self, records: usize, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if !self.log.memory_has_room(records) {
            self.take_checkpoint(at_ns, false)?;
        }
        if self.log.memory_has_room(records) { Ok(()) } else { Err(FtlError::CapacityExceeded) }
    }

    /// A stream of the host has an open block for its next page.
    pub(super) fn make_page_room(&mut self, target: Target, at_ns: Nanoseconds) -> Result<(), FtlError> {
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

    /// There is room for this many pages of each stream, and for another open block, as for any other page. Without the latter,
    /// a drive that executed only batches was down to one plane.
    fn make_pages_room(&mut self, pages: &[(Target, u32)], at_ns: Nanoseconds) -> Result<(), FtlError> {
        if finds_no_room(&mut self.nand) {
            return Err(FtlError::CapacityExceeded);
        }
        for &(target, _) in pages {
            if self.space.wants_block(target) {
                self.collect_for(target, at_ns)?;
            }
        }
        let is_enough = |parts: &Parts| {
            let blocks = parts.spare_blocks().saturating_sub(parts.space.collection_reserve());
            let missing = |&(target, pages)| parts.space.missing_blocks(target, pages, &parts.nand);
            pages.iter().map(missing).sum::<u32>() <= blocks
        };
        self.collect_until(is_enough, at_ns)
    }

    /// Ensures room in the drive's capacity for contents of this weight and this many index entries. Returns when the room is
    /// guaranteed.
    pub(super) fn admit(
        &mut self,
        chunks: u64,
        entries: u64,
        waiting: usize,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        // an entry takes a quarter of a chunk in each of two checkpoints
        let chunks = chunks + entries.div_ceil(2);
        let mut ready_ns = at_ns;
        if self.budget < chunks {
            ready_ns = self.settle_unmapped(at_ns)?;
            self.budget = self.free_units(entries, waiting) * u64::from(UNIT_WEIGHT);
        }
        let missing = finds_no_room(&mut self.nand);
        match self.budget.checked_sub(chunks).filter(|_| !missing) {
            Some(left) => {
                self.budget = left;
                Ok(ready_ns)
            }
            None => Err(FtlError::CapacityExceeded),
        }
    }

    // -- garbage collection -------------------------------------------------------------------------------------

    /// Collects garbage to open a block: on the whole drive if it has no space beyond the reserve, and on the planes of
    /// a log.
    fn collect_for(&mut self, target: Target, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if self.spare_blocks() <= self.space.collection_reserve() {
            self.collect_garbage(at_ns)?;
        }
        match target {
            Target::Logs(_) if self.spare_blocks() > self.space.collection_reserve() => {
                self.collect_for_logs(target, at_ns)
            }
            _ => Ok(()),
        }
    }

    /// Collects until there is space beyond the reserve, if that is possible.
    pub(super) fn collect_garbage(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let target = self.space.collection_reserve() + 2;
        let is_enough = |ftl: &mut Ftl| {
            // if there are no longer enough blocks, nothing is gained, and each program may cost another block
            ftl.retire_emptied()?;
            Ok(ftl.spare_blocks() >= target || ftl.is_read_only())
        };
        self.collect_together(self.most_victims(), is_enough, at_ns).map(drop)
    }

    /// Collects, whatever the reserve says, until there is enough room.
    pub(super) fn collect_until(
        &mut self,
        is_enough: impl Fn(&Parts) -> bool,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let mut left = self.most_victims();
        while left > 0 && !is_enough(self) {
            left = self.collect_together(left, |ftl| Ok(is_enough(ftl)), at_ns)?;
        }
        if is_enough(self) { Ok(()) } else { Err(FtlError::CapacityExceeded) }
    }

    /// Each victim frees something: more of them than this mean that nothing is gained.
    fn most_victims(&self) -> u32 {
        2 * self.geometry.blocks()
    }

    /// Collects up to this many victims, until there is enough. What they hold is packed together: moved by itself, a victim with
    /// less garbage than a page frees nothing. Returns how many more may be tried; 0 if there is no other.
    fn collect_together(
        &mut self,
        victims: u32,
        is_enough: impl Fn(&mut Ftl) -> Result<bool, FtlError>,
        at_ns: Nanoseconds,
    ) -> Result<u32, FtlError> {
        let mut collection = self.begin_collection(at_ns);
        let mut left = victims;
        while left > 0 && !is_enough(self)? {
            let Some(victim) = self.choose_victim() else {
                left = 0;
                break;
            };
            self.collect_into(&mut collection, victim, at_ns)?;
            left -= 1;
        }
        self.finish_collection(collection, at_ns)?;
        Ok(left)
    }

    fn choose_victim(&mut self) -> Option<BlockId> {
        let Parts { space, map, numbers, config, .. } = &mut self.allocator.parts;
        space.choose_victim(config.victim_policy, map, numbers.last())
    }

    /// Collects on the planes on which a namespace's logs have no open block and find no free one.
    fn collect_for_logs(&mut self, target: Target, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let full = self.space.full_planes(target);
        if full.is_empty() {
            return Ok(());
        }
        let mut collection = self.begin_collection(at_ns);
        for plane in full {
            if let Some(victim) = self.space.choose_victim_on(plane, &self.map) {
                self.collect_into(&mut collection, victim, at_ns)?;
            }
        }
        self.finish_collection(collection, at_ns)
    }

    /// Moves everything out of one block and frees it.
    pub(super) fn collect_block(&mut self, block: BlockId, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let mut collection = self.begin_collection(at_ns);
        self.collect_into(&mut collection, block, at_ns)?;
        self.finish_collection(collection, at_ns)
    }

    // -- between commands ---------------------------------------------------------------------------------------

    /// The work due between commands: empties failing blocks, takes a checkpoint, levels wear, and swaps out indexes
    /// that do not fit in DRAM.
    pub fn maintain(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        self.nand.advance(at_ns);
        if !self.space.failing().is_empty() {
            self.retire_failing(at_ns)?;
        }
        if self.checkpoint_is_due() {
            self.take_checkpoint(at_ns, false)?;
        }
        self.level_wear(at_ns)?;
        self.make_index_room(0, at_ns).map(drop)
    }

    /// Moves a block of cold data, if the spread of erase counts is too wide.
    fn level_wear(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let Parts { space, counters, config, nand, .. } = &mut self.allocator.parts;
        match space.next_too_cold(counters.blocks_erased, config.wear_spread, nand) {
            Some(coldest) if self.spare_blocks() > 1 => self.collect_block(coldest, at_ns),
            _ => Ok(()),
        }
    }

    /// Empties failing blocks and retires them. Their spare areas stay readable, and recovery reads retired blocks too,
    /// so the erase rule is not involved. Blocks of the journal and of checkpoints are emptied by the next checkpoint.
    fn retire_failing(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let mut has_room = true;
        for block in self.space.failing().to_vec() {
            if has_room && self.space.block_use(block) == BlockUse::Closed {
                match self.collect_block(block, at_ns) {
                    // retried when there is room
                    Err(FtlError::CapacityExceeded) => has_room = false,
                    emptied => emptied?,
                }
            }
        }
        self.retire_emptied()
    }

    /// Retires the failing blocks that hold nothing that can be moved.
    fn retire_emptied(&mut self) -> Result<(), FtlError> {
        while let Some(block) = self.space.emptied() {
            self.retire(block)?;
        }
        Ok(())
    }

    /// Loads the indexes that a command uses, after making room for them. Returns when they are there. Call it at the
    /// beginning of a command: a checkpoint may be taken.
    pub(super) fn use_indexes(
        &mut self,
        namespaces: impl IntoIterator<Item = NamespaceId> + Clone,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        if !self.records.are_swapped() {
            return Ok(at_ns);
        }
        let needed = self.records.begin_use(namespaces.clone());
        let room_ns = self.make_index_room(needed, at_ns)?;
        let Parts { records, log, nand, counters, .. } = &mut self.allocator.parts;
        records.load_indexes(namespaces, log, nand, counters, room_ns)
    }

    /// Swaps out indexes until this many more bytes fit. If too many have changed since the last checkpoint, a
    /// checkpoint is taken. Returns when the room is there.
    fn make_index_room(&mut self, bytes: u64, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let Parts { records, counters, .. } = &mut self.allocator.parts;
        if records.swap_out(bytes, counters) || self.is_read_only() || self.is_stopped {
            return Ok(at_ns);
        }
        self.counters.index_checkpoints += 1;
        match self.take_checkpoint(at_ns, false) {
            Ok(done_ns) => {
                let Parts { records, counters, .. } = &mut self.allocator.parts;
                records.swap_out(bytes, counters);
                Ok(done_ns)
            }
            // they stay where they are
            Err(FtlError::CapacityExceeded) => Ok(at_ns),
            Err(error) => Err(error),
        }
    }

    // -- checkpoints --------------------------------------------------------------------------------------------
    //
    // A checkpoint is the L2P as of a step, and what is still conditional at that step. It holds the contents of units and of
    // records, the blocks that were open (recovery reads on in them), and the counters. It counts only if all its pages are
    // there. Its predecessor, and the journal that it covers, become free only after it; by the erase rule they are erased
    // after it has finished programming (hazard 10).

    /// Whether a checkpoint is due.
    pub(super) fn checkpoint_is_due(&mut self) -> bool {
        let Parts { log, nand, space, config, counters, units, records, map, zones, .. } =
            &mut self.allocator.parts;
        let host_units = || units_for_checkpoints(counters, zones.as_ref());
        let kept = || KeptBytes { units: units.kept_bytes(map), records: records.kept_bytes(0) };
        log.checkpoint_is_due(nand, space, config, host_units, kept)
    }

    /// Takes a checkpoint and frees what it makes obsolete.
    pub fn take_checkpoint(&mut self, at_ns: Nanoseconds, clean: bool) -> Result<Nanoseconds, FtlError> {
        let taken = self.new_checkpoint(at_ns, clean);
        if matches!(taken, Err(FtlError::CapacityExceeded)) {
            let kept = self.kept(0, 0);
            let Parts { log, nand, space, .. } = &mut self.allocator.parts;
            log.checkpoint_found_no_room(nand, space, kept);
        }
        taken
    }

    fn new_checkpoint(&mut self, at_ns: Nanoseconds, clean: bool) -> Result<Nanoseconds, FtlError> {
        self.flush_before_checkpoint(at_ns)?;
        debug_assert!(
            self.log.nothing_waits() || self.log.is_in_memory(),
            "records wait for a page while a checkpoint is taken"
        );
        self.counters.checkpoints += 1;
        let (bytes, read_ns) = self.checkpoint_bytes(clean, at_ns)?;
        if self.log.is_in_memory() {
            return self.store_checkpoint(&bytes.into_bytes(), read_ns);
        }
        let units = bytes.into_units(&mut self.nand)?;
        guard!(CheckpointInPlace(self, at_ns)?);
        let (mut units, mut blocks) = (units.into_iter(), Vec::new());
        let programmed = self.program_checkpoint(&mut units, &mut blocks, read_ns);
        units.for_each(|slot| self.nand.release(slot));
        match programmed {
            Ok((step, pages, done_ns)) => {
                self.retain_only((step, done_ns), blocks, pages);
                Ok(done_ns)
            }
            Err(error) => {
                blocks.into_iter().for_each(|block| self.release_block(block));
                Err(error)
            }
        }
    }

    /// Makes what waits durable. If the memory of the log is full, the checkpoint covers it.
    fn flush_before_checkpoint(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        match self.flush_journal(at_ns) {
            Err(FtlError::CapacityExceeded) if self.log.is_in_memory() => Ok(()),
            flushed => flushed.map(drop),
        }
    }

    /// The contents of a checkpoint now, and when everything that had to be read for it was there.
    fn checkpoint_bytes(
        &mut self,
        clean: bool,
        at_ns: Nanoseconds,
    ) -> Result<(CheckpointBytes, Nanoseconds), FtlError> {
        let Parts {
            config, numbers, space, log, counters, units, records, map, nand, placement, zones, ..
        } = &mut self.allocator.parts;
        let facts = Facts {
            logical_units: config.logical_units,
            clean,
            seq: numbers.last(),
            exhausted: space.is_exhausted(),
            counters: *counters,
            open_blocks: space.open_blocks(),
            handles: placement.as_ref().map_or_else(Vec::new, |placement| placement.counters().to_vec()),
            zones: zones.as_ref().map_or_else(Vec::new, Zones::kept),
        };
        let mut bytes = CheckpointBytes::new(log.is_in_memory());
        facts.encode(&mut bytes);
        let written = units
            .write_checkpoint(map, nand, &mut bytes)
            .and_then(|()| records.write_checkpoint(log, nand, counters, &mut bytes, at_ns));
        match written {
            Ok(read_ns) => Ok((bytes, at_ns.max(read_ns))),
            Err(error) => {
                bytes.give_up(nand);
                Err(error)
            }
        }
    }

    /// Stores a checkpoint in memory.
    pub(super) fn store_checkpoint(
        &mut self,
        bytes: &[u8],
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let Parts { numbers, records, log, nand, .. } = &mut self.allocator.parts;
        let step = numbers.draw();
        guard!(WaitingKeepsVersion, records.before_checkpoint(numbers, log, nand)?);
        let done_ns = log.store_checkpoint(nand, bytes, step, at_ns)?;
        self.retain_only((step, done_ns), Vec::new(), Vec::new());
        Ok(done_ns)
    }

    /// Opens `blocks` for the units and programs them. Returns the step, the pages, and when it is done. Whatever units are
    /// left belong to the caller.
    fn program_checkpoint(
        &mut self,
        units: &mut std::vec::IntoIter<Slot>,
        blocks: &mut Vec<BlockId>,
        at_ns: Nanoseconds,
    ) -> Result<(Seq, Vec<PageId>, Nanoseconds), FtlError> {
        let bytes = units.len() * UNIT_BYTES;
        for _ in 0..NewCheckpoint::blocks_for(bytes, &self.geometry) {
            blocks.push(self.take_system_block(BlockUse::Checkpoint, Marked::Ranked, at_ns)?);
        }
        // Only now: this way the checkpoint covers what is recorded when blocks are erased for it, and is the last
        // thing that a clean shutdown writes.
        let Parts { numbers, records, log, nand, .. } = &mut self.allocator.parts;
        let step = numbers.draw();
        log.announce_checkpoint(nand, step)?;
        guard!(WaitingKeepsVersion, records.before_checkpoint(numbers, log, nand)?);
        let mut new = NewCheckpoint::new(std::mem::take(blocks), bytes, step, &self.geometry);
        let programmed = self.program_checkpoint_pages(&mut new, units, at_ns);
        *blocks = new.blocks;
        Ok((step, new.pages, programmed?))
    }

    /// Programs the pages side by side on the blocks. Returns when all are done.
    fn program_checkpoint_pages(
        &mut self,
        new: &mut NewCheckpoint,
        units: &mut std::vec::IntoIter<Slot>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let earliest_ns = at_ns.max(self.nand.programs_done_ns());
        let mut done_ns = earliest_ns;
        while units.len() > 0 {
            let image = new.image(units.by_ref().take(self.geometry.units_per_page() as usize));
            done_ns = done_ns.max(self.program_checkpoint_page(new, &image, earliest_ns)?);
            self.counters.flash_units.checkpoint += u64::from(self.geometry.units_per_page());
        }
        debug_assert!(new.is_complete(), "a checkpoint ends after {} pages", new.pages.len());
        Ok(done_ns)
    }

    fn program_checkpoint_page(
        &mut self,
        new: &mut NewCheckpoint,
        page: &PageImage,
        earliest_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        loop {
            let Parts { nand, space, counters, .. } = &mut self.allocator.parts;
            let attempt = new.program(nand, page, space.failing(), earliest_ns);
            match attempt.inspect_err(|error| page.give_up_after(nand, error))? {
                Attempt::Issued(done_ns) => return Ok(done_ns),
                Attempt::Failed(block) => {
                    counters.program_failures += 1;
                    space.program_failed(block);
                }
                Attempt::NoBlock => {
                    // program failures used up what was planned
                    let opened = self.take_system_block(BlockUse::Checkpoint, Marked::Ranked, earliest_ns);
                    new.blocks.push(opened.inspect_err(|_| page.give_up(&mut self.nand))?);
                }
            }
        }
    }

    /// The checkpoint at `step`, which will be there at `done_ns`, stands: anything older may go.
    pub(super) fn retain_only(
        &mut self,
        (step, done_ns): (Seq, Nanoseconds),
        blocks: Vec<BlockId>,
        pages: Vec<PageId>,
    ) {
        let host_units = units_for_checkpoints(&self.counters, self.zones.as_ref());
        for block in self.log.stands((step, done_ns), blocks, pages, host_units) {
            self.release_block(block);
        }
        let Parts { records, map, space, budget, .. } = &mut self.allocator.parts;
        records.after_checkpoint(map);
        *budget = 0;
        space.clear_all_marks();
    }
}
