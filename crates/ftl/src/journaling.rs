//! Appends to the metadata log, flushes it, and provides its blocks.
//!
//! There is an open journal block before a record is appended, and the next one is prepared when the open one is half
//! full: the block erased for it may be one that only the waiting records make invalid, and erasing it may itself
//! append memberships.

use tantalum_nand::{BlockId, FailingStep, NandError, Nanoseconds, PlaneId};

use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::metadata::{Attempt, JournalPage, Record};
use crate::page_image::PageImage;
use crate::space::BlockUse;

/// Journal pages reserved for failed programs.
const SPARE_PAGES: u32 = 1;

impl Ftl {
    /// Records that one step may append and still have on one page.
    pub fn records_per_page(&self) -> usize {
        self.metadata.records_per_page()
    }

    /// Appends records that must be on flash together or not at all; at most [`Ftl::records_per_page`].
    pub(crate) fn append_journal(&mut self, records: &[Record], at_ns: Nanoseconds) -> Result<(), FtlError> {
        debug_assert!(
            records.len() <= self.records_per_page(),
            "{} records are to be on flash together, and a page has room for {}",
            records.len(),
            self.records_per_page()
        );
        let ready_ns = self.ready_ns(records);
        self.append_ready(records, ready_ns, at_ns)
    }

    /// When what the records name is on flash.
    fn ready_ns(&self, records: &[Record]) -> Nanoseconds {
        let ready_ns = |record: &Record| match record {
            Record::Trim { .. }
            | Record::ClaimEnded { .. }
            | Record::NamespaceMade { .. }
            | Record::NamespaceDeleted { .. }
            | Record::PowerOn { .. } => 0,
            // Garbage collection may have issued the program, so waiting for the host's programs is not enough.
            Record::Map { ppn, .. } | Record::MapInGroup { ppn, .. } => {
                let named_ns = self.nand.programmed_ns(self.geometry.page_of(*ppn));
                named_ns.max(self.nand.host_programs_done_ns())
            }
            _ => self.nand.host_programs_done_ns(),
        };
        records.iter().map(ready_ns).max().unwrap_or(0)
    }

    /// The same for records that a dump leaves out before `ready_ns`.
    fn append_ready(
        &mut self,
        records: &[Record],
        ready_ns: Nanoseconds,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        if records.is_empty() {
            return Ok(());
        }
        self.ensure_journal_block(at_ns)?;
        if !self.metadata.has_room(records.len()) {
            self.flush_journal(at_ns)?;
        }
        self.metadata.append(&mut self.nand, records, ready_ns)
    }

    /// Appends the records of one step: on one page, or as a group. The last record, if it cannot be part of a group,
    /// is stored beside the one that makes the group whole.
    pub(crate) fn append_step(&mut self, records: Vec<Record>, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let ready_ns = self.ready_ns(&records);
        self.append_step_ready(records, ready_ns, at_ns)
    }

    /// The same for records that a dump leaves out before `ready_ns`.
    pub(crate) fn append_step_ready(
        &mut self,
        mut records: Vec<Record>,
        ready_ns: Nanoseconds,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        if records.len() <= self.records_per_page() {
            return self.append_ready(&records, ready_ns, at_ns);
        }
        let group = self.next_seq();
        let last = records.pop_if(|last| last.in_group(group) == *last);
        records.iter_mut().for_each(|record| *record = record.in_group(group));
        for chunk in records.chunks(self.records_per_page()) {
            self.append_ready(chunk, ready_ns, at_ns)?;
        }
        let whole: Vec<Record> = last.into_iter().chain([Record::GroupWhole { group }]).collect();
        self.append_ready(&whole, ready_ns, at_ns)
    }

    /// Opens a journal block if none is open. No block is erased if records wait already, as they do once a page of them
    /// has found no block.
    fn ensure_journal_block(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if !self.metadata.wants_open() || canary::out(Guard::JournalBlockMissing) {
            return Ok(());
        }
        if !self.metadata.nothing_waits() {
            return self.open_erased_journal_block();
        }
        let block = self.take_system_block(BlockUse::Journal, at_ns)?;
        self.give_journal_block(block);
        Ok(())
    }

