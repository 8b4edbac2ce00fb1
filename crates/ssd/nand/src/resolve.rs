//! After a power cut: queued operations are undone (M4), and the caller decides the outcome of those in flight (M2, M3).
//!
//! Operations are undone from the last to the first, so that each finds the state that it left. The operations on one
//! block follow each other in time, so at most one of them was in flight and all later ones were queued. On one plane several
//! may have been in flight, on different blocks, if some have gone ahead of others (`schedule`).

use crate::in_flight::{Change, ErasedBlock, InFlight, Issued, LostProgram, Origin, Outcome, Progress};
use crate::nand::Nand;
use crate::nvm::undo_store;
use tantalum_image::NandError;
use tantalum_image::PageRecord;
use tantalum_image::Slot;
use tantalum_image::{Block, MOVED, PageState};
use tantalum_image::{BlockId, MAX_UNITS_PER_PAGE, Nanoseconds, PageId, Ppn, UNIT_SPARE_BYTES, UnitSpare};

impl Nand {
    /// Settles the operations in flight when power failed, in the order of issue and as `outcome` says, and turns power
    /// on again. `random` decides the pages of torn erases. Returns the programs that did not complete, in the order of
    /// issue. Time continues from the cut, with nothing in flight.
    ///
    /// Does nothing if power is not lost. Errors come from the host's image file; power then stays lost.
    pub fn resolve(
        &mut self,
        outcome: &mut dyn FnMut(&InFlight) -> Outcome,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Vec<LostProgram>, NandError> {
        let Some(cut) = self.power.cut else { return Ok(Vec::new()) };
        let overtaking = || self.power.overtaking(&self.geometry);
        debug_assert!(overtaking().is_none(), "{:?} overtook another on its block", overtaking());
        let outcomes: Vec<Outcome> = (0..self.power.issued.len())
            .map(|index| match self.power.progress(cut, index) {
                Progress::Queued => Outcome::NotStarted,
                Progress::OnItsWay(in_flight) => outcome(&in_flight),
                Progress::Done => Outcome::Completed,
            })
            .collect();
        let mut lost = Vec::new();
        let mut past = Vec::new();
        for outcome in outcomes.into_iter().rev() {
            let issued = self.power.issued.pop_back().expect("there is an outcome for each");
            match outcome {
                Outcome::Completed => past.push(issued),
                Outcome::NotStarted | Outcome::Torn => {
                    let torn = outcome == Outcome::Torn;
                    lost.extend(self.undo(issued, torn, random)?);
                }
            }
        }
        // only now, because an undone copy looks for its slot in blocks whose erase stands
        past.into_iter().for_each(|issued| self.make_final(issued));
        lost.reverse();
        self.restart(cut.at_ns);
        Ok(lost)
    }

    fn restart(&mut self, at_ns: Nanoseconds) {
        let now_ns = self.now_ns();
        assert!(now_ns <= at_ns, "power failed at {at_ns} ns, before the host's time, {now_ns} ns");
        self.time.restart(at_ns);
        if let Some(nvm) = &mut self.nvm {
            nvm.free_ns = nvm.free_ns.min(at_ns);
        }
        self.power.cut = None;
    }

    fn undo(
        &mut self,
        issued: Issued,
        torn: bool,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Option<LostProgram>, NandError> {
        match issued.change {
            Change::Program { page, origins } => self.undo_program(page, &origins, torn).map(Some),
            Change::Erase(erased) => {
                let block = erased.block;
                self.undo_erase(*erased)?;
                if torn {
                    self.tear_erase(block, random)?;
                }
                Ok(None)
            }
            Change::Store(replaced) => {
                let random: Option<&mut dyn FnMut() -> u64> = if torn { Some(random) } else { None };
                undo_store(&mut *self.image, &replaced, random)?;
                Ok(None)
            }
        }
    }

    // -- programs ---------------------------------------------------------------------------------------------

    fn undo_program(
        &mut self,
        page: PageId,
        origins: &[Origin; MAX_UNITS_PER_PAGE],
        torn: bool,
    ) -> Result<LostProgram, NandError> {
        let units = self.geometry.units_per_page() as usize;
        let mut spares = [[0; UNIT_SPARE_BYTES]; MAX_UNITS_PER_PAGE];
        if self.page_state(page) == PageState::Programmed {
            self.image.read_spares(self.geometry.unit(page, 0), &mut spares[..units])?;
        }
        let mut lost = LostProgram { page, units: Vec::new() };
        for (index, &origin) in origins[..units].iter().enumerate() {
            self.return_slot(self.geometry.unit(page, index as u32), origin, &spares[index], &mut lost);
        }
        let block = self.geometry.block_of(page);
        let state = if torn { PageState::Uncorrectable } else { PageState::Erased };
        self.set_empty_page(page, state)?;
        let index = page.0 - self.geometry.page(block, 0).0;
        let next_page = &mut self.blocks[block.index()].next_page;
        assert!(
            *next_page == index + 1,
            "page {index} of block {block} is undone, but the next is {next_page}"
        );
        *next_page = index + u32::from(torn);
        Ok(lost)
    }

    /// Takes a unit's slot from a place whose program is undone and returns it to where it came from.
    fn return_slot(&mut self, ppn: Ppn, origin: Origin, spare: &UnitSpare, lost: &mut LostProgram) {
        let entry = std::mem::take(&mut self.slot_of[ppn.index()]);
        if entry == 0 || entry & MOVED != 0 {
            return;
        }
        match origin {
            Origin::Padding => panic!("unit {ppn} was programmed as padding, but owns slot {entry}"),
            Origin::Staged => lost.units.push((Slot(entry), *spare)),
            Origin::Duplicated => self.slots.release(Slot(entry)),
            Origin::Moved(source) => match &mut self.slot_of[source.index()] {
                source_entry if *source_entry == entry | MOVED => *source_entry = entry,
                // The source was erased before its copy was complete (hazard 3): the bytes are gone.
                _ => self.slots.release(Slot(entry)),
            },
        }
    }

    /// Leaves a page without slots, erased or uncorrectable.
    fn set_empty_page(&mut self, page: PageId, state: PageState) -> Result<(), NandError> {
        let slots = &[0; MAX_UNITS_PER_PAGE][..self.geometry.units_per_page() as usize];
        self.image.clear_page(page)?;
        if state != PageState::Erased {
            let erase_count = self.blocks[self.geometry.block_of(page).index()].erase_count;
            let operation = self.operations;
            self.image.write_page(page, &PageRecord { erase_count, operation, state, slots, spares: &[] })?;
        }
        self.page_states[page.index()] = state as u8;
        Ok(())
    }

    // -- erases -----------------------------------------------------------------------------------------------

    fn undo_erase(&mut self, erased: ErasedBlock) -> Result<(), NandError> {
        let ErasedBlock { block, old, states, slot_of, records } = erased;
        self.image.restore_records(block, records)?;
        self.image.write_block(block, &old)?;
        let (pages, units) = (self.geometry.pages_of(block), self.geometry.units_of_block(block));
        let Block { erase_count, .. } = self.blocks[block.index()];
        assert!(
            erase_count == old.erase_count + 1 && self.slot_of[units.clone()].iter().all(|entry| *entry == 0),
            "an erase after {} others of block {block} is undone, but {erase_count} are done, or units are back",
            old.erase_count
        );
        self.page_states[pages].copy_from_slice(&states);
        self.slot_of[units].copy_from_slice(&slot_of);
        self.blocks[block.index()] = old;
        Ok(())
    }

    /// Tears an erase that was undone: each page is erased, spoilt or left as it was, at random.
    fn tear_erase(&mut self, block: BlockId, random: &mut dyn FnMut() -> u64) -> Result<(), NandError> {
        for index in 0..self.geometry.pages_per_block {
            let page = self.geometry.page(block, index);
            match random() % 3 {
                0 => {}
                1 => self.lose_page(page)?,
                _ if self.page_state(page) == PageState::Programmed => self.spoil(page)?,
                _ if self.page_state(page) == PageState::Erased => {
                    self.set_empty_page(page, PageState::Uncorrectable)?;
                }
                _ => {}
            }
        }
        let next_page = self.geometry.pages_per_block;
        let record = Block { next_page, torn: true, ..self.blocks[block.index()] };
        self.image.write_block(block, &record)?;
        self.blocks[block.index()] = record;
        Ok(())
    }

    /// One page of a torn erase reads as erased.
    fn lose_page(&mut self, page: PageId) -> Result<(), NandError> {
        for unit in self.geometry.units_of(page) {
            let entry = std::mem::take(&mut self.slot_of[unit]);
            if entry != 0 && entry & MOVED == 0 {
                self.slots.release(Slot(entry));
            }
        }
        self.set_empty_page(page, PageState::Erased)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::Source;
    use crate::test_support::{data, nand, program, read_tag, spare};
    use tantalum_image::NandError;
    use tantalum_image::PlaneId;

    /// Arms a cut at the next operation, a program of page 0 with units 7 and 8.
    fn cut_at_program() -> Nand {
        let mut nand = nand();
        let sources = [7, 8].map(|tag| Source::Staged(nand.stage(&data(tag)).unwrap()));
        nand.cut_after(Some(1));
        assert!(matches!(
            nand.program(PageId(0), &sources, &[spare(17), spare(18)], 0),
            Err(NandError::PowerLost)
        ));
        nand
    }

    fn resolve(nand: &mut Nand, outcome: Outcome) -> Vec<LostProgram> {
        nand.resolve(&mut |_| outcome, &mut || 0).unwrap()
    }

    fn copy(nand: &mut Nand, page: u32, from: u32, at_ns: Nanoseconds) -> Nanoseconds {
        let sources = [Source::Copy(Ppn(from)), Source::Padding];
        nand.program(PageId(page), &sources, &[spare(0); 2], at_ns).unwrap()
    }

    #[test]
    fn a_program_on_its_way_may_have_completed() {
        let mut nand = cut_at_program();
        assert!(resolve(&mut nand, Outcome::Completed).is_empty());
        assert!(nand.has_power());
        assert_eq!((read_tag(&mut nand, 0), nand.spare(Ppn(1)).unwrap()), (7, spare(18)));
    }

    #[test]
    fn a_program_on_its_way_may_not_have_started_and_its_units_can_be_saved() {
        let mut nand = cut_at_program();
        let lost = resolve(&mut nand, Outcome::NotStarted);
        assert_eq!((nand.page_state(PageId(0)), nand.next_page(BlockId(0))), (PageState::Erased, 0));
        assert_eq!((lost.len(), lost[0].page), (1, PageId(0)));
        let [(slot, saved), (other, _)] = lost[0].units[..] else { panic!("both units are lost: {lost:?}") };
        assert_eq!(saved, spare(17));
        let mut bytes = data(0);
        nand.read_slot(slot, &mut bytes).unwrap();
        assert!(bytes == data(7));
        let sources = [Source::Staged(slot), Source::Staged(other)];
        nand.program(PageId(0), &sources, &[spare(0); 2], 0).unwrap();
        assert_eq!((read_tag(&mut nand, 0), read_tag(&mut nand, 1)), (7, 8));
    }

    #[test]
    fn a_torn_program_is_uncorrectable_and_uses_its_page_up() {
        let mut nand = cut_at_program();
        assert_eq!(resolve(&mut nand, Outcome::Torn)[0].units.len(), 2);
        assert_eq!((nand.page_state(PageId(0)), nand.next_page(BlockId(0))), (PageState::Uncorrectable, 1));
        program(&mut nand, 1, [5, 6], 0);
        assert_eq!(read_tag(&mut nand, 2), 5);
    }

    #[test]
    fn what_was_queued_behind_did_not_happen_and_what_was_done_stays() {
        let mut nand = nand();
        let done_ns = program(&mut nand, 0, [1, 2], 0);
        program(&mut nand, 1, [3, 4], 0);
        program(&mut nand, 2, [5, 6], 0);
        program(&mut nand, 12, [7, 8], done_ns + 100);
        nand.power_fail(done_ns + 1);
        let mut asked = Vec::new();
        let lost = nand.resolve(
            &mut |on_its_way| {
                asked.push(on_its_way.operation);
                Outcome::Completed
            },
            &mut || 0,
        );
        assert_eq!(asked, [crate::in_flight::Operation::Program(PageId(1))]);
        assert_eq!(lost.unwrap().iter().map(|lost| lost.page).collect::<Vec<_>>(), [PageId(2), PageId(12)]);
        assert_eq!(nand.plane_idle_ns(PlaneId(0)), done_ns + 1, "time goes on from the cut");
        assert_eq!((read_tag(&mut nand, 0), read_tag(&mut nand, 3)), (1, 4));
        assert_eq!((nand.next_page(BlockId(0)), nand.next_page(BlockId(3))), (2, 0));
    }

    #[test]
    fn programs_into_an_erased_block_are_undone_before_its_erase() {
        let mut nand = nand();
        let done_ns = program(&mut nand, 0, [1, 2], 0);
        program(&mut nand, 1, [3, 4], 0);
        nand.erase(BlockId(0), 0).unwrap();
        program(&mut nand, 0, [5, 6], 0);
        nand.power_fail(done_ns);
        assert_eq!(resolve(&mut nand, Outcome::NotStarted).len(), 2);
        assert_eq!((read_tag(&mut nand, 0), read_tag(&mut nand, 1)), (1, 2));
        assert_eq!(nand.spare(Ppn(0)).unwrap(), spare(1));
        assert_eq!((nand.next_page(BlockId(0)), nand.erase_count(BlockId(0))), (1, 0));
        program(&mut nand, 1, [7, 8], 0);
    }

    #[test]
    fn an_erase_on_its_way_leaves_the_block_old_or_erased() {
        for (outcome, next_page, erase_count) in [(Outcome::NotStarted, 1, 0), (Outcome::Completed, 0, 1)] {
            let mut nand = nand();
            program(&mut nand, 0, [1, 2], 0);
            nand.cut_after(Some(1));
            assert!(nand.erase(BlockId(0), 0).is_err());
            resolve(&mut nand, outcome);
            assert_eq!(nand.next_page(BlockId(0)), next_page);
            assert_eq!(nand.erase_count(BlockId(0)), erase_count);
            assert_eq!(nand.slots_in_use(), next_page * 2);
        }
    }

    /// Erases block 0, which has three programmed pages, torn: its pages are then old, erased, uncorrectable, old.
    fn torn_erase() -> Nand {
        let mut nand = nand();
        (0..3).for_each(|page| {
            program(&mut nand, page, [page.into(), 9], 0);
        });
        nand.cut_after(Some(1));
        assert!(nand.erase(BlockId(0), 0).is_err());
        let mut draws = [0, 1, 2, 0].into_iter();
        nand.resolve(&mut |_| Outcome::Torn, &mut || draws.next().unwrap()).unwrap();
        nand
    }

    #[test]
    fn a_torn_erase_leaves_pages_old_erased_or_uncorrectable() {
        let mut nand = torn_erase();
        let states = [0, 1, 2, 3].map(|page| nand.page_state(PageId(page)));
        use PageState::{Erased, Programmed, Uncorrectable};
        assert_eq!(states, [Programmed, Erased, Uncorrectable, Erased]);
        assert_eq!((read_tag(&mut nand, 0), read_tag(&mut nand, 1)), (0, 9));
        nand.erase(BlockId(0), 0).unwrap();
        nand.advance(u64::MAX);
        assert_eq!(nand.slots_in_use(), 0);
        program(&mut nand, 0, [1, 2], 0);
    }

    #[test]
    #[should_panic(expected = "M1: page 3 of block 0 is programmed, but its next page is 4 of 4")]
    fn a_torn_block_must_be_erased_before_it_is_programmed() {
        program(&mut torn_erase(), 3, [1, 2], 0);
    }

    #[test]
    fn a_copy_that_is_undone_or_torn_leaves_the_bytes_to_its_source() {
        for outcome in [Outcome::NotStarted, Outcome::Torn] {
            let mut nand = nand();
            let done_ns = program(&mut nand, 0, [1, 2], 0);
            let start_ns = copy(&mut nand, 12, 0, done_ns) - 1_000;
            nand.power_fail(start_ns + 1);
            assert!(resolve(&mut nand, outcome)[0].units.is_empty());
            assert_eq!(read_tag(&mut nand, 0), 1);
            nand.erase(BlockId(0), 0).unwrap();
            nand.advance(u64::MAX);
            assert_eq!(nand.slots_in_use(), 0, "the source owned the bytes again");
        }
    }

    #[test]
    fn a_chain_of_copies_is_undone_link_by_link() {
        let mut nand = nand();
        let first_ns = program(&mut nand, 0, [1, 2], 0);
        let second_ns = copy(&mut nand, 12, 0, first_ns);
        let third_ns = copy(&mut nand, 24, 24, second_ns);
        nand.erase(BlockId(3), third_ns).unwrap();
        nand.power_fail(first_ns + 11);
        resolve(&mut nand, Outcome::NotStarted);
        assert_eq!(read_tag(&mut nand, 0), 1);
        assert_eq!([12, 24].map(|page| nand.page_state(PageId(page))), [PageState::Erased; 2]);
        assert_eq!(nand.slots_in_use(), 2);
    }

    /// Hazard 3: this is what an FTL loses if it does not wait for its copies.
    #[test]
    fn bytes_are_gone_if_their_source_was_erased_before_the_copy_was_there() {
        let mut nand = nand();
        program(&mut nand, 0, [1, 2], 0);
        copy(&mut nand, 12, 0, 50_000);
        let erased_ns = nand.erase(BlockId(0), 0).unwrap();
        nand.power_fail(erased_ns + 1);
        resolve(&mut nand, Outcome::NotStarted);
        assert_eq!([0, 12].map(|page| nand.page_state(PageId(page))), [PageState::Erased; 2]);
        assert_eq!(nand.slots_in_use(), 0);
    }

    #[test]
    fn a_failed_program_that_did_not_happen_leaves_its_page_erased() {
        let mut nand = nand();
        nand.set_faults(crate::Faults { program_failure_ppm: 1_000_000, ..Default::default() });
        assert!(nand.program(PageId(0), &[Source::Padding; 2], &[spare(0); 2], 500).is_err());
        nand.power_fail(3);
        resolve(&mut nand, Outcome::Completed);
        assert_eq!((nand.page_state(PageId(0)), nand.next_page(BlockId(0))), (PageState::Erased, 0));
    }

    #[test]
    fn resolving_with_power_on_changes_nothing() {
        let mut nand = nand();
        program(&mut nand, 0, [1, 2], 0);
        assert!(resolve(&mut nand, Outcome::NotStarted).is_empty());
        assert_eq!(read_tag(&mut nand, 0), 1);
    }
}
