//! Injected faults: programs, erases and reads that fail, and blocks that are bad from the factory (M6).
//!
//! Random read failures occur only when a host reads a unit ([`crate::Nand::read`]). Firmware reads spare areas, journal and
//! checkpoints with as many retries as necessary; but a page that is already uncorrectable stays so for firmware too.
//!
//! A test may let one step fail instead ([`StepFault`]), so that it takes each path that a command has.

use tantalum_image::SplitMix64;

/// Failure rates. By default nothing fails.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Faults {
    /// Seed of the draws: the same seed and the same operations give the same faults.
    pub seed: u64,
    /// Programs that fail, per million.
    pub program_failure_ppm: u32,
    /// Erases that fail, per million.
    pub erase_failure_ppm: u32,
    /// Unit reads that make a page permanently uncorrectable, per million.
    pub read_failure_ppm: u32,
    /// Erases that a block endures; each further one fails. `None`: no limit.
    pub endurance_cycles: Option<u32>,
}

/// A step inside a command that a test makes fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailingStep {
    /// A program: the page is used up.
    Program,
    /// An erase: the block can no longer be programmed.
    Erase,
    /// A read of a unit, also firmware's: its page becomes uncorrectable.
    Read,
    /// No buffer is left for a unit.
    Buffer,
    /// Firmware finds no room for what it is about to do: a block, pages of its journal, capacity.
    Reservation,
}

impl FailingStep {
    /// All steps that can fail.
    pub const ALL: [FailingStep; 5] = [
        FailingStep::Program,
        FailingStep::Erase,
        FailingStep::Read,
        FailingStep::Buffer,
        FailingStep::Reservation,
    ];
}

/// Which step fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepFault {
    /// The operation that fails.
    pub step: FailingStep,
    /// Steps of this kind that succeed before.
    pub after: u64,
    /// Whether all later ones fail as well.
    pub lasts: bool,
}

/// Draws faults.
#[derive(Clone, Default, Debug)]
pub(crate) struct FaultGenerator {
    faults: Faults,
    random: SplitMix64,
    /// The step that a test makes fail.
    armed: Option<StepFault>,
    /// Whether that has happened.
    failed: bool,
    /// Whether anything may fail: the only question that is asked in a drive without faults.
    any: bool,
}

impl FaultGenerator {
    pub fn new(faults: Faults) -> FaultGenerator {
        let any = faults != Faults { seed: faults.seed, ..Faults::default() };
        FaultGenerator { faults, random: SplitMix64(faults.seed), any, ..FaultGenerator::default() }
    }

    /// Arms a step, or disarms it.
    pub fn arm(&mut self, fault: Option<StepFault>) {
        self.armed = fault;
        self.failed = false;
        self.any = FaultGenerator::new(self.faults).any || fault.is_some();
    }

    /// Whether the armed step has failed.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Whether this step fails, which is then counted.
    #[inline]
    pub fn step_fails(&mut self, step: FailingStep) -> bool {
        self.any && self.takes(step)
    }

    #[cold]
    fn takes(&mut self, step: FailingStep) -> bool {
        let Some(armed) = self.armed.as_mut().filter(|armed| armed.step == step) else { return false };
        let fails = armed.after == 0;
        armed.after -= u64::from(!fails);
        self.failed |= fails;
        if fails && !armed.lasts {
            self.armed = None;
        }
        fails
    }

    fn draw(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.random.below(1_000_000) < u64::from(ppm)
    }

    #[inline]
    pub fn program_fails(&mut self) -> bool {
        self.any && (self.takes(FailingStep::Program) || self.draw(self.faults.program_failure_ppm))
    }

    pub fn erase_fails(&mut self, erase_count: u32) -> bool {
        self.faults.endurance_cycles.is_some_and(|cycles| erase_count >= cycles)
            || self.step_fails(FailingStep::Erase)
            || self.draw(self.faults.erase_failure_ppm)
    }

