//! Zones: programs, reads, resets and finishes them ([`crate::zones`] has what they are). A page of a zone changes nothing in the map, so it
//! needs no record; its block comes from those that are kept for zones.

use tantalum_canaries::guard;
use tantalum_nand::{BlockId, NandError, Nanoseconds, PageId, PageState, Ppn, Source, UNIT_BYTES, UnitSpare};

use super::Ftl;
use super::allocate::Allocator;
use super::parts::Parts;
use crate::counters::Counters;
use crate::error::{Damage, FtlError};
use crate::findings::{Audit, Finding};
use crate::host_unit::HostUnit;
use crate::metadata::Record;
use crate::reservation::{Need, finds_no_room};
use crate::space::{BlockUse, Marked, PageSummary, Wear};
use crate::spare::{self, Kind, Spare};
use crate::types::{Lpn, Metadata, Seq};
use crate::zones::{
    ZoneAction, ZoneCondition, ZoneCosts, ZoneId, ZonePlace, ZoneRefusal, ZoneState, ZoneUnit, Zones,
    ZonesConfig,
};

/// A zone's page counts as so many of its units towards the next checkpoint: recovery reads one spare area for it, and a checkpoint
/// has nothing more to keep because of it.
const CHECKPOINT_SHARE: u64 = 16;

/// The pages of a new block of a zone.
enum Moved {
    /// All of them are there.
    All,
    /// The block failed.
    Failed,
}

impl Parts {
    /// The zones, on a drive that has some.
    fn zones_or_refuse(&self, zone: ZoneId) -> Result<&Zones, ZoneRefusal> {
        self.zones.as_ref().ok_or(ZoneRefusal::NoSuchZone { zone, count: 0 })
    }

    fn zones(&self) -> &Zones {
        self.zones.as_ref().expect("a zone was checked")
    }

    fn zones_mut(&mut self) -> &mut Zones {
        self.zones.as_mut().expect("a zone was checked")
    }

    /// Number and limits of the zones; none on a drive without.
    pub fn zones_config(&self) -> Option<&ZonesConfig> {
        self.zones.as_ref().map(Zones::config)
    }

