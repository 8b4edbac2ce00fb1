//! Units of victims in transit: which are in use, what their copies' spare areas say, and what owns the new places.
//!
//! A copyback keeps the versions of a unit and takes a new step (hazard 6). It lists all owners of the unit; those that
//! do not fit in the spare area go into the journal (hazard 5).

use tantalum_nand::{BlockId, MAX_UNITS_PER_PAGE, Nanoseconds, PageId, Ppn, Source, UNIT_BYTES, UnitSpare};

use super::Collection;
use super::moving_page::{Moving, MovingPage};
use crate::allocate::Allocator;
use crate::canary::{self, Guard};
use crate::error::{Damage, FtlError};
use crate::map::{Claim, Owner, ValidUnit};
use crate::metadata::Record;
use crate::parts::Parts;
use crate::reservation::{Purpose, Reservation};
use crate::space::Target;
use crate::spare::{self, Kind, Mark, Spare};
use crate::tenants::{PackedUnit, tenant};
use crate::types::{Lpn, Seq, TenantId};

impl Parts {
    /// Lists the units of a victim that are in use and readable.
    pub(super) fn find_valid_units(
        &mut self,
        victim: BlockId,
        units: &mut Vec<ValidUnit>,
    ) -> Result<(), FtlError> {
        units.clear();
        if self.map.valid(victim) == 0 {
            return Ok(());
        }
        let mut scratch = std::mem::take(&mut self.scratch.spare_ends);
        let all_ends = self.nand.block_spare_ends(victim, &mut scratch)?;
        let owners = self.map.owners_in(victim).filter(|(_, owner)| *owner != Owner::None);
        let first = self.geometry.first_unit(victim);
        for (ppn, owner) in owners.filter(|(ppn, _)| self.nand.is_readable(*ppn)) {
            let ends = &all_ends[(ppn.0 - first.0) as usize];
            let plain = match owner {
                Owner::Plain(lpn) if spare::is_plain(ends) => Some(lpn),
                _ => None,
            };
            units.push(ValidUnit { ppn, plain });
        }
        self.scratch.spare_ends = scratch;
        // all together, so that the misses overlap
        self.map.assert_at(units.iter().filter_map(|unit| Some((unit.plain?, unit.ppn))));
        Ok(())
    }

    /// Puts one unit on the page, with the spare area of its copy.
    #[inline]
    fn take_along(
        &mut self,
        unit: &ValidUnit,
        moving: &mut MovingPage,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        if moving.units.is_empty() {
            moving.step = self.next_seq();
        }
        let ppn = unit.ppn;
        if canary::out(Guard::CopybackTakesNewVersion)
            && let Some(lpn) = unit.plain
        {
            let metadata = spare::metadata(&self.nand.spare(ppn)?);
            let version = self.next_seq();
            let spare = spare::plain(lpn, version, version, &metadata);
            return moving.push(&self.nand, (ppn, Moving::Plain(lpn)), (Source::Copy(ppn), spare));
        }
        if let Some(lpn) = unit.plain {
            moving.units.push((ppn, Moving::Plain(lpn)));
            return Ok(());
        }
        let old = self.nand.spare(ppn)?;
        let (copy, how) = self.copy_marked(ppn, &old, moving.step, at_ns)?;
        moving.waits_for_steps |= self.metadata.is_under_way(ppn, at_ns);
        moving.page.marked |= matches!(copy.mark, Mark::Hint(..));
        moving.push(&self.nand, (ppn, how), (Source::Copy(ppn), copy.encode()))
    }

