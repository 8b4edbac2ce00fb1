//! The flash translation layer: what its users call. Each command reserves room ([`crate::reservation`]), and then its step
//! changes the parts.
//!
//! | part | owns | what it does for others |
//! |---|---|---|
//! | [`Map`](crate::map::Map) | L2P, P2L, claims, how much of each block is in use | `lookup`, `map_plain`, `map_shared`, `unmap`, `claim`, `relocate_plain`, `add_packed` |
//! | [`Space`](crate::space::Space) | the use of each block, the open blocks of the streams, failing blocks, the plan | `take`, `opened`, `program`, `close`, `release`, `choose_victim`, `retire` |
//! | [`MetadataLog`](crate::metadata::MetadataLog) | the journal, the last checkpoint, the capacitor's mirror | `append`, `flush`, `stands`, `checkpoint_is_due`, `system_blocks`, `load_checkpoint` |
//! | [`Units`](crate::tenants::units::Units) | hinted logs, open transactions | `programmed`, `superseded`, `write_checkpoint`; [`MapStep`] has the steps of share, remap, trim and commit |
//! | [`Records`](crate::tenants::records::Records) | namespaces, indexes, tombstones, records that wait | `name_programmed`, `read`, `add_waiting`, `pack`, `moved`, `load_indexes`, `write_checkpoint` |
//! | [`Zones`](crate::zones::Zones) | zones: their states, blocks and write pointers | `check_write`, `after`, `set`, `give`, `page_programmed`, `reset`, `kept` |
//! | `Collection` | victims, pages of units in transit | it lives as long as a collection (`collect`) |
//!
//! No part knows the others' state: it borrows what it needs for a call. What concerns several parts is conducted here, and three
//! types say who may do what:
//!
//! | type | has | may in addition | in |
//! |---|---|---|---|
//! | [`Parts`] | the parts | change them within the room that was reserved | `parts`; `queries` for what is no step |
//! | [`Allocator`] | `Parts` | open blocks, and so erase them; move what a victim holds | `allocate`, `erase`, `batch`, `collect` |
//! | [`Ftl`] | `Allocator` | make room: collect garbage, take checkpoints | this file for commands, `room`, `recovery` |
//!
//! Each operation takes the earliest time at which it may start and returns the time at which it is done. State changes
//! at once; the medium knows what was in flight when power fails.

mod allocate;
mod batch;
#[cfg(feature = "canaries")]
mod canaries;
mod collect;
mod erase;
mod give_back;
mod parts;
mod placement;
mod purge;
mod queries;
mod recovery;
mod room;
#[cfg(test)]
mod tests;
mod zones;

use std::ops::{Deref, DerefMut};

use tantalum_canaries::guard;
use tantalum_nand::{Nand, NandError, Nanoseconds, Slot, UNIT_BYTES};

use self::allocate::Allocator;
use self::batch::ProgrammedBatch;
#[cfg(feature = "canaries")]
pub(crate) use self::collect::MovingPage;
pub use self::give_back::{GivenBack, Portion, Slack};
pub use self::parts::Parts;
pub use self::queries::{BlockState, PREFETCHED, Wear};
pub use self::recovery::FormatError;
use crate::error::FtlError;
use crate::host_unit::{HostUnit, target_of};
use crate::key::{Key, NamespaceAttributes, NamespaceId};
use crate::map::UNIT_WEIGHT;
use crate::metadata::Record;
use crate::reservation::{Need, Purpose, Reservation};
use crate::space::Target;
use crate::tenants::records::{KeyValueError, KvRecord, Plan, RoomNs};
use crate::tenants::units::MapStep;
use crate::types::{Generation, Lpn, Seq, ShareRange, TxId};

/// The flash translation layer.
#[derive(Debug)]
pub struct Ftl {
    allocator: Allocator,
}

impl Deref for Ftl {
    type Target = Allocator;

    fn deref(&self) -> &Allocator {
        &self.allocator
    }
}

impl DerefMut for Ftl {
    fn deref_mut(&mut self) -> &mut Allocator {
        &mut self.allocator
    }
}