    /// The zones as they are now, in order; none on a drive without.
    pub fn zone_states(&self) -> impl Iterator<Item = ZoneState> + '_ {
        let read_only = self.is_read_only();
        let zones = self.zones.iter().flat_map(|zones| zones.ids().map(|zone| zones.state(zone)));
        zones.map(move |state| match read_only {
            true => ZoneState { condition: ZoneCondition::ReadOnly, ..state },
            false => state,
        })
    }

    /// What zones cost; none on a drive without.
    pub fn zone_costs(&self) -> Option<ZoneCosts> {
        self.zones.as_ref().map(Zones::costs)
    }

    /// A page of units was programmed, of which some may be tails.
    #[cold]
    pub(super) fn count_tails(&mut self, units: &[HostUnit]) {
        let page_units = u64::from(self.geometry.units_per_page());
        let Some(zones) = &mut self.zones else { return };
        let tails = units.iter().filter(|unit| zones.zone_of_tail(unit.lpn).is_some()).count();
        zones.count_programmed(if tails == units.len() { page_units } else { tails as u64 });
    }

    /// Blocks that zones may still take.
    #[inline]
    pub(super) fn zone_reserve(&self) -> u32 {
        self.zones.as_ref().map_or(0, |zones| zones.reserved_blocks())
    }

    /// Checks a write of units, at the write pointer unless an offset is given, before anything is changed.
    pub fn check_zone_write(&self, zone: ZoneId, offset: Option<u32>, units: u32) -> Result<(), ZoneRefusal> {
        self.zones_or_refuse(zone)?.check_write(zone, offset, units)
    }

    /// Checks a read.
    pub fn check_zone_read(&self, zone: ZoneId, offset: u32, units: u32) -> Result<(), ZoneRefusal> {
        self.zones_or_refuse(zone)?.check_read(zone, offset, units)
    }

    /// The state in which an action leaves a zone.
    pub fn check_zone_action(&self, zone: ZoneId, action: ZoneAction) -> Result<ZoneCondition, ZoneRefusal> {
        self.zones_or_refuse(zone)?.after(zone, action)
    }

    /// Checks that all closed zones can be open at once.
    pub fn check_open_all_zones(&self) -> Result<(), ZoneRefusal> {
        self.zones.as_ref().map_or(Ok(()), Zones::check_open_all)
    }

    /// A zone as it is now; it was checked.
    pub fn zone_state(&self, zone: ZoneId) -> ZoneState {
        self.zones().state(zone)
    }

    /// Opens or closes a zone; it was checked. Nothing of that outlives a power cycle.
    pub fn set_zone(&mut self, zone: ZoneId, condition: ZoneCondition) {
        self.zones_mut().set(zone, condition);
    }

    /// A zone is about to be written; it was checked. Returns when that may begin.
    pub fn open_zone_for_write(&mut self, zone: ZoneId, at_ns: Nanoseconds) -> Nanoseconds {
        let now_ns = self.nand.now_ns();
        let begins_ns = guard!(TooManyActiveAfterCut(at_ns), self.zones_mut().begins_ns(zone, now_ns, at_ns));
        self.zones_mut().open_for_write(zone);
        begins_ns
    }

    /// So many zones were active and are not any more, durably from that time on.
    pub fn zones_ended(&mut self, zones: usize, done_ns: Nanoseconds) {
        if zones > 0 {
            self.zones_mut().ended(zones, done_ns);
        }
    }

    /// The next page of a zone, and how many of its units have been written.
    pub fn next_zone_page(&self, zone: ZoneId) -> (u32, u32) {
        self.zones().next_page(zone)
    }

    /// When all of a zone is durable that has been sent to flash. Nothing that comes after it is durable before.
    pub fn zone_done_ns(&self, zone: ZoneId) -> Nanoseconds {
        guard!(HoleBeforeZonePage, self.zones().done_ns(zone))
    }

    // -- tails --------------------------------------------------------------------------------------------------

    /// The unit of the map for a unit of the page that is not full yet, and the metadata that it is written with.
    pub fn zone_tail(&self, zone: ZoneId, unit: u32) -> (Lpn, Metadata) {
        let zones = self.zones();
        let (page, _) = zones.next_page(zone);
        (Lpn(zones.tail_lpns(zone).start + unit), zones.place(zone, page).metadata())
    }

    /// Units were added to the page that is not full yet.
    pub fn zone_tail_written(&mut self, zone: ZoneId, units: u32) {
        self.zones_mut().tail_written(zone, units);
    }

    /// When units may be programmed: a tail takes the place of an older one, whose page or reset must be on flash by then. 0 if none of
    /// them is one.
    #[inline]
    pub fn zone_tails_ready_ns(&self, units: &[HostUnit]) -> Nanoseconds {
        match &self.zones {
            None => 0,
            Some(zones) => Parts::tails_ready_ns(zones, units),
        }
    }

    #[cold]
    fn tails_ready_ns(zones: &Zones, units: &[HostUnit]) -> Nanoseconds {
        let zones_of = units.iter().filter_map(|unit| zones.zone_of_tail(unit.lpn));
        guard!(TailReplacedEarly, zones_of.map(|zone| zones.tail_ready_ns(zone)).max().unwrap_or(0))
    }

    /// The same for a zone's tail.
    pub fn zone_tail_ready_ns(&self, zone: ZoneId) -> Nanoseconds {
        guard!(TailReplacedEarly, self.zones().tail_ready_ns(zone))
    }

    /// Units were programmed, some of which may be tails, and are on flash at that time.
    #[inline]
    pub fn zone_tails_programmed(&mut self, units: &[HostUnit], done_ns: Nanoseconds) {
        if let Some(zones) = &mut self.zones {
            guard!(TailNotAwaited, Parts::tails_programmed(zones, units, done_ns));
        }
    }

    #[cold]
    fn tails_programmed(zones: &mut Zones, units: &[HostUnit], done_ns: Nanoseconds) {
        for zone in units.iter().filter_map(|unit| zones.zone_of_tail(unit.lpn)).collect::<Vec<_>>() {
            zones.tail_programmed(zone, done_ns);
        }
    }

    /// The reset of a zone is durable at that time.
    pub fn zone_reset_recorded(&mut self, zone: ZoneId, done_ns: Nanoseconds) {
        guard!(WrittenBeforeReset, self.zones_mut().reset_recorded(zone, done_ns));
    }

    /// Whether a tail that waits has just been programmed with its whole page, at which power failed.
    pub fn is_on_zone_page(&self, unit: &HostUnit, page: Option<PageId>) -> bool {
        let is_tail = self.zones.as_ref().is_some_and(|zones| zones.zone_of_tail(unit.lpn).is_some());
        let spare =
            |page| self.nand.spare(self.geometry.unit(page, 0)).ok().and_then(|bytes| Spare::decode(&bytes));
        let is_its = |spare: Spare| spare.kind == Kind::Zone && spare.metadata == unit.metadata;
        is_tail && page.and_then(spare).is_some_and(is_its)
    }

    // -- reads --------------------------------------------------------------------------------------------------

    /// Reads a unit of one of a zone's whole pages; `None` if it is lost.
    pub fn read_zone(
        &mut self,
        zone: ZoneId,
        unit: u32,
        data: &mut [u8],
        at_ns: Nanoseconds,
    ) -> Result<Option<Nanoseconds>, FtlError> {
        let units = self.geometry.units_per_page();
        let (page, index) = (unit / units, unit % units);
        let (column, row) = self.zones().column_of(page);
        let block = self.zones().block(zone, column).ok_or(Damage::Zone { zone, page })?;
        let ppn = self.geometry.unit(self.geometry.page(block, row), index);
        if let Ok(spare) = self.nand.spare(ppn)
            && guard!(LostZonePageReadsZeros, ZonePlace::of(&spare::metadata(&spare)).is_lost)
        {
            return Ok(None);
        }
        self.reads().read(ppn, data, at_ns)
    }

    /// A page whose units come from these sources, programmed at a step. A unit that cannot be copied is lost, and its spare area says so.
    fn zone_page(&self, place: ZonePlace, step: Seq, sources: &[Source]) -> (Vec<Source>, Vec<UnitSpare>) {
        let is_lost = |source: &Source| {
            let Source::Copy(ppn) = *source else { return false };
            let spare = self.nand.spare(ppn).ok().and_then(|bytes| Spare::decode(&bytes));
            spare.is_none_or(|spare| spare.kind == Kind::Zone && ZonePlace::of(&spare.metadata).is_lost)
        };
        let unit = |source: &Source| match is_lost(source) {
            true => (Source::Padding, ZonePlace { is_lost: true, ..place }.spare(step).encode()),
            false => (*source, place.spare(step).encode()),
        };
        sources.iter().map(unit).unzip()
    }

    // -- audit --------------------------------------------------------------------------------------------------

    /// Blocks in use as a zone's, against those that zones have, and what their pages say against what they should.
    pub(super) fn audit_zones(&self, audit: &mut Audit) {
        let Some(zones) = &self.zones else { return };
        // a cut may bring the pages of a retired block back, as long as their copies are in flight
        let is_good = |block: &BlockId| !self.nand.is_bad(*block);
        let owned: Vec<BlockId> =
            zones.ids().flat_map(|zone| zones.blocks_of(zone)).filter(is_good).collect();
        audit.count(
            "blocks of zones",
            owned.len() as u64,
            self.space.blocks_with(BlockUse::Zone).count() as u64,
        );
        for block in owned {
            let block_use = self.space.block_use(block);
            if block_use != BlockUse::Zone {
                let against = "and it is a zone's";
                audit.map_findings.push(Finding::BlockUse { block, block_use, against });
            }
        }
        for zone in zones.ids() {
            let (pages, _) = zones.next_page(zone);
            let is_right = |page: &u32| {
                let (column, row) = zones.column_of(*page);
                let Some(block) = zones.block(zone, column) else { return false };
                let place = self.geometry.page(block, row);
                match self.nand.page_state(place) {
                    PageState::Erased => false,
                    PageState::Uncorrectable => true,
                    PageState::Programmed => {
                        self.nand.spare(self.geometry.unit(place, 0)).is_ok_and(|bytes| {
                            let found = ZonePlace::of(&spare::metadata(&bytes));
                            ZonePlace { is_lost: false, ..found } == zones.place(zone, *page)
                        })
                    }
                }
            };
            audit.count("pages of a zone", u64::from(pages), (0..pages).filter(is_right).count() as u64);
        }
    }
}

