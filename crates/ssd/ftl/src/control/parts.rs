//! The parts of a drive, and what a step may do to them: program pages into open blocks, append records, change the map.
//!
//! Nothing here erases a block, collects garbage or takes a checkpoint: whoever changes something has a
//! [`Reservation`] for it, which [`Ftl`](crate::Ftl) has made before.

use tantalum_canaries::guard;
use tantalum_nand::{
    BlockId, Geometry, Nand, NandError, Nanoseconds, PageId, Slot, Source, SpareEnds, UnitSpare,
};

use crate::batches::Batches;
use crate::counters::Counters;
use crate::error::FtlError;
use crate::file_lists::FileLists;
use crate::host_unit::HostUnit;
use crate::key::NamespaceAttributes;
use crate::map::{Map, ValidUnit};
use crate::metadata::{KeptBytes, MetadataLog, Record};
use crate::page_image::PageImage;
use crate::placement::{Handle, Placement};
use crate::reads::Reads;
use crate::reservation::Reservation;
use crate::space::{FtlConfig, PageSummary, Space, Target};
use crate::spare::{Kind, Spare};
use crate::tenants::records::{KeyValueError, KvRecord, Plan, ProgrammedUnits, Records, waiting_log_units};
use crate::tenants::units::{MapStep, OWNER_BYTES, ShareRefusal, Units, check_share};
use crate::types::{Lpn, Numbers, Seq, ShareRange, TxId};
use crate::zones::Zones;

/// See the head of `control`.
#[derive(Debug)]
pub struct Parts {
    pub(super) nand: Nand,
    pub(super) geometry: Geometry,
    pub(super) config: FtlConfig,
    pub(super) map: Map,
    pub(super) space: Space,
    pub(super) log: MetadataLog,
    pub(super) units: Units,
    pub(super) records: Records,
    pub(super) numbers: Numbers,
    pub(super) batches: Batches,
    /// What `fs_write` wrote to each file, on a drive that keeps lists.
    pub(super) file_lists: Option<FileLists>,
    /// Weight that may be added before the free space is computed again.
    pub(super) budget: u64,
    /// Whether recovery would find the drive shut down, and so reuse numbers issued since.
    pub(super) shut_down: bool,
    /// See `Parts::stop`.
    pub(super) is_stopped: bool,
    pub(super) counters: Counters,
    /// What is counted and told of each handle, on a drive with placement.
    pub(super) placement: Option<Placement>,
    /// Blocks that the host fills in order, on a drive with zones.
    pub(super) zones: Option<Zones>,
    pub(super) scratch: Scratch,
}

/// Buffers for reuse.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub spares: Vec<UnitSpare>,
    pub spare_ends: Vec<SpareEnds>,
    pub valid_units: Vec<ValidUnit>,
}

impl Parts {
    /// The parts of a drive of which nothing is known.
    pub(super) fn new(nand: Nand, config: FtlConfig, space: Space, log: MetadataLog) -> Parts {
        let geometry = *nand.geometry();
        Parts {
            map: Map::new(&geometry, config.logical_units),
            nand,
            geometry,
            space,
            log,
            units: Units::default(),
            records: Records::new(&config),
            numbers: Numbers::default(),
            batches: Batches::default(),
            file_lists: config.file_lists.map(FileLists::empty),
            config,
            budget: 0,
            shut_down: false,
            is_stopped: false,
            counters: Counters::default(),
            placement: config.placement.map(Placement::new),
            zones: config.zones.map(|zones| Zones::new(zones, &geometry, config.logical_units)),
            scratch: Scratch::default(),
        }
    }

    /// A copy of all of it, if the flash is in memory.
    pub(super) fn try_clone(&self) -> Option<Parts> {
        Some(Parts {
            nand: self.nand.try_clone()?,
            geometry: self.geometry,
            config: self.config,
            map: self.map.clone(),
            space: self.space.clone(),
            log: self.log.clone(),
            units: self.units.clone(),
            records: self.records.clone(),
            numbers: self.numbers.clone(),
            batches: self.batches.clone(),
            file_lists: self.file_lists.clone(),
            budget: self.budget,
            shut_down: self.shut_down,
            is_stopped: self.is_stopped,
            counters: self.counters,
            placement: self.placement.clone(),
            zones: self.zones.clone(),
            scratch: Scratch::default(),
        })
    }

