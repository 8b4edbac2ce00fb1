//! The metadata log: it makes those parts of the map durable that spare areas do not record.
//!
//! It has a journal of [`Record`]s, and a checkpoint from which the journal continues. Its interface is narrow, because
//! there are two places where it may be stored: in NAND pages ([`flash`]), and in non-volatile memory ([`nvm`]):
//!
//! | | |
//! |---|---|
//! | append | [`MetadataLog::append`]: records wait in DRAM, at most one page of them |
//! | flush | [`MetadataLog::flush`]: they go to flash as a page, together or not at all |
//! | checkpoint | [`NewCheckpoint`], [`MetadataLog::stands`]: bytes from the layers above; whatever they replace is then free |
//! | scan | [`find_checkpoint`], [`find_journal`]: the bytes of the newest whole checkpoint and the records after it |
//! | protected | [`protected`]: what a capacitor keeps of it, mirrored into an image that outlives the process; [`MetadataLog::take_ready`] for the dump |
//!
//! A record's step is the step at which it was made: garbage collection may move the unit before the page is
//! programmed, and the copy must win (hazard 6). [`steps`] tracks steps that changed the map and are not on flash yet.
//!
//! A page that has only memberships is for the erase that recorded them. No flush waits for it, unlike for a page that has
//! any other record; an erase waits for all pages. [`memberships`] tracks which are recorded.

#[cfg(feature = "canaries")]
mod canaries;
mod checkpoint_bytes;
mod dump_pages;
mod facts;
mod flash;
mod found;
mod last_checkpoint;
mod left;
mod memberships;
mod nvm;
mod nvm_plan;
mod protected;
mod protected_layout;
mod record;
mod scan;
mod steps;
mod under_way;

use std::ops::Range;

use tantalum_canaries::guard;
use tantalum_nand::{BlockId, Geometry, Nand, NandError, Nanoseconds, PageId, Ppn, UNIT_BYTES, UnitSpare};

pub(crate) use self::checkpoint_bytes::CheckpointBytes;
pub(crate) use self::dump_pages::DumpPages;
pub(crate) use self::facts::{Facts, narrow, put_list, take, take_list, take_word, wide};
use self::flash::FlashLog;
pub(crate) use self::flash::{Attempt, NewCheckpoint};
pub(crate) use self::found::{FoundCheckpoint, FoundJournal};
use self::last_checkpoint::{LastCheckpoint, SpaceState};
pub(crate) use self::left::dump_what_is_left;
use self::memberships::Memberships;
pub(crate) use self::nvm::FoundNvm;
use self::nvm::NvmLog;
pub use self::nvm_plan::NvmPlan;
use self::protected::Protected;
pub use self::protected_layout::protected_bytes;
pub(crate) use self::record::Record;
use self::record::{encode_page, records_per_page, used_bytes};
pub(crate) use self::scan::MetadataScan;
use self::steps::Steps;
pub(crate) use self::under_way::UnderWay;
use crate::counters::Counters;
use crate::error::FtlError;
use crate::findings::Audit;
use crate::host_unit::HostUnit;
use crate::page_image::PageImage;
use crate::reservation::finds_no_room;
use crate::space::{BlockUse, CheckpointInterval, FtlConfig, JOURNAL_RESERVE_BLOCKS, Layout, Space};
use crate::spare::{Kind, Spare};
use crate::types::{Lpn, Seq};

/// Bytes of a checkpoint in addition to those that tenants count: facts, open blocks, open logs.
const NOT_COUNTED_BYTES: u64 = 64 * 1024;

/// Bytes that a checkpoint keeps of the drive's contents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptBytes {
    /// Of units. The layout plans for as many as there can be.
    pub units: u64,
    /// Of records. The layout plans for none.
    pub records: u64,
}

/// A record that waits for its page.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    record: Record,
    /// When everything that it refers to has been programmed. A dump leaves out records that were not ready.
    ready_ns: Nanoseconds,
}