    /// Changes the map and appends the records of the change, at most as many as stated. It is refused as a whole if
    /// the journal has no room for them, or the next checkpoint has no room for the new owners. Nothing is erased
    /// meanwhile, because it may be a record still to come that makes a block invalid.
    pub(crate) fn step<T>(
        &mut self,
        records: usize,
        owners: usize,
        at_ns: Nanoseconds,
        change: impl FnOnce(&mut Ftl) -> Result<T, FtlError>,
    ) -> Result<T, FtlError> {
        self.ensure_owner_room(owners, at_ns)?;
        self.ensure_journal_room(records, at_ns)?;
        self.metadata.begin_step(at_ns);
        let changed = change(self);
        self.metadata.end_step();
        changed.map_err(FtlError::unfinished)
    }

    /// Ensures that this many records can be appended and made durable without another block.
    pub(crate) fn ensure_journal_room(&mut self, records: usize, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if canary::out(Guard::JournalBlockMissing) {
            return Ok(());
        }
        if self.finds_no_room() {
            return Err(FtlError::CapacityExceeded);
        }
        if self.metadata.nvm().is_some() {
            return self.ensure_memory_room(records, at_ns);
        }
        self.ensure_journal_block(at_ns)?;
        // waiting records may have to go first, and the step itself flushes the last page
        let pages = records.div_ceil(self.records_per_page()) as u32 + 2;
        if self.metadata.pages_left(&self.nand) < pages + SPARE_PAGES && !self.metadata.has_next() {
            self.take_next_journal_block(at_ns)?;
        }
        Ok(())
    }

    /// The same for a log in memory, which a checkpoint empties.
    fn ensure_memory_room(&mut self, records: usize, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let has_room = |ftl: &Ftl| ftl.metadata.nvm().is_none_or(|nvm| nvm.has_room(records));
        if !has_room(self) && !self.metadata.is_in_step() {
            self.take_checkpoint(at_ns, false)?;
        }
        if has_room(self) { Ok(()) } else { Err(FtlError::CapacityExceeded) }
    }

    /// Programs the waiting records. Returns when all of them but memberships, and everything issued for hosts so far, are
    /// on flash; for an erase see `journal_for_erase`.
    pub fn flush_journal(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        if self.metadata.nothing_waits() {
            return Ok(at_ns.max(self.nand.host_programs_done_ns()));
        }
        if canary::out(Guard::RecordTakesFlushStep) {
            let flushed = self.next_seq();
            self.metadata.set_steps(flushed);
        }
        let step = self.next_seq();
        let page = self.metadata.take_page(&mut self.nand, step)?;
        let done_ns = match self.program_journal(&page, at_ns.max(self.system_blocks_ready_ns())) {
            Ok(done_ns) => done_ns,
            Err(error) => {
                if matches!(error, FtlError::Nand(NandError::PowerLost)) {
                    self.metadata.issued(&self.nand, page, Nanoseconds::MAX);
                } else {
                    self.metadata.put_back(page);
                }
                return Err(error);
            }
        };
        let is_for_erase = page.is_for_erase;
        self.metadata.issued(&self.nand, page, done_ns);
        self.metadata.programmed(&mut self.nand, is_for_erase, done_ns)?;
        if self.metadata.nvm().is_none() {
            self.counters.flash_units.journal += u64::from(self.geometry.units_per_page());
            self.prepare_journal_block(at_ns)?;
        }
        Ok(if is_for_erase { at_ns.max(self.nand.host_programs_done_ns()) } else { done_ns })
    }

    /// Programs the waiting records. Returns when the whole journal is on flash: an earlier erase may have recorded what this
    /// one relies on, in a page that is still in flight.
    pub(crate) fn journal_for_erase(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let before_ns = self.metadata.stored_ns();
        self.flush_journal(at_ns)?;
        let stored_ns = self.metadata.stored_ns();
        // without the guard: only what this erase recorded
        let is_new = stored_ns > before_ns || !canary::out(Guard::RecordInFlight);
        Ok(if is_new { stored_ns } else { at_ns })
    }