    // -- the state of the drive ---------------------------------------------------------------------------------

    /// Draws the next number.
    #[inline]
    pub fn next_seq(&mut self) -> Seq {
        self.numbers.draw()
    }

    /// A command has failed in the middle, and nothing may be built on its effect: from now on there are only reads, and none
    /// takes a checkpoint, neither for a loss nor to have room for an index.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// There was no room for something. If no block is left to make room either, the drive may be at the end of its life.
    pub fn note_exhaustion(&mut self) {
        if self.spare_blocks() == 0 {
            self.space.note_exhaustion();
        }
    }

    /// Whether a unit is lost, and nothing but what its spare area said places it. The next checkpoint does: whoever gives
    /// commands takes it before a host learns of the loss (`Ftl::has_loss_to_record`), as a command may be in the middle of a
    /// step when it meets one. It records the page's other units too, which nobody has read yet.
    pub fn has_unrecorded_loss(&self) -> bool {
        self.space.has_loss_since(self.log.checkpoint_step())
    }

    /// Whether a loss is to be recorded now: one is not recorded yet, and there may be room for it.
    pub fn has_loss_to_record(&self) -> bool {
        self.has_unrecorded_loss()
            && !self.is_stopped
            && self.log.checkpoint_may_have_room(&self.nand, &self.space, self.kept(0, 0))
    }

