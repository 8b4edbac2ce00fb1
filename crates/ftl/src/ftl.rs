//! The running FTL: its state, the write path, and what the other files of this crate build on.
//!
//! Each operation takes the earliest time at which it may start and returns when it is done. State changes at
//! once; the medium knows what was still on its way when power goes.

use std::collections::BTreeSet;

use tantalum_nand::{
    BlockId, Geometry, MAX_UNITS_PER_PAGE, Nand, NandError, Nanoseconds, PageId, Ppn, Slot, Source,
    UNIT_BYTES, UNIT_SPARE_BYTES, UnitSpare,
};

use crate::blocks::{BlockUse, Blocks};
use crate::canary::{self, Guard};
use crate::checkpoint::Checkpoint;
use crate::collect::ValidUnit;
use crate::dump::InFlightRecords;
use crate::error::FtlError;
use crate::journal::Journal;
use crate::layout::{FtlConfig, JOURNAL_RESERVE_BLOCKS, Layout};
use crate::logs::{HintError, Logs};
use crate::map::Map;
use crate::protected::Protected;
use crate::spare::{self, BatchMark, Kind, Mark, Spare};
use crate::stream::Stream;
use crate::transactions::{Transactions, TxPage};
use crate::types::{Generation, Hint, Lpn, Metadata, Seq, TxId};

/// Flash units programmed, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Programmed {
    /// Host data.
    pub host: u64,
    /// The empty rest of partly filled pages.
    pub padding: u64,
    /// Valid units moved by garbage collection and wear levelling.
    pub copyback: u64,
    /// Journal pages.
    pub journal: u64,
    /// Checkpoints.
    pub checkpoint: u64,
    /// Dumped when power went.
    pub dump: u64,
}

/// The FTL's counters. They survive power cycles as of the last checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Units programmed, by cause.
    pub programmed: Programmed,
    /// Blocks erased.
    pub erased: u64,
    /// Units whose mapping was shared.
    pub shared: u64,
    /// Units of these brought home by their hint.
    pub brought_home: u64,
    /// Units whose mapping was moved.
    pub remapped: u64,
    /// Transactions committed.
    pub committed: u64,
    /// Garbage collections: victims emptied.
    pub collections: u64,
    /// Checkpoints taken.
    pub checkpoints: u64,
    /// Programs that failed.
    pub program_failures: u64,
    /// Erases that failed.
    pub erase_failures: u64,
    /// Reads of units that found their page uncorrectable.
    pub uncorrectable_reads: u64,
    /// Whether the drive came to the end of its life because its last free blocks failed.
    pub exhausted: bool,
    /// The controller's own counters, kept with these.
    pub controller: [u64; 4],
}

/// Which of the controller's counters is the one of power losses. Recovery counts it, so that its own checkpoint has it:
/// the process may be killed again before the next.
pub const UNSAFE_SHUTDOWNS: usize = 3;

/// Erase counts of the good blocks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wear {
    /// The least-worn block's.
    pub min: u32,
    /// The most-worn block's.
    pub max: u32,
    /// The mean.
    pub mean: f64,
    /// Blocks retired.
    pub bad_blocks: u32,
}

/// One unit that the host wrote and that goes to flash now.
#[derive(Clone, Copy, Debug)]
pub struct HostUnit {
    /// Its data. The flash owns the buffer once the call succeeds.
    pub slot: Slot,
    /// The logical page.
    pub lpn: Lpn,
    /// The version it got when the host wrote it.
    pub version: Seq,
    /// What the host sent along.
    pub metadata: Metadata,
    /// Its place in a log.
    pub hint: Option<Hint>,
}

impl HostUnit {
    /// The spare area with which it is programmed.
    #[inline]
    pub(crate) fn spare(&self, step: Seq) -> UnitSpare {
        let plain = spare::plain(self.lpn, self.version, step, &self.metadata);
        let Some(hint) = self.hint else { return plain };
        let mut marked = Spare::decode(&plain).expect("it was just encoded");
        marked.mark = Mark::Hint(hint, self.lpn);
        marked.encode()
    }
}

