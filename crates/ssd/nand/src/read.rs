//! Reading: units, spare areas, and what costs no time because firmware reads the page anyway.

use crate::faults::FailingStep;
use crate::nand::Nand;
use crate::schedule::Priority;
use tantalum_image::NandError;
use tantalum_image::Slot;
use tantalum_image::{BlockId, Nanoseconds, PageId, Ppn, SpareEnds, UNIT_BYTES, UNIT_SPARE_BYTES, UnitSpare};
use tantalum_image::{MOVED, PageState};

/// To the drive, bytes with a wrong checksum in the image are uncorrectable.
pub(crate) fn as_uncorrectable(error: NandError, ppn: Ppn) -> NandError {
    match error {
        NandError::DataChecksum { .. } => NandError::Uncorrectable { ppn },
        error => error,
    }
}

impl Nand {
    /// Reads a unit into `data`, 4096 bytes. Returns when it is there, ns.
    pub fn read(
        &mut self,
        ppn: Ppn,
        data: &mut [u8],
        earliest_ns: Nanoseconds,
    ) -> Result<Nanoseconds, NandError> {
        self.draw_read_failure(ppn)?;
        self.read_for(Priority::Read, ppn, data, earliest_ns)
    }

    fn draw_read_failure(&mut self, ppn: Ppn) -> Result<(), NandError> {
        self.powered()?;
        match self.faults.read_fails() {
            true => self.mark_uncorrectable(self.geometry.page_of(ppn)),
            false => Ok(()),
        }
    }

    /// A test may let a read of firmware find its page uncorrectable too.
    fn fail_armed_read(&mut self, ppn: Ppn) -> Result<(), NandError> {
        self.powered()?;
        match self.faults.step_fails(FailingStep::Read) {
            true => self.mark_uncorrectable(self.geometry.page_of(ppn)),
            false => Ok(()),
        }
    }

    /// [`Nand::read`] without the bytes: their place, if the unit has any, and when they are there, ns.
    pub(crate) fn begin_read(
        &mut self,
        ppn: Ppn,
        earliest_ns: Nanoseconds,
    ) -> Result<(Option<Slot>, Nanoseconds), NandError> {
        self.draw_read_failure(ppn)?;
        let page = self.page_to_read(ppn, earliest_ns);
        let done_ns = self.charge(Priority::Read, page, UNIT_BYTES as u32, earliest_ns);
        let slot = self.slot_at(ppn);
        Ok((self.counting_lost(slot)?, done_ns))
    }

    /// The slot with the bytes of a unit, if it has any.
    #[inline]
    fn slot_at(&self, ppn: Ppn) -> Result<Option<Slot>, NandError> {
        self.check_readable(ppn)?;
        let entry = self.slot_of[ppn.index()];
        debug_assert!(
            entry == 0 || entry & MOVED != 0 || self.slots.is_used(Slot(entry)),
            "unit {ppn} owns slot {entry}, which is free"
        );
        let slot = entry & !MOVED;
        Ok((slot != 0).then_some(Slot(slot)))
    }

    /// Counts a read of an uncorrectable page.
    #[inline]
    fn counting_lost<T>(&mut self, read: Result<T, NandError>) -> Result<T, NandError> {
        self.counters.uncorrectable_reads += u64::from(matches!(read, Err(NandError::Uncorrectable { .. })));
        read
    }

    /// Reads a unit as firmware reads its own journal and checkpoints: no random failure occurs.
    pub fn read_retrying(
        &mut self,
        ppn: Ppn,
        data: &mut [u8],
        earliest_ns: Nanoseconds,
    ) -> Result<Nanoseconds, NandError> {
        self.fail_armed_read(ppn)?;
        self.read_for(Priority::Read, ppn, data, earliest_ns)
    }

    /// As [`Nand::read_retrying`], for garbage collection: it gives way to hosts ([`crate::Scheduling`]).
    pub fn read_in_background(
        &mut self,
        ppn: Ppn,
        data: &mut [u8],
        earliest_ns: Nanoseconds,
    ) -> Result<Nanoseconds, NandError> {
        self.fail_armed_read(ppn)?;
        self.read_for(Priority::Background, ppn, data, earliest_ns)
    }