    #[inline]
    pub(super) fn reads(&mut self) -> Reads<'_> {
        Reads { nand: &mut self.nand, space: &mut self.space, counters: &mut self.counters }
    }

    /// The records, and what it takes to read them.
    pub(super) fn records_and_reads(&mut self) -> (&mut Records, Reads<'_>) {
        let Parts { nand, space, counters, records, .. } = self;
        (records, Reads { nand, space, counters })
    }

    // -- room ---------------------------------------------------------------------------------------------------

    /// What a checkpoint would keep now, with this many more owners whose versions no spare area records, and index entries.
    pub(super) fn kept(&self, owners: usize, entries: u64) -> KeptBytes {
        KeptBytes {
            units: self.units.kept_bytes(&self.map) + (owners * OWNER_BYTES) as u64,
            records: self.records.kept_bytes(entries),
        }
    }

    /// Free blocks that the journal and checkpoints may still need, with this many more owners.
    pub(super) fn system_blocks(&self, owners: usize) -> u32 {
        self.log.system_blocks(self.space.layout(), self.kept(owners, 0))
    }

    /// When these blocks are available even if power fails: until copies are on flash, the blocks that they empty are free in name
    /// only. Nothing that needs that room may become durable earlier.
    pub(super) fn system_blocks_ready_ns(&self) -> Nanoseconds {
        self.space.ready_ns(self.system_blocks(0), &self.nand)
    }

    /// The same with those that zones may still take: nothing else may take these.
    #[inline]
    pub(super) fn kept_blocks(&self, owners: usize) -> u32 {
        self.system_blocks(owners) + guard!(ZoneBlocksForgotten, self.zone_reserve())
    }

    /// Free blocks beyond those.
    pub(super) fn spare_blocks(&self) -> u32 {
        self.space.free_blocks().saturating_sub(self.kept_blocks(0))
    }

    /// Whether the next checkpoint has a place in memory, with this many more owners and entries of indexes. On flash it
    /// has blocks of its own.
    pub(super) fn checkpoint_has_place(&self, owners: usize, entries: u64) -> bool {
        !self.log.is_in_memory()
            || self.log.has_checkpoint_place(self.space.layout(), self.kept(owners, entries))
    }

    /// Units of the drive's capacity that are free, after reserving room for this many more index entries. See
    /// `reservation/mod.rs` for what shares the capacity.
    pub(crate) fn free_units(&self, entries: u64, waiting: usize) -> u64 {
        self.free_units_with(entries, waiting, 0).max(0) as u64
    }

    /// The same once this many units more are released. Less than none if more is stored than there is room for.
    pub(crate) fn free_units_with(&self, entries: u64, waiting: usize, released: u64) -> i64 {
        let limit = i64::from(self.config.logical_units) + i64::from(self.records.private_units());
        let free = limit - self.held_units(entries, waiting) as i64 + released as i64;
        if self.checkpoint_has_place(0, entries) { free } else { free.min(0) }
    }

    /// Units that are not free.
    pub(crate) fn held_units(&self, entries: u64, waiting: usize) -> u64 {
        let held = self.units.reserved_units(&self.map) + self.records.reserved_units(&self.map);
        let unplanned = self.log.unplanned_blocks(self.space.layout(), self.kept(0, entries));
        held + waiting as u64 + 2 * u64::from(unplanned) * u64::from(self.geometry.units_per_block())
    }

    // -- pages --------------------------------------------------------------------------------------------------

    /// Programs a page into a stream, which has an open block for it. None if the program failed: the block is set aside, and room
    /// has to be made for the page again.
    pub(super) fn program(
        &mut self,
        room: &mut Reservation,
        target: Target,
        page: &PageImage,
        step: Seq,
        earliest_ns: Nanoseconds,
    ) -> Result<Option<(PageId, Nanoseconds)>, FtlError> {
        let units = self.geometry.units_per_page() as usize;
        let program = if target.takes_copies() { Nand::program_in_background } else { Nand::program };
        let programmed =
            self.program_with(room, target, page.summary(step), earliest_ns, |nand, place| {
                program(nand, place, &page.sources[..units], &page.spares[..units], earliest_ns)
            })?;
        if programmed.is_some() {
            self.counters.flash_units.padding += (units - page.used) as u64;
        }
        Ok(programmed)
    }

    /// The common part of all programs into a stream; `program` programs the given page.
    #[inline]
    pub(super) fn program_with(
        &mut self,
        room: &mut Reservation,
        target: Target,
        summary: PageSummary,
        earliest_ns: Nanoseconds,
        program: impl FnOnce(&mut Nand, PageId) -> Result<Nanoseconds, NandError>,
    ) -> Result<Option<(PageId, Nanoseconds)>, FtlError> {
        let (map, nand) = (&mut self.map, &mut self.nand);
        let programmed = self.space.program(target, summary, (map, nand), earliest_ns, program)?;
        match programmed {
            Some((_, done_ns)) => {
                room.take_page();
                self.log.data_programmed();
                if self.placement.is_some() {
                    self.tell_filled(target, done_ns);
                }
            }
            None => self.counters.program_failures += 1,
        }
        Ok(programmed)
    }

    /// Programs a page of units, and points L2P at them.
    pub(super) fn write_units(
        &mut self,
        room: &mut Reservation,
        target: Target,
        units: &[HostUnit],
        at_ns: Nanoseconds,
    ) -> Result<Option<Nanoseconds>, FtlError> {
        let hinted = self.concern_hints(units);
        let step = self.next_seq();
        let mut page = PageImage::new();
        for unit in units {
            debug_assert!(
                unit.version < step,
                "lpn {} at version {} is programmed with step {step}",
                unit.lpn,
                unit.version
            );
            page.marked |= unit.hint.is_some();
            page.push(Source::Staged(unit.slot), unit.spare(step));
        }
        let Some((place, done_ns)) = self.program(room, target, &page, step, at_ns)? else {
            return Ok(None);
        };
        if page.marked {
            self.log.step_programmed(done_ns);
        }
        self.count_host_units(units);
        for (index, unit) in units.iter().enumerate() {
            self.map.map_plain(unit.lpn, self.geometry.unit(place, index as u32));
        }
        if hinted {
            let ended = self.units.programmed(&mut self.map, &mut self.numbers, units);
            self.append_step(room, ended, at_ns).map_err(FtlError::unfinished)?;
        }
        Ok(Some(done_ns))
    }

    /// Whether units have hints, or replace pages that have.
    pub(super) fn concern_hints(&self, units: &[HostUnit]) -> bool {
        units.iter().any(|unit| unit.hint.is_some() || self.map.is_hinted(unit.lpn))
    }

    /// Programs a page of units of open transactions.
    pub(super) fn write_transaction_units(
        &mut self,
        room: &mut Reservation,
        units: &[(TxId, Lpn, Slot)],
        at_ns: Nanoseconds,
    ) -> Result<Option<Nanoseconds>, FtlError> {
        let step = self.next_seq();
        let mut page = PageImage::new();
        for &(_, lpn, slot) in units {
            page.push(Source::Staged(slot), Spare::with_owner(Kind::Transaction, step, lpn, step).encode());
        }
        let Some((place, done_ns)) = self.program(room, Target::Host, &page, step, at_ns)? else {
            return Ok(None);
        };
        self.counters.flash_units.host += units.len() as u64;
        if let Some(placement) = &mut self.placement {
            placement.programmed(Handle::DEFAULT, units.len() as u64);
        }
        for (index, unit) in units.iter().enumerate() {
            let ppn = self.geometry.unit(place, index as u32);
            self.units.transaction_programmed((&mut self.map, &self.nand), unit, ppn, step);
        }
        Ok(Some(done_ns))
    }

    /// Marks a block that is out of use as permanently bad, and plans with the remaining ones. Its contents can still be read.
    pub(super) fn retire(&mut self, block: BlockId) -> Result<(), FtlError> {
        if self.space.retire(block, &self.config, &mut self.nand)? {
            self.records.plan_logs(&mut self.space);
        }
        Ok(())
    }

    // -- the journal --------------------------------------------------------------------------------------------

    /// Records that one step may append and still have on one page.
    pub fn records_per_page(&self) -> usize {
        self.log.records_per_page()
    }

    /// Appends records that must be on flash together or not at all; at most [`Parts::records_per_page`].
    pub(super) fn append_journal(
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
    pub(super) fn ready_ns(&self, records: &[Record]) -> Nanoseconds {
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
        if !self.log.has_room(records.len()) {
            self.flush_records(at_ns)?;
        }
        self.log.append(&mut self.nand, records, ready_ns)
    }

    /// Appends the records of one step: on one page, or as a group. The last record, if it cannot be part of a group,
    /// is stored beside the one that makes the group whole.
    pub(super) fn append_step(
        &mut self,
        room: &mut Reservation,
        records: Vec<Record>,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let ready_ns = self.ready_ns(&records);
        self.append_step_ready(room, records, ready_ns, at_ns)
    }

    /// The same for records that a dump leaves out before `ready_ns`.
    pub(super) fn append_step_ready(
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
    /// on flash.
    pub(super) fn flush_records(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        if self.log.nothing_waits() {
            return Ok(at_ns.max(self.nand.host_programs_done_ns()));
        }
        guard!(RecordTakesFlushStep(self.next_seq(), &mut self.log));
        let (step, kept) = (self.next_seq(), self.kept(0, 0));
        self.log.flush((&mut self.nand, &mut self.space), kept, step, &mut self.counters, at_ns)
    }

    // -- commands that change the map ---------------------------------------------------------------------------

    /// Maximum number of units that one share may map.
    pub fn share_limit(&self) -> u32 {
        // a remap takes one more record, for the sources
        self.records_per_page() as u32 - 1
    }

    /// Checks a share before anything is changed.
    pub fn check_share(&self, ranges: &[ShareRange]) -> Result<(), ShareRefusal> {
        check_share(&self.map, ranges, self.share_limit(), self.layout().extra_owners_limit)
    }

    /// A step that changes the map within this room.
    pub(super) fn map_step<'a>(&'a mut self, room: &'a mut Reservation) -> MapStep<'a> {
        let Parts { units, map, log, numbers, counters, nand, .. } = self;
        MapStep { units, map, log, numbers, counters, nand, room, records: Vec::new() }
    }

    /// Whether a trim that is durable when it returns may find units unmapped by a step that is not durable yet.
    pub(super) fn may_come_back(&self) -> bool {
        let is_recorded = self.log.nothing_waits() && self.log.steps_done_ns() <= self.nand.now_ns();
        self.has_plp() && !is_recorded
    }

    /// Drops a transaction's pages.
    pub fn abort(&mut self, tx: TxId) {
        self.units.abort(&mut self.map, tx);
    }

    // -- records ------------------------------------------------------------------------------------------------

    /// Checks the attributes of a new namespace.
    pub fn check_attributes(&self, attributes: &NamespaceAttributes) -> Result<(), KeyValueError> {
        self.records.check_attributes(attributes, &self.space, &self.config, &self.geometry)
    }

    /// Checks a `put` before anything is changed.
    pub fn check_put(&self, records: &[KvRecord<'_>]) -> Result<(), KeyValueError> {
        self.records.check_put(records)
    }

    /// Whether a `put` of these records would wait.
    pub fn put_waits(&self, records: &[KvRecord<'_>]) -> bool {
        self.can_wait(&self.plan_of(records))
    }

    /// Whether a `put` can wait: there is a capacitor, and the `put` fits in a unit.
    pub(super) fn can_wait(&self, plan: &Plan) -> bool {
        self.has_plp() && plan.fits_in_a_unit()
    }

    /// The units that records are packed into.
    pub(crate) fn plan_of(&self, records: &[KvRecord<'_>]) -> Plan {
        Plan::new(records, |namespace| self.space.logs_of(namespace))
    }

    /// Adds records to those that wait, for whose page there is room.
    pub(super) fn add_waiting(
        &mut self,
        records: &[KvRecord<'_>],
        plan: &Plan,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let Parts { records: tenant, numbers, log, nand, space, counters, .. } = self;
        let mut reads = Reads { nand, space, counters };
        tenant.add_waiting(records, plan, numbers, log, &mut reads, at_ns)
    }

    /// What waited for a stream is on this page, from this time on: the indexes name it.
    pub(super) fn name_waiting_page(
        &mut self,
        target: Target,
        page: (PageId, Nanoseconds),
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let Parts { records, map, log, nand, space, counters, .. } = self;
        let mut reads = Reads { nand, space, counters };
        records.name_waiting_page(target, page, map, log, &mut reads, at_ns)
    }

    /// The indexes name programmed records instead of what they had for their keys. Returns when that was known.
    pub(super) fn name_programmed(
        &mut self,
        records: &[KvRecord<'_>],
        programmed: ProgrammedUnits,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let Parts { records: tenant, map, nand, space, counters, .. } = self;
        let mut reads = Reads { nand, space, counters };
        tenant.name_programmed(records, programmed, map, &mut reads, at_ns)
    }

    /// A record was put or deleted.
    pub(super) fn count_put(&mut self, record: &KvRecord<'_>) {
        let counters = &mut self.counters;
        match record.value {
            Some(value) => {
                counters.records_put += 1;
                counters.record_bytes_put += (record.key.as_bytes().len() + value.len()) as u64;
            }
            None => counters.records_deleted += 1,
        }
    }

    /// The records.
    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    /// Units of protected DRAM in which records for namespaces' own logs may wait: the cache must be smaller by this
    /// number.
    pub fn waiting_log_units(&self) -> u32 {
        waiting_log_units(&self.space, &self.config, &self.geometry)
    }

    /// Pages of records programmed since the last call: how many units of each a capacitor protects until they are on
    /// flash, and when they are.
    pub fn take_programmed_records(&mut self) -> impl Iterator<Item = (u32, Nanoseconds)> + '_ {
        self.records.take_programmed()
    }
}

/// For tests of the parts that need a whole drive.
#[cfg(test)]
impl Parts {
    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    pub(crate) fn space_mut(&mut self) -> &mut Space {
        &mut self.space
    }

    pub(crate) fn units(&self) -> &Units {
        &self.units
    }

    pub(crate) fn units_and_map(&mut self) -> (&mut Units, &mut Map) {
        (&mut self.units, &mut self.map)
    }

    pub(crate) fn records_mut(&mut self) -> &mut Records {
        &mut self.records
    }

    pub(crate) fn plan_logs(&mut self) {
        self.records.plan_logs(&mut self.space);
    }
}