impl Ftl {
    /// Returns the medium; everything in DRAM is lost.
    pub fn into_nand(self) -> Nand {
        self.allocator.parts.nand
    }

    /// A copy of the whole drive, if its flash is in memory.
    pub fn try_clone(&self) -> Option<Ftl> {
        Some(Ftl { allocator: Allocator { parts: self.allocator.parts.try_clone()? } })
    }

    /// Numbers issued to hosts are never reused. After a cut a gap is left for those that left no trace on flash, so
    /// the flash must show that the drive is no longer shut down. Returns when it does.
    fn mark_power_on(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let tells = self.log.has_data_since() && self.nand.programs_done_ns() <= self.nand.now_ns();
        if !self.shut_down || tells {
            self.shut_down = false;
            return Ok(at_ns);
        }
        let mut room = self.reserve(&Need::record(Purpose::PowerOn), at_ns)?;
        let step = self.next_seq();
        self.append_journal(&mut room, &[Record::PowerOn { step }], at_ns)?;
        let done_ns = if self.has_plp() { at_ns } else { self.flush_journal(at_ns)? };
        self.shut_down = false;
        Ok(done_ns)
    }

    // -- units --------------------------------------------------------------------------------------------------

    /// Ensures that these logical pages can take data: unmapped ones take more of the capacity. `waiting` units are in
    /// a cache, and may be new too. Returns when the room is guaranteed.
    pub fn admit_units(
        &mut self,
        lpns: impl Iterator<Item = Lpn>,
        waiting: usize,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        if self.records.has_no_namespaces() && self.map.packed_units() == 0 {
            return Ok(at_ns);
        }
        self.admit(self.chunks_of_new(lpns), 0, waiting, at_ns)
    }

    /// Chunks needed for those of these logical pages that have no data yet.
    fn chunks_of_new(&self, lpns: impl Iterator<Item = Lpn>) -> u64 {
        let new = lpns.filter(|lpn| self.map.lookup(*lpn).is_none()).count();
        new as u64 * u64::from(UNIT_WEIGHT)
    }

    /// Programs up to a page of units, which have one handle, and points L2P at them. The buffers still belong to the caller if this fails and
    /// [`FtlError::changed_nothing`].
    pub fn write_page(&mut self, units: &[HostUnit], at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        self.map.warm(units.iter().map(|unit| unit.lpn));
        let target = target_of(units);
        loop {
            let claims = if self.concern_hints(units) { self.units.claims_of(units.len()) } else { 0 };
            let mut room = self.reserve(&Need::units(target, claims), at_ns)?;
            if let Some(done_ns) = self.write_units(&mut room, target, units, at_ns)? {
                return Ok(done_ns);
            }
        }
    }

    /// As [`Ftl::write_page`] for units that may need several pages: after a cut all of them are there or none. They have one
    /// handle and no hints. What still belongs to the caller if this fails may have moved to other buffers.
    pub fn write_whole(
        &mut self,
        units: &mut [HostUnit],
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        if units.len() <= self.geometry.units_per_page() as usize {
            return self.write_page(units, at_ns);
        }
        debug_assert!(units.iter().all(|unit| unit.hint.is_none()), "a mark has no room for a hint as well");
        self.map.warm(units.iter().map(|unit| unit.lpn));
        let plan = self.plan_of(&[]);
        match self.program_batch(units, &[], &plan, at_ns) {
            Ok(batch) => self.map_batch(batch, units, &[], at_ns),
            Err((error, programmed)) => {
                let restaged = self.stage_again(&mut units[..programmed]);
                restaged.map_err(FtlError::unfinished)?;
                Err(error)
            }
        }
    }

    /// Gives units whose batch was abandoned buffers of their own again: those that they had belong to pages on flash.
    fn stage_again(&mut self, units: &mut [HostUnit]) -> Result<(), FtlError> {
        let mut data = [0; UNIT_BYTES];
        for unit in units {
            self.nand.read_slot(unit.slot, &mut data)?;
            unit.slot = self.nand.stage(&data)?;
        }
        Ok(())
    }