/// The flash translation layer.
#[derive(Debug)]
pub struct Ftl {
    pub(crate) nand: Nand,
    pub(crate) geometry: Geometry,
    pub(crate) config: FtlConfig,
    pub(crate) layout: Layout,
    pub(crate) map: Map,
    pub(crate) blocks: Blocks,
    pub(crate) host: Stream,
    pub(crate) collect: Stream,
    pub(crate) journal: Journal,
    pub(crate) in_flight_records: InFlightRecords,
    /// The image's copy of what a capacitor protects, if a file is to outlive the process.
    pub(crate) protected: Option<Protected>,
    pub(crate) logs: Logs,
    pub(crate) transactions: Transactions,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) seq: Seq,
    /// The newest version at which anything was unmapped.
    pub(crate) last_unmap: Seq,
    /// When the last atomic batch is on flash: its members are not copied without their mark before.
    pub(crate) batches_done_ns: Nanoseconds,
    /// Whether members of a batch are on flash and not yet mapped: garbage collection would take them for garbage.
    pub(crate) batch_under_way: bool,
    /// Atomic batches that were given up half way: they must never count as whole.
    pub(crate) abandoned: BTreeSet<Seq>,
    /// Blocks kept erased for a dump.
    pub(crate) dump_blocks: Vec<BlockId>,
    /// Blocks that failed a program, or keep lost units, and are to be emptied and retired.
    pub(crate) failing: Vec<BlockId>,
    /// Blocks that are not retired.
    pub(crate) good_blocks: u32,
    pub(crate) counters: Counters,
    pub(crate) scratch: Scratch,
}

/// Buffers that would otherwise be allocated again and again.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub page: Vec<u8>,
    pub spares: Vec<UnitSpare>,
    pub valid_units: Vec<ValidUnit>,
}

/// Which stream a page goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    Host,
    Collect,
}

/// A page's spare areas and sources, filled unit by unit.
pub(crate) struct PageImage {
    pub sources: [Source; MAX_UNITS_PER_PAGE],
    pub spares: [UnitSpare; MAX_UNITS_PER_PAGE],
    pub used: usize,
    pub marked: bool,
}

impl PageImage {
    pub fn new() -> PageImage {
        PageImage {
            sources: [Source::Padding; MAX_UNITS_PER_PAGE],
            spares: [[0; UNIT_SPARE_BYTES]; MAX_UNITS_PER_PAGE],
            used: 0,
            marked: false,
        }
    }

    /// Bytes, in whole units, as a page of staged units that all have this spare area. The rest is padding.
    pub fn stage(nand: &mut Nand, bytes: &[u8], spare: &Spare) -> Result<PageImage, FtlError> {
        let mut page = PageImage::new();
        for unit in bytes.chunks(UNIT_BYTES) {
            page.push(Source::Staged(nand.stage(unit)?), spare.encode());
        }
        Ok(page)
    }

    /// Makes it empty again, without touching what no unit uses.
    pub fn clear(&mut self) {
        for (source, spare) in self.sources.iter_mut().zip(&mut self.spares).take(self.used) {
            if !matches!(source, Source::Move { .. }) {
                *spare = [0; UNIT_SPARE_BYTES];
            }
            *source = Source::Padding;
        }
        self.used = 0;
        self.marked = false;
    }

    /// Adds a unit that keeps its spare area but for the head.
    #[inline]
    pub fn push_move(&mut self, from: Ppn, head: [u8; 8]) {
        self.sources[self.used] = Source::Move { from, head };
        self.used += 1;
    }

    /// Adds a unit with its spare area.
    pub fn push(&mut self, source: Source, spare: UnitSpare) {
        self.sources[self.used] = source;
        self.spares[self.used] = spare;
        self.used += 1;
    }
}

impl Ftl {
    /// The medium.
    pub fn nand(&self) -> &Nand {
        &self.nand
    }

    /// The medium, for faults and power.
    pub fn nand_mut(&mut self) -> &mut Nand {
        &mut self.nand
    }

    /// The medium back; everything in DRAM is lost.
    pub fn into_nand(self) -> Nand {
        self.nand
    }

    /// The map.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The plan of the flash.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The controller's counters, to be kept with the FTL's.
    pub fn controller_counters_mut(&mut self) -> &mut [u64; 4] {
        &mut self.counters.controller
    }

    /// The hinted logs.
    pub fn logs(&self) -> &Logs {
        &self.logs
    }

