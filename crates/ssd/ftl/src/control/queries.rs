//! What the controller asks of the parts and tells them between steps: what observers see, reads, its cache, the dump, lists of
//! files, audits. Nothing here draws on a reservation.

use std::ops::Range;

use tantalum_canaries::guard;
use tantalum_nand::{
    BlockId, Fetches, LostProgram, Nand, NandError, Nanoseconds, PageId, PageState, Ppn, Source, UNIT_BYTES,
    UnitSpare, WORD_BYTES,
};

use super::parts::Parts;
use crate::counters::Counters;
use crate::error::FtlError;
use crate::file_lists::{FileLists, ListRefusal};
use crate::findings::{Audit, Finding};
use crate::host_unit::HostUnit;
use crate::map::{HintError, Logs, Map, Transactions, TxPage};
use crate::metadata::DumpPages;
use crate::page_image::PageImage;
use crate::space::{BlockUse, Layout, SpareBlocks};
use crate::spare::{self, Spare};
use crate::tenants::Tenant;
use crate::tenants::records::NamespaceInfo;
use crate::tenants::units::Units;
use crate::types::{FileEntry, FileId, Hint, Lpn, Metadata, Seq, TxId};

/// Units prefetched into the processor's cache together: few enough to stay there, and enough for their misses to
/// overlap.
pub const PREFETCHED: usize = 16;

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

/// A block as it is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockState {
    /// What it is used for.
    pub block_use: BlockUse,
    /// Its units that are in use; of a zone's block, those that have been programmed.
    pub valid_units: u32,
    /// How often it was erased.
    pub erases: u32,
}

impl Default for BlockState {
    /// A free block that was never erased.
    fn default() -> BlockState {
        BlockState { block_use: BlockUse::Free, valid_units: 0, erases: 0 }
    }
}

impl Parts {
    // -- what observers see -------------------------------------------------------------------------------------

    /// The medium.
    pub fn nand(&self) -> &Nand {
        &self.nand
    }

    /// The medium, for faults and power.
    pub fn nand_mut(&mut self) -> &mut Nand {
        &mut self.nand
    }

    /// What a block is used for.
    pub fn block_use(&self, block: BlockId) -> BlockUse {
        self.space.block_use(block)
    }

    /// The map.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The plan of the flash.
    pub fn layout(&self) -> &Layout {
        self.space.layout()
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The counters, to add the controller's.
    pub fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// The hinted logs.
    pub fn logs(&self) -> &Logs {
        self.units.logs()
    }

    /// The open transactions.
    pub fn transactions(&self) -> &Transactions {
        self.units.transactions()
    }

    /// The key-value namespaces, in order of creation.
    pub fn namespaces(&self) -> impl Iterator<Item = NamespaceInfo> + '_ {
        self.records.namespaces()
    }

    /// The number of the newest key-value namespace that ever existed; 0 if there was none.
    pub fn last_namespace(&self) -> u32 {
        self.records.next_namespace().0 - 1
    }

    /// Whether a capacitor protects DRAM.
    #[inline]
    pub fn has_plp(&self) -> bool {
        self.config.has_plp()
    }

    /// Bytes of host memory for maps, without data and spare areas.
    pub fn dram_bytes(&self) -> usize {
        self.map.dram_bytes() + self.nand.map_bytes()
    }

    /// The wear of the blocks.
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

    /// The states of the blocks, starting at `first`, up to the length of `states`. Returns their number. Nothing is allocated or
    /// searched: a block costs three look-ups.
    pub fn block_states(&self, first: BlockId, states: &mut [BlockState]) -> usize {
        let blocks = (first.0..self.geometry.blocks()).map(BlockId);
        let count = states.iter_mut().zip(blocks).map(|(state, block)| {
            let block_use = self.space.block_use(block);
            *state = BlockState {
                block_use,
                valid_units: match block_use {
                    BlockUse::Zone => self.nand.next_page(block) * self.geometry.units_per_page(),
                    _ => self.map.valid(block),
                },
                erases: self.nand.erase_count(block),
            };
        });
        count.count()
    }

    /// Whether too few good blocks are left for writes.
    pub fn is_read_only(&self) -> bool {
        self.space.is_read_only()
    }

    /// Spare blocks in SMART's sense: those that may still fail.
    pub fn spare_good_blocks(&self) -> SpareBlocks {
        self.space.spare_good_blocks()
    }

    // -- reads --------------------------------------------------------------------------------------------------

    /// Reads a unit; zeros if it is not mapped.
    pub fn read(&mut self, lpn: Lpn, data: &mut [u8], at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let Some(ppn) = self.map.lookup(lpn) else {
            data.fill(0);
            return Ok(at_ns);
        };
        self.reads().read(ppn, data, at_ns)?.ok_or(FtlError::Unreadable { lpn, ppn })
    }