impl Allocator {
    /// Opens a block for a zone: if possible on a plane where it has none.
    fn open_zone_block(&mut self, zone: ZoneId, at_ns: Nanoseconds) -> Result<BlockId, FtlError> {
        loop {
            if finds_no_room(&mut self.nand) || self.space.free_blocks() <= self.system_blocks(0) {
                return Err(FtlError::CapacityExceeded);
            }
            let Parts { space, zones, nand, .. } = &self.parts;
            let taken = zones.as_ref().into_iter().flat_map(|zones| zones.blocks_of(zone));
            let plane = space.zone_plane(taken, nand, at_ns).ok_or(FtlError::CapacityExceeded)?;
            if let Some(block) = self.open_block(plane, BlockUse::Zone, Marked::Ranked, Wear::Least, at_ns)? {
                return Ok(block);
            }
        }
    }

    /// The block that takes the next page of a zone, at its place: the column's, or another one if that one cannot.
    fn zone_block(&mut self, zone: ZoneId, at_ns: Nanoseconds) -> Result<PageId, FtlError> {
        let zones = self.zones();
        let (column, row) = zones.column_of(zones.next_page(zone).0);
        let block = match zones.block(zone, column) {
            Some(block) if self.takes_next(block, row) => block,
            Some(block) => self.replace_zone_block(zone, column, block, at_ns)?,
            None => {
                let block = self.open_zone_block(zone, at_ns)?;
                self.zones_mut().give(zone, column, block);
                block
            }
        };
        Ok(self.geometry.page(block, row))
    }