/// A page of records on its way to flash.
pub(crate) struct JournalPage {
    records: Vec<Waiting>,
    image: PageImage,
    /// Whether only an erase waits for it.
    is_for_erase: bool,
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub(crate) struct MetadataLog {
    /// Records that are not programmed yet: at most one page.
    waiting: Vec<Waiting>,
    /// Records whose page is on its way, kept if a dump must find them.
    under_way: UnderWay<Vec<Waiting>>,
    keeps_under_way: bool,
    /// Steps that changed the map and may not be on flash yet.
    steps: Steps,
    memberships: Memberships,
    /// When all pages issued so far are on flash.
    stored_ns: Nanoseconds,
    flash: FlashLog,
    /// Where the log is, if not on flash.
    nvm: Option<NvmLog>,
    /// The last checkpoint.
    checkpoint: LastCheckpoint,
    /// The image's copy of what a capacitor protects, if a file is to outlive the process.
    protected: Option<Protected>,
    /// Blocks kept erased for a dump.
    dump_blocks: Vec<BlockId>,
    geometry: Geometry,
    /// A page's bytes, kept so that they need not be allocated for each page.
    scratch: Vec<u8>,
}

impl MetadataLog {
    /// An empty log. With a capacitor, records whose pages are on their way are kept for a dump.
    pub fn new(geometry: &Geometry, has_plp: bool, nvm: Option<NvmPlan>) -> MetadataLog {
        MetadataLog {
            waiting: Vec::new(),
            under_way: UnderWay::default(),
            keeps_under_way: has_plp,
            steps: Steps::default(),
            memberships: Memberships::default(),
            stored_ns: 0,
            flash: FlashLog::default(),
            nvm: nvm.map(NvmLog::new),
            checkpoint: LastCheckpoint::default(),
            protected: None,
            dump_blocks: Vec::new(),
            geometry: *geometry,
            scratch: vec![0; geometry.units_per_page() as usize * UNIT_BYTES],
        }
    }

    // -- records ------------------------------------------------------------------------------------------------

    /// The most records that can be on flash together or not at all.
    pub fn records_per_page(&self) -> usize {
        records_per_page(self.geometry.units_per_page())
    }

    /// Whether this many more records fit on the waiting page.
    pub fn has_room(&self, records: usize) -> bool {
        self.waiting.len() + records <= self.records_per_page()
    }