    fn program_journal(&mut self, page: &JournalPage, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        if self.finds_no_room() {
            self.give_up_page(&page.image);
            return Err(FtlError::CapacityExceeded);
        }
        loop {
            let attempt = self.metadata.program(&mut self.nand, page, at_ns);
            match attempt.inspect_err(|error| self.release_page(&page.image, error))? {
                Attempt::Issued(done_ns) => return Ok(done_ns),
                Attempt::Failed(block) => self.program_failed(block),
                Attempt::NoBlock if self.metadata.nvm().is_some() => return Err(FtlError::CapacityExceeded),
                Attempt::NoBlock => {
                    self.open_erased_journal_block().inspect_err(|_| self.give_up_page(&page.image))?
                }
            }
        }
    }

    /// Releases the buffers of a page image after an error. If power failed, they belong to the medium.
    pub(crate) fn release_page(&mut self, page: &PageImage, error: &FtlError) {
        if !matches!(error, FtlError::Nand(NandError::PowerLost)) {
            self.give_up_page(page);
        }
    }

    /// Releases the buffers of a page image that was not programmed.
    pub(crate) fn give_up_page(&mut self, page: &PageImage) {
        page.give_up(&mut self.nand);
    }

    /// Opens a journal block for records that are not on flash: one that needs no erase, because any other may be free
    /// only by these records (hazard 2). This happens if programs fail one after the other, and use up the open block and
    /// the next one. Without such a block the records wait until there is one, or power is lost.
    fn open_erased_journal_block(&mut self) -> Result<(), FtlError> {
        let planes = (0..self.geometry.planes()).map(PlaneId);
        let free = planes
            .flat_map(|plane| self.space.blocks.free_list(plane).iter().map(move |free| (plane, free.block)));
        let erased = free.into_iter().find(|(_, block)| self.space.blocks.is_erased(*block));
        let (plane, block) = erased.ok_or(FtlError::CapacityExceeded)?;
        self.space.blocks.take_block(plane, block, BlockUse::Journal);
        self.opened(block);
        self.give_journal_block(block);
        Ok(())
    }

    /// The journal takes a block, unless it has got two meanwhile: erasing this one may have appended records, and those
    /// blocks were opened for them.
    fn give_journal_block(&mut self, block: BlockId) {
        if !self.metadata.wants_open() && self.metadata.has_next() {
            let plane = self.geometry.plane_of(block);
            self.space.blocks.release_erased(plane, block, &self.nand);
        } else {
            self.metadata.give_block(block);
        }
    }

    /// Opens the next journal block once the open one is half full.
    fn prepare_journal_block(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if self.metadata.wants_next(&self.nand)
            && (!self.metadata.is_in_step() || canary::out(Guard::ErasedInStep))
            && !canary::out(Guard::JournalBlockMissing)
        {
            match self.take_next_journal_block(at_ns) {
                // the open one is still there; the next page tries again
                Err(FtlError::CapacityExceeded) => {}
                taken => return taken,
            }
        }
        Ok(())
    }

    fn take_next_journal_block(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        self.metadata.set_preparing(true);
        let block = self.take_system_block(BlockUse::Journal, at_ns);
        self.metadata.set_preparing(false);
        self.give_journal_block(block?);
        Ok(())
    }

    /// Whether a test lets this step find no room.
    #[inline]
    pub(crate) fn finds_no_room(&mut self) -> bool {
        self.nand.step_fails(FailingStep::Room)
    }