    /// Whether a page is the next one of a block that has not failed. After a power cut it may not be.
    fn takes_next(&self, block: BlockId, row: u32) -> bool {
        self.nand.next_page(block) == row
            && !self.space.failing().contains(&block)
            && !self.nand.is_bad(block)
    }

    /// Moves the pages of a column to another block, which has it from now on.
    fn replace_zone_block(
        &mut self,
        zone: ZoneId,
        column: usize,
        from: BlockId,
        at_ns: Nanoseconds,
    ) -> Result<BlockId, FtlError> {
        loop {
            let to = self.open_zone_block(zone, at_ns)?;
            match self.copy_zone_pages((zone, column), from, to, at_ns) {
                Ok(Moved::All) => {
                    let replaced = self.zones_mut().give(zone, column, to);
                    debug_assert_eq!(replaced, Some(from), "another block of zone {zone} was replaced");
                    self.release_block(from);
                    return Ok(to);
                }
                Ok(Moved::Failed) => {
                    self.space.program_failed(to);
                    self.release_block(to);
                }
                Err(error) => {
                    self.release_block(to);
                    return Err(error);
                }
            }
        }
    }

    fn copy_zone_pages(
        &mut self,
        (zone, column): (ZoneId, usize),
        from: BlockId,
        to: BlockId,
        at_ns: Nanoseconds,
    ) -> Result<Moved, FtlError> {
        let planes = self.zones().config().planes;
        for row in 0..self.zones().pages_in(zone, column) {
            let place = self.zones().place(zone, row * planes + column as u32);
            if let Moved::Failed = self.copy_zone_page(place, (from, to), row, at_ns)? {
                return Ok(Moved::Failed);
            }
        }
        Ok(Moved::All)
    }