    /// A reservation for the records that end the claims of as many pages, for [`Ftl::replaced_in_dram`].
    pub fn reserve_ends_of_claims(
        &mut self,
        claims: usize,
        at_ns: Nanoseconds,
    ) -> Result<Reservation, FtlError> {
        self.reserve(&Need::ends_of_claims(claims), at_ns)
    }

    /// Units that wait in protected DRAM replace pages that claim their homes: the claims end with them.
    pub fn replaced_in_dram(
        &mut self,
        mut room: Reservation,
        replaced: impl Iterator<Item = (Lpn, Seq)>,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let Parts { units, map, numbers, .. } = &mut self.allocator.parts;
        let ended = replaced.filter_map(|(lpn, version)| units.superseded(map, numbers, lpn, version));
        let ended = ended.collect();
        self.append_step(&mut room, ended, at_ns).map_err(FtlError::unfinished)
    }

    // -- hinted logs and transactions ---------------------------------------------------------------------------

    /// Starts a life of a hinted log; returns it with the time at which that is done. If too many are open, the least
    /// recently used one is forgotten, which takes a checkpoint; then no log page waits in a cache. None if all of them
    /// have living hints.
    pub fn begin_log(&mut self, at_ns: Nanoseconds) -> Result<Option<(Generation, Nanoseconds)>, FtlError> {
        if self.logs().is_full() {
            self.take_checkpoint(at_ns, false)?;
            if !self.units.forget_idle_log() {
                return Ok(None);
            }
        }
        let done_ns = self.mark_power_on(at_ns)?;
        let generation = Generation(self.next_seq().0);
        self.units.begin_log(generation);
        Ok(Some((generation, done_ns)))
    }

    /// Opens a transaction; returns it with the time at which that is done.
    pub fn begin_transaction(&mut self, at_ns: Nanoseconds) -> Result<(TxId, Nanoseconds), FtlError> {
        let done_ns = self.mark_power_on(at_ns)?;
        let tx = TxId(self.next_seq().0);
        self.units.begin_transaction(tx);
        Ok((tx, done_ns))
    }

    /// Programs up to a page of units of open transactions.
    pub fn write_transaction_page(
        &mut self,
        units: &[(TxId, Lpn, Slot)],
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        loop {
            let mut room = self.reserve(&Need::transactions(), at_ns)?;
            if let Some(done_ns) = self.write_transaction_units(&mut room, units, at_ns)? {
                return Ok(done_ns);
            }
        }
    }

    // -- steps that change the map ------------------------------------------------------------------------------