    /// Takes a block for journal, checkpoint or dump, on the plane that is idle first.
    pub(crate) fn take_system_block(
        &mut self,
        block_use: BlockUse,
        at_ns: Nanoseconds,
    ) -> Result<BlockId, FtlError> {
        if self.finds_no_room() {
            return Err(FtlError::CapacityExceeded);
        }
        let planes = self.geometry.planes();
        loop {
            let plane = (0..planes)
                .map(PlaneId)
                .filter(|plane| self.space.blocks.free_in(*plane) > 0)
                .min_by_key(|plane| {
                    (
                        self.nand.plane_idle_ns(*plane).max(at_ns),
                        usize::MAX - self.space.blocks.free_in(*plane),
                    )
                });
            let Some(plane) = plane else { return Err(FtlError::CapacityExceeded) };
            if let Some(block) = self.open_block(plane, block_use, at_ns)? {
                return Ok(block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tantalum_nand::{Faults, Geometry, Nand, NvmShape, Scheduling, StepFault, UNIT_BYTES};

    use super::*;
    use crate::host_unit::HostUnit;
    use crate::space::FtlConfig;
    use crate::test_support::{CONFIG, GEOMETRY, TIMING};
    use crate::types::{Lpn, METADATA_BYTES};

    fn ftl(pages_per_block: u32) -> Ftl {
        let geometry = Geometry { pages_per_block, ..GEOMETRY };
        Ftl::format(Nand::in_memory(geometry, TIMING).unwrap(), CONFIG).unwrap()
    }

    fn flush_one(ftl: &mut Ftl) {
        let version = ftl.next_seq();
        ftl.append_journal(&[Record::Trim { lpn: Lpn(1), units: 1, version, step: version }], 0).unwrap();
        ftl.flush_journal(0).unwrap();
    }

    /// The next block is erased while the open one still has pages, so nothing that waits for the journal waits for the
    /// erase.
    #[test]
    fn the_next_journal_block_is_taken_once_the_open_one_is_half_full() {
        let mut ftl = ftl(8);
        let mut left = Vec::new();
        for _ in 0..12 {
            flush_one(&mut ftl);
            left.push(ftl.metadata.pages_left(&ftl.nand));
        }
        assert_eq!(left, [7, 6, 5, 8 + 4, 8 + 3, 8 + 2, 8 + 1, 8, 7, 6, 5, 8 + 4]);
    }

    /// Nothing is erased within a step, so the pages that it needs must be ready before it begins.
    #[test]
    fn a_step_has_its_pages_before_it_begins() {
        for used in 0..8 {
            for pages in 1..=3 {
                let mut ftl = ftl(8);
                (0..used).for_each(|_| flush_one(&mut ftl));
                let records = pages * ftl.records_per_page();
                ftl.ensure_journal_room(records, 0).unwrap();
                let (left, needed) = (ftl.metadata.pages_left(&ftl.nand), pages as u32 + 2 + SPARE_PAGES);
                assert!(left >= needed, "{used} pages used: {left} pages for {pages} of records");
                let blocks = ftl.metadata.journal_blocks();
                ftl.ensure_journal_room(records, 0).unwrap();
                assert_eq!(ftl.metadata.journal_blocks(), blocks, "there is room already");
            }
        }
    }

    /// Hundreds of steps without a command that would take a checkpoint: the log is emptied when it has no room for another
    /// step.
    #[test]
    fn a_log_in_memory_has_room_for_a_step_or_a_checkpoint_makes_it() {
        let nvm_bytes = 1 << 20;
        let config = FtlConfig { nvm_log_bytes: Some(nvm_bytes), ..CONFIG };
        let shape = NvmShape { bytes: nvm_bytes, latency_ns: 100, bytes_per_second: 1_000_000_000 };
        let nand = Nand::in_memory(GEOMETRY, TIMING).unwrap().with_nvm(shape).unwrap();
        let mut ftl = Ftl::format(nand, config).unwrap();
        let (before, mut steps) = (ftl.counters().checkpoints, 0);
        while ftl.counters().checkpoints < before + 3 {
            ftl.ensure_journal_room(1, 0).unwrap_or_else(|error| panic!("step {steps}: {error}"));
            flush_one(&mut ftl);
            steps += 1;
        }
        assert!(steps > 1000, "{steps} steps of 56 bytes fill a quarter of 1 MiB twice");
        let room = ftl.ensure_journal_room(1_000_000, 0);
        assert!(matches!(room, Err(FtlError::CapacityExceeded)), "{room:?}");
    }

    /// No checkpoint is taken within a step: some of the step's records would be before it and some after.
    #[test]
    fn no_checkpoint_is_taken_within_a_step_for_a_log_in_memory() {
        let nvm_bytes = 1 << 20;
        let config = FtlConfig { nvm_log_bytes: Some(nvm_bytes), ..CONFIG };
        let shape = NvmShape { bytes: nvm_bytes, latency_ns: 100, bytes_per_second: 1_000_000_000 };
        let nand = Nand::in_memory(GEOMETRY, TIMING).unwrap().with_nvm(shape).unwrap();
        let mut ftl = Ftl::format(nand, config).unwrap();
        while ftl.metadata.nvm().unwrap().has_room(1) {
            flush_one(&mut ftl);
        }
        let before = ftl.counters().checkpoints;
        ftl.metadata.begin_step(0);
        let room = ftl.ensure_journal_room(1, 0);
        ftl.metadata.end_step();
        assert!(matches!(room, Err(FtlError::CapacityExceeded)), "{room:?}");
        assert_eq!(ftl.counters().checkpoints, before);
        ftl.ensure_journal_room(1, 0).unwrap();
        assert_eq!(ftl.counters().checkpoints, before + 1);
    }

    /// The open journal block fails and no other is free, so the page cannot be programmed. Its record keeps waiting: the
    /// trim was done, and counts as soon as there is a block. No test had a journal page without a block.
    #[test]
    fn records_without_a_block_wait_for_one() {
        let mut ftl = ftl(8);
        let slot = ftl.nand.stage(&[1; UNIT_BYTES]).unwrap();
        let version = ftl.next_seq();
        let unit = HostUnit { slot, lpn: Lpn(1), version, metadata: [0; METADATA_BYTES], hint: None };
        ftl.write_page(&[unit], 0).unwrap();
        ftl.trim(Lpn(1), 1, 0).unwrap();
        let waiting: Vec<Record> = ftl.metadata.waiting().copied().collect();
        assert!(!waiting.is_empty());
        let mut taken = Vec::new();
        for plane in (0..ftl.geometry.planes()).map(PlaneId) {
            while let Some(block) = ftl.space.blocks.take(plane, BlockUse::Open, &ftl.nand) {
                taken.push((plane, block));
            }
        }
        ftl.nand.set_faults(Faults { program_failure_ppm: 1_000_000, ..Faults::default() });
        let flushed = ftl.flush_journal(0);
        assert!(matches!(flushed, Err(FtlError::CapacityExceeded)), "{flushed:?}");
        assert_eq!(ftl.metadata.waiting().copied().collect::<Vec<_>>(), waiting);
        ftl.nand.set_faults(Faults::default());
        for (plane, block) in taken {
            ftl.space.blocks.release_erased(plane, block, &ftl.nand);
        }
        ftl.flush_journal(0).unwrap();
        let (config, mut nand) = (ftl.config, ftl.into_nand());
        nand.power_fail(nand.programs_done_ns().max(nand.idle_ns()));
        nand.resolve(&mut |_| unreachable!("nothing is on its way"), &mut || 0).unwrap();
        nand.lose_dram();
        let at_ns = nand.idle_ns();
        let (ftl, _) = Ftl::recover(nand, config, at_ns).map_err(|(_, error)| error).unwrap();
        assert_eq!(ftl.map().lookup(Lpn(1)), None, "the trim is durable");
    }

    /// A page of records fills several buffers. No test let one of them be missing.
    #[test]
    fn a_journal_page_without_a_buffer_gives_back_those_that_it_has() {
        let mut ftl = ftl(8);
        while ftl.metadata.has_room(1) {
            let version = ftl.next_seq();
            let trim = Record::Trim { lpn: Lpn(1), units: 1, version, step: version };
            ftl.append_journal(&[trim], 0).unwrap();
        }
        let (waiting, before) = (ftl.metadata.waiting().len(), ftl.nand.slots_in_use());
        ftl.nand.fail_step(Some(StepFault { step: FailingStep::Buffer, after: 1, lasts: false }));
        let flushed = ftl.flush_journal(0);
        assert!(matches!(flushed, Err(FtlError::Nand(NandError::OutOfSlots { .. }))), "{flushed:?}");
        assert_eq!((ftl.metadata.waiting().len(), ftl.nand.slots_in_use()), (waiting, before));
        ftl.nand.fail_step(None);
        ftl.flush_journal(0).unwrap();
        assert!(ftl.metadata.nothing_waits());
    }

    /// Programs fail until the journal's open block is used up, and the next one. The page in hand has the record that made
    /// a block free; it was erased for that page, and after a cut the unit read what it held long before. No test let so
    /// many programs fail and some block be free only by what they were to store.
    #[test]
    fn no_block_is_erased_for_a_page_of_records_in_hand() {
        let mut ftl = ftl(8);
        let write = |ftl: &mut Ftl, lpn: u32, byte: u8| {
            let (slot, version) = (ftl.nand.stage(&[byte; UNIT_BYTES]).unwrap(), ftl.next_seq());
            let unit = HostUnit { slot, lpn: Lpn(lpn), version, metadata: [0; METADATA_BYTES], hint: None };
            ftl.write_page(&[unit], 0).unwrap();
            ftl.geometry.block_of_unit(ftl.map.lookup(Lpn(lpn)).unwrap())
        };
        let second = loop {
            let block = write(&mut ftl, 1, 1);
            if ftl.space.blocks.block_use(block) == BlockUse::Closed {
                break block;
            }
        };
        // every free block has to be erased before it is used
        let mut used = Vec::new();
        for plane in (0..ftl.geometry.planes()).map(PlaneId) {
            while let Some(block) = ftl.space.blocks.take(plane, BlockUse::Open, &ftl.nand) {
                used.push((plane, block));
            }
        }
        used.into_iter().for_each(|(plane, block)| ftl.space.blocks.release(plane, block, &ftl.nand));
        ftl.trim(Lpn(1), 1, 0).unwrap();
        ftl.collect_block(second, 0).unwrap();
        assert_eq!(ftl.space.blocks.block_use(second), BlockUse::Free);
        let erases = ftl.nand.erase_count(second);
        ftl.nand.fail_step(Some(StepFault { step: FailingStep::Program, after: 0, lasts: true }));
        let flushed = ftl.flush_journal(0);
        assert!(matches!(flushed, Err(FtlError::CapacityExceeded)), "{flushed:?}");
        assert_eq!(ftl.nand.erase_count(second), erases, "the record that made it free is not on flash");
        assert!(!ftl.metadata.nothing_waits());
    }

    /// Garbage collection may have programmed the place, and such programs are not waited for otherwise: a dump must leave
    /// the record out if the place is not there.
    #[test]
    fn a_record_is_ready_when_the_place_that_it_names_is_on_flash() {
        let mut ftl = ftl(8);
        ftl.nand.set_scheduling(Scheduling::ReadFirst);
        let slot = ftl.nand.stage(&[1; UNIT_BYTES]).unwrap();
        let version = ftl.next_seq();
        let unit = HostUnit { slot, lpn: Lpn(1), version, metadata: [0; METADATA_BYTES], hint: None };
        ftl.write_page(&[unit], 0).unwrap();
        let now_ns = ftl.nand.programs_done_ns();
        ftl.nand.advance(now_ns);
        let old = ftl.map.lookup(Lpn(1)).unwrap();
        ftl.collect_block(ftl.geometry.block_of_unit(old), now_ns).unwrap();
        let ppn = ftl.map.lookup(Lpn(1)).unwrap();
        let copied_ns = ftl.nand.programmed_ns(ftl.geometry.page_of(ppn));
        assert!(ppn != old && copied_ns > now_ns && ftl.nand.host_programs_done_ns() <= now_ns);
        let (lpn, group) = (Lpn(2), version);
        let in_group = Record::MapInGroup { lpn, version, group, ppn };
        for record in [Record::Map { lpn, version, step: version, ppn }, in_group] {
            assert_eq!(ftl.ready_ns(&[record]), copied_ns);
        }
    }
}
