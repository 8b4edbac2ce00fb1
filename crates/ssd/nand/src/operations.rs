//! Program, copyback and erase.
//!
//! State changes when an operation is issued. M1 is checked here: a page that is not the next one of its block, or
//! a block that is bad, is a bug in the FTL and panics.

use crate::in_flight::{Change, ErasedBlock, Issued, Origin};
use crate::nand::Nand;
use crate::read::as_uncorrectable;
use crate::schedule::{Interval, Priority};
use tantalum_image::NandError;
use tantalum_image::Slot;
use tantalum_image::{Block, MOVED, PageState};
use tantalum_image::{
    BlockId, MAX_UNITS_PER_PAGE, Nanoseconds, PageId, Ppn, SpareHead, UNIT_BYTES, UnitSpare,
};
use tantalum_image::{Image, PageRecord, SavedRecords};

/// Where the bytes of a programmed unit come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A staged buffer; the page takes ownership of it.
    Staged(Slot),
    /// Copyback: another place, which stays readable until it is erased. [`Nand::charge_read`] charges the read, once for
    /// each page.
    Copy(Ppn),
    /// Nothing: the unit reads as zeros and is not transferred.
    Padding,
}

/// What a program is for: how urgent it is, and who waits for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    /// A host's command.
    Host,
    /// An erase, and through it whoever writes to the block: as urgent, but no host's command waits for it by itself.
    Erase,
    /// Garbage collection and checkpoints.
    Background,
}

impl Purpose {
    #[inline]
    fn priority(self) -> Priority {
        match self {
            Purpose::Host | Purpose::Erase => Priority::Host,
            Purpose::Background => Priority::Background,
        }
    }
}

/// The slots of a page about to be programmed, and what to do with them if the program is undone.
struct Gathered {
    slots: [u32; MAX_UNITS_PER_PAGE],
    origins: [Origin; MAX_UNITS_PER_PAGE],
}

impl Nand {
    // -- program ----------------------------------------------------------------------------------------------

    /// Programs a page for a host, data and spare areas together (M2). `sources` and `spares` have one entry for each unit.
    /// Returns when it is done, ns.
    ///
    /// The page takes ownership of staged buffers. On an error they still belong to the caller, except if power fails at
    /// this very operation ([`Nand::cut_after`]): then [`Nand::resolve`] gives back the buffers of a program that did not
    /// complete.
    ///
    /// Panics if the page is not the next one of its block, or the block is bad (M1).
    pub fn program(
        &mut self,
        page: PageId,
        sources: &[Source],
        spares: &[UnitSpare],
        earliest_ns: Nanoseconds,
    ) -> Result<Nanoseconds, NandError> {
        self.program_for(Purpose::Host, page, sources, spares, earliest_ns)
    }

    /// As [`Nand::program`], for a page that an erase waits for and no host: it goes ahead of garbage collection, and
    /// [`Nand::host_programs_done_ns`] does not include it.
    pub fn program_for_erase(
        &mut self,
        page: PageId,
        sources: &[Source],
        spares: &[UnitSpare],
        earliest_ns: Nanoseconds,
    ) -> Result<Nanoseconds, NandError> {
        self.program_for(Purpose::Erase, page, sources, spares, earliest_ns)
    }

    /// As [`Nand::program`], for garbage collection or a checkpoint: it gives way to hosts ([`Scheduling`]).
    ///
    /// [`Scheduling`]: crate::Scheduling
    pub fn program_in_background(
        &mut self,
        page: PageId,
        sources: &[Source],
        spares: &[UnitSpare],
        earliest_ns: Nanoseconds,
    ) -> Result<Nanoseconds, NandError> {
        self.program_for(Purpose::Background, page, sources, spares, earliest_ns)
    }

    fn program_for(
        &mut self,
        purpose: Purpose,
        page: PageId,
        sources: &[Source],
        spares: &[UnitSpare],
        earliest_ns: Nanoseconds,
    ) -> Result<Nanoseconds, NandError> {
        assert_eq!(spares.len(), sources.len(), "each unit has a spare area");
        let gather = |nand: &mut Nand| nand.gather(sources);
        self.program_with(page, sources.len(), (purpose, earliest_ns), gather, |image, record| {
            image.write_page(page, &PageRecord { spares, ..*record })
        })
    }