    /// As `Ftl::read`, but the unit's bytes, if it has any, are left for the host to fetch.
    pub fn read_later(
        &mut self,
        lpn: Lpn,
        data: &mut [u8],
        fetches: &mut Fetches,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let Some(ppn) = self.map.lookup(lpn) else {
            data.fill(0);
            fetches.skip();
            return Ok(at_ns);
        };
        let read = self.nand.read_later(ppn, data, fetches, at_ns);
        self.reads().unless_lost(ppn, read)?.ok_or(FtlError::Unreadable { lpn, ppn })
    }

    /// Prefetches what reads of these logical pages will access into the processor's cache, so that the misses overlap.
    /// At most [`PREFETCHED`] pages are used.
    pub fn prefetch(&self, lpns: impl Iterator<Item = Lpn>) {
        let mut places = [Ppn(0); PREFETCHED];
        let mapped = lpns.take(PREFETCHED).filter_map(|lpn| self.map.lookup(lpn));
        let count = places.iter_mut().zip(mapped).map(|(place, ppn)| *place = ppn).count();
        self.nand.prefetch(&places[..count]);
    }

    /// Prefetches the data of the logical page that is read next: [`Nand::prefetch_data`].
    #[inline]
    pub fn prefetch_data(&self, lpn: Lpn) {
        if let Some(ppn) = self.map.lookup(lpn) {
            self.nand.prefetch_data(ppn);
        }
    }

    /// Reads a page of an open transaction.
    pub fn read_transaction(
        &mut self,
        tx: TxId,
        lpn: Lpn,
        data: &mut [u8],
        at_ns: Nanoseconds,
    ) -> Result<Option<Nanoseconds>, FtlError> {
        let Some(TxPage { ppn, .. }) = self.units.transactions().page(tx, lpn) else { return Ok(None) };
        self.reads().read(ppn, data, at_ns)?.map(Some).ok_or(FtlError::Unreadable { lpn, ppn })
    }

    /// The metadata stored with a unit; zeros if it is not mapped.
    pub fn metadata(&self, lpn: Lpn) -> Result<Metadata, FtlError> {
        match self.map.lookup(lpn) {
            Some(ppn) => Ok(spare::metadata(&self.nand.spare(ppn)?)),
            None => Ok(Metadata::default()),
        }
    }

    /// Whether the flash holds this version of a logical page at its mapped place, or on `page`.
    pub fn is_on_flash(&self, lpn: Lpn, version: Seq, page: Option<PageId>) -> bool {
        let names = |ppn| {
            let spare = self.nand.spare(ppn).ok().and_then(|bytes| Spare::decode(&bytes));
            spare.is_some_and(|spare| spare.version_of(lpn) == Some(version))
        };
        let on_page =
            (0..self.geometry.units_per_page()).filter_map(|unit| Some(self.geometry.unit(page?, unit)));
        self.map.lookup(lpn).into_iter().chain(on_page).any(names)
    }

    // -- what waits in the controller's cache -------------------------------------------------------------------

    /// Checks that a hinted page follows the previous one.
    pub fn check_hint(&self, hint: &Hint) -> Result<(), HintError> {
        self.units.check_hint(hint)
    }

    /// The drive has accepted a hinted page, into its cache or on flash.
    pub fn accept_hint(&mut self, hint: &Hint) {
        self.units.accept_hint(hint);
    }

    /// Whether a unit holds a log page that claims its home. What replaces it durably must end that claim durably.
    pub fn is_claiming_page(&self, lpn: Lpn) -> bool {
        self.units.is_claiming_page(&self.map, lpn)
    }

    /// A unit now waits in the cache, and an earlier one for the same logical page no longer does. Pages of hinted logs
    /// thereby begin and end their claims to homes.
    #[inline]
    pub fn unit_cached(&mut self, unit: &HostUnit, replaced: Option<&HostUnit>) {
        self.units.unit_cached(&mut self.map, unit, replaced);
    }

    /// A unit no longer waits in the cache: it is dropped because something newer replaced it.
    pub fn unit_dropped(&mut self, unit: &HostUnit) -> Result<(), FtlError> {
        self.units.unit_dropped(&mut self.map, unit);
        self.nand.release(unit.slot);
        self.unprotect(unit.lpn)
    }

