//! Garbage collection: moves valid units out of a victim, which becomes free.
//!
//! Moved units fill whole pages, across victims. A victim is free only when all its units are programmed elsewhere.
//! Records of a namespace with logs of its own are packed separately, and go to these logs if there is room.
//! Which blocks are collected, and when, is decided in `room`.

mod moving_page;

use tantalum_canaries::guard;
use tantalum_nand::{BlockId, MAX_UNITS_PER_PAGE, Nand, Nanoseconds, PageId, Ppn, SpareEnds, UNIT_BYTES};

use super::allocate::Allocator;
use super::parts::Parts;
use crate::error::{Damage, FtlError};
use crate::map::{Map, Owner, ValidUnit};
use crate::metadata::Record;
use crate::placement::Handle;
use crate::reads::Reads;
use crate::reservation::{Purpose, Reservation};
use crate::space::{PageSummary, Space, Target};
use crate::spare;
use crate::tenants::records::{PackedRecords, Packing};
#[cfg(feature = "canaries")]
pub(crate) use moving_page::Moving;
pub(crate) use moving_page::MovingPage;

/// Victims being emptied together, so that moved units fill whole pages.
pub(super) struct Collection {
    /// For the collection stream.
    moving: MovingPage,
    /// For streams of their own: logs of namespaces, and handles that are kept apart.
    moving_apart: Vec<MovingPage>,
    packing: Packing,
    victims: Vec<BlockId>,
}

impl Collection {
    /// Nothing is programmed before `earliest_ns`.
    fn new(earliest_ns: Nanoseconds) -> Collection {
        Collection {
            moving: MovingPage::new(Target::Collect, earliest_ns),
            moving_apart: Vec::new(),
            packing: Packing::default(),
            victims: Vec::new(),
        }
    }

    /// The page that takes units of a stream.
    fn page_for(&mut self, target: Target, earliest_ns: Nanoseconds) -> &mut MovingPage {
        if target == Target::Collect {
            return &mut self.moving;
        }
        let index = self.moving_apart.iter().position(|moving| moving.target == target);
        let index = index.unwrap_or_else(|| {
            self.moving_apart.push(MovingPage::new(target, earliest_ns));
            self.moving_apart.len() - 1
        });
        &mut self.moving_apart[index]
    }

    /// The most pages that the units in transit take.
    fn waiting_pages(&self) -> u32 {
        (self.packing.open_units() + self.moving_apart.len() + 1) as u32
    }

    /// Takes the victims that are empty, except the last one, whose units may still be scanned.
    fn take_emptied(&mut self, map: &Map) -> Vec<BlockId> {
        let last = self.victims.pop();
        let mut emptied = Vec::new();
        for index in (0..self.victims.len()).rev() {
            if map.valid(self.victims[index]) == 0 {
                emptied.push(self.victims.remove(index));
            }
        }
        self.victims.extend(last);
        emptied
    }

    /// What was on the way stays where it is.
    fn give_up(&self, nand: &mut Nand, error: &FtlError) {
        let pages = std::iter::once(&self.moving).chain(&self.moving_apart);
        pages.for_each(|moving| moving.give_up(nand, error));
    }
}

/// Lists the units of a victim that are in use and readable.
fn find_valid_units(
    victim: BlockId,
    space: &Space,
    map: &Map,
    nand: &Nand,
    scratch: &mut Vec<SpareEnds>,
    units: &mut Vec<ValidUnit>,
) -> Result<(), FtlError> {
    units.clear();
    if map.valid(victim) == 0 {
        return Ok(());
    }
    // of a large drive the spare areas are in no cache of the processor
    let all_plain = space.is_plain(victim);
    let reads_spares = !all_plain || cfg!(debug_assertions);
    let all_ends = if reads_spares { nand.block_spare_ends(victim, scratch)? } else { &[] };
    nand.prefetch_spares(victim);
    let owners = map.owners_in(victim).filter(|(_, owner)| *owner != Owner::None);
    let first = nand.geometry().first_unit(victim);
    for (ppn, owner) in owners.filter(|(ppn, _)| nand.is_readable(*ppn)) {
        let is_plain = || spare::is_plain(&all_ends[(ppn.0 - first.0) as usize]);
        debug_assert!(!all_plain || is_plain(), "unit {ppn} of plain block {victim} has another spare area");
        let plain = match owner {
            Owner::Plain(lpn) if all_plain || is_plain() => {
                map.prefetch(lpn);
                Some(lpn)
            }
            _ => None,
        };
        units.push(ValidUnit { ppn, plain });
    }
    // all together, so that the misses overlap
    map.assert_at(units.iter().filter_map(|unit| Some((unit.plain?, unit.ppn))));
    Ok(())
}

