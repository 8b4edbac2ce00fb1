//! When power fails, and which operations can no longer be undone because the host's time has passed them.
//!
//! Power can fail at an armed operation, just after it started, or at a given time. Then `resolve` settles the operations in
//! flight.

use crate::in_flight::{Change, Cut, InFlight, Issued, Progress};
use crate::nand::Nand;
use crate::schedule::Interval;
use tantalum_image::MOVED;
use tantalum_image::NandError;
use tantalum_image::Nanoseconds;
use tantalum_image::Slot;

impl Nand {
    /// Arms a cut: the Nth program, erase or store from now (1 is the next) finds no power. That call and all later ones
    /// return [`NandError::PowerLost`]. `None` disarms the cut.
    pub fn cut_after(&mut self, operations: Option<u64>) {
        self.power.armed = operations.map(|operations| operations.max(1));
    }

    /// Whether operations are possible.
    pub fn has_power(&self) -> bool {
        self.power.cut.is_none()
    }

    /// When power failed, if it is lost.
    pub fn cut_ns(&self) -> Option<Nanoseconds> {
        self.power.cut.map(|cut| cut.at_ns)
    }

    /// Power fails at `at_ns`, or at the host's time if that is later. Does nothing if power is already lost.
    pub fn power_fail(&mut self, at_ns: Nanoseconds) {
        if self.has_power() {
            self.power.cut = Some(Cut { at_ns: at_ns.max(self.now_ns()), at_last: false });
        }
    }

    /// After power failed: the operations that had started and were not done, in the order of issue.
    pub fn in_flight(&self) -> impl Iterator<Item = InFlight> {
        let power = &self.power;
        power.cut.into_iter().flat_map(move |cut| {
            (0..power.issued.len()).filter_map(move |index| match power.progress(cut, index) {
                Progress::OnItsWay(in_flight) => Some(in_flight),
                Progress::Queued | Progress::Done => None,
            })
        })
    }

    /// The host will issue nothing before `now_ns`, and power will not fail before then, so what was done by that time
    /// can no longer be undone.
    pub fn advance(&mut self, now_ns: Nanoseconds) {
        if !self.has_power() || now_ns < self.now_ns() {
            return;
        }
        self.time.advance(now_ns);
        while self.power.issued.front().is_some_and(|issued| issued.interval.end_ns <= now_ns) {
            let issued = self.power.issued.pop_front().expect("there is a front");
            self.make_final(issued);
        }
    }

    /// The host's time: power does not fail earlier.
    pub fn now_ns(&self) -> Nanoseconds {
        self.time.now_ns()
    }

    /// M5: the controller's DRAM is gone. Every slot that no place on flash holds is free; the caller's slots are void.
    pub fn lose_dram(&mut self) {
        let mut used = vec![0_u64; self.slots.watermark() as usize / 64 + 1];
        let kept = self.power.issued.iter().filter_map(|issued| match &issued.change {
            Change::Erase(erased) => Some(&erased.slot_of[..]),
            Change::Program { .. } | Change::Store(_) => None,
        });
        let entries = kept.chain([&self.slot_of[..]]).flatten();
        let mut owned = 0;
        for &entry in entries.filter(|entry| **entry != 0 && **entry & MOVED == 0) {
            let (word, bit) = (&mut used[entry as usize / 64], 1 << (entry % 64));
            assert!(*word & bit == 0, "slot {entry} has two owners");
            *word |= bit;
            owned += 1;
        }
        self.slots.retain(&used);
        let in_use = self.slots.in_use();
        assert!(in_use == owned, "{owned} places own slots, but only {in_use} of these are in use");
    }

    /// Records an operation whose change has been made. Returns when it is done.
    pub(crate) fn issue(&mut self, issued: Issued) -> Result<Nanoseconds, NandError> {
        self.operations += 1;
        let Interval { start_ns, end_ns } = issued.interval;
        self.power.issued.push_back(issued);
        match &mut self.power.armed {
            None => Ok(end_ns),
            Some(1) => {
                self.power.armed = None;
                let at_ns = (start_ns + 1).max(self.time.now_ns());
                self.power.cut = Some(Cut { at_ns, at_last: true });
                Err(NandError::PowerLost)
            }
            Some(left) => {
                *left -= 1;
                Ok(end_ns)
            }
        }
    }