    /// Programs a page of copies in the background, one of each place. Their spare areas are those of the originals, except that they begin
    /// with `head`. Otherwise like [`Nand::program`] with [`Source::Copy`].
    pub fn program_moved(
        &mut self,
        page: PageId,
        from: &[Ppn],
        head: SpareHead,
        earliest_ns: Nanoseconds,
    ) -> Result<Nanoseconds, NandError> {
        let gather = |nand: &mut Nand| nand.gather_with(from, Nand::take_copy);
        self.program_with(page, from.len(), (Purpose::Background, earliest_ns), gather, |image, record| {
            image.write_moved_page(page, record, from, head)
        })
    }

    /// The common part of all programs, which have a purpose and an earliest time. `gather` takes ownership of the bytes;
    /// `write` stores the record, which is complete except for the spare areas.
    #[inline]
    fn program_with(
        &mut self,
        page: PageId,
        units: usize,
        when: (Purpose, Nanoseconds),
        gather: impl FnOnce(&mut Nand) -> Result<Gathered, NandError>,
        write: impl FnOnce(&mut dyn Image, &PageRecord) -> Result<(), NandError>,
    ) -> Result<Nanoseconds, NandError> {
        self.powered()?;
        let block = self.geometry.block_of(page);
        self.assert_programmable(page, block, units);
        if !self.power.goes_next() && self.faults.program_fails() {
            return self.fail_program(page, block, when);
        }
        let gathered = gather(self)?;
        let slots = &gathered.slots[..units];
        if let Err(error) = self.write_record(page, block, PageState::Programmed, slots, write) {
            self.give_back(&gathered);
            return Err(error);
        }
        let places = self.geometry.units_of(page);
        debug_assert!(
            self.slot_of[places.clone()].iter().all(|entry| *entry == 0),
            "page {page} is programmed over slots {:?}",
            &self.slot_of[places]
        );
        self.slot_of[places].copy_from_slice(slots);
        let bytes = self.count_program(&gathered.origins[..units]) * UNIT_BYTES as u32;
        let interval = self.book_program(page, block, bytes, when);
        self.issue(Issued { interval, change: Change::Program { page, origins: gathered.origins } })
    }

    #[inline]
    fn book_program(
        &mut self,
        page: PageId,
        block: BlockId,
        bytes: u32,
        (purpose, earliest_ns): (Purpose, Nanoseconds),
    ) -> Interval {
        let place = self.place(block);
        let interval = self.time.program(place, (page, block), bytes, purpose.priority(), earliest_ns);
        if purpose == Purpose::Host {
            self.time.is_awaited(interval.end_ns);
        }
        interval
    }

    #[inline]
    fn assert_programmable(&self, page: PageId, block: BlockId, given: usize) {
        let units = self.geometry.units_per_page() as usize;
        assert!(given == units, "a page has {units} units, but {given} were given");
        let index = page.0 - self.geometry.page(block, 0).0;
        let Block { next_page, bad, .. } = self.blocks[block.index()];
        assert!(!bad, "M1: page {page} is programmed, but its block {block} is bad");
        assert!(
            index == next_page,
            "M1: page {index} of block {block} is programmed, but its next page is {next_page} of {}",
            self.geometry.pages_per_block
        );
        debug_assert!(
            self.page_state(page) == PageState::Erased,
            "page {page} is the next one of its block, but {:?}",
            self.page_state(page)
        );
    }

    /// Takes ownership of the bytes from their sources.
    #[inline]
    fn gather(&mut self, sources: &[Source]) -> Result<Gathered, NandError> {
        self.gather_with(sources, |nand, source| match source {
            Source::Padding => Ok((0, Origin::Padding)),
            Source::Staged(slot) => {
                nand.slots.assert_used(slot);
                Ok((slot.0, Origin::Staged))
            }
            Source::Copy(ppn) => nand.take_copy(ppn),
        })
    }

    #[inline]
    fn gather_with<T: Copy>(
        &mut self,
        sources: &[T],
        take: impl Fn(&mut Nand, T) -> Result<(u32, Origin), NandError>,
    ) -> Result<Gathered, NandError> {
        let mut gathered =
            Gathered { slots: [0; MAX_UNITS_PER_PAGE], origins: [Origin::Padding; MAX_UNITS_PER_PAGE] };
        for (index, &source) in sources.iter().enumerate() {
            match take(self, source) {
                Ok((slot, origin)) => {
                    gathered.slots[index] = slot;
                    gathered.origins[index] = origin;
                }
                Err(error) => {
                    self.give_back(&gathered);
                    return Err(error);
                }
            }
        }
        Ok(gathered)
    }