    /// Whether no record waits.
    pub fn nothing_waits(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The records that wait.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = &Record> {
        self.waiting.iter().map(|waiting| &waiting.record)
    }

    /// Appends records, which a dump leaves out before `ready_ns`. There must be room for them.
    pub fn append(
        &mut self,
        nand: &mut Nand,
        records: &[Record],
        ready_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        assert!(
            self.has_room(records.len()),
            "{} records behind {} do not fit on a journal page",
            records.len(),
            self.waiting.len()
        );
        self.waiting.extend(records.iter().map(|&record| Waiting { record, ready_ns }));
        match &mut self.protected {
            Some(protected) => protected.recorded(nand, records.iter()),
            None => Ok(()),
        }
    }

    /// Takes the waiting records as a page; one that goes to memory needs no image.
    pub fn take_page(&mut self, nand: &mut Nand, step: Seq) -> Result<JournalPage, FtlError> {
        let is_for_erase =
            guard!(RecordNotAwaited, self.waiting.iter().all(|waiting| waiting.record.is_membership()));
        if self.nvm.is_some() {
            let records = std::mem::take(&mut self.waiting);
            return Ok(JournalPage { records, image: PageImage::new(), is_for_erase });
        }
        encode_page(self.waiting.iter().map(|waiting| &waiting.record), &mut self.scratch);
        let bytes = &self.scratch[..used_bytes(self.waiting.len())];
        let image = PageImage::stage(nand, bytes, &Spare::new(Kind::Journal, step))?;
        Ok(JournalPage { records: std::mem::take(&mut self.waiting), image, is_for_erase })
    }

    /// Programs the waiting records, of which there are some. Returns when all of them but memberships, and everything issued
    /// for hosts so far, are on flash; for an erase see [`MetadataLog::stored_ns`]. If this fails, they keep waiting.
    pub fn flush(
        &mut self,
        (nand, space): (&mut Nand, &mut Space),
        kept: KeptBytes,
        step: Seq,
        counters: &mut Counters,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let page = self.take_page(nand, step)?;
        let earliest_ns = at_ns.max(space.ready_ns(self.system_blocks(space.layout(), kept), nand));
        let done_ns = match self.program_somewhere((nand, space), &page, kept, counters, earliest_ns) {
            Ok(done_ns) => done_ns,
            Err(error) => {
                if matches!(error, FtlError::Nand(NandError::PowerLost)) {
                    self.issued(nand, page, Nanoseconds::MAX);
                } else {
                    self.put_back(page);
                }
                return Err(error);
            }
        };
        let is_for_erase = page.is_for_erase;
        self.issued(nand, page, done_ns);
        self.programmed(nand, is_for_erase, done_ns)?;
        if self.nvm.is_none() {
            counters.flash_units.journal += u64::from(self.geometry.units_per_page());
        }
        Ok(if is_for_erase { at_ns.max(nand.host_programs_done_ns()) } else { done_ns })
    }

    /// Programs a page on the first block on which that succeeds.
    fn program_somewhere(
        &mut self,
        (nand, space): (&mut Nand, &mut Space),
        page: &JournalPage,
        kept: KeptBytes,
        counters: &mut Counters,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        if finds_no_room(nand) {
            page.image.give_up(nand);
            return Err(FtlError::CapacityExceeded);
        }
        loop {
            let attempt = self.program(nand, page, at_ns);
            match attempt.inspect_err(|error| page.image.give_up_after(nand, error))? {
                Attempt::Issued(done_ns) => return Ok(done_ns),
                Attempt::Failed(block) => {
                    counters.program_failures += 1;
                    space.program_failed(block);
                }
                Attempt::NoBlock if self.nvm.is_some() => return Err(FtlError::CapacityExceeded),
                Attempt::NoBlock => {
                    let opened = self.open_erased(nand, space, kept);
                    opened.inspect_err(|_| page.image.give_up(nand))?;
                }
            }
        }
    }

    /// Opens a journal block for records that are not on flash: one that needs no erase, because any other may be free
    /// only by these records (hazard 2). This happens if programs fail one after the other, and use up the open block and
    /// the next one. Without such a block the records wait until there is one, or power is lost.
    pub fn open_erased(
        &mut self,
        nand: &mut Nand,
        space: &mut Space,
        kept: KeptBytes,
    ) -> Result<(), FtlError> {
        let block = space.take_erased(BlockUse::Journal).ok_or(FtlError::CapacityExceeded)?;
        let ready_ns = space.ready_ns(self.system_blocks(space.layout(), kept), nand);
        space.opened(block, nand, ready_ns);
        self.flash.give(block);
        Ok(())
    }

    /// The page could not be programmed: its records keep waiting, because blocks that only they make invalid must not
    /// be erased.
    pub fn put_back(&mut self, page: JournalPage) {
        debug_assert!(
            self.waiting.is_empty(),
            "{} records were appended while a page of {} was on its way",
            self.waiting.len(),
            page.records.len()
        );
        self.waiting = page.records;
    }

    /// Programs a page, after every program for hosts issued before it, and whatever its records refer to: a record never
    /// becomes durable before the units that it names.
    fn program(
        &mut self,
        nand: &mut Nand,
        page: &JournalPage,
        at_ns: Nanoseconds,
    ) -> Result<Attempt, FtlError> {
        let ready_ns = page.records.iter().map(|waiting| waiting.ready_ns).max().unwrap_or(0);
        let times = [at_ns, ready_ns];
        match &mut self.nvm {
            Some(nvm) => nvm.append(nand, page.records.iter().map(|waiting| &waiting.record), times),
            None => self.flash.program(nand, &page.image, page.is_for_erase, times),
        }
    }

    /// The page was issued and will be on flash at this time, or never if power failed.
    fn issued(&mut self, nand: &Nand, page: JournalPage, done_ns: Nanoseconds) {
        page.records.iter().for_each(|waiting| self.memberships.issued(&waiting.record));
        if self.keeps_under_way {
            // a dump must find these records while their page is in flight
            self.under_way.issued(nand.now_ns(), done_ns, page.records);
        }
    }

    /// The last page issued is on flash at this time. From then on waiting records have room in protected DRAM again.
    fn programmed(
        &mut self,
        nand: &mut Nand,
        is_for_erase: bool,
        done_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        self.stored_ns = self.stored_ns.max(done_ns);
        if !is_for_erase {
            self.steps.programmed(done_ns);
        }
        match &mut self.protected {
            Some(protected) => protected.journaled(nand),
            None => Ok(()),
        }
    }

    /// When all pages issued so far, and so all records but those that wait, are on flash.
    pub fn stored_ns(&self) -> Nanoseconds {
        self.stored_ns
    }

    /// The memberships recorded since the last checkpoint.
    pub fn memberships(&self) -> &Memberships {
        &self.memberships
    }

    /// For a dump: takes all records that were not on flash when power failed, but whose referents were.
    pub fn take_ready(&mut self, cut_ns: Nanoseconds) -> Vec<Record> {
        let lost = self.under_way.take_lost(cut_ns).flatten();
        let records = lost.chain(self.waiting.drain(..)).filter(|waiting| waiting.ready_ns <= cut_ns);
        records.map(|waiting| waiting.record).collect()
    }

    // -- steps --------------------------------------------------------------------------------------------------

    /// At this point no step has some records on flash and others in DRAM.
    pub fn between_steps(&mut self, now_ns: Nanoseconds) {
        self.steps.between(self.waiting.is_empty(), now_ns);
    }

    /// A step gives a place an owner.
    pub fn gave_owner(&mut self, ppn: Ppn) {
        self.steps.gave_owner(ppn);
    }

    /// A page that stands for records of a step, such as a hinted log's, is on flash at this time.
    pub fn step_programmed(&mut self, done_ns: Nanoseconds) {
        self.steps.programmed(done_ns);
    }

    /// When everything programmed for steps is on flash.
    pub fn steps_done_ns(&self) -> Nanoseconds {
        self.steps.done_ns()
    }

    /// Whether a place has an owner from a step that may not be on flash at this time.
    pub fn is_under_way(&self, ppn: Ppn, at_ns: Nanoseconds) -> bool {
        self.steps.is_under_way(ppn, at_ns)
    }

    // -- blocks -------------------------------------------------------------------------------------------------

    /// Free blocks that the journal and checkpoints may still need, if a checkpoint keeps this.
    pub fn system_blocks(&self, layout: &Layout, kept: KeptBytes) -> u32 {
        if guard!(SystemBlocksForgotten, self.nvm.is_some()) {
            return 0;
        }
        let journal = JOURNAL_RESERVE_BLOCKS.saturating_sub(self.journal_blocks());
        let checkpoint_blocks = layout.checkpoint_blocks + self.unplanned_blocks(layout, kept);
        // there may be more owners whose versions no spare area records than planned, and there may have been more when
        // the last checkpoint was taken: the next one needs its blocks whatever that one has
        let next = self.checkpoint_units(kept).div_ceil(self.geometry.units_per_block().into()) as u32 + 1;
        let last = self.flash.checkpoint_blocks().len() as u32;
        journal + (2 * checkpoint_blocks).saturating_sub(last).max(next)
    }

    /// Blocks that a checkpoint takes beyond those that the layout reserves for it.
    pub fn unplanned_blocks(&self, layout: &Layout, kept: KeptBytes) -> u32 {
        if kept.records == 0 || self.nvm.is_some() {
            return 0;
        }
        let block_bytes = u64::from(self.geometry.units_per_block()) * UNIT_BYTES as u64;
        let blocks = (layout.checkpoint_bytes + kept.records).div_ceil(block_bytes);
        (blocks as u32).saturating_sub(layout.checkpoint_blocks)
    }

    /// Units that a checkpoint takes, to within a page.
    pub fn checkpoint_units(&self, kept: KeptBytes) -> u64 {
        let pages = (kept.units + kept.records).div_ceil(self.geometry.page_bytes.into()).max(1);
        pages * u64::from(self.geometry.units_per_page())
    }

    /// Whether no journal block is open.
    pub fn wants_open(&self) -> bool {
        self.nvm.is_none() && !self.flash.has_open()
    }

    /// Whether the next journal block should be opened.
    pub fn wants_next(&self, nand: &Nand) -> bool {
        self.nvm.is_none() && self.flash.is_half_full(nand) && !self.flash.has_next()
    }

    /// Whether the next journal block is open.
    pub fn has_next(&self) -> bool {
        self.flash.has_next()
    }

    /// Takes an erased journal block.
    pub fn give_block(&mut self, block: BlockId) {
        self.flash.give(block);
    }

    /// Journal pages for which there are blocks.
    pub fn pages_left(&self, nand: &Nand) -> u32 {
        self.flash.pages_left(nand)
    }

    /// Blocks with journal pages that no checkpoint covers.
    pub fn journal_blocks(&self) -> u32 {
        self.flash.journal_blocks()
    }

    /// Units on flash of the journal and the last checkpoint.
    pub fn units_on_flash(&self, nand: &Nand) -> u64 {
        self.flash.units(nand)
    }

    /// The last checkpoint's blocks.
    pub fn checkpoint_blocks(&self) -> &[BlockId] {
        self.flash.checkpoint_blocks()
    }

    /// The last checkpoint's pages, in the order of its bytes.
    #[cfg(test)]
    pub fn checkpoint_pages(&self) -> &[PageId] {
        self.flash.checkpoint_pages()
    }

    /// The journal block that takes the next page.
    #[cfg(test)]
    pub fn open_block(&self) -> Option<BlockId> {
        self.flash.open()
    }

    // -- checkpoint ---------------------------------------------------------------------------------------------

    /// The step of the last checkpoint.
    #[inline]
    pub fn checkpoint_step(&self) -> Seq {
        self.checkpoint.step
    }

    /// When the last checkpoint is on flash.
    pub fn checkpoint_done_ns(&self) -> Nanoseconds {
        self.checkpoint.done_ns
    }

    /// A page of data was programmed.
    #[inline]
    pub fn data_programmed(&mut self) {
        self.checkpoint.pages_since += 1;
    }

    /// Whether data were programmed since the last checkpoint.
    pub fn has_data_since(&self) -> bool {
        self.checkpoint.pages_since > 0
    }

    /// Whether a checkpoint is due: recovery would have to read too much, or not know what was lost, or find too few blocks
    /// that it may erase. `host_units` were written to the drive since it was made. Only flash operations change the answer,
    /// so the question is not asked again before the next one.
    pub fn checkpoint_is_due(
        &mut self,
        nand: &Nand,
        space: &Space,
        config: &FtlConfig,
        host_units: impl FnOnce() -> u64,
        kept: impl FnOnce() -> KeptBytes,
    ) -> bool {
        let (operations, has_loss) = (nand.operations(), space.has_loss_since(self.checkpoint.step));
        if self.checkpoint.not_due_at == operations && !has_loss {
            return false;
        }
        let kept = kept();
        let interval_is_over = match config.checkpoint_interval {
            CheckpointInterval::Pages(pages) => self.checkpoint.pages_since >= pages,
            CheckpointInterval::HostUnitsForEachUnit(ratio) => {
                let written = host_units() - self.checkpoint.host_units;
                written >= ratio.saturating_mul(self.checkpoint_units(kept))
            }
        };
        let is_due = interval_is_over
            || has_loss
            || self.journal_is_long(space.layout())
            || space.needs_cover(self.system_blocks(space.layout(), kept) + 2);
        if !is_due {
            self.checkpoint.not_due_at = operations;
        }
        is_due
    }

    /// Whether the journal has outgrown its blocks, or half of its memory.
    fn journal_is_long(&self, layout: &Layout) -> bool {
        match &self.nvm {
            Some(nvm) => nvm.is_half_full(),
            None => self.journal_blocks() > layout.journal_blocks,
        }
    }

    /// Whether the next checkpoint has a place in memory, if it keeps this. On flash it has blocks of its own.
    pub fn has_checkpoint_place(&self, layout: &Layout, kept: KeptBytes) -> bool {
        let planned = (kept.units + NOT_COUNTED_BYTES).max(layout.checkpoint_bytes);
        self.nvm.as_ref().is_none_or(|nvm| planned + kept.records <= nvm.checkpoint_limit())
    }

    /// There was no room for a checkpoint.
    pub fn checkpoint_found_no_room(&mut self, nand: &Nand, space: &Space, kept: KeptBytes) {
        self.checkpoint.no_room = Some(self.space_state(nand, space, kept));
    }

    /// Whether there may be room for a checkpoint: more than when there was none, or it takes less.
    pub fn checkpoint_may_have_room(&self, nand: &Nand, space: &Space, kept: KeptBytes) -> bool {
        self.checkpoint.no_room != Some(self.space_state(nand, space, kept))
    }

    fn space_state(&self, nand: &Nand, space: &Space, kept: KeptBytes) -> SpaceState {
        let (free_blocks, units) = (space.free_blocks(), self.checkpoint_units(kept));
        SpaceState { operations: nand.operations(), free_blocks, units }
    }

    /// Reads a part of the last checkpoint. Returns it with the time at which it is there, and the units of flash that were read.
    pub fn load_checkpoint(
        &self,
        nand: &mut Nand,
        range: Range<u64>,
        at_ns: Nanoseconds,
    ) -> Result<(Vec<u8>, Nanoseconds, u64), FtlError> {
        if let Some(nvm) = &self.nvm {
            let (bytes, done_ns) = nvm.load_checkpoint(nand, range, at_ns)?;
            return Ok((bytes, done_ns, 0));
        }
        let (mut done_ns, mut units) = (at_ns, 0);
        let bytes = self.flash.checkpoint_bytes(range, &self.geometry, |ppn, unit| {
            units += 1;
            done_ns = done_ns.max(nand.read_retrying(ppn, unit, at_ns)?);
            Ok(())
        })?;
        Ok((bytes, done_ns, units))
    }

    /// The same without taking time or counting as an operation of the medium: for audits.
    pub fn peek_checkpoint(&self, nand: &Nand, range: Range<u64>) -> Result<Vec<u8>, FtlError> {
        match &self.nvm {
            Some(nvm) => Ok(nvm.load_checkpoint(nand, range, 0)?.0),
            None => {
                let read = |ppn, unit: &mut [u8]| Ok(nand.peek(ppn, unit)?);
                self.flash.checkpoint_bytes(range, &self.geometry, read)
            }
        }
    }

    /// A checkpoint is about to be programmed: anything dumped later must have a later step.
    pub fn announce_checkpoint(&mut self, nand: &mut Nand, step: Seq) -> Result<(), FtlError> {
        match &mut self.protected {
            Some(protected) => protected.checkpoint(nand, step),
            None => Ok(()),
        }
    }

    /// A checkpoint stands, and will be on flash at `done_ns`: anything older may go. `host_units` had been written to the drive
    /// when it was taken. Returns the blocks that this frees.
    pub fn stands(
        &mut self,
        (step, done_ns): (Seq, Nanoseconds),
        blocks: Vec<BlockId>,
        pages: Vec<PageId>,
        host_units: u64,
    ) -> Vec<BlockId> {
        self.checkpoint.replace(step, done_ns, host_units);
        self.memberships.clear();
        self.flash.stands(blocks, pages)
    }

    // -- in memory instead of on flash --------------------------------------------------------------------------

    /// Whether the log is in memory.
    #[inline]
    pub fn is_in_memory(&self) -> bool {
        self.nvm.is_some()
    }

    /// Whether this many more records fit in the log, if it is in memory.
    pub fn memory_has_room(&self, records: usize) -> bool {
        self.nvm.as_ref().is_none_or(|nvm| nvm.has_room(records))
    }

    /// Stores a checkpoint in memory. Returns when it is there.
    pub fn store_checkpoint(
        &mut self,
        nand: &mut Nand,
        bytes: &[u8],
        step: Seq,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let missing = finds_no_room(nand);
        let nvm = self.nvm.as_mut().expect("the log is in memory");
        if missing || bytes.len() as u64 > nvm.checkpoint_limit() {
            return Err(FtlError::CapacityExceeded);
        }
        nvm.store_checkpoint(nand, bytes, step, at_ns)
    }

    /// Bytes of the largest checkpoint that fits in its place in memory.
    #[cfg(test)]
    pub fn checkpoint_limit(&self) -> u64 {
        self.nvm.as_ref().expect("the log is in memory").checkpoint_limit()
    }

    /// What recovery found: the checkpoint's step, blocks and pages, the journal's blocks, and where a log in memory ends.
    pub fn found(
        &mut self,
        step: Seq,
        journal: Vec<BlockId>,
        (checkpoint, pages): (Vec<BlockId>, Vec<PageId>),
        end: Option<FoundNvm>,
    ) {
        self.checkpoint.step = step;
        self.flash.found(journal, checkpoint, pages);
        if let (Some(nvm), Some(end)) = (&mut self.nvm, end) {
            nvm.found(end);
        }
    }

    // -- what a capacitor protects ------------------------------------------------------------------------------

    /// From now on the image mirrors what a capacitor protects, if the image outlives the process: this many blocks of a dump and
    /// units of the cache. The mirror's old contents are void.
    pub fn protect_anew(
        &mut self,
        nand: &mut Nand,
        dump_blocks: u32,
        config: &FtlConfig,
    ) -> Result<(), FtlError> {
        self.protected = Protected::new(nand, dump_blocks, config)?;
        self.restart_protected(nand)
    }

    /// Overwrites what the image has of protected DRAM in which nothing waits any more.
    pub fn scrub_protected(&self, nand: &mut Nand) -> Result<(), FtlError> {
        self.protected.as_ref().map_or(Ok(()), |protected| protected.scrub(nand))
    }

    /// Voids the mirror, and gives the next dump the current dump blocks.
    pub fn restart_protected(&mut self, nand: &mut Nand) -> Result<(), FtlError> {
        match &mut self.protected {
            Some(protected) => protected.restart(nand, &self.dump_blocks),
            None => Ok(()),
        }
    }

    /// Units with these data enter the cache in one step.
    #[inline]
    pub fn units_wait(&mut self, nand: &mut Nand, units: &[HostUnit], data: &[u8]) -> Result<(), FtlError> {
        match &mut self.protected {
            Some(protected) => protected.cached(nand, units, data),
            None => Ok(()),
        }
    }

    /// A unit left the cache.
    #[inline]
    pub fn unit_left(&mut self, nand: &mut Nand, lpn: Lpn) -> Result<(), FtlError> {
        match &mut self.protected {
            Some(protected) => protected.uncached(nand, lpn),
            None => Ok(()),
        }
    }

    /// A unit of records waits, or has grown: the `new` bytes of its `data`. Its spare area is asked for if it is mirrored.
    pub fn records_wait(
        &mut self,
        nand: &mut Nand,
        number: u64,
        spare: impl FnOnce() -> UnitSpare,
        data: &[u8],
        new: Range<usize>,
    ) -> Result<(), FtlError> {
        match &mut self.protected {
            Some(protected) => protected.records_wait(nand, number, spare(), data, new),
            None => Ok(()),
        }
    }

    /// Units of records no longer wait.
    pub fn records_left(
        &mut self,
        nand: &mut Nand,
        mut numbers: impl Iterator<Item = u64>,
    ) -> Result<(), FtlError> {
        match &mut self.protected {
            Some(protected) => numbers.try_for_each(|number| protected.records_programmed(nand, number)),
            None => Ok(()),
        }
    }

    /// Blocks kept erased for a dump.
    pub fn dump_blocks(&self) -> &[BlockId] {
        &self.dump_blocks
    }

    /// Takes an erased block for a dump.
    pub fn give_dump_block(&mut self, block: BlockId) {
        self.dump_blocks.push(block);
    }

    // -- audit --------------------------------------------------------------------------------------------------

    /// Compares the lists of blocks with the blocks' uses.
    pub fn audit(&self, space: &Space, audit: &mut Audit) {
        let lists = [
            ("journal blocks", self.journal_blocks() as usize, BlockUse::Journal),
            ("checkpoint blocks", self.checkpoint_blocks().len(), BlockUse::Checkpoint),
            ("dump blocks", self.dump_blocks.len(), BlockUse::Dump),
        ];
        for (what, kept, block_use) in lists {
            audit.count(what, kept as u64, space.blocks_with(block_use).count() as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{GEOMETRY, TIMING};

    fn record(nand: &mut Nand, log: &mut MetadataLog, ready_ns: Nanoseconds) {
        log.append(nand, &[Record::GroupWhole { group: Seq(ready_ns) }], ready_ns).unwrap();
    }

    /// Takes what waits as a page that will be on flash at this time.
    fn issue(nand: &mut Nand, log: &mut MetadataLog, done_ns: Nanoseconds) {
        let page = log.take_page(nand, Seq(1)).unwrap();
        log.issued(nand, page, done_ns);
        log.programmed(nand, false, done_ns).unwrap();
    }

    /// A place is in flight from the step that gives it an owner until all records of the step are on flash; copies
    /// wait that long.
    #[test]
    fn a_place_is_under_way_until_the_records_of_its_step_are_on_flash() {
        let mut nand = Nand::in_memory(GEOMETRY, TIMING).unwrap();
        let mut log = MetadataLog::new(&GEOMETRY, false, None);
        assert!(!log.is_under_way(Ppn(1), 0));
        log.between_steps(0);
        log.gave_owner(Ppn(1));
        record(&mut nand, &mut log, 0);
        assert!(log.is_under_way(Ppn(1), 1000) && !log.is_under_way(Ppn(2), 1000));
        issue(&mut nand, &mut log, 100);
        assert_eq!(log.steps_done_ns(), 100);
        log.between_steps(0);
        assert!(log.is_under_way(Ppn(1), 99) && !log.is_under_way(Ppn(1), 100));
        log.step_programmed(200);
        assert_eq!(log.steps_done_ns(), 200, "a page of a log stands for records too");
        log.between_steps(150);
        assert!(!log.is_under_way(Ppn(1), 120), "a step that begins forgets what is on flash");
    }

    /// With a capacitor: those whose page was in flight, and those that waited, unless what they name was not there.
    #[test]
    fn a_dump_finds_the_records_that_were_not_on_flash() {
        let mut nand = Nand::in_memory(GEOMETRY, TIMING).unwrap();
        for has_plp in [false, true] {
            let mut log = MetadataLog::new(&GEOMETRY, has_plp, None);
            for (ready_ns, done_ns) in [(1, 40), (10, 60), (55, 70)] {
                record(&mut nand, &mut log, ready_ns);
                issue(&mut nand, &mut log, done_ns);
            }
            record(&mut nand, &mut log, 20);
            record(&mut nand, &mut log, 51);
            let found: Vec<u64> = log.take_ready(50).iter().map(|record| record.newest_seq().0).collect();
            assert_eq!(found, if has_plp { vec![10, 20] } else { vec![20] });
        }
    }
}