impl Allocator {
    /// Begins to empty victims.
    pub(super) fn begin_collection(&mut self, at_ns: Nanoseconds) -> Collection {
        self.log.between_steps(at_ns);
        // members of an atomic batch lose their mark when moved, so the whole batch must be on flash first
        Collection::new(at_ns.max(self.batches.done_ns()))
    }

    /// Moves what a victim holds.
    pub(super) fn collect_into(
        &mut self,
        collection: &mut Collection,
        victim: BlockId,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let Parts { space, map, .. } = &mut self.parts;
        space.begin_collecting(victim, map);
        self.finish_if_short(collection, at_ns).inspect_err(|_| {
            let Parts { space, map, .. } = &mut self.parts;
            space.close(victim, map);
        })?;
        collection.victims.push(victim);
        let mut units = std::mem::take(&mut self.scratch.valid_units);
        let Parts { space, map, nand, scratch, .. } = &mut self.parts;
        let moved =
            find_valid_units(victim, space, map, nand, &mut scratch.spare_ends, &mut units).and_then(|()| {
                match self.placement {
                    None => self.move_units(&units, collection, at_ns),
                    Some(_) => self.move_placed_units(&units, collection, at_ns),
                }
            });
        self.scratch.valid_units = units;
        moved.inspect_err(|error| self.give_up(collection, error))
    }

    /// Releases the victims; what was on the way stays where it is.
    fn give_up(&mut self, collection: &mut Collection, error: &FtlError) {
        self.release_victims(collection);
        collection.give_up(&mut self.nand, error);
    }

    /// Programs what waits if there is no room for both that and one more victim: first packed units, then all, for which the last
    /// page may have to be padded.
    fn finish_if_short(&mut self, collection: &mut Collection, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if collection.victims.is_empty() || self.has_room_for_victim(collection) {
            return Ok(());
        }
        let open = collection.packing.take_open();
        let moved =
            self.move_packed(open, collection, at_ns).and_then(|()| self.program_if_full(collection, at_ns));
        moved.inspect_err(|error| self.give_up(collection, error))?;
        if self.has_room_for_victim(collection) {
            return Ok(());
        }
        let waiting = std::mem::replace(collection, self.begin_collection(at_ns));
        self.finish_collection(waiting, at_ns)
    }

    /// Whether there is room for what waits and for one more victim. A packed unit with a little of each victim keeps all of them
    /// from becoming free, while their other units take up blocks. If a single page waits for all that is left in the victims,
    /// the next one fills it first, and they become free.
    fn has_room_for_victim(&self, collection: &Collection) -> bool {
        let spare = self.spare_blocks();
        if self.space.layout().isolates {
            // whichever handle the victim has, behind a page that waits for it there is room for all but one page of it
            let waiting = |moving: &MovingPage| match moving.is_empty() {
                true => 0,
                false => self.space.missing_blocks(moving.target, 1, &self.nand),
            };
            let packed = collection.packing.open_units() as u32 + 1;
            let apart: u32 = collection.moving_apart.iter().map(waiting).sum();
            return apart + self.space.missing_blocks(Target::Collect, packed, &self.nand) < spare;
        }
        let has_room =
            |pages, blocks| self.space.missing_blocks(Target::Collect, pages, &self.nand) <= blocks;
        let pages = self.geometry.pages_per_block + collection.waiting_pages();
        if has_room(pages, spare) {
            return true;
        }
        let units: u32 = collection.victims.iter().map(|victim| self.map.valid(*victim)).sum();
        let one_page_empties_them =
            collection.waiting_pages() == 1 && units as usize == collection.moving.len();
        one_page_empties_them
            && has_room(1, spare)
            && has_room(pages, spare + collection.victims.len() as u32)
    }