    /// A unit is about to wait in the cache: fills its buffer. From then on it outlives the process, if a capacitor
    /// protects it. On an error the buffer still belongs to the caller.
    ///
    /// Never inlined: the copy's stores occupy the processor for a while, and a load of anything stored after them
    /// waits. So the unit must be in memory before the copy begins.
    #[inline(never)]
    pub fn keep(&mut self, unit: &HostUnit, data: &[u8]) -> Result<(), FtlError> {
        self.nand.fill(unit.slot, data)?;
        self.protect(std::slice::from_ref(unit), data)
    }

    /// As `Ftl::keep`, for units whose buffers already hold `data`: they outlive the process all or not at all.
    #[inline]
    pub fn protect(&mut self, units: &[HostUnit], data: &[u8]) -> Result<(), FtlError> {
        self.log.units_wait(&mut self.nand, units, data)
    }

    /// A unit no longer waits in the cache.
    #[inline]
    pub fn unprotect(&mut self, lpn: Lpn) -> Result<(), FtlError> {
        self.log.unit_left(&mut self.nand, lpn)
    }

    /// Saves what may be lost when power fails, in the capacitor's last moment (DuraSSD, section 3.4): `lost` from the medium,
    /// `cached` units, and the journal. Returns how many of these were units of data.
    ///
    /// The dump goes to blocks kept erased for it, as ordinary pages. Recovery folds their spare areas and journal records
    /// like any others, so a second cut in recovery changes nothing. It saves cached units, units whose program did not
    /// complete, and the journal records whose units were all on flash when power failed. Of atomic batches it saves only
    /// acknowledged `put`s, with their marks, so that they count together with what is on flash.
    ///
    /// # Panics
    /// If it exceeds the capacitor's budget, because the controller accepted too much (hazard 12).
    pub fn dump(
        &mut self,
        lost: Vec<LostProgram>,
        cached: impl Iterator<Item = HostUnit>,
        cut_ns: Nanoseconds,
    ) -> Result<u64, FtlError> {
        let mut dump = DumpPages::new(self.log.dump_blocks().to_vec(), &self.config);
        for (slot, bytes) in lost.into_iter().flat_map(|program| program.units) {
            if guard!(ProgramsNotDumped, self.is_saved(&bytes)) {
                dump.push(&mut self.nand, slot, bytes, cut_ns)?;
            } else {
                self.nand.release(slot);
            }
        }
        let step = self.next_seq();
        for unit in cached {
            dump.push(&mut self.nand, unit.slot, unit.spare(step), cut_ns)?;
        }
        let checkpoint = self.log.checkpoint_step();
        let pages = self.records.waiting_targets().into_iter();
        let pages = pages.map(|target| self.records.stage_waiting(target, step, checkpoint, &mut self.nand));
        for page in pages.collect::<Result<Vec<PageImage>, FtlError>>()? {
            for (source, spare) in page.sources.iter().zip(page.spares) {
                if let Source::Staged(slot) = *source {
                    dump.push(&mut self.nand, slot, spare, cut_ns)?;
                }
            }
        }
        dump.end_pages(&mut self.nand, cut_ns)?;
        let saved = dump.units();
        let (journal, step) = (self.log.take_ready(cut_ns), self.next_seq());
        dump.push_records(&mut self.nand, &journal, step, cut_ns)?;
        assert!(
            dump.units() <= u64::from(self.config.dump_units),
            "{} units dumped; the capacitor has energy for {}",
            dump.units(),
            self.config.dump_units
        );
        self.counters.flash_units.dump += dump.units();
        self.log.restart_protected(&mut self.nand)?;
        Ok(saved)
    }

    /// Whether a unit lost on its way to flash was acknowledged as durable and exists nowhere else.
    fn is_saved(&self, spare: &UnitSpare) -> bool {
        let Some(spare) = Spare::decode(spare) else { return false };
        match Tenant::of(spare.kind) {
            Some(Tenant::Units) => Units::is_saved(&spare),
            Some(Tenant::Records) => self.records.is_saved(&spare),
            // a zone's page is acknowledged when it is on flash
            Some(Tenant::Zones) | None => false,
        }
    }

    // -- lists of files -----------------------------------------------------------------------------------------

    fn lists(&self) -> Result<&FileLists, ListRefusal> {
        self.file_lists.as_ref().ok_or(ListRefusal::NoLists)
    }

    /// Checks that units may be appended to a file's list.
    pub fn check_file_list(&self, file: FileId, offset: u32, units: u32) -> Result<(), ListRefusal> {
        self.lists()?.check(file, offset, units)
    }

