//! The metadata log: it makes those parts of the map durable that spare areas do not record.
//!
//! It has a journal of [`Record`]s, and a checkpoint from which the journal continues. Its interface is narrow, because
//! there are two places where it may be stored: in NAND pages ([`flash`]), and in non-volatile memory ([`nvm`]):
//!
//! | | |
//! |---|---|
//! | append | [`MetadataLog::append`]: records wait in DRAM, at most one page of them |
//! | flush | [`MetadataLog::take_page`], [`MetadataLog::program`], [`MetadataLog::programmed`]: they go to flash as a page, together or not at all |
//! | checkpoint | [`NewCheckpoint`], [`MetadataLog::stands`]: bytes from the layers above; whatever they replace is then free |
//! | scan | [`find_checkpoint`], [`find_journal`]: the bytes of the newest whole checkpoint and the records after it |
//! | protected | [`protected`]: what a capacitor keeps of it, mirrored into an image that outlives the process; [`MetadataLog::take_ready`] for the dump |
//!
//! A record's step is the step at which it was made: garbage collection may move the unit before the page is
//! programmed, and the copy must win (hazard 6). [`steps`] tracks steps that changed the map and are not on flash yet.
//!
//! A page that has only memberships is for the erase that recorded them. No flush waits for it, unlike for a page that has
//! any other record; an erase waits for all pages. [`memberships`] tracks which are recorded.

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

use tantalum_nand::{BlockId, Geometry, Nand, Nanoseconds, PageId, Ppn, UNIT_BYTES};

pub(crate) use self::checkpoint_bytes::CheckpointBytes;
pub(crate) use self::dump_pages::DumpPages;
pub(crate) use self::facts::{Facts, narrow, put_list, take, take_list, take_word, wide};
use self::flash::FlashLog;
pub(crate) use self::flash::{Attempt, NewCheckpoint};
pub(crate) use self::found::{FoundCheckpoint, FoundJournal};
pub(crate) use self::last_checkpoint::{LastCheckpoint, Room};
pub(crate) use self::left::dump_what_is_left;
use self::memberships::Memberships;
pub(crate) use self::nvm::{FoundNvm, NvmLog};
pub use self::nvm_plan::NvmPlan;
pub(crate) use self::protected::Protected;
pub use self::protected_layout::protected_bytes;
pub(crate) use self::record::Record;
use self::record::{encode_page, records_per_page, used_bytes};
pub(crate) use self::scan::MetadataScan;
use self::steps::Steps;
pub(crate) use self::under_way::UnderWay;
use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::page_image::PageImage;
use crate::spare::{Kind, Spare};
use crate::types::Seq;

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
    pub image: PageImage,
    /// Whether only an erase waits for it.
    pub is_for_erase: bool,
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
    pub checkpoint: LastCheckpoint,
    /// The image's copy of what a capacitor protects, if a file is to outlive the process.
    protected: Option<Protected>,
    /// Blocks kept erased for a dump.
    dump_blocks: Vec<BlockId>,
    units_per_page: u32,
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
            units_per_page: geometry.units_per_page(),
            scratch: vec![0; geometry.units_per_page() as usize * UNIT_BYTES],
        }
    }

    // -- records ------------------------------------------------------------------------------------------------

    /// The most records that can be on flash together or not at all.
    pub fn records_per_page(&self) -> usize {
        records_per_page(self.units_per_page)
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

    /// Gives the waiting records another step, for the canary that does so.
    pub fn set_steps(&mut self, step: Seq) {
        self.waiting.iter_mut().for_each(|waiting| waiting.record.set_step(step));
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
        let is_for_erase = self.waiting.iter().all(|waiting| waiting.record.is_membership())
            || canary::out(Guard::RecordNotAwaited);
        if self.nvm.is_some() {
            let records = std::mem::take(&mut self.waiting);
            return Ok(JournalPage { records, image: PageImage::new(), is_for_erase });
        }
        encode_page(self.waiting.iter().map(|waiting| &waiting.record), &mut self.scratch);
        let bytes = &self.scratch[..used_bytes(self.waiting.len())];
        let image = PageImage::stage(nand, bytes, &Spare::new(Kind::Journal, step))?;
        Ok(JournalPage { records: std::mem::take(&mut self.waiting), image, is_for_erase })
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
    pub fn program(
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
    pub fn issued(&mut self, nand: &Nand, page: JournalPage, done_ns: Nanoseconds) {
        page.records.iter().for_each(|waiting| self.memberships.issued(&waiting.record));
        if self.keeps_under_way {
            // a dump must find these records while their page is in flight
            self.under_way.issued(nand.now_ns(), done_ns, page.records);
        }
    }

    /// The last page issued is on flash at this time. From then on waiting records have room in protected DRAM again.
    pub fn programmed(
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

    /// The last checkpoint's blocks.
    pub fn checkpoint_blocks(&self) -> &[BlockId] {
        self.flash.checkpoint_blocks()
    }

    /// The last checkpoint's pages, in the order of its bytes.
    pub fn checkpoint_pages(&self) -> &[PageId] {
        self.flash.checkpoint_pages()
    }

    /// The journal block that takes the next page.
    #[cfg(test)]
    pub fn open_block(&self) -> Option<BlockId> {
        self.flash.open()
    }

    // -- checkpoint ---------------------------------------------------------------------------------------------

    /// A checkpoint is about to be programmed: anything dumped later must have a later step.
    pub fn announce_checkpoint(&mut self, nand: &mut Nand, step: Seq) -> Result<(), FtlError> {
        match &mut self.protected {
            Some(protected) => protected.checkpoint(nand, step),
            None => Ok(()),
        }
    }

    /// Releases the last checkpoint's blocks before another one stands, for the canary that does so.
    pub fn give_up_checkpoint(&mut self) -> Vec<BlockId> {
        self.flash.give_up_checkpoint()
    }

    /// A checkpoint stands: anything older may go. Returns the blocks that this frees.
    pub fn stands(
        &mut self,
        step: Seq,
        blocks: Vec<BlockId>,
        pages: Vec<PageId>,
        host_units: u64,
    ) -> Vec<BlockId> {
        self.checkpoint.replace(step, host_units);
        self.memberships.clear();
        self.flash.stands(blocks, pages)
    }

    // -- in memory instead of on flash --------------------------------------------------------------------------

    /// The log, if it is in memory.
    pub fn nvm(&self) -> Option<&NvmLog> {
        self.nvm.as_ref()
    }

    /// The same, to store a checkpoint.
    pub fn nvm_mut(&mut self) -> Option<&mut NvmLog> {
        self.nvm.as_mut()
    }

    /// What recovery found: the checkpoint's step, blocks and pages, and the journal's blocks.
    pub fn found(&mut self, step: Seq, journal: Vec<BlockId>, checkpoint: Vec<BlockId>, pages: Vec<PageId>) {
        self.checkpoint.step = step;
        self.flash.found(journal, checkpoint, pages);
    }

    // -- what a capacitor protects ------------------------------------------------------------------------------

    /// The mirror in the image, of a drive that has one.
    pub fn protected(&mut self) -> Option<&mut Protected> {
        self.protected.as_mut()
    }

    /// From now on what a capacitor protects is mirrored, if there is a mirror. It starts out void.
    pub fn set_protected(&mut self, protected: Option<Protected>) {
        self.protected = protected;
    }

    /// Voids the mirror, and gives the next dump the current dump blocks.
    pub fn restart_protected(&mut self, nand: &mut Nand) -> Result<(), FtlError> {
        match &mut self.protected {
            Some(protected) => protected.restart(nand, &self.dump_blocks),
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