    /// The open transactions.
    pub fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    /// Starts a life of a hinted log.
    pub fn begin_log(&mut self, generation: Generation) {
        self.logs.begin(generation);
    }

    /// Checks that a hinted page follows the one before it, and notes it.
    pub fn accept_hint(&mut self, hint: &Hint) -> Result<(), HintError> {
        self.logs.accept(hint)
    }

    /// Opens a transaction.
    pub fn begin_transaction(&mut self, tx: TxId) {
        self.transactions.begin(tx);
    }

    /// Bytes of host memory for maps, beside data and spare areas.
    pub fn dram_bytes(&self) -> usize {
        self.map.dram_bytes() + self.nand.map_bytes()
    }

    /// How the blocks have worn.
    pub fn wear(&self) -> Wear {
        let blocks = || (0..self.geometry.blocks()).map(BlockId);
        let counts =
            || blocks().filter(|block| !self.nand.is_bad(*block)).map(|block| self.nand.erase_count(block));
        let good = counts().count();
        Wear {
            min: counts().min().unwrap_or(0),
            max: counts().max().unwrap_or(0),
            mean: counts().map(f64::from).sum::<f64>() / good.max(1) as f64,
            bad_blocks: self.geometry.blocks() - good as u32,
        }
    }

    /// A copy of the whole drive, if its flash is in memory.
    pub fn try_clone(&self) -> Option<Ftl> {
        Some(Ftl {
            nand: self.nand.try_clone()?,
            geometry: self.geometry,
            config: self.config,
            layout: self.layout,
            map: self.map.clone(),
            blocks: self.blocks.clone(),
            host: self.host.clone(),
            collect: self.collect.clone(),
            journal: self.journal.clone(),
            in_flight_records: self.in_flight_records.clone(),
            protected: self.protected.clone(),
            logs: self.logs.clone(),
            transactions: self.transactions.clone(),
            checkpoint: self.checkpoint.clone(),
            seq: self.seq,
            last_unmap: self.last_unmap,
            batches_done_ns: self.batches_done_ns,
            batch_under_way: self.batch_under_way,
            abandoned: self.abandoned.clone(),
            dump_blocks: self.dump_blocks.clone(),
            failing: self.failing.clone(),
            good_blocks: self.good_blocks,
            counters: self.counters,
            scratch: Scratch::default(),
        })
    }

    /// Forgets where a unit is, as firmware would that gives old copies up early.
    #[cfg(feature = "canaries")]
    pub fn give_up(&mut self, lpn: Lpn) {
        self.map.unmap(lpn);
    }

    /// Draws the next number.
    #[inline]
    pub fn next_seq(&mut self) -> Seq {
        self.seq.0 += 1;
        self.seq
    }

    // -- what a capacitor protects ------------------------------------------------------------------------------

    /// A unit is about to wait in the cache: from now on it outlives the process, if a capacitor protects it.
    #[inline]
    pub fn protect(&mut self, unit: &HostUnit, data: &[u8]) -> Result<(), FtlError> {
        match &mut self.protected {
            Some(protected) => protected.cached(&mut self.nand, unit, data),
            None => Ok(()),
        }
    }

    /// A unit no longer waits in the cache.
    #[inline]
    pub fn unprotect(&mut self, lpn: Lpn) -> Result<(), FtlError> {
        match &mut self.protected {
            Some(protected) => protected.uncached(&mut self.nand, lpn),
            None => Ok(()),
        }
    }

    /// What was protected is void, and the next dump has these blocks.
    pub(crate) fn restart_protected(&mut self) -> Result<(), FtlError> {
        match &mut self.protected {
            Some(protected) => protected.restart(&mut self.nand, &self.dump_blocks),
            None => Ok(()),
        }
    }

    // -- space ------------------------------------------------------------------------------------------------

    /// Free blocks that journal and checkpoints may still need.
    pub(crate) fn system_blocks(&self) -> u32 {
        if canary::out(Guard::SystemBlocksForgotten) {
            return 0;
        }
        let journal = JOURNAL_RESERVE_BLOCKS.saturating_sub(self.journal.blocks.len() as u32);
        let checkpoint =
            (2 * self.layout.checkpoint_blocks).saturating_sub(self.checkpoint.blocks.len() as u32);
        journal + checkpoint
    }