    /// Appends units to a file's list; `Ftl::check_file_list` has passed, and their data are durable at `written_ns`.
    pub fn append_to_file_list(
        &mut self,
        file: FileId,
        first: Lpn,
        units: u32,
        offset: u32,
        written_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let lists = self.file_lists.as_mut().expect("it was checked that there are lists");
        let at_ns = guard!(ListBeforeData, written_ns);
        let linked_ns = lists.append(&mut self.nand, file, first, units, offset, at_ns)?;
        Ok(linked_ns.max(written_ns))
    }

    /// A file's list, and how long it takes to follow it: each entry points to the next.
    pub fn file_list(&self, file: FileId, entries: &mut Vec<FileEntry>) -> Result<Nanoseconds, ListRefusal> {
        let lists = self.lists()?;
        entries.clear();
        entries.extend(lists.list(file));
        let word_ns = self.nand.nvm().map_or(0, |shape| shape.takes_ns(WORD_BYTES));
        Ok((1 + entries.len() as u64) * word_ns)
    }

    /// The files that have lists, in the order of their numbers, and how long it takes to read them.
    pub fn files_with_lists(&self, files: &mut Vec<FileId>) -> Result<Nanoseconds, ListRefusal> {
        let lists = self.lists()?;
        files.clear();
        files.extend(lists.files());
        let bytes = u64::from(lists.limit()) * WORD_BYTES;
        Ok(self.nand.nvm().map_or(0, |shape| shape.takes_ns(bytes)))
    }

    /// Clears a file's list, or all of them. Returns when that is durable.
    ///
    /// # Errors
    /// [`ListRefusal::NoLists`], or what the medium says.
    pub fn clear_file_lists(
        &mut self,
        file: Option<FileId>,
        at_ns: Nanoseconds,
    ) -> Result<Result<Nanoseconds, FtlError>, ListRefusal> {
        let lists = self.file_lists.as_mut().ok_or(ListRefusal::NoLists)?;
        let cleared = match file {
            Some(file) => lists.clear(&mut self.nand, file, at_ns),
            None => lists.clear_all(&mut self.nand, at_ns),
        };
        Ok(cleared.map_err(FtlError::from))
    }

    /// Files that may have a list, files that have one, and entries of all lists; zeros for a drive without lists.
    pub fn file_list_counts(&self) -> (u32, usize, usize) {
        let counts = |lists: &FileLists| (lists.limit(), lists.len(), lists.units());
        self.file_lists.as_ref().map_or((0, 0, 0), counts)
    }

    // -- audit --------------------------------------------------------------------------------------------------

    /// Checks what is in DRAM: whether the state agrees with itself. Changes nothing. Tests call it after each power cut. Between
    /// commands there are no findings, whatever the drive has been through, unless a page was lost: the invariants are those
    /// at the heads of `map`, `blocks`, `valid` and `logs`.
    pub fn audit_maps(&self) -> Audit {
        let mut audit = Audit::default();
        self.map.audit(&self.nand, &mut audit);
        self.space.audit(&self.map, &self.nand, &mut audit);
        self.audit_zones(&mut audit);
        self.log.audit(&self.space, &mut audit);
        self.units.audit(&self.map, &self.geometry, &mut audit);
        self.records.audit(&self.map, &self.log, &self.nand, &mut audit);
        audit
    }

    /// Reads the spare areas and the data of the mapped units among `lpns`, from `at_ns` on, and compares.
    pub fn audit_units(
        &mut self,
        lpns: Range<u32>,
        at_ns: Nanoseconds,
        audit: &mut Audit,
    ) -> Result<(), FtlError> {
        let mut data = [0; UNIT_BYTES];
        for lpn in lpns.map(Lpn) {
            let Some(ppn) = self.map.lookup(lpn) else { continue };
            audit.units += 1;
            let finding = match self.nand.page_state(self.geometry.page_of(ppn)) {
                PageState::Erased => Some(Finding::Erased { lpn, ppn }),
                PageState::Uncorrectable => Some(Finding::Unreadable { lpn, ppn }),
                PageState::Programmed => match self.nand.read(ppn, &mut data, at_ns) {
                    Ok(_) => {
                        let spare = Spare::decode(&self.nand.spare(ppn)?);
                        let wrong = self.units.audit_spare(&self.map, lpn, ppn, spare.as_ref());
                        wrong.map(|says| Finding::Spare { lpn, ppn, says })
                    }
                    Err(NandError::Uncorrectable { .. }) => Some(Finding::Unreadable { lpn, ppn }),
                    Err(error) => return Err(error.into()),
                },
            };
            audit.unit_findings.extend(finding);
        }
        Ok(())
    }

    /// Reads every record that an index names, and compares.
    pub fn audit_records_on_flash(&mut self, audit: &mut Audit) -> Result<(), FtlError> {
        self.records.audit_on_flash(&self.log, &mut self.nand, audit)
    }
}
