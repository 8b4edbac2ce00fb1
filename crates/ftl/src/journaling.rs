//! Appending to the journal and programming its pages.
//!
//! A journal page is programmed only after every program issued before it is done: a record never becomes durable
//! before the units that it names. There is an open journal block before a record is appended, and the next one is
//! prepared when it is half full: the block that is erased for it may be one that only the waiting records make
//! invalid, and erasing it may itself append memberships.

use tantalum_nand::{NandError, Nanoseconds, Source};

use crate::blocks::BlockUse;
use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::journal::{Record, Waiting, encode_page, records_per_page, used_bytes};
use crate::page_image::PageImage;
use crate::spare::{Kind, Spare};

/// Pages of the journal that are kept for programs that fail.
const SPARE_PAGES: u32 = 1;

impl Ftl {
    /// Records that one step may append, so that they are all on one page.
    pub fn records_per_page(&self) -> usize {
        records_per_page(self.geometry.units_per_page())
    }

    /// Appends records that are to be on flash together or not at all; at most [`Ftl::records_per_page`].
    pub(crate) fn append_journal(&mut self, records: &[Record], at_ns: Nanoseconds) -> Result<(), FtlError> {
        let ready_ns = self.ready_ns(records);
        self.append_ready(records, ready_ns, at_ns)
    }

    /// When what the records name is on flash.
    fn ready_ns(&self, records: &[Record]) -> Nanoseconds {
        let names_places = records.iter().any(|record| {
            !matches!(
                record,
                Record::Trim { .. }
                    | Record::ClaimEnded { .. }
                    | Record::NamespaceMade { .. }
                    | Record::NamespaceDeleted { .. }
                    | Record::PowerOn { .. }
            )
        });
        if names_places { self.nand.programs_done_ns() } else { 0 }
    }

    /// The same of records that a dump leaves out before `ready_ns`.
    fn append_ready(
        &mut self,
        records: &[Record],
        ready_ns: Nanoseconds,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        if records.is_empty() {
            return Ok(());
        }
        assert!(
            records.len() <= self.records_per_page(),
            "{} records do not fit a journal page",
            records.len()
        );
        self.ensure_journal_block(at_ns)?;
        if self.journal.buffer.len() + records.len() > self.records_per_page() {
            self.flush_journal(at_ns)?;
        }
        self.journal.buffer.extend(records.iter().map(|&record| Waiting { record, ready_ns }));
        if let Some(protected) = &mut self.protected {
            protected.recorded(&mut self.nand, records.iter())?;
        }
        Ok(())
    }

    /// Appends the records of one step: on one page, or as a group. The last that cannot be part of a group, if there is any,
    /// stands beside what makes the group whole.
    pub(crate) fn append_step(&mut self, records: Vec<Record>, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let ready_ns = self.ready_ns(&records);
        self.append_step_ready(records, ready_ns, at_ns)
    }

    /// The same of records that a dump leaves out before `ready_ns`.
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

    /// Opens a journal block if none is open.
    fn ensure_journal_block(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if self.journal.open.is_none() && !canary::out(Guard::JournalBlockMissing) {
            debug_assert!(self.journal.buffer.is_empty(), "records wait and no block is open for them");
            self.open_journal_block(at_ns)?;
        }
        Ok(())
    }

    /// Changes the map and appends the records of that, at most so many. It is refused as a whole if the journal has no room
    /// for them, or the next checkpoint none for so many owners more. Nothing is erased meanwhile: it could be what only a record to come makes invalid.
    pub(crate) fn step<T>(
        &mut self,
        records: usize,
        owners: usize,
        at_ns: Nanoseconds,
        change: impl FnOnce(&mut Ftl) -> Result<T, FtlError>,
    ) -> Result<T, FtlError> {
        self.ensure_owner_room(owners, at_ns)?;
        self.ensure_journal_room(records, at_ns)?;
        self.steps.between(self.journal.buffer.is_empty(), at_ns);
        self.journal.in_step = true;
        let changed = change(self);
        self.journal.in_step = false;
        changed
    }

    /// Makes sure that so many records can be appended and made durable without another block.
    pub(crate) fn ensure_journal_room(&mut self, records: usize, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if canary::out(Guard::JournalBlockMissing) {
            return Ok(());
        }
        self.ensure_journal_block(at_ns)?;
        // what waits may have to go first, and the last page is flushed by the step itself
        let pages = records.div_ceil(self.records_per_page()) as u32 + 2;
        if self.journal_pages_left() < pages + SPARE_PAGES && self.journal.next.is_none() {
            self.take_next_journal_block(at_ns)?;
        }
        Ok(())
    }

    /// Pages that the open journal block and the one after it still take.
    fn journal_pages_left(&self) -> u32 {
        let pages = self.geometry.pages_per_block;
        let open = self.journal.open.map_or(0, |block| pages - self.nand.next_page(block));
        open + self.journal.next.map_or(0, |_| pages)
    }