    #[inline]
    fn take_copy(&mut self, ppn: Ppn) -> Result<(u32, Origin), NandError> {
        self.check_readable(ppn)?;
        let entry = &mut self.slot_of[ppn.index()];
        match *entry {
            0 => Ok((0, Origin::Padding)),
            slot if slot & MOVED == 0 => {
                debug_assert!(self.slots.is_used(Slot(slot)), "unit {ppn} owns slot {slot}, which is free");
                *entry |= MOVED;
                Ok((slot, Origin::Moved(ppn)))
            }
            moved => self.duplicate(ppn, Slot(moved & !MOVED)),
        }
    }

    /// The slot of a place belongs to an earlier copy, so this one needs bytes of its own.
    #[cold]
    fn duplicate(&mut self, ppn: Ppn, slot: Slot) -> Result<(u32, Origin), NandError> {
        let mut data = [0; UNIT_BYTES];
        self.image.read_slot(slot, &mut data).map_err(|error| as_uncorrectable(error, ppn))?;
        Ok((self.stage(&data)?.0, Origin::Duplicated))
    }

    /// Undoes `gather`.
    fn give_back(&mut self, gathered: &Gathered) {
        for (&slot, &origin) in gathered.slots.iter().zip(&gathered.origins) {
            match origin {
                Origin::Padding | Origin::Staged => {}
                Origin::Moved(ppn) => {
                    let entry = &mut self.slot_of[ppn.index()];
                    debug_assert!(
                        *entry == slot | MOVED,
                        "slot {slot} goes back to {ppn}, which has {entry:#x}"
                    );
                    *entry = slot;
                }
                Origin::Duplicated => self.slots.release(Slot(slot)),
            }
        }
    }

    /// Stores a page's record and steps to the next page.
    fn write_record(
        &mut self,
        page: PageId,
        block: BlockId,
        state: PageState,
        slots: &[u32],
        write: impl FnOnce(&mut dyn Image, &PageRecord) -> Result<(), NandError>,
    ) -> Result<(), NandError> {
        let mut record = self.blocks[block.index()];
        record.next_page += 1;
        if record.next_page == 1 {
            self.image.write_block(block, &record)?;
        }
        let operation = self.operations + 1;
        let erase_count = record.erase_count;
        write(self.image.as_mut(), &PageRecord { erase_count, operation, state, slots, spares: &[] })?;
        self.page_states[page.index()] = state as u8;
        self.blocks[block.index()] = record;
        Ok(())
    }

    /// Counts a program. Returns the units that were transferred.
    fn count_program(&mut self, origins: &[Origin]) -> u32 {
        let padded = origins.iter().filter(|origin| **origin == Origin::Padding).count();
        let staged = origins.iter().filter(|origin| **origin == Origin::Staged).count();
        let units = origins.len() - padded;
        self.counters.pages_programmed += 1;
        self.counters.units_programmed += units as u64;
        self.counters.units_copied += (units - staged) as u64;
        self.counters.units_padded += padded as u64;
        units as u32
    }

    /// A program that fails uses up the page and takes its time.
    fn fail_program(
        &mut self,
        page: PageId,
        block: BlockId,
        when: (Purpose, Nanoseconds),
    ) -> Result<Nanoseconds, NandError> {
        let slots = &[0; MAX_UNITS_PER_PAGE][..self.geometry.units_per_page() as usize];
        self.write_record(page, block, PageState::Uncorrectable, slots, |image, record| {
            image.write_page(page, record)
        })?;
        let interval = self.book_program(page, block, self.geometry.page_bytes, when);
        self.counters.program_failures += 1;
        let origins = [Origin::Padding; MAX_UNITS_PER_PAGE];
        let done_ns = self.issue(Issued { interval, change: Change::Program { page, origins } })?;
        Err(NandError::ProgramFailed { page, done_ns })
    }

    // -- erase ------------------------------------------------------------------------------------------------

    /// Erases a block. Returns when it is done, ns.
    ///
    /// Panics if the block is bad (M1).
    pub fn erase(&mut self, block: BlockId, earliest_ns: Nanoseconds) -> Result<Nanoseconds, NandError> {
        self.powered()?;
        let old = self.blocks[block.index()];
        assert!(!old.bad, "M1: block {block} is erased, but it is bad");
        let failed = self.faults.erase_fails(old.erase_count);
        let records = self.image.take_records(block, old.next_page)?;
        let pages = self.geometry.pages_per_block;
        let new = Block {
            erase_count: old.erase_count + 1,
            next_page: if failed { pages } else { 0 },
            bad: false,
            torn: false,
            failed,
        };
        if let Err(error) = self.image.write_block(block, &new) {
            self.image.restore_records(block, records)?;
            return Err(error);
        }
        let erased = Box::new(self.empty_block(block, old, records));
        self.blocks[block.index()] = new;
        if failed {
            let pages = self.geometry.pages_of(block);
            self.page_states[pages].fill(PageState::Uncorrectable as u8);
        }
        let interval = self.time.erase(self.geometry.plane_of(block), block, earliest_ns);
        self.counters.blocks_erased += 1;
        let done_ns = self.issue(Issued { interval, change: Change::Erase(erased) })?;
        if failed {
            self.counters.erase_failures += 1;
            return Err(NandError::EraseFailed { block, done_ns });
        }
        Ok(done_ns)
    }