    /// Makes an operation final. What an erased block held is now free.
    pub(crate) fn make_final(&mut self, issued: Issued) {
        if let Change::Erase(erased) = issued.change {
            for &entry in erased.slot_of.iter().filter(|entry| **entry != 0 && **entry & MOVED == 0) {
                self.slots.release(Slot(entry));
            }
            self.image.drop_records(erased.records);
            self.note_blank(erased.block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_flight::{Operation, Outcome};
    use crate::operations::Source;
    use crate::test_support::{data, nand, program};
    use tantalum_image::{BlockId, PageId, Ppn, UNIT_SPARE_BYTES};

    #[test]
    fn power_goes_at_the_armed_operation_and_stays_away() {
        let mut nand = nand();
        nand.cut_after(Some(2));
        program(&mut nand, 0, [1, 2], 0);
        assert!(nand.has_power());
        assert!(matches!(nand.erase(BlockId(3), 0), Err(NandError::PowerLost)));
        assert!(!nand.has_power());
        assert_eq!(nand.operations(), 2);
        assert!(matches!(nand.erase(BlockId(4), 0), Err(NandError::PowerLost)));
        assert!(matches!(nand.read(Ppn(0), &mut data(0), 0), Err(NandError::PowerLost)));
        assert!(matches!(nand.stage(&data(0)), Err(NandError::PowerLost)));
        assert!(matches!(nand.retire(BlockId(0)), Err(NandError::PowerLost)));
        let sources = [Source::Padding; 2];
        let spares = [[0; UNIT_SPARE_BYTES]; 2];
        assert!(matches!(nand.program(PageId(1), &sources, &spares, 0), Err(NandError::PowerLost)));
        assert_eq!(nand.operations(), 2);
    }

    #[test]
    fn what_is_in_flight_had_started_and_was_not_done() {
        let mut nand = nand();
        program(&mut nand, 0, [1, 2], 0); // plane 0: 20 to 1020
        program(&mut nand, 12, [1, 2], 100); // plane 1: 120 to 1120
        program(&mut nand, 24, [1, 2], 2_000); // plane 2: from 2020
        program(&mut nand, 1, [1, 2], 0); // plane 0: from 1020
        nand.power_fail(1_020);
        let in_flight: Vec<InFlight> = nand.in_flight().collect();
        let expected = InFlight { operation: Operation::Program(PageId(12)), start_ns: 120, end_ns: 1_120 };
        assert_eq!(in_flight, [expected]);
    }

    #[test]
    fn the_armed_operation_is_on_its_way_even_if_it_was_issued_into_the_past() {
        let mut nand = nand();
        nand.advance(1_000_000);
        nand.cut_after(Some(1));
        assert!(nand.erase(BlockId(0), 0).is_err());
        let in_flight = InFlight { operation: Operation::Erase(BlockId(0)), start_ns: 0, end_ns: 10_000 };
        assert_eq!(nand.in_flight().collect::<Vec<_>>(), [in_flight]);
    }

    #[test]
    fn power_does_not_go_before_the_hosts_time() {
        let mut nand = nand();
        let done_ns = program(&mut nand, 0, [1, 2], 0);
        nand.advance(done_ns + 5);
        nand.power_fail(3);
        assert_eq!(nand.in_flight().count(), 0);
        assert!(nand.resolve(&mut |_| Outcome::Torn, &mut || 0).unwrap().is_empty());
        assert_eq!(nand.next_page(BlockId(0)), 1);
    }

    #[test]
    fn dram_is_lost_and_flash_is_not() {
        let mut nand = nand();
        program(&mut nand, 0, [1, 2], 0);
        program(&mut nand, 4, [3, 4], 0);
        nand.erase(BlockId(1), 0).unwrap();
        nand.stage(&data(7)).unwrap();
        assert_eq!(nand.slots_in_use(), 5);
        nand.lose_dram();
        assert_eq!(nand.slots_in_use(), 4, "the erase may still be undone");
        nand.advance(u64::MAX);
        nand.lose_dram();
        assert_eq!(nand.slots_in_use(), 2);
        assert_eq!(crate::test_support::read_tag(&mut nand, 1), 2);
    }
}
