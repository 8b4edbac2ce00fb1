//! Appends to the metadata log, flushes it, and provides its blocks.
//!
//! Whoever appends has room for it, with an open journal block; the next one is opened when the open one is half full, between
//! steps. Erasing a block for the journal may itself append what that block proves, to the block that is open.

use tantalum_nand::{BlockId, Nanoseconds};

use crate::allocate::Allocator;
use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::metadata::Record;
use crate::page_image::PageImage;
use crate::parts::Parts;
use crate::reservation::{Reservation, finds_no_room};
use crate::space::{BlockUse, Marked};

/// Journal pages reserved for failed programs.
const SPARE_PAGES: u32 = 1;

impl Parts {
    /// Records that one step may append and still have on one page.
    pub fn records_per_page(&self) -> usize {
        self.metadata.records_per_page()
    }

    /// Appends records that must be on flash together or not at all; at most [`Parts::records_per_page`].
    pub(crate) fn append_journal(
        &mut self,
        room: &mut Reservation,
        records: &[Record],
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        debug_assert!(
            records.len() <= self.records_per_page(),
            "{} records are to be on flash together, and a page has room for {}",
            records.len(),
            self.records_per_page()
        );
        room.take_records(records.len());
        let ready_ns = self.ready_ns(records);
        self.append_ready(records, ready_ns, at_ns)
    }

    /// When what the records name is on flash.
    fn ready_ns(&self, records: &[Record]) -> Nanoseconds {
        records.iter().map(|record| record.ready_ns(&self.nand)).max().unwrap_or(0)
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
        if !self.metadata.has_room(records.len()) {
            self.flush_records(at_ns)?;
        }
        self.metadata.append(&mut self.nand, records, ready_ns)
    }

    /// Appends the records of one step: on one page, or as a group. The last record, if it cannot be part of a group,
    /// is stored beside the one that makes the group whole.
    pub(crate) fn append_step(
        &mut self,
        room: &mut Reservation,
        records: Vec<Record>,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let ready_ns = self.ready_ns(&records);
        self.append_step_ready(room, records, ready_ns, at_ns)
    }

    /// The same for records that a dump leaves out before `ready_ns`.
    pub(crate) fn append_step_ready(
        &mut self,
        room: &mut Reservation,
        mut records: Vec<Record>,
        ready_ns: Nanoseconds,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        room.take_records(records.len());
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

    /// Programs the waiting records. Returns when all of them but memberships, and everything issued for hosts so far, are
    /// on flash; for an erase see [`Allocator::journal_for_erase`].
    pub(crate) fn flush_records(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        if self.metadata.nothing_waits() {
            return Ok(at_ns.max(self.nand.host_programs_done_ns()));
        }
        if canary::out(Guard::RecordTakesFlushStep) {
            let flushed = self.next_seq();
            self.metadata.set_steps(flushed);
        }
        let (step, kept) = (self.next_seq(), self.kept(0, 0));
        let medium = (&mut self.nand, &mut self.space);
        self.metadata.flush(medium, kept, step, &mut self.counters, at_ns)
    }

    /// Releases the buffers of a page image after an error. If power failed, they belong to the medium.
    pub(crate) fn release_page(&mut self, page: &PageImage, error: &FtlError) {
        page.give_up_after(&mut self.nand, error);
    }

    /// Releases the buffers of a page image that was not programmed.
    pub(crate) fn give_up_page(&mut self, page: &PageImage) {
        page.give_up(&mut self.nand);
    }

    /// Whether a test lets this step find no room.
    #[inline]
    pub(crate) fn finds_no_room(&mut self) -> bool {
        finds_no_room(&mut self.nand)
    }
}

impl Allocator {
    /// This many records can be appended and made durable in the journal's open blocks.
    pub(crate) fn open_journal_blocks(&mut self, records: usize, at_ns: Nanoseconds) -> Result<(), FtlError> {
        self.open_journal_block(at_ns)?;
        // waiting records may have to go first, and the step itself flushes the last page
        let pages = records.div_ceil(self.records_per_page()) as u32 + 2;
        if self.metadata.pages_left(&self.nand) < pages + SPARE_PAGES && !self.metadata.has_next() {
            self.open_next_journal_block(at_ns)?;
        }
        Ok(())
    }