    /// Removes everything from a block.
    fn empty_block(&mut self, block: BlockId, old: Block, records: SavedRecords) -> ErasedBlock {
        let (pages, units) = (self.geometry.pages_of(block), self.geometry.units_of_block(block));
        // the image was asked for the records before the next page only
        debug_assert!(
            self.page_states[pages.clone()].iter().skip(old.next_page as usize).all(|state| *state == 0),
            "a page of block {block} is programmed, but the next one is {}",
            old.next_page
        );
        let erased = ErasedBlock {
            block,
            old,
            states: self.page_states[pages.clone()].into(),
            slot_of: self.slot_of[units.clone()].into(),
            records,
        };
        self.page_states[pages].fill(PageState::Erased as u8);
        self.slot_of[units].fill(0);
        erased
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{data, nand, program, read_tag, spare};

    #[test]
    fn units_read_as_programmed_and_padding_as_zeros() {
        let mut nand = nand();
        let slot = nand.stage(&data(5)).unwrap();
        let spares = [spare(1), spare(2)];
        nand.program(PageId(0), &[Source::Padding, Source::Staged(slot)], &spares, 0).unwrap();
        assert_eq!((read_tag(&mut nand, 0), read_tag(&mut nand, 1)), (0, 5));
        assert_eq!(nand.spare(Ppn(1)).unwrap(), spare(2));
        let mut read = [spare(0); 2];
        assert_eq!(nand.read_spares(PageId(0), &mut read, 0).unwrap().0, PageState::Programmed);
        assert_eq!(read, spares);
        let counters = nand.counters();
        assert_eq!((counters.units_programmed, counters.units_padded, counters.pages_programmed), (1, 1, 1));
    }

    #[test]
    fn times_are_those_of_array_and_transfer() {
        let mut nand = nand();
        let slot = nand.stage(&data(5)).unwrap();
        let sources = [Source::Staged(slot), Source::Padding];
        assert_eq!(nand.program(PageId(0), &sources, &[spare(0); 2], 0).unwrap(), 1_010);
        assert_eq!(nand.read(Ppn(0), &mut data(0), 0).unwrap(), 1_120);
        assert_eq!(
            nand.read_spares(PageId(0), &mut [spare(0); 2], 0).unwrap().1,
            1_110,
            "it is in the register"
        );
        assert_eq!(nand.charge_read(PageId(1), 8192, 0), 1_230);
        assert_eq!(nand.erase(BlockId(0), 0).unwrap(), 11_210);
        assert_eq!(nand.programs_done_ns(), 1_010);
    }

    #[test]
    #[should_panic(expected = "M1: page 0 of block 0 is programmed, but its next page is 1 of 4")]
    fn programming_a_page_twice_panics() {
        let mut nand = nand();
        program(&mut nand, 0, [1, 2], 0);
        program(&mut nand, 0, [1, 2], 0);
    }

    #[test]
    #[should_panic(expected = "M1: page 1 of block 2 is programmed, but its next page is 0 of 4")]
    fn programming_out_of_order_panics() {
        program(&mut nand(), 9, [1, 2], 0);
    }

    #[test]
    #[should_panic(expected = "M1: page 0 is programmed, but its block 0 is bad")]
    fn programming_a_bad_block_panics() {
        let mut nand = nand();
        nand.retire(BlockId(0)).unwrap();
        program(&mut nand, 0, [1, 2], 0);
    }

    #[test]
    #[should_panic(expected = "M1: block 1 is erased, but it is bad")]
    fn erasing_a_bad_block_panics() {
        let mut nand = nand();
        nand.retire(BlockId(1)).unwrap();
        let _ = nand.erase(BlockId(1), 0);
    }

    #[test]
    fn an_erased_page_is_an_error_to_read_and_to_copy() {
        let mut nand = nand();
        program(&mut nand, 0, [1, 2], 0);
        assert!(matches!(nand.read(Ppn(2), &mut data(0), 0), Err(NandError::Erased { ppn: Ppn(2) })));
        assert!(matches!(nand.spare(Ppn(2)), Err(NandError::Erased { ppn: Ppn(2) })));
        let sources = [Source::Copy(Ppn(0)), Source::Copy(Ppn(2))];
        let copied = nand.program(PageId(4), &sources, &[spare(0); 2], 0);
        assert!(matches!(copied, Err(NandError::Erased { ppn: Ppn(2) })));
        assert_eq!(nand.next_page(BlockId(1)), 0);
        assert_eq!(nand.slot_of[0] & MOVED, 0, "nothing was taken");
    }

    #[test]
    fn a_copy_takes_no_slot_and_its_source_stays_readable() {
        let mut nand = nand();
        program(&mut nand, 0, [1, 2], 0);
        assert_eq!(nand.slots_in_use(), 2);
        let sources = [Source::Copy(Ppn(1)), Source::Copy(Ppn(0))];
        nand.program(PageId(4), &sources, &[spare(0); 2], 0).unwrap();
        assert_eq!(nand.slots_in_use(), 2);
        assert_eq!([0, 1, 8, 9].map(|ppn| read_tag(&mut nand, ppn)), [1, 2, 2, 1]);
        nand.erase(BlockId(0), 0).unwrap();
        nand.advance(u64::MAX);
        assert_eq!([8, 9].map(|ppn| read_tag(&mut nand, ppn)), [2, 1]);
        assert_eq!(nand.slots_in_use(), 2);
    }

    #[test]
    fn a_second_copy_of_one_place_has_bytes_of_its_own() {
        let mut nand = nand();
        program(&mut nand, 0, [1, 2], 0);
        let sources = [Source::Copy(Ppn(0)), Source::Copy(Ppn(0))];
        nand.program(PageId(4), &sources, &[spare(0); 2], 0).unwrap();
        assert_eq!(nand.slots_in_use(), 3);
        nand.erase(BlockId(1), 0).unwrap();
        nand.advance(u64::MAX);
        assert_eq!(nand.slots_in_use(), 1);
    }

    #[test]
    fn a_copy_of_padding_is_padding() {
        let mut nand = nand();
        nand.program(PageId(0), &[Source::Padding; 2], &[spare(0); 2], 0).unwrap();
        let sources = [Source::Copy(Ppn(0)), Source::Padding];
        nand.program(PageId(4), &sources, &[spare(0); 2], 0).unwrap();
        assert_eq!(read_tag(&mut nand, 8), 0);
        assert_eq!(nand.slots_in_use(), 0);
    }

    #[test]
    fn slots_of_an_erased_block_are_free_only_when_the_erase_is_past() {
        let mut nand = nand();
        program(&mut nand, 0, [1, 2], 0);
        let done_ns = nand.erase(BlockId(0), 0).unwrap();
        assert_eq!(nand.page_state(PageId(0)), PageState::Erased);
        nand.advance(done_ns - 1);
        assert_eq!(nand.slots_in_use(), 2);
        nand.advance(done_ns);
        assert_eq!(nand.slots_in_use(), 0);
        assert_eq!(nand.erase_count(BlockId(0)), 1);
    }

    #[test]
    fn memory_follows_the_live_data() {
        let mut nand = nand();
        let mut now_ns = 0;
        for round in 0..1_000 {
            for page in 0..4 {
                now_ns = program(&mut nand, page, [round, page.into()], now_ns);
            }
            now_ns = nand.erase(BlockId(0), now_ns).unwrap();
            nand.advance(now_ns);
        }
        assert_eq!(nand.slots_in_use(), 0);
        assert_eq!(nand.slots.watermark(), 8, "eight units were there at once");
    }

    #[test]
    fn a_page_of_moved_units_keeps_their_spare_areas_but_for_the_head() {
        let mut nand = nand();
        program(&mut nand, 0, [10, 20], 0);
        nand.program_moved(PageId(4), &[Ppn(1), Ppn(0)], [9; 8], 0).unwrap();
        for (ppn, tag) in [(8, 20), (9, 10)] {
            let mut expected = spare(tag);
            expected[..8].fill(9);
            assert_eq!((nand.spare(Ppn(ppn)).unwrap(), read_tag(&mut nand, ppn)), (expected, tag));
        }
        assert_eq!(nand.spare(Ppn(0)).unwrap(), spare(10));
        assert!(matches!(
            nand.program_moved(PageId(5), &[Ppn(0), Ppn(2)], [0; 8], 0),
            Err(NandError::Erased { ppn: Ppn(2) })
        ));
    }
}