    /// Free blocks beyond those.
    pub(crate) fn spare_blocks(&self) -> u32 {
        self.blocks.free().saturating_sub(self.system_blocks())
    }

    /// Spare blocks that only garbage collection may use.
    pub(crate) fn collection_reserve(&self) -> u32 {
        self.layout.collect_width + 1
    }

    /// Takes a free block of a plane and erases it if that is needed.
    pub(crate) fn open_block(
        &mut self,
        plane: tantalum_nand::PlaneId,
        block_use: BlockUse,
        at_ns: Nanoseconds,
    ) -> Result<Option<BlockId>, FtlError> {
        while let Some(block) = self.blocks.take(plane, block_use, &self.nand) {
            let erased = if self.blocks.is_erased(block) { Ok(true) } else { self.erase(block, at_ns) };
            match erased {
                Ok(true) => {
                    self.blocks.set_erased(block, false);
                    return Ok(Some(block));
                }
                Ok(false) => {}
                Err(error) => {
                    self.blocks.release(plane, block);
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    fn open_for(&mut self, target: Target, at_ns: Nanoseconds) -> Result<bool, FtlError> {
        loop {
            let stream = if target == Target::Host { &self.host } else { &self.collect };
            let has_free = |plane| self.blocks.free_in(plane) > 0;
            let Some(plane) = stream.plane_to_open(&self.nand, at_ns, has_free) else { return Ok(false) };
            // a plane whose free blocks all failed has none any more: the next one is tried
            if let Some(block) = self.open_block(plane, BlockUse::Open, at_ns)? {
                let stream = if target == Target::Host { &mut self.host } else { &mut self.collect };
                stream.add(plane, block);
                return Ok(true);
            }
        }
    }

    /// Opens a block for the host stream if it wants one and there is space beyond the reserve; collects garbage
    /// to make that space.
    fn ensure_host_block(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if !self.host.wants_block() {
            return Ok(());
        }
        if self.spare_blocks() <= self.collection_reserve() && !self.batch_under_way {
            self.collect_garbage(at_ns)?;
        }
        // room was made for a batch before it began; what program failures took comes out of the reserve
        let forced = self.batch_under_way && self.host.opened() == 0;
        if (self.spare_blocks() > self.collection_reserve() || forced)
            && self.open_for(Target::Host, at_ns)?
        {
            return Ok(());
        }
        if self.host.opened() == 0 { Err(FtlError::CapacityExceeded) } else { Ok(()) }
    }

    fn ensure_collect_block(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if !self.collect.wants_block() || self.spare_blocks() == 0 && self.collect.opened() > 0 {
            return Ok(());
        }
        if !self.open_for(Target::Collect, at_ns)? && self.collect.opened() == 0 {
            return Err(FtlError::CapacityExceeded);
        }
        Ok(())
    }

    /// Makes room for `pages` host pages, so that no garbage is collected while they are programmed.
    pub(crate) fn ensure_space(&mut self, pages: u32, at_ns: Nanoseconds) -> Result<(), FtlError> {
        // each victim frees something; more rounds than blocks mean that nothing is gained
        for _ in 0..2 * self.geometry.blocks() {
            let open: u32 = self
                .host
                .blocks()
                .map(|block| self.geometry.pages_per_block - self.nand.next_page(block))
                .sum();
            let blocks = self.spare_blocks().saturating_sub(self.collection_reserve());
            if open + blocks * self.geometry.pages_per_block >= pages {
                return Ok(());
            }
            if !self.collect_one(at_ns)? {
                break;
            }
        }
        Err(FtlError::CapacityExceeded)
    }

    /// A block takes no more pages: it may be collected from now on.
    pub(crate) fn close_block(&mut self, block: BlockId) {
        self.blocks.set_use(block, BlockUse::Closed);
        self.map.valid_counts_mut().add_candidate(block);
    }

    // -- programming ------------------------------------------------------------------------------------------

    /// Programs a page into a stream. A block whose program fails is set aside and another one tried.
    pub(crate) fn program(
        &mut self,
        target: Target,
        page: &PageImage,
        step: Seq,
        earliest_ns: Nanoseconds,
    ) -> Result<(PageId, Nanoseconds), FtlError> {
        let units = self.geometry.units_per_page() as usize;
        loop {
            match target {
                Target::Host => self.ensure_host_block(earliest_ns)?,
                Target::Collect => self.ensure_collect_block(earliest_ns)?,
            }
            let stream = if target == Target::Host { &mut self.host } else { &mut self.collect };
            let Some((plane, place)) = stream.next_page(&self.geometry, &self.nand, earliest_ns) else {
                return Err(FtlError::CapacityExceeded);
            };
            let block = self.geometry.block_of(place);
            match self.nand.program(place, &page.sources[..units], &page.spares[..units], earliest_ns) {
                Ok(done_ns) => {
                    self.blocks.programmed(block, step, page.marked);
                    if self.nand.next_page(block) == self.geometry.pages_per_block {
                        stream.close(plane);
                        self.close_block(block);
                    }
                    let padding = (units - page.used) as u64;
                    self.counters.programmed.padding += padding;
                    self.checkpoint.pages_since += 1;
                    return Ok((place, done_ns));
                }
                Err(NandError::ProgramFailed { .. }) => {
                    stream.close(plane);
                    self.close_block(block);
                    self.program_failed(block);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    // -- the host's writes ------------------------------------------------------------------------------------

    /// Programs up to a page of units and points L2P at them.
    pub fn write_page(&mut self, units: &[HostUnit], at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        self.map.warm(units.iter().map(|unit| unit.lpn));
        let step = self.next_seq();
        let mut page = PageImage::new();
        for unit in units {
            page.marked |= unit.hint.is_some();
            page.push(Source::Staged(unit.slot), unit.spare(step));
        }
        let (place, done_ns) = self.program(Target::Host, &page, step, at_ns)?;
        self.counters.programmed.host += units.len() as u64;
        let mut hinted = page.marked;
        for (index, unit) in units.iter().enumerate() {
            hinted |= self.map.is_hinted(unit.lpn);
            self.map.map_plain(unit.lpn, self.geometry.unit(place, index as u32));
        }
        if hinted {
            self.note_hints(units, at_ns)?;
        }
        Ok(done_ns)
    }

    /// Ends the hints that the units supersede, and begins those that they carry.
    fn note_hints(&mut self, units: &[HostUnit], at_ns: Nanoseconds) -> Result<(), FtlError> {
        for unit in units {
            if self.map.is_hinted(unit.lpn) {
                self.superseded(unit.lpn, unit.version, at_ns)?;
            }
            if let Some(hint) = unit.hint {
                self.logs.programmed(&mut self.map, unit.lpn, hint, unit.version);
            }
        }
        Ok(())
    }

    /// Whether the flash holds this version of a logical page where the map says, or on `page`.
    pub fn is_on_flash(&self, lpn: Lpn, version: Seq, page: Option<PageId>) -> bool {
        let names = |ppn| {
            let spare = self.nand.spare(ppn).ok().and_then(|bytes| Spare::decode(&bytes));
            spare.is_some_and(|spare| spare.version_of(lpn) == Some(version))
        };
        let on_page =
            (0..self.geometry.units_per_page()).filter_map(|unit| Some(self.geometry.unit(page?, unit)));
        self.map.lookup(lpn).into_iter().chain(on_page).any(names)
    }

    /// Programs units so that after a cut all of them are there or none. Returns when they are.
    ///
    /// The caller keeps the buffers if this fails, except for those that the medium took before power went.
    pub fn write_batch(&mut self, units: &[HostUnit], at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let per_page = self.geometry.units_per_page() as usize;
        let pages = units.len().div_ceil(per_page);
        self.ensure_space(pages as u32, at_ns)?;
        let id = self.next_seq();
        let versions: Vec<Seq> = units.iter().map(|_| self.next_seq()).collect();
        self.batch_under_way = true;
        let programmed = self.program_batch(units, &versions, id, at_ns);
        self.batch_under_way = false;
        if programmed.is_err() {
            self.abandoned.insert(id);
        }
        let (places, done_ns) = programmed?;
        for (index, (unit, version)) in units.iter().zip(versions).enumerate() {
            self.superseded(unit.lpn, version, at_ns)?;
            let ppn = self.geometry.unit(places[index / per_page], (index % per_page) as u32);
            self.map.map_plain(unit.lpn, ppn);
        }
        self.batches_done_ns = self.batches_done_ns.max(done_ns);
        Ok(done_ns)
    }

    /// Programs the pages of a batch. Their units belong to nobody yet.
    fn program_batch(
        &mut self,
        units: &[HostUnit],
        versions: &[Seq],
        id: Seq,
        at_ns: Nanoseconds,
    ) -> Result<(Vec<PageId>, Nanoseconds), FtlError> {
        let per_page = self.geometry.units_per_page() as usize;
        let one_page = units.len() <= per_page;
        let (mut places, mut done_ns) = (Vec::with_capacity(units.len().div_ceil(per_page)), at_ns);
        for (chunk_index, chunk) in units.chunks(per_page).enumerate() {
            let step = self.next_seq();
            let mut page = PageImage::new();
            for (index, unit) in chunk.iter().enumerate() {
                let index = chunk_index * per_page + index;
                let mut spare = Spare::with_owner(Kind::Data, step, unit.lpn, versions[index]);
                spare.metadata = unit.metadata;
                if !one_page {
                    // one page is atomic by itself (M2)
                    let count = units.len() as u32;
                    spare.mark = Mark::Batch(BatchMark { id, index: index as u32, count });
                    page.marked = true;
                }
                page.push(Source::Staged(unit.slot), spare.encode());
            }
            let (place, page_done_ns) = self.program(Target::Host, &page, step, at_ns)?;
            self.counters.programmed.host += chunk.len() as u64;
            done_ns = done_ns.max(page_done_ns);
            places.push(place);
        }
        Ok((places, done_ns))
    }

    /// Programs up to a page of units of open transactions.
    pub fn write_transaction_page(
        &mut self,
        units: &[(TxId, Lpn, Slot)],
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let step = self.next_seq();
        let mut page = PageImage::new();
        for &(_, lpn, slot) in units {
            page.push(Source::Staged(slot), Spare::with_owner(Kind::Transaction, step, lpn, step).encode());
        }
        let (place, done_ns) = self.program(Target::Host, &page, step, at_ns)?;
        self.counters.programmed.host += units.len() as u64;
        for (index, &(tx, lpn, _)) in units.iter().enumerate() {
            let ppn = self.geometry.unit(place, index as u32);
            self.map.claim(ppn, crate::map::Claim::Transaction(tx, lpn));
            if let Some(old) = self.transactions.put(tx, lpn, TxPage { ppn, version: step }) {
                self.map.unclaim(old);
            }
        }
        Ok(done_ns)
    }

    /// Reads a unit; zeros if it is not mapped.
    pub fn read(&mut self, lpn: Lpn, data: &mut [u8], at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let Some(ppn) = self.map.lookup(lpn) else {
            data.fill(0);
            return Ok(at_ns);
        };
        self.read_place(ppn, data, at_ns)?.ok_or(FtlError::Unreadable { lpn, ppn })
    }

    /// Reads a page of an open transaction.
    pub fn read_transaction(
        &mut self,
        tx: TxId,
        lpn: Lpn,
        data: &mut [u8],
        at_ns: Nanoseconds,
    ) -> Result<Option<Nanoseconds>, FtlError> {
        let Some(TxPage { ppn, .. }) = self.transactions.page(tx, lpn) else { return Ok(None) };
        self.read_place(ppn, data, at_ns)?.map(Some).ok_or(FtlError::Unreadable { lpn, ppn })
    }

    /// The metadata stored with a unit; zeros if it is not mapped.
    pub fn metadata(&self, lpn: Lpn) -> Result<Metadata, FtlError> {
        match self.map.lookup(lpn) {
            Some(ppn) => Ok(spare::metadata(&self.nand.spare(ppn)?)),
            None => Ok(Metadata::default()),
        }
    }

    /// What is due between commands: failing blocks are emptied, a checkpoint is taken, wear is levelled.
    pub fn maintain(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        self.nand.advance(at_ns);
        if !self.failing.is_empty() {
            self.retire_failing(at_ns)?;
        }
        if self.checkpoint_due() {
            self.take_checkpoint(at_ns, false)?;
        }
        if self.counters.erased >= self.checkpoint.next_wear_check {
            self.level_wear(at_ns)?;
        }
        Ok(())
    }
}