    fn read_for(
        &mut self,
        priority: Priority,
        ppn: Ppn,
        data: &mut [u8],
        earliest_ns: Nanoseconds,
    ) -> Result<Nanoseconds, NandError> {
        assert_eq!(data.len(), UNIT_BYTES, "a unit has 4096 bytes");
        self.powered()?;
        // the data come while their time is booked
        self.prefetch_data(ppn);
        let page = self.page_to_read(ppn, earliest_ns);
        let done_ns = self.charge(priority, page, UNIT_BYTES as u32, earliest_ns);
        let read = self.fetch(ppn, data);
        self.counting_lost(read)?;
        Ok(done_ns)
    }

    #[inline]
    fn fetch(&self, ppn: Ppn, data: &mut [u8]) -> Result<(), NandError> {
        match self.slot_at(ppn)? {
            None => data.fill(0),
            Some(slot) => self.image.read_slot(slot, data).map_err(|error| as_uncorrectable(error, ppn))?,
        }
        Ok(())
    }

    /// Reads a unit without taking time or counting as an operation of the medium.
    pub fn peek(&self, ppn: Ppn, data: &mut [u8]) -> Result<(), NandError> {
        assert_eq!(data.len(), UNIT_BYTES, "a unit has 4096 bytes");
        self.fetch(ppn, data)
    }

    /// Whether a unit can be read and equals `data`, without taking time or counting as an operation of the medium.
    pub fn holds(&self, ppn: Ppn, data: &[u8; UNIT_BYTES]) -> bool {
        self.has_power()
            && match self.slot_at(ppn) {
                Ok(Some(slot)) => self.image.slot_holds(slot, data),
                Ok(None) => data.iter().all(|byte| *byte == 0),
                Err(_) => false,
            }
    }

    /// Prefetches what reads of these places will access into the processor's cache, so that several misses overlap: what
    /// is known about pages and blocks, and the beginning of the data. Takes no time and does not count as an operation
    /// of the medium.
    pub fn prefetch(&self, places: &[Ppn]) {
        let touched = places.iter().fold(0, |any, ppn| {
            let page = self.geometry.page_of(*ppn);
            let is_done = self.time.is_block_done(self.geometry.block_of(page), 0);
            any | self.slot_of[ppn.index()] | u32::from(self.page_states[page.index()]) | u32::from(is_done)
        });
        std::hint::black_box(touched);
        for slot in places.iter().map(|ppn| self.slot_of[ppn.index()] & !MOVED).filter(|slot| *slot != 0) {
            self.image.prefetch_slot(Slot(slot));
        }
    }

    /// Prefetches the data of the place that is read next, once [`Nand::prefetch`] has brought the rest. Call it just before
    /// a read: the processor's cache holds few units.
    #[inline]
    pub fn prefetch_data(&self, ppn: Ppn) {
        match self.slot_of[ppn.index()] & !MOVED {
            0 => {}
            slot => self.image.prefetch_data(Slot(slot)),
        }
    }

    /// Reads the spare areas of a page, as recovery does: it takes the array's read time and no transfer. `spares`
    /// has one entry for each unit; they are zeros unless the page is [`PageState::Programmed`].
    pub fn read_spares(
        &mut self,
        page: PageId,
        spares: &mut [UnitSpare],
        earliest_ns: Nanoseconds,
    ) -> Result<(PageState, Nanoseconds), NandError> {
        assert_eq!(spares.len(), self.geometry.units_per_page() as usize, "one spare area for each unit");
        self.powered()?;
        let done_ns = self.charge_read(page, 0, earliest_ns);
        let state = self.page_state(page);
        match state {
            PageState::Programmed => self.image.read_spares(self.geometry.unit(page, 0), spares)?,
            PageState::Erased => spares.fill([0; UNIT_SPARE_BYTES]),
            PageState::Uncorrectable => {
                self.counters.uncorrectable_reads += 1;
                spares.fill([0; UNIT_SPARE_BYTES]);
            }
        }
        Ok((state, done_ns))
    }