    /// The spare area of a copy of more than a plain unit.
    fn copy_marked(
        &mut self,
        ppn: Ppn,
        old: &UnitSpare,
        step: Seq,
        at_ns: Nanoseconds,
    ) -> Result<(Spare, Moving), FtlError> {
        let old = Spare::decode(old).ok_or(Damage::Spare { ppn })?;
        let told = self.map.tell_versions(ppn, |lpn| old.version_of(lpn));
        told.map_err(|lpn| Damage::Owner { ppn, lpn })?;
        let mut copy = Spare::new(Kind::Data, step);
        copy.metadata = old.metadata;
        let owners = match self.map.owner(ppn) {
            Owner::Plain(lpn) => vec![(lpn, old.version_of(lpn).ok_or(Damage::Owner { ppn, lpn })?)],
            Owner::Claim(Claim::Owners(owners)) => owners.clone(),
            Owner::Claim(&Claim::Transaction(tx, lpn)) => {
                copy.kind = Kind::Transaction;
                copy.push_owner(lpn, old.version_of(lpn).unwrap_or(old.step));
                return Ok((copy, Moving::Transaction(tx, lpn)));
            }
            Owner::None | Owner::Packed(_) => unreachable!("unit {ppn} is a block namespace's"),
        };
        self.charge_spilled_owners(&owners, at_ns);
        let log_lpn = self.living_log_page(&old, &owners);
        if log_lpn.is_some() {
            copy.mark = old.mark;
        }
        // the log page comes first: its version is the hint's
        let mut ordered = owners;
        ordered.sort_by_key(|owner| (Some(owner.0) != log_lpn, owner.0));
        let mut spilled = 0;
        for &(lpn, version) in &ordered {
            debug_assert!(version < step, "a copy of step {step} names lpn {lpn} at version {version}");
            spilled += u32::from(!copy.push_owner(lpn, version));
        }
        match ordered[..] {
            [(lpn, _)] if self.map.owner(ppn) == Owner::Plain(lpn) => Ok((copy, Moving::Plain(lpn))),
            _ => Ok((copy, Moving::Owners { spilled })),
        }
    }

    /// The log page of a unit whose hint is living.
    fn living_log_page(&self, old: &Spare, owners: &[(Lpn, Seq)]) -> Option<Lpn> {
        let Mark::Hint(hint, log_lpn) = old.mark else { return None };
        let living = self.tenants.units.logs.hint(log_lpn)?;
        let is_owner = owners.iter().any(|owner| owner.0 == log_lpn);
        (is_owner && living.hint.is_same_page(&hint)).then_some(log_lpn)
    }

    /// Beyond DRAM's share, the table of shared units is on flash and must be read.
    fn charge_spilled_owners(&mut self, owners: &[(Lpn, Seq)], at_ns: Nanoseconds) {
        if owners.len() > 1
            && self.map.extra_owners() > self.config.shared_owners as usize
            && let Some(&block) = self.metadata.checkpoint_blocks().first()
        {
            self.nand.charge_read(self.geometry.page(block, 0), UNIT_BYTES as u32, at_ns);
        }
    }

    /// Gives a programmed page of copies to the owners of its units.
    fn name_copies(
        &mut self,
        room: &mut Reservation,
        moving: &mut MovingPage,
        place: PageId,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        moving.page.is_programmed();
        self.counters.flash_units.key_value_copyback += moving.packed.len() as u64;
        self.counters.flash_units.copyback += (moving.units.len() - moving.packed.len()) as u64;
        if moving.page.used == 0 {
            let plain = moving.units.iter().map(|(from, how)| match how {
                Moving::Plain(lpn) => (*lpn, *from),
                _ => unreachable!("what is not plain is in the page image"),
            });
            self.map.relocate_plain(plain, self.geometry.unit(place, 0));
            moving.units.clear();
        }
        for index in 0..moving.units.len() {
            let to = self.geometry.unit(place, index as u32);
            self.move_unit(room, moving, index, to, at_ns).map_err(FtlError::unfinished)?;
        }
        debug_assert!(moving.packed.is_empty(), "{} packed units have no place", moving.packed.len());
        moving.units.clear();
        moving.page.clear();
        moving.waits_for_steps = false;
        moving.earliest_ns = at_ns.max(self.batches.done_ns());
        Ok(())
    }