    /// Copies a page. One that cannot be read is lost, and its copy says so.
    fn copy_zone_page(
        &mut self,
        place: ZonePlace,
        (from, to): (BlockId, BlockId),
        row: u32,
        at_ns: Nanoseconds,
    ) -> Result<Moved, FtlError> {
        let units = self.geometry.units_per_page() as usize;
        let (source, page) = (self.geometry.page(from, row), self.geometry.page(to, row));
        let step = self.next_seq();
        let read_ns = self.nand.charge_read(source, (units * UNIT_BYTES) as u32, at_ns);
        let copies: Vec<Source> =
            (0..units as u32).map(|unit| Source::Copy(self.geometry.unit(source, unit))).collect();
        let (copies, spares) = self.zone_page(place, step, &copies);
        let sources = guard!(ZoneCopyTakesSource(&copies), self.duplicates(&copies)?);
        let programmed = self.nand.program_in_background(page, &sources, &spares, read_ns);
        if matches!(programmed, Err(NandError::ProgramFailed { .. })) {
            self.release_duplicates(&copies, &sources);
        }
        match programmed {
            Ok(_) => {
                self.space.zone_programmed(to, PageSummary { step, marked: false, plain: false });
                self.log.data_programmed();
                self.counters.flash_units.copyback += units as u64;
                self.zones_mut().count_programmed(units as u64);
                Ok(Moved::All)
            }
            Err(NandError::ProgramFailed { .. }) => {
                self.counters.program_failures += 1;
                Ok(Moved::Failed)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The same sources with bytes of their own. A copy takes the bytes of its source, which are gone once the copy is erased. But if a cut
    /// leaves only some pages of a new block of a zone, it is the old block that counts; and a tail stays mapped after its page is full,
    /// until the next one replaces it.
    fn duplicates(&mut self, copies: &[Source]) -> Result<Vec<Source>, FtlError> {
        let mut staged = Vec::with_capacity(copies.len());
        for copy in copies {
            match self.duplicate(copy) {
                Ok(source) => staged.push(source),
                Err(error) => {
                    self.release_duplicates(copies, &staged);
                    return Err(error.into());
                }
            }
        }
        Ok(staged)
    }

    fn duplicate(&mut self, copy: &Source) -> Result<Source, NandError> {
        let Some(ppn) = copied_from(copy) else { return Ok(*copy) };
        let mut data = [0; UNIT_BYTES];
        match self.nand.peek(ppn, &mut data) {
            Ok(()) => self.nand.stage(&data).map(Source::Staged),
            // there is nothing to keep
            Err(NandError::Uncorrectable { .. }) => Ok(*copy),
            Err(error) => Err(error),
        }
    }

    fn release_duplicates(&mut self, copies: &[Source], sources: &[Source]) {
        for pair in copies.iter().zip(sources) {
            if let (Source::Copy(_), Source::Staged(slot)) = pair {
                self.nand.release(*slot);
            }
        }
    }
}

impl Ftl {
    /// Programs the next page of a zone. The buffers still belong to the caller if this fails, unless power was lost. Returns when the
    /// page is on flash; it is durable when `Ftl::zone_done_ns` says so.
    pub fn program_zone_page(
        &mut self,
        zone: ZoneId,
        units: &[ZoneUnit],
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        loop {
            self.make_zone_room(at_ns)?;
            let page = self.allocator.zone_block(zone, at_ns)?;
            let block = self.geometry.block_of(page);
            // room may have been made by moving the tail
            let (copies, read_ns) = self.zone_sources(units, at_ns.max(self.zones().page_ready_ns(zone)));
            let step = self.next_seq();
            let zones = self.zones();
            let place = zones.place(zone, zones.next_page(zone).0);
            let (copies, spares) = self.zone_page(place, step, &copies);
            let sources = self.allocator.duplicates(&copies)?;
            match self.nand.program(page, &sources, &spares, read_ns) {
                Ok(done_ns) => {
                    self.space.zone_programmed(block, PageSummary { step, marked: false, plain: false });
                    self.log.data_programmed();
                    self.counters.flash_units.host += sources.len() as u64;
                    self.zones_mut().page_programmed(zone, done_ns);
                    return Ok(done_ns);
                }
                Err(NandError::ProgramFailed { .. }) => {
                    self.allocator.release_duplicates(&copies, &sources);
                    self.counters.program_failures += 1;
                    self.space.program_failed(block);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Where the units of a page come from, and when those on flash have been read.
    fn zone_sources(&mut self, units: &[ZoneUnit], at_ns: Nanoseconds) -> (Vec<Source>, Nanoseconds) {
        let source = |unit: &ZoneUnit| match *unit {
            ZoneUnit::Buffer(slot) => Source::Staged(slot),
            ZoneUnit::Tail(lpn) => self.map.lookup(lpn).map_or(Source::Padding, Source::Copy),
        };
        let sources: Vec<Source> = units.iter().map(source).collect();
        let mut read_ns = at_ns;
        for ppn in sources.iter().filter_map(copied_from) {
            let page = self.geometry.page_of(ppn);
            read_ns = read_ns.max(self.nand.charge_read(page, UNIT_BYTES as u32, read_ns));
        }
        (sources, read_ns)
    }

    /// Zones find the blocks that are kept for them, if that is possible: recovery, and whoever may use a reserve, may have taken some.
    fn make_zone_room(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let has_room = |parts: &Parts| parts.space.free_blocks() >= parts.kept_blocks(0);
        if has_room(&self.parts) {
            return Ok(());
        }
        match self.collect_until(has_room, at_ns) {
            // one of those that are left may do
            Err(FtlError::CapacityExceeded) => Ok(()),
            made => made,
        }
    }

    /// Empties zones, which were checked. The records of this are in the journal's buffer when this returns.
    pub fn reset_zones(&mut self, zones: &[ZoneId], at_ns: Nanoseconds) -> Result<(), FtlError> {
        for (index, zones) in zones.chunks(self.records_per_page()).enumerate() {
            let reset = self.reset_on_a_page(zones, at_ns);
            // those before these are reset
            reset.map_err(|error| if index == 0 { error } else { error.unfinished() })?;
        }
        Ok(())
    }

    /// The same for zones whose records fit on one page.
    fn reset_on_a_page(&mut self, zones: &[ZoneId], at_ns: Nanoseconds) -> Result<(), FtlError> {
        let mut room = self.reserve(&Need::zones(zones.len()), at_ns)?;
        let resets: Vec<(ZoneId, Seq)> = zones.iter().map(|zone| (*zone, self.next_seq())).collect();
        let records: Vec<Record> =
            resets.iter().map(|&(zone, step)| Record::ZoneReset { zone, step }).collect();
        self.append_journal(&mut room, &records, at_ns).map_err(FtlError::unfinished)?;
        for (zone, step) in resets {
            for block in self.zones_mut().reset(zone, step) {
                self.release_block(block);
            }
        }
        Ok(())
    }

    /// A zone takes no more; it was checked, and all of it is on flash or on its way there. The record of this is in the journal's
    /// buffer when this returns.
    pub fn finish_zone(&mut self, zone: ZoneId, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let mut room = self.reserve(&Need::zones(1), at_ns)?;
        let (generation, step) = (self.zones().place(zone, 0).generation, self.next_seq());
        let record = Record::ZoneFinished { zone, generation, step };
        self.append_journal(&mut room, &[record], at_ns).map_err(FtlError::unfinished)?;
        self.zones_mut().set(zone, ZoneCondition::Full);
        Ok(())
    }

    /// Frees what zones have besides their data: tails of pages that are whole, or of before a reset; and what a power cut left behind
    /// a write pointer.
    pub(super) fn tidy_zones(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let Some(zones) = &self.zones else { return Ok(()) };
        for zone in zones.ids() {
            let (lpns, (_, tail)) = (self.zones().tail_lpns(zone), self.zones().next_page(zone));
            self.trim(Lpn(lpns.start + tail), lpns.len() as u32 - tail, at_ns)?;
            for column in 0..self.zones().config().planes as usize {
                let row = self.zones().pages_in(zone, column);
                match self.zones().block(zone, column) {
                    Some(block) if self.nand.next_page(block) > row => {
                        self.make_zone_room(at_ns)?;
                        self.allocator.replace_zone_block(zone, column, block, at_ns)?;
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Recovery: units of a zone's tail that a cut left without those before them never come back, whatever is written there.
    pub(super) fn forget_stale_tails(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let Some(zones) = &self.zones else { return Ok(()) };
        let zones: Vec<ZoneId> = zones.ids().filter(|zone| self.has_stale_tail(*zone)).collect();
        for zone in &zones {
            let (lpns, (_, tail)) = (self.zones().tail_lpns(*zone), self.zones().next_page(*zone));
            self.trim(Lpn(lpns.start + tail), lpns.len() as u32 - tail, at_ns)?;
        }
        if zones.is_empty() { Ok(()) } else { self.flush_journal(at_ns).map(drop) }
    }

    /// Whether units behind the write pointer of a zone say that they belong to its next page, or one after it.
    fn has_stale_tail(&self, zone: ZoneId) -> bool {
        let (page, tail) = self.zones().next_page(zone);
        let next = self.zones().place(zone, page);
        let mut behind = self.zones().tail_lpns(zone).skip(tail as usize).map(Lpn);
        let is_stale = |lpn: Lpn| {
            let place = self.metadata(lpn).map(|metadata| ZonePlace::of(&metadata));
            place.is_ok_and(|place| place.generation == next.generation && place.page >= page)
        };
        behind.any(|lpn| self.map.lookup(lpn).is_some() && is_stale(lpn))
    }

    /// Recovery: how many units of a page are in the tail of its zone, of which a checkpoint has told `told`. A unit whose metadata
    /// cannot be read is one of these, and lost.
    pub(super) fn found_tail(&self, place: ZonePlace, told: u32) -> Result<u32, FtlError> {
        let is_there = |(unit, lpn): &(u32, Lpn)| match self.map.lookup(*lpn) {
            None => false,
            Some(ppn) if !self.nand.is_readable(ppn) => *unit < told,
            Some(_) => self
                .metadata(*lpn)
                .is_ok_and(|metadata| guard!(TailOfOtherPage, ZonePlace::of(&metadata) == place)),
        };
        let lpns = self.zones().tail_lpns(place.zone).map(Lpn);
        Ok((0..).zip(lpns).take_while(is_there).count() as u32)
    }
}

/// Units programmed for hosts, as the interval between checkpoints counts them.
#[inline]
pub(super) fn units_for_checkpoints(counters: &Counters, zones: Option<&Zones>) -> u64 {
    let units = counters.flash_units.host + counters.flash_units.key_value;
    let zoned = zones.map_or(0, Zones::programmed_units);
    units - zoned + zoned / CHECKPOINT_SHARE
}

fn copied_from(source: &Source) -> Option<Ppn> {
    match source {
        Source::Copy(ppn) => Some(*ppn),
        Source::Staged(_) | Source::Padding => None,
    }
}