    #[inline]
    pub fn read_fails(&mut self) -> bool {
        self.any && (self.takes(FailingStep::Read) || self.draw(self.faults.read_failure_ppm))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::Source;
    use crate::test_support::{data, nand, program, read_tag, spare};
    use tantalum_image::NandError;
    use tantalum_image::PageState;
    use tantalum_image::{BlockId, PageId, Ppn};

    #[test]
    fn a_failed_program_uses_its_page_up_and_leaves_the_buffers() {
        let mut nand = nand();
        program(&mut nand, 4, [8, 9], 0);
        nand.set_faults(Faults { program_failure_ppm: 1_000_000, ..Faults::default() });
        let slot = nand.stage(&data(5)).unwrap();
        let sources = [Source::Staged(slot), Source::Copy(Ppn(8))];
        let failed = nand.program(PageId(0), &sources, &[spare(0); 2], 0);
        assert!(matches!(failed, Err(NandError::ProgramFailed { page: PageId(0), done_ns: 2_020 })));
        assert_eq!(nand.page_state(PageId(0)), PageState::Uncorrectable);
        assert_eq!((nand.next_page(BlockId(0)), nand.counters().program_failures), (1, 1));
        nand.set_faults(Faults::default());
        nand.program(PageId(1), &sources, &[spare(0); 2], 0).unwrap();
        assert_eq!((read_tag(&mut nand, 2), read_tag(&mut nand, 3)), (5, 8));
    }

    #[test]
    fn a_block_beyond_its_endurance_fails_to_erase_and_can_be_retired() {
        let mut nand = nand();
        nand.set_faults(Faults { endurance_cycles: Some(2), ..Faults::default() });
        assert!(nand.erase(BlockId(0), 0).is_ok() && nand.erase(BlockId(0), 0).is_ok());
        assert!(matches!(nand.erase(BlockId(0), 0), Err(NandError::EraseFailed { block: BlockId(0), .. })));
        assert_eq!(nand.page_state(PageId(3)), PageState::Uncorrectable);
        assert_eq!(nand.next_page(BlockId(0)), 4);
        assert!(nand.erase(BlockId(1), 0).is_ok(), "others are not worn");
        nand.retire(BlockId(0)).unwrap();
        assert!(nand.is_bad(BlockId(0)) && !nand.is_bad(BlockId(1)));
    }

    #[test]
    fn an_uncorrectable_page_says_so_until_its_block_is_erased() {
        let mut nand = nand();
        program(&mut nand, 0, [1, 2], 0);
        nand.mark_uncorrectable(PageId(0)).unwrap();
        assert!(matches!(nand.read(Ppn(1), &mut data(0), 0), Err(NandError::Uncorrectable { ppn: Ppn(1) })));
        assert_eq!(nand.counters().uncorrectable_reads, 1);
        let copy = nand.program(PageId(4), &[Source::Copy(Ppn(1)), Source::Padding], &[spare(0); 2], 0);
        assert!(matches!(copy, Err(NandError::Uncorrectable { ppn: Ppn(1) })));
        nand.erase(BlockId(0), 0).unwrap();
        nand.advance(u64::MAX);
        assert_eq!(nand.slots_in_use(), 0);
        program(&mut nand, 0, [3, 4], 0);
        assert_eq!(read_tag(&mut nand, 0), 3);
    }

    #[test]
    fn a_read_may_be_the_last_one() {
        let mut nand = nand();
        program(&mut nand, 0, [1, 2], 0);
        nand.set_faults(Faults { read_failure_ppm: 1_000_000, ..Faults::default() });
        assert!(matches!(nand.read(Ppn(0), &mut data(0), 0), Err(NandError::Uncorrectable { .. })));
        nand.set_faults(Faults::default());
        assert!(matches!(nand.read(Ppn(0), &mut data(0), 0), Err(NandError::Uncorrectable { .. })));
    }

    #[test]
    fn spare_areas_and_firmware_reads_do_not_fail_by_draw() {
        let mut nand = nand();
        program(&mut nand, 0, [1, 2], 0);
        nand.set_faults(Faults { read_failure_ppm: 1_000_000, ..Faults::default() });
        assert_eq!(nand.read_spares(PageId(0), &mut [spare(0); 2], 0).unwrap().0, PageState::Programmed);
        nand.read_retrying(Ppn(1), &mut data(0), 0).unwrap();
        nand.mark_uncorrectable(PageId(0)).unwrap();
        let read = nand.read_retrying(Ppn(1), &mut data(0), 0);
        assert!(matches!(read, Err(NandError::Uncorrectable { ppn: Ppn(1) })));
    }

    #[test]
    fn the_factory_marks_as_many_blocks_as_asked_for_and_always_the_same() {
        let bad = |seed, count| {
            let mut nand = nand();
            nand.retire_factory_bad(count, seed).unwrap();
            (0..nand.geometry().blocks()).filter(|block| nand.is_bad(BlockId(*block))).collect::<Vec<_>>()
        };
        let blocks = nand().geometry().blocks();
        assert_eq!(bad(7, 2).len(), 2);
        assert_eq!(bad(7, 2), bad(7, 2));
        assert_eq!(bad(7, blocks + 1).len() as u32, blocks);
    }

    #[test]
    fn the_same_seed_draws_the_same_faults_at_about_their_rate() {
        let faults = Faults { seed: 7, program_failure_ppm: 100_000, ..Faults::default() };
        let draw = || {
            let mut generator = FaultGenerator::new(faults);
            (0..10_000).map(|_| generator.program_fails()).collect::<Vec<_>>()
        };
        assert_eq!(draw(), draw());
        let failures = draw().iter().filter(|failed| **failed).count();
        assert!((900..1_100).contains(&failures), "{failures} of 10000");
    }
}