    /// Gives the new place of one unit to its owners.
    fn move_unit(
        &mut self,
        room: &mut Reservation,
        moving: &mut MovingPage,
        index: usize,
        to: Ppn,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let (from, how) = moving.units[index];
        match how {
            Moving::Plain(lpn) => self.map.relocate_plain(std::iter::once((lpn, from)), to),
            Moving::Packed => {
                let packed = moving.packed.pop_front().expect("there is one for each such unit");
                packed.moved(self, to);
            }
            Moving::Transaction(tx, lpn) => {
                let claim = self.map.unclaim(from);
                self.map.claim(to, claim);
                self.tenants.units.transactions.moved(tx, lpn, to);
            }
            Moving::Owners { spilled } => {
                self.map.relocate_owners(from, to, spilled == 0);
                if spilled > 0 {
                    self.record_spilled(room, to, &moving.page.spares[index], at_ns)?;
                }
            }
        }
        Ok(())
    }

    /// Records the owners of a moved unit that its spare area has no room for.
    fn record_spilled(
        &mut self,
        room: &mut Reservation,
        to: Ppn,
        spare: &UnitSpare,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        if canary::out(Guard::ExtraOwnersForgotten) {
            return Ok(());
        }
        let spare = Spare::decode(spare).expect("it was just encoded");
        let Owner::Claim(Claim::Owners(owners)) = self.map.owner(to) else { return Ok(()) };
        let rest: Vec<(Lpn, Seq)> =
            owners.iter().filter(|owner| spare.version_of(owner.0).is_none()).copied().collect();
        for (lpn, version) in rest {
            let step = self.next_seq();
            self.append_journal(room, &[Record::Map { lpn, version, step, ppn: to }], at_ns)?;
        }
        Ok(())
    }

    /// Programs the page of units in transit into a stream that has an open block.
    fn program_moving_page(
        &mut self,
        room: &mut Reservation,
        target: Target,
        moving: &mut MovingPage,
    ) -> Result<Option<(PageId, Nanoseconds)>, FtlError> {
        let (units, step, earliest_ns) =
            (self.geometry.units_per_page() as usize, moving.step, moving.earliest_ns);
        debug_assert!(moving.units.len() <= units, "{} units for a page of {units}", moving.units.len());
        debug_assert_ne!(step, Seq(0), "a page of {} units has no step", moving.units.len());
        if moving.page.used == 0 && moving.units.len() == units {
            let mut from = [Ppn(0); MAX_UNITS_PER_PAGE];
            from.iter_mut().zip(&moving.units).for_each(|(from, unit)| *from = unit.0);
            return self.program_with(room, target, (step, false), earliest_ns, |nand, place| {
                nand.program_moved(place, &from[..units], spare::head(step), earliest_ns)
            });
        }
        moving.place_plain(&self.nand)?;
        self.program(room, target, &moving.page, step, earliest_ns)
    }
}

impl Allocator {
    pub(super) fn move_units(
        &mut self,
        units: &[ValidUnit],
        collection: &mut Collection,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let units_per_page = self.geometry.units_per_page();
        let mut charged = None;
        for unit in units {
            let page = self.geometry.page_of(unit.ppn);
            if charged != Some(page) {
                let done_ns = self.nand.charge_read(page, UNIT_BYTES as u32 * units_per_page, at_ns);
                collection.moving.earliest_ns = collection.moving.earliest_ns.max(done_ns);
                charged = Some(page);
            }
            match unit.plain {
                None if let Owner::Packed(tenant) = self.map.owner(unit.ppn) => {
                    self.take_packed_along(tenant, unit.ppn, collection, at_ns)?
                }
                _ => self.take_along(unit, &mut collection.moving, at_ns)?,
            }
            if collection.moving.units.len() == units_per_page as usize {
                self.program_moving(collection, Target::Collect, at_ns)?;
            }
        }
        Ok(())
    }