    /// Programs what the journal buffer holds. Returns when everything issued so far is on flash.
    pub fn flush_journal(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        if self.journal.buffer.is_empty() {
            return Ok(at_ns.max(self.nand.programs_done_ns()));
        }
        if canary::out(Guard::RecordTakesFlushStep) {
            let flushed = self.next_seq();
            self.journal.buffer.iter_mut().for_each(|waiting| waiting.record.set_step(flushed));
        }
        let mut page_bytes = std::mem::take(&mut self.scratch.page);
        page_bytes.resize(self.geometry.page_bytes as usize, 0);
        let records = std::mem::take(&mut self.journal.buffer);
        encode_page(records.iter().map(|waiting| &waiting.record), &mut page_bytes);
        let done = self.program_journal(&page_bytes[..used_bytes(records.len())], at_ns);
        self.scratch.page = page_bytes;
        let done_ns = match done {
            Ok(done_ns) => done_ns,
            Err(FtlError::Nand(NandError::PowerLost)) => Nanoseconds::MAX,
            Err(error) => {
                // they wait on: nothing may be erased that they make invalid
                self.journal.buffer = records;
                return Err(error);
            }
        };
        if self.has_plp() {
            // a dump must find these records while their page is on its way
            self.in_flight_records.issued(self.nand.now_ns(), done_ns, records);
        }
        let done_ns = done?;
        self.steps.programmed(done_ns);
        if let Some(protected) = &mut self.protected {
            protected.journaled(&mut self.nand)?;
        }
        self.counters.flash_units.journal += u64::from(self.geometry.units_per_page());
        self.prepare_journal_block(at_ns)?;
        Ok(done_ns)
    }

    /// Gives the buffers of a page image back after an error. When power went they are the medium's.
    pub(crate) fn release_page(&mut self, page: &PageImage, error: &FtlError) {
        if !matches!(error, FtlError::Nand(NandError::PowerLost)) {
            self.give_up_page(page);
        }
    }

    /// Gives the buffers of a page image back that was not programmed.
    pub(crate) fn give_up_page(&mut self, page: &PageImage) {
        for source in &page.sources {
            if let Source::Staged(slot) = *source {
                self.nand.release(slot);
            }
        }
    }

    fn program_journal(&mut self, bytes: &[u8], at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let units = self.geometry.units_per_page() as usize;
        let step = self.next_seq();
        let page = PageImage::stage(&mut self.nand, bytes, &Spare::new(Kind::Journal, step))?;
        loop {
            let block = match self.journal.open {
                Some(block) => block,
                None => {
                    let opened = self.open_journal_block(at_ns);
                    if opened.is_err() {
                        self.give_up_page(&page);
                    }
                    opened?
                }
            };
            let place = self.geometry.page(block, self.nand.next_page(block));
            let earliest_ns = at_ns.max(self.nand.programs_done_ns());
            match self.nand.program(place, &page.sources[..units], &page.spares[..units], earliest_ns) {
                Ok(done_ns) => {
                    if self.nand.next_page(block) == self.geometry.pages_per_block {
                        self.journal.open = self.journal.next.take();
                    }
                    return Ok(done_ns);
                }
                Err(NandError::ProgramFailed { .. }) => {
                    self.program_failed(block);
                    // The rest of the block serves until the next one is prepared: a block that was erased now could
                    // be one that only the records of this page make invalid.
                    let full = self.nand.next_page(block) == self.geometry.pages_per_block;
                    if full || self.journal.next.is_some() {
                        self.journal.open = self.journal.next.take();
                    }
                }
                Err(error) => {
                    let error = error.into();
                    self.release_page(&page, &error);
                    return Err(error);
                }
            }
        }
    }

    fn open_journal_block(&mut self, at_ns: Nanoseconds) -> Result<tantalum_nand::BlockId, FtlError> {
        let block = self.take_system_block(BlockUse::Journal, at_ns)?;
        self.journal.blocks.push(block);
        self.journal.open = Some(block);
        Ok(block)
    }

    /// Opens the next journal block once the open one is half full.
    fn prepare_journal_block(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let half = self.geometry.pages_per_block / 2;
        let due = self.journal.open.is_some_and(|block| self.nand.next_page(block) >= half);
        if due
            && self.journal.next.is_none()
            && !self.journal.preparing
            && (!self.journal.in_step || canary::out(Guard::ErasedInStep))
            && !canary::out(Guard::JournalBlockMissing)
        {
            match self.take_next_journal_block(at_ns) {
                // there is still the open one; it is tried again at the next page
                Err(FtlError::CapacityExceeded) => {}
                taken => return taken,
            }
        }
        Ok(())
    }

    fn take_next_journal_block(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        self.journal.preparing = true;
        let block = self.take_system_block(BlockUse::Journal, at_ns);
        self.journal.preparing = false;
        let block = block?;
        self.journal.blocks.push(block);
        // erasing it may have filled the open one
        match self.journal.open {
            Some(_) => self.journal.next = Some(block),
            None => self.journal.open = Some(block),
        }
        Ok(())
    }

    /// Takes a block for journal, checkpoint or dump, on the plane that is idle first.
    pub(crate) fn take_system_block(
        &mut self,
        block_use: BlockUse,
        at_ns: Nanoseconds,
    ) -> Result<tantalum_nand::BlockId, FtlError> {
        let planes = self.geometry.planes();
        loop {
            let plane = (0..planes)
                .map(tantalum_nand::PlaneId)
                .filter(|plane| self.blocks.free_in(*plane) > 0)
                .min_by_key(|plane| {
                    (self.nand.plane_idle_ns(*plane).max(at_ns), usize::MAX - self.blocks.free_in(*plane))
                });
            let Some(plane) = plane else { return Err(FtlError::CapacityExceeded) };
            if let Some(block) = self.open_block(plane, block_use, at_ns)? {
                return Ok(block);
            }
        }
    }
}