    /// The spare area of a unit, in no time: for firmware that reads the page anyway.
    pub fn spare(&self, ppn: Ppn) -> Result<UnitSpare, NandError> {
        self.powered()?;
        self.check_readable(ppn)?;
        let mut spare = [0; UNIT_SPARE_BYTES];
        self.image.read_spares(ppn, std::slice::from_mut(&mut spare))?;
        Ok(spare)
    }

    /// The spare areas of all readable units of a block, in no time: for firmware that moves the block anyway, or has what
    /// it looks for in DRAM. They are fetched into `scratch`.
    pub fn block_spares<'a>(
        &'a self,
        block: BlockId,
        scratch: &'a mut Vec<UnitSpare>,
    ) -> Result<impl Iterator<Item = (Ppn, &'a UnitSpare)>, NandError> {
        self.powered()?;
        self.image.block_spares(block, scratch)?;
        let first = self.geometry.first_unit(block);
        let units = (first.0..).map(Ppn).zip(scratch.iter());
        Ok(units.filter(|(ppn, _)| self.is_readable(*ppn)))
    }

    /// The ends of the spare areas of all units of a block, for firmware that rarely needs more. Those of unreadable
    /// units ([`Nand::is_readable`]) are undefined, and an erased block may have none. `scratch` is for images that
    /// must fetch them.
    pub fn block_spare_ends<'a>(
        &'a self,
        block: BlockId,
        scratch: &'a mut Vec<SpareEnds>,
    ) -> Result<&'a [SpareEnds], NandError> {
        self.powered()?;
        self.image.block_spare_ends(block, scratch)
    }

    /// Prefetches the spare areas of a block whose units are about to move.
    pub fn prefetch_spares(&self, block: BlockId) {
        self.image.prefetch_spares(block);
    }

    /// Charges a read of a page of which `bytes` are transferred, for garbage collection. Returns when they are there, ns.
    #[inline]
    pub fn charge_read(&mut self, page: PageId, bytes: u32, earliest_ns: Nanoseconds) -> Nanoseconds {
        self.charge(Priority::Background, page, bytes, earliest_ns)
    }

    /// The page from which a unit is read. Garbage collection gives way to hosts, so a copy may be queued for a long time;
    /// until it is on flash, the unit is read from its source, which is not erased before that.
    #[inline]
    fn page_to_read(&self, ppn: Ppn, earliest_ns: Nanoseconds) -> PageId {
        let page = self.geometry.page_of(ppn);
        match self.time.is_block_done(self.geometry.block_of(page), earliest_ns) {
            true => page,
            false => self.geometry.page_of(self.original_of(ppn, earliest_ns)),
        }
    }

    #[cold]
    fn original_of(&self, mut ppn: Ppn, at_ns: Nanoseconds) -> Ppn {
        let mut issued = self.power.issued.len();
        while let Some((index, from)) = self.power.copied_from(&self.geometry, ppn, issued, at_ns)
            && self.still_holds(from, ppn)
        {
            (issued, ppn) = (index, from);
        }
        ppn
    }

    /// Whether a place can be read and has not been erased since its bytes went to a copy.
    fn still_holds(&self, from: Ppn, copy: Ppn) -> bool {
        let slot = |ppn: Ppn| self.slot_of[ppn.index()] & !MOVED;
        self.is_readable(from) && slot(from) == slot(copy)
    }

    #[inline]
    fn charge(
        &mut self,
        priority: Priority,
        page: PageId,
        bytes: u32,
        earliest_ns: Nanoseconds,
    ) -> Nanoseconds {
        self.counters.reads += 1;
        let block = self.geometry.block_of(page);
        self.time.read(self.place(block), (page, block), bytes, priority, earliest_ns)
    }

    /// Fails unless a unit can be read.
    #[inline]
    pub(crate) fn check_readable(&self, ppn: Ppn) -> Result<(), NandError> {
        match self.page_state(self.geometry.page_of(ppn)) {
            PageState::Programmed => Ok(()),
            PageState::Erased => Err(NandError::Erased { ppn }),
            PageState::Uncorrectable => Err(NandError::Uncorrectable { ppn }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::Source;
    use crate::schedule::Scheduling;
    use crate::test_support::{data, nand, program, spare};
    use tantalum_image::spare_ends;

    /// Copies a unit to a page in the background, and returns when that is done.
    fn copy(nand: &mut Nand, from: u32, page: u32, earliest_ns: Nanoseconds) -> Nanoseconds {
        let sources = [Source::Copy(Ppn(from)), Source::Padding];
        nand.program_in_background(PageId(page), &sources, &[spare(1), spare(0)], earliest_ns).unwrap()
    }

    #[test]
    fn a_copy_that_is_not_done_is_read_where_it_came_from() {
        let mut nand = nand();
        nand.set_scheduling(Scheduling::ReadFirst);
        assert_eq!(program(&mut nand, 0, [1, 2], 0), 1_020);
        nand.advance(2_000);
        // on plane 1, one after the other; then a copy of the second copy, on plane 2
        assert_eq!([copy(&mut nand, 0, 12, 2_000), copy(&mut nand, 1, 13, 2_000)], [3_010, 4_010]);
        assert_eq!(copy(&mut nand, 26, 24, 4_010), 5_020);
        let read = |nand: &mut Nand, unit, at_ns| {
            let mut bytes = data(0);
            let done_ns = nand.read(Ppn(unit), &mut bytes, at_ns).unwrap();
            assert_eq!(bytes, data(2));
            done_ns
        };
        assert_eq!(read(&mut nand, 26, 2_000), 2_110, "from page 0, on plane 0");
        assert_eq!(read(&mut nand, 48, 2_500), 2_510, "from there as well, in the register");
        assert_eq!(read(&mut nand, 48, 4_100), 4_210, "from page 13, which is done");
        assert_eq!(nand.erase(BlockId(0), 4_010).unwrap(), 14_010);
        assert_eq!(
            read(&mut nand, 26, 3_100),
            4_220,
            "what it came from is erased: not before its program is done"
        );
    }

    #[test]
    fn spare_areas_of_a_block_come_at_once_and_only_what_can_be_read() {
        let mut nand = nand();
        (0..3).for_each(|page| {
            program(&mut nand, page, [10 + u64::from(page), 20 + u64::from(page)], 0);
        });
        nand.mark_uncorrectable(PageId(1)).unwrap();
        let mut scratch = vec![spare(99); 3];
        let found = |nand: &Nand, block, scratch: &mut Vec<UnitSpare>| -> Vec<(u32, UnitSpare)> {
            nand.block_spares(block, scratch).unwrap().map(|(ppn, spare)| (ppn.0, *spare)).collect()
        };
        let expected = [(0, spare(10)), (1, spare(20)), (4, spare(12)), (5, spare(22))];
        assert_eq!(found(&nand, BlockId(0), &mut scratch), expected);
        assert_eq!(found(&nand, BlockId(3), &mut scratch), []);
        let mut scratch = vec![spare_ends(&spare(99)); 3];
        let found = |nand: &Nand, block: BlockId, scratch: &mut Vec<SpareEnds>| -> Vec<(u32, SpareEnds)> {
            let units = (block.0 * 8..).map(Ppn).zip(nand.block_spare_ends(block, scratch).unwrap());
            units.filter(|(ppn, _)| nand.is_readable(*ppn)).map(|(ppn, ends)| (ppn.0, *ends)).collect()
        };
        assert_eq!(
            found(&nand, BlockId(0), &mut scratch),
            expected.map(|(ppn, spare)| (ppn, spare_ends(&spare)))
        );
        assert_eq!(found(&nand, BlockId(3), &mut scratch), []);
    }
}