    /// Reserves room for a step that changes the map, takes it, and appends its records. A step that fails has changed something,
    /// and nothing may be built on that.
    fn step<T>(
        &mut self,
        need: &Need<'_>,
        at_ns: Nanoseconds,
        change: impl FnOnce(&mut MapStep<'_>) -> T,
    ) -> Result<T, FtlError> {
        let mut room = self.reserve(need, at_ns)?;
        self.log.between_steps(at_ns);
        let mut step = self.map_step(&mut room);
        let result = change(&mut step);
        let records = step.records;
        self.append_step(&mut room, records, at_ns).map_err(FtlError::unfinished)?;
        Ok(result)
    }

    /// Maps every dst to what its src maps to. `Ftl::check_share` has passed, and no src waits in a cache.
    pub fn share(&mut self, ranges: &[ShareRange], at_ns: Nanoseconds) -> Result<(), FtlError> {
        let units = ranges.iter().map(|range| range.units as usize).sum();
        let need = Need::share(units, self.units.claims_of(units));
        self.step(&need, at_ns, |step| step.share(ranges))
    }

    /// Moves the mappings of `src..` to `dst..`.
    pub fn remap(&mut self, src: Lpn, dst: Lpn, units: u32, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let need = Need::remap(units as usize, self.units.claims_of(units as usize));
        self.step(&need, at_ns, |step| step.remap(&ShareRange { dst, src, units }))
    }

    /// Unmaps units, in several steps if ending claims takes more records than fit on a journal page.
    pub fn trim(&mut self, lpn: Lpn, units: u32, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let mut range = (lpn.0..lpn.0 + units).map(Lpn);
        let is_news = range.any(|lpn| self.map.lookup(lpn).is_some() || self.map.is_hinted(lpn));
        if !is_news && !guard!(IdleTrimDoesNotWait, self.may_come_back()) {
            return Ok(());
        }
        let most = self.records_per_page() as u32 - 1;
        let at_once = if self.logs().count() as u32 > most { most } else { units };
        for first in (lpn.0..lpn.0 + units).step_by(at_once as usize) {
            let (first, units) = (Lpn(first), at_once.min(lpn.0 + units - first));
            let need = Need::trim(self.units.claims_of(units as usize));
            let trimmed = self.step(&need, at_ns, |step| step.unmap(first, units));
            // the steps before this one are done
            trimmed.map_err(|error| if first == lpn { error } else { error.unfinished() })?;
        }
        Ok(())
    }

    /// Maps a transaction's pages. The records are in the journal buffer when this returns.
    pub fn commit(&mut self, tx: TxId, at_ns: Nanoseconds) -> Result<Vec<Lpn>, FtlError> {
        let pages = self.transactions().lpns(tx).count();
        let need = Need::commit(pages, self.units.claims_of(pages));
        self.step(&need, at_ns, |step| step.commit(tx))
    }

    // -- atomic batches -----------------------------------------------------------------------------------------

    /// Ensures room for a batch before anything is changed: for units that are not mapped yet, and for records. Returns
    /// the records that it needs (a missing key need not be deleted), and when all of this is known.
    pub fn admit_batch<'a>(
        &mut self,
        lpns: impl Iterator<Item = Lpn>,
        records: &[KvRecord<'a>],
        waiting: usize,
        at_ns: Nanoseconds,
    ) -> Result<(Vec<KvRecord<'a>>, Nanoseconds), FtlError> {
        if records.is_empty() {
            return Ok((Vec::new(), self.admit_units(lpns, waiting, at_ns)?));
        }
        let used_ns = self.use_indexes(records.iter().map(|record| record.namespace), at_ns)?;
        let (needed, found_ns) = self.without_idle_deletes(records, used_ns)?;
        let records = self.records.with_unsettled_deletes(needed, records, self.nand.now_ns());
        let (chunks, entries) = self.plan_of(&records).room(&records);
        // both at once: otherwise room that was granted and not yet used would count as free again
        let chunks = chunks + self.chunks_of_new(lpns);
        let ready_ns = self.admit(chunks, entries, waiting, at_ns)?;
        Ok((records, found_ns.max(ready_ns)))
    }

    /// Writes units, and puts and deletes records, so that after a cut all of it is done or nothing.
    /// [`Ftl::admit_batch`] has passed. Returns when everything is on flash; before that, a capacitor protects none of
    /// it.
    ///
    /// The buffers no longer belong to the caller, even if this fails.
    pub fn write_batch(
        &mut self,
        units: &[HostUnit],
        records: &[KvRecord<'_>],
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let plan = self.plan_of(records);
        if let Err(error) = guard!(WaitingUnderBatch, self.settle_waiting(records, at_ns)) {
            self.give_back(units, &error);
            return Err(error);
        }
        let batch = self.program_batch(units, records, &plan, at_ns).map_err(|(error, programmed)| {
            self.give_back(&units[programmed..], &error);
            error
        })?;
        self.map_batch(batch, units, records, at_ns)
    }

    /// Maps a batch that was programmed. Returns when it is done.
    fn map_batch(
        &mut self,
        batch: ProgrammedBatch,
        units: &[HostUnit],
        records: &[KvRecord<'_>],
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let mut done_ns = batch.done_ns;
        let ProgrammedBatch { versions, places, records: programmed, mut room, .. } = batch;
        if !records.is_empty() {
            self.records.are_durable_at(done_ns);
            // before the units: looking for what is replaced may fail
            let named = self.name_programmed(records, programmed, at_ns);
            done_ns = done_ns.max(named.map_err(FtlError::unfinished)?);
            records.iter().for_each(|record| self.count_put(record));
            self.counters.batches_with_records += u64::from(!units.is_empty());
        }
        debug_assert_eq!(places.len(), units.len(), "units of a batch are without a place");
        let mut ended = Vec::new();
        let Parts { units: tenant, map, numbers, .. } = &mut self.allocator.parts;
        for (unit, (version, ppn)) in units.iter().zip(versions.into_iter().zip(places)) {
            ended.extend(tenant.superseded(map, numbers, unit.lpn, version));
            map.map_plain(unit.lpn, ppn);
        }
        // a dump does not save a batch in flight, nor what ended with it
        let ready_ns = self.nand.host_programs_done_ns();
        self.append_step_ready(&mut room, ended, ready_ns, at_ns).map_err(FtlError::unfinished)?;
        Ok(guard!(BatchDoneInFlight(at_ns), done_ns))
    }

    /// Programs the pages of a batch. The buffers of units that were programmed no longer belong to the caller: if this fails, it
    /// also says how many those are.
    fn program_batch(
        &mut self,
        units: &[HostUnit],
        records: &[KvRecord<'_>],
        plan: &Plan,
        at_ns: Nanoseconds,
    ) -> Result<ProgrammedBatch, (FtlError, usize)> {
        let per_page = self.geometry.units_per_page() as usize;
        let (unit_pages, record_pages) = (units.len().div_ceil(per_page), plan.pages(per_page));
        let pages = batch::pages_by_stream(target_of(units), unit_pages, &record_pages);
        let room = self.reserve(&Need::batch(&pages, self.units.claims_of(units.len())), at_ns);
        let room = room.map_err(|error| (error, 0))?;
        let pages = unit_pages + record_pages.len();
        let mut batch = ProgrammedBatch::new(units.len(), &mut self.numbers, room, at_ns);
        let marks = self.marks(batch.id, units.len(), plan.targets.len(), pages);
        batch.draw_versions(units, &mut self.numbers);
        let programmed = self.program_members(units, (records, plan), marks, &mut batch, at_ns);
        if let Err(error) = programmed {
            self.batches.abandon(batch.id);
            return Err((error, batch.places.len()));
        }
        batch.done_ns = batch.records.pages.iter().fold(batch.done_ns, |done_ns, page| done_ns.max(page.1));
        if pages > 1 {
            self.batches.programmed(batch.done_ns);
        }
        Ok(batch)
    }

    /// Releases buffers that did not reach flash. Those in flight when power failed belong to the medium.
    fn give_back(&mut self, units: &[HostUnit], error: &FtlError) {
        if !matches!(error, FtlError::Nand(NandError::PowerLost)) {
            units.iter().for_each(|unit| self.nand.release(unit.slot));
        }
    }

    // -- records ------------------------------------------------------------------------------------------------

    /// Creates a namespace. Its record is in the journal's buffer when this returns.
    pub fn create_namespace(
        &mut self,
        attributes: NamespaceAttributes,
        at_ns: Nanoseconds,
    ) -> Result<NamespaceId, KeyValueError> {
        self.check_attributes(&attributes)?;
        let mut room = self.reserve(&Need::record(Purpose::Namespace), at_ns)?;
        let (namespace, step) = (self.records.next_namespace(), self.next_seq());
        self.append_journal(&mut room, &[Record::NamespaceMade { namespace, attributes, step }], at_ns)?;
        // units that received data while there was no namespace were not counted
        self.budget = 0;
        let Parts { records, space, .. } = &mut self.allocator.parts;
        records.add_namespace(namespace, attributes, space);
        Ok(namespace)
    }

    /// Deletes a namespace with all its records. The journal record of this is in the journal's buffer when this
    /// returns. Returns when the index, which lists the contents, was available.
    pub fn delete_namespace(
        &mut self,
        namespace: NamespaceId,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, KeyValueError> {
        self.records.check_namespace(namespace)?;
        let at_ns = self.use_indexes([namespace], at_ns)?;
        let mut room = self.reserve(&Need::record(Purpose::Namespace), at_ns)?;
        let step = self.next_seq();
        self.append_journal(&mut room, &[Record::NamespaceDeleted { namespace, step }], at_ns)?;
        let Parts { records, map, space, log, nand, .. } = &mut self.allocator.parts;
        records.forget_namespace(namespace, (map, space), log, nand)?;
        Ok(at_ns)
    }

    /// Puts and deletes records, all or nothing. `Ftl::check_put` has passed. Returns when they are durable: on
    /// flash, or in DRAM that a capacitor protects. `room_ns` returns when there is room there for this many more
    /// units, if there ever is. `waiting` units are in the cache.
    pub fn put(
        &mut self,
        records: &[KvRecord<'_>],
        waiting: usize,
        at_ns: Nanoseconds,
        room_ns: RoomNs<'_>,
    ) -> Result<Nanoseconds, FtlError> {
        let at_ns = self.use_indexes(records.iter().map(|record| record.namespace), at_ns)?;
        let (needed, found_ns) = self.without_idle_deletes(records, at_ns)?;
        if needed.is_empty() {
            return Ok(found_ns.max(self.records.puts_durable_ns()));
        }
        let records = self.records.with_unsettled_deletes(needed, records, self.nand.now_ns());
        let plan = self.plan_of(&records);
        let (chunks, entries) = plan.room(&records);
        let at_ns = self.admit(chunks, entries, waiting, at_ns)?;
        let done_ns = if self.can_wait(&plan) {
            let room_ns = self.wait_for_room(1, at_ns, room_ns).unwrap_or(at_ns);
            self.put_waiting(&records, &plan, room_ns)?;
            room_ns
        } else {
            self.settle_waiting(&records, at_ns)?;
            self.put_on_flash(&records, &plan, at_ns, room_ns)?
        };
        records.iter().for_each(|record| self.count_put(record));
        Ok(done_ns.max(found_ns))
    }

    /// Programs the units of a `put` as an atomic batch. With a capacitor it is done as soon as there is room for all
    /// of them (KAML, section 3.2.4): from then on the dump saves those that are not on flash. Without one, or if there
    /// are too many, it is done when they are on flash. In that case they go there at once, and need no protected room
    /// on the way.
    fn put_on_flash(
        &mut self,
        records: &[KvRecord<'_>],
        plan: &Plan,
        at_ns: Nanoseconds,
        room_ns: RoomNs<'_>,
    ) -> Result<Nanoseconds, FtlError> {
        let batch = self.program_batch(&[], records, plan, at_ns).map_err(|(error, _)| error)?;
        let on_flash_ns = batch.done_ns;
        let room_ns = self.wait_for_room(plan.targets.len(), at_ns, room_ns);
        let now_ns = self.nand.now_ns();
        match room_ns {
            None => self.records.are_durable_at(on_flash_ns),
            Some(_) => self.records.acknowledge(batch.id, &batch.records.pages, on_flash_ns, now_ns),
        }
        let named = self.name_programmed(records, batch.records, at_ns);
        let named_ns = named.map_err(FtlError::unfinished)?;
        // index lookups are not waited for if the records are already safe
        Ok(room_ns.unwrap_or(on_flash_ns.max(named_ns)))
    }

    /// When there is room in protected DRAM, if there ever is. The drive has the records from then on, and power does
    /// not fail before (hazard 12).
    fn wait_for_room(
        &mut self,
        units: usize,
        at_ns: Nanoseconds,
        room_ns: RoomNs<'_>,
    ) -> Option<Nanoseconds> {
        let room_ns = room_ns(units)?.max(at_ns);
        self.nand.advance(room_ns);
        Some(room_ns)
    }

    /// The records without deletes of missing keys, and when that is known.
    fn without_idle_deletes<'a>(
        &mut self,
        records: &[KvRecord<'a>],
        at_ns: Nanoseconds,
    ) -> Result<(Vec<KvRecord<'a>>, Nanoseconds), FtlError> {
        let (tenant, mut reads) = self.records_and_reads();
        tenant.without_idle_deletes(records, &mut reads, at_ns)
    }

    /// Adds records to those that wait for the same stream. If its units already fill a page, they are programmed
    /// first.
    fn put_waiting(
        &mut self,
        records: &[KvRecord<'_>],
        plan: &Plan,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        if self.records.page_waits(plan, self.geometry.units_per_page()) {
            self.program_waiting_for(plan.targets[0], at_ns)?;
        }
        self.add_waiting(records, plan, at_ns)
    }

    /// A `put` that goes to flash at once replaces these, and may be lost until there is room for it or it is on flash.
    /// Waiting records with these keys were acknowledged as durable, so they go to flash first.
    fn settle_waiting(&mut self, records: &[KvRecord<'_>], at_ns: Nanoseconds) -> Result<(), FtlError> {
        for record in records {
            if let Some(target) = self.records.waits_for(record) {
                self.program_waiting_for(target, at_ns)?;
            }
        }
        Ok(())
    }

    /// Programs all waiting records, and lets the indexes name them.
    pub fn program_waiting(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let mut done_ns = at_ns;
        while let Some(target) = self.records.first_waiting() {
            done_ns = done_ns.max(self.program_waiting_for(target, at_ns)?);
        }
        Ok(done_ns)
    }

    /// Programs what waits for a stream.
    fn program_waiting_for(&mut self, target: Target, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let namespaces = self.records.namespaces_waiting_for(target);
        let Parts { records, log, nand, counters, .. } = &mut self.allocator.parts;
        let at_ns = records.load_indexes(namespaces, log, nand, counters, at_ns)?;
        let mut room = self.reserve(&Need::waiting(&[(target, 1)]), at_ns)?;
        let Parts { records, log, nand, numbers, .. } = &mut self.allocator.parts;
        let step = numbers.draw();
        let page = records.stage_waiting(target, step, log.checkpoint_step(), nand)?;
        let programmed = self.program_reserved(&mut room, target, &page, step, at_ns);
        let programmed = programmed.inspect_err(|error| page.give_up_after(&mut self.nand, error))?;
        self.name_waiting_page(target, programmed, at_ns)?;
        Ok(programmed.1)
    }

    /// Whether a key exists, and when that is known.
    pub fn exists(
        &mut self,
        namespace: NamespaceId,
        key: &Key,
        at_ns: Nanoseconds,
    ) -> Result<(bool, Nanoseconds), KeyValueError> {
        self.records.check_namespace(namespace)?;
        let at_ns = self.use_indexes([namespace], at_ns)?;
        let (records, mut reads) = self.records_and_reads();
        Ok(records.is_there(namespace, key, &mut reads, at_ns)?)
    }

    /// Reads a value.
    pub fn get(
        &mut self,
        namespace: NamespaceId,
        key: &Key,
        value: &mut Vec<u8>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, KeyValueError> {
        value.clear();
        self.records.check_namespace(namespace)?;
        let done_ns = match self.records.waiting_value(namespace, key) {
            Some(None) => return Err(KeyValueError::NoSuchKey { namespace, key: *key }),
            Some(Some(waiting)) => {
                value.extend_from_slice(waiting);
                at_ns
            }
            None => {
                let at_ns = self.use_indexes([namespace], at_ns)?;
                let (records, mut reads) = self.records_and_reads();
                records.read(namespace, key, value, &mut reads, at_ns)?
            }
        };
        self.counters.records_got += 1;
        self.counters.record_bytes_got += value.len() as u64;
        Ok(done_ns)
    }

    /// At most `limit` keys in the order of their hashes, starting at `from`. The order is stable while keys come and
    /// go.
    pub fn list(
        &mut self,
        namespace: NamespaceId,
        from: Option<&Key>,
        keys: &mut Vec<Key>,
        limit: usize,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, KeyValueError> {
        keys.clear();
        self.records.check_namespace(namespace)?;
        let at_ns = self.use_indexes([namespace], at_ns)?;
        let (records, mut reads) = self.records_and_reads();
        records.list(namespace, from, keys, limit, &mut reads, at_ns)
    }
}