    /// Programs all units in transit, and releases the victims.
    pub(super) fn finish_collection(
        &mut self,
        mut collection: Collection,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let last = collection.packing.take_open();
        let programmed = self
            .move_packed(last, &mut collection, at_ns)
            .and_then(|()| self.program_all_moving(&mut collection, at_ns));
        self.release_victims(&mut collection);
        programmed.inspect_err(|error| collection.give_up(&mut self.nand, error))
    }

    /// Releases the victims. One that is not empty keeps units that could not be moved: it stays closed if there was no
    /// space for them, and must be retired if all of them are lost.
    fn release_victims(&mut self, collection: &mut Collection) {
        for block in collection.victims.drain(..) {
            let Parts { map, space, nand, counters, .. } = &mut self.parts;
            if map.valid(block) == 0 {
                counters.collections += 1;
                space.release(block, nand);
            } else if map.keeps_only_lost_units(block, nand) {
                space.keeps_lost_units(block);
                space.note_loss_in(block);
            } else {
                space.close(block, map);
            }
        }
    }

    fn move_units(
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
                None if let Owner::Packed(_) = self.map.owner(unit.ppn) => {
                    self.pack(unit.ppn, collection, at_ns)?
                }
                _ => self.take_along(unit, &mut collection.moving, at_ns)?,
            }
            self.program_if_full(collection, at_ns)?;
        }
        Ok(())
    }

    /// The same on a drive with placement: each unit goes with its handle, if handles are kept apart.
    #[inline(never)]
    fn move_placed_units(
        &mut self,
        units: &[ValidUnit],
        collection: &mut Collection,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let per_page = self.geometry.units_per_page();
        let mut charged = None;
        let mut read_ns = at_ns;
        for unit in units {
            let page = self.geometry.page_of(unit.ppn);
            if charged != Some(page) {
                read_ns = self.nand.charge_read(page, UNIT_BYTES as u32 * per_page, at_ns);
                charged = Some(page);
            }
            if unit.plain.is_none() && matches!(self.map.owner(unit.ppn), Owner::Packed(_)) {
                collection.moving.earliest_ns = collection.moving.earliest_ns.max(read_ns);
                self.pack(unit.ppn, collection, at_ns)?;
                self.program_if_full(collection, at_ns)?;
                continue;
            }
            let handle = self.handle_of(unit.ppn)?;
            let target = Target::of_copies(guard!(CopiesLeaveHandle, self.config.lane(handle)));
            let moving = collection.page_for(target, at_ns.max(self.batches.done_ns()));
            moving.earliest_ns = moving.earliest_ns.max(read_ns);
            self.take_along(unit, moving, at_ns)?;
            moving.handles.push(handle);
            if moving.len() == per_page as usize {
                self.program_moving(collection, target, at_ns)?;
            }
        }
        Ok(())
    }

    /// The handle with which a unit was placed. The page that it is on is read anyway.
    fn handle_of(&self, ppn: Ppn) -> Result<Handle, FtlError> {
        let handle = spare::handle(&self.nand.spare(ppn)?);
        let known = handle.filter(|handle| u32::from(handle.0) < self.config.handles());
        Ok(known.ok_or(Damage::Spare { ppn })?)
    }

    /// Programs the page of the collection stream if there is no room for another unit.
    #[inline]
    fn program_if_full(&mut self, collection: &mut Collection, at_ns: Nanoseconds) -> Result<(), FtlError> {
        match collection.moving.len() == self.geometry.units_per_page() as usize {
            true => self.program_moving(collection, Target::Collect, at_ns),
            false => Ok(()),
        }
    }

    /// Puts one unit on the page, with the spare area of its copy.
    #[inline(always)]
    fn take_along(
        &mut self,
        unit: &ValidUnit,
        moving: &mut MovingPage,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let Parts { numbers, nand, map, units, log, config, .. } = &mut self.parts;
        if moving.is_empty() {
            moving.step = numbers.draw();
        }
        if let Some(lpn) = unit.plain {
            guard!(
                CopybackTakesNewVersion(moving, (unit.ppn, lpn), numbers.draw(), nand)?,
                moving.take_plain(unit.ppn, lpn)
            );
            return Ok(());
        }
        let owners = moving.take_marked(unit.ppn, map, units, nand)?;
        moving.waits_for_steps |= log.is_under_way(unit.ppn, at_ns);
        // beyond DRAM's share, the table of shared units is on flash and must be read
        if owners > 1
            && map.extra_owners() > config.shared_owners as usize
            && let Some(&block) = log.checkpoint_blocks().first()
        {
            nand.charge_read(nand.geometry().page(block, 0), UNIT_BYTES as u32, at_ns);
        }
        Ok(())
    }

    /// Packs the records of one unit that are in use, and moves the units that this fills.
    fn pack(&mut self, ppn: Ppn, collection: &mut Collection, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let Parts { records, log, nand, space, counters, .. } = &mut self.parts;
        let mut reads = Reads { nand, space, counters };
        let full = records.pack(ppn, &mut collection.packing, log, &mut reads, at_ns)?;
        self.move_packed(full, collection, at_ns)
    }

    /// Puts packed units onto the page, and programs it whenever it is full.
    fn move_packed(
        &mut self,
        units: Vec<PackedRecords>,
        collection: &mut Collection,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        for packed in units {
            let earliest_ns = at_ns.max(self.batches.done_ns());
            let full = self.geometry.units_per_page() as usize;
            if collection.page_for(packed.target(), earliest_ns).len() == full {
                self.program_moving(collection, packed.target(), at_ns)?;
            }
            let moving = collection.page_for(packed.target(), earliest_ns);
            if moving.is_empty() {
                moving.step = self.next_seq();
            }
            moving.take_packed(packed, &mut self.nand)?;
        }
        Ok(())
    }

    /// Programs all units in transit.
    fn program_all_moving(
        &mut self,
        collection: &mut Collection,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        self.program_moving(collection, Target::Collect, at_ns)?;
        for index in 0..collection.moving_apart.len() {
            self.program_moving(collection, collection.moving_apart[index].target, at_ns)?;
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
        if moving.is_empty() {
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
        for block in collection.take_emptied(&self.map) {
            self.counters.collections += 1;
            self.release_block(block);
        }
        Ok(())
    }

    /// A reservation for a page of copies, with the records of owners that its spare areas have no room for.
    fn room_for_copies(&mut self, moving: &MovingPage, at_ns: Nanoseconds) -> Result<Reservation, FtlError> {
        let records = moving.spilled();
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
        if guard!(CopyBeforeJournal, !self.log.nothing_waits()) {
            self.flush_journal(at_ns)?;
        }
        moving.earliest_ns = moving.earliest_ns.max(guard!(CopyBeforeStepIsDone, self.log.steps_done_ns()));
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
        debug_assert!(moving.len() <= units, "{} units for a page of {units}", moving.len());
        debug_assert_ne!(step.0, 0, "a page of {} units has no step", moving.len());
        if let Some(plain) = moving.plain_units(units) {
            let mut from = [Ppn(0); MAX_UNITS_PER_PAGE];
            from.iter_mut().zip(plain).for_each(|(from, ppn)| *from = ppn);
            let summary = PageSummary { step, marked: false, plain: true };
            return self.program_with(room, target, summary, earliest_ns, |nand, place| {
                nand.program_moved(place, &from[..units], spare::head(step), earliest_ns)
            });
        }
        let image = moving.image(&self.nand)?;
        self.program(room, target, image, step, earliest_ns)
    }

    /// Gives a programmed page of copies to the owners of its units, and records those that its spare areas have no room for.
    fn name_copies(
        &mut self,
        room: &mut Reservation,
        moving: &mut MovingPage,
        place: PageId,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let (units, packed) = moving.programmed();
        if let Some(placement) = &mut self.placement {
            let packed = std::iter::repeat_n(Handle::DEFAULT, packed as usize);
            let handles = moving.handles.drain(..).chain(packed);
            handles.for_each(|handle| placement.moved(handle, moving.earliest_ns));
        }
        self.counters.flash_units.key_value_copyback += packed;
        self.counters.flash_units.copyback += units;
        if !moving.move_plain(self.geometry.unit(place, 0), &mut self.map) {
            for index in 0..moving.len() {
                let to = self.geometry.unit(place, index as u32);
                let Parts { map, units, records, .. } = &mut self.parts;
                for (lpn, version) in moving.move_unit(index, to, map, units, records) {
                    let step = self.next_seq();
                    let record = Record::Map { lpn, version, step, ppn: to };
                    self.append_journal(room, &[record], at_ns).map_err(FtlError::unfinished)?;
                }
            }
        }
        moving.begin_anew(at_ns.max(self.batches.done_ns()));
        Ok(())
    }
}