    /// Packs the contents of one unit that are in use, and moves the units that this fills.
    fn take_packed_along(
        &mut self,
        id: TenantId,
        ppn: Ppn,
        collection: &mut Collection,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let packer = collection.packers[usize::from(id.0)].get_or_insert_with(|| tenant(id).packer());
        let full = packer.pack(self, ppn, at_ns)?;
        self.move_packed(full, collection, at_ns)
    }

    /// Puts packed units onto the page, and programs it whenever it is full.
    pub(super) fn move_packed(
        &mut self,
        units: Vec<Box<dyn PackedUnit>>,
        collection: &mut Collection,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        for packed in units {
            let earliest_ns = at_ns.max(self.batches.done_ns());
            let full = self.geometry.units_per_page() as usize;
            if collection.page_for(packed.target(), earliest_ns).units.len() == full {
                self.program_moving(collection, packed.target(), at_ns)?;
            }
            let moving = collection.page_for(packed.target(), earliest_ns);
            if moving.units.is_empty() {
                moving.step = self.next_seq();
            }
            let source = Source::Staged(self.nand.stage(packed.bytes())?);
            let spare = packed.spare(moving.step).encode();
            // nobody owns the place: the packed contents came from several places
            moving.push(&self.nand, (Ppn(0), Moving::Packed), (source, spare))?;
            moving.earliest_ns = moving.earliest_ns.max(packed.ready_ns());
            moving.packed.push_back(packed);
        }
        Ok(())
    }

    /// Programs all units in transit.
    pub(super) fn program_all_moving(
        &mut self,
        collection: &mut Collection,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        self.program_moving(collection, Target::Collect, at_ns)?;
        for index in 0..collection.moving_to_logs.len() {
            self.program_moving(collection, collection.moving_to_logs[index].target, at_ns)?;
        }
        Ok(())
    }

    /// Programs the units in transit to a stream and moves their owners.
    fn program_moving(
        &mut self,
        collection: &mut Collection,
        target: Target,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let moving = collection.page_for(target, at_ns);
        if moving.units.is_empty() {
            return Ok(());
        }
        self.await_steps(moving, at_ns)?;
        let mut room = self.room_for_copies(moving, at_ns)?;
        let place = loop {
            // all copies go to the stream that has a block for them
            let target = self.ensure_copy_block(moving.target, moving.earliest_ns)?;
            if let Some((place, _)) = self.program_moving_page(&mut room, target, moving)? {
                break place;
            }
        };
        self.name_copies(&mut room, moving, place, at_ns)?;
        self.free_emptied(collection);
        Ok(())
    }

    /// A reservation for a page of copies, with the records of owners that its spare areas have no room for.
    fn room_for_copies(&mut self, moving: &MovingPage, at_ns: Nanoseconds) -> Result<Reservation, FtlError> {
        let spilled = |(_, how): &(Ppn, Moving)| match how {
            Moving::Owners { spilled } => *spilled as usize,
            Moving::Plain(_) | Moving::Transaction(..) | Moving::Packed => 0,
        };
        let records = moving.units.iter().map(spilled).sum();
        if records > 0 {
            self.open_journal_blocks(records, at_ns)?;
        }
        Ok(Reservation::new(Purpose::Copies, 1, records, 0))
    }

    /// The copies assert owners by themselves. If an owner comes from a step that is not durable yet, the copy would make
    /// that owner durable without the rest of its step, so it waits.
    fn await_steps(&mut self, moving: &mut MovingPage, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if !moving.waits_for_steps {
            return Ok(());
        }
        if !self.metadata.nothing_waits() && !canary::out(Guard::CopyBeforeJournal) {
            self.flush_journal(at_ns)?;
        }
        if !canary::out(Guard::CopyBeforeStepIsDone) {
            moving.earliest_ns = moving.earliest_ns.max(self.metadata.steps_done_ns());
        }
        Ok(())
    }
}