    /// Opens a journal block if none is open. No block is erased if records wait already, as they do once a page of them
    /// has found no block; and none whose erase must be recorded, as there is no page for that yet.
    pub(crate) fn open_journal_block(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if !self.metadata.wants_open() {
            return Ok(());
        }
        if !self.metadata.nothing_waits() {
            let kept = self.kept(0, 0);
            let parts = &mut self.parts;
            return parts.metadata.open_erased(&mut parts.nand, &mut parts.space, kept);
        }
        let block = self.take_system_block(BlockUse::Journal, Marked::Never, at_ns)?;
        self.metadata.give_block(block);
        Ok(())
    }

    /// As [`Parts::flush_records`]. The next journal block is opened if the open one is half full.
    pub fn flush_journal(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let is_idle = self.metadata.nothing_waits();
        let done_ns = self.flush_records(at_ns)?;
        if !is_idle {
            self.prepare_journal_block(at_ns)?;
        }
        Ok(done_ns)
    }

    /// Opens the next journal block once the open one is half full.
    pub(crate) fn prepare_journal_block(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if !self.metadata.wants_next(&self.nand) {
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
        self.metadata.give_block(block);
        Ok(())
    }

    /// Takes a block for journal, checkpoint or dump, on the plane that is idle first.
    pub(crate) fn take_system_block(
        &mut self,
        block_use: BlockUse,
        marked: Marked,
        at_ns: Nanoseconds,
    ) -> Result<BlockId, FtlError> {
        if self.finds_no_room() {
            return Err(FtlError::CapacityExceeded);
        }
        loop {
            let plane = self.space.system_plane(marked, &self.nand, at_ns);
            let plane = plane.ok_or(FtlError::CapacityExceeded)?;
            if let Some(block) = self.open_block(plane, block_use, marked, at_ns)? {
                return Ok(block);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tantalum_nand::{
        FailingStep, Faults, Geometry, Nand, NandError, NvmShape, PlaneId, Scheduling, StepFault, UNIT_BYTES,
    };

    use super::*;
    use crate::ftl::Ftl;
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
        ftl.append_reserved(Record::Trim { lpn: Lpn(1), units: 1, version, step: version }, 0).unwrap();
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
                ftl.make_journal_room(records, 0).unwrap();
                let (left, needed) = (ftl.metadata.pages_left(&ftl.nand), pages as u32 + 2 + SPARE_PAGES);
                assert!(left >= needed, "{used} pages used: {left} pages for {pages} of records");
                let blocks = ftl.metadata.journal_blocks();
                ftl.make_journal_room(records, 0).unwrap();
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
            ftl.make_journal_room(1, 0).unwrap_or_else(|error| panic!("step {steps}: {error}"));
            flush_one(&mut ftl);
            steps += 1;
        }
        assert!(steps > 1000, "{steps} steps of 56 bytes fill a quarter of 1 MiB twice");
        let room = ftl.make_journal_room(1_000_000, 0);
        assert!(matches!(room, Err(FtlError::CapacityExceeded)), "{room:?}");
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
            while let Some(block) = ftl.take_free(plane, BlockUse::Open, Marked::Ranked) {
                taken.push((plane, block));
            }
        }
        ftl.nand.set_faults(Faults { program_failure_ppm: 1_000_000, ..Faults::default() });
        let flushed = ftl.flush_journal(0);
        assert!(matches!(flushed, Err(FtlError::CapacityExceeded)), "{flushed:?}");
        assert_eq!(ftl.metadata.waiting().copied().collect::<Vec<_>>(), waiting);
        ftl.nand.set_faults(Faults::default());
        for (plane, block) in taken {
            ftl.release_erased(plane, block);
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
            ftl.append_reserved(trim, 0).unwrap();
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
            if ftl.space.block_use(block) == BlockUse::Closed {
                break block;
            }
        };
        // every free block has to be erased before it is used
        let mut used = Vec::new();
        for plane in (0..ftl.geometry.planes()).map(PlaneId) {
            while let Some(block) = ftl.take_free(plane, BlockUse::Open, Marked::Ranked) {
                used.push(block);
            }
        }
        used.into_iter().for_each(|block| ftl.release_block(block));
        ftl.trim(Lpn(1), 1, 0).unwrap();
        ftl.collect_block(second, 0).unwrap();
        assert_eq!(ftl.space.block_use(second), BlockUse::Free);
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
