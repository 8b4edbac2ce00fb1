//! One run of one seed: the program runs until power is lost; what it left is recovered and checked, and the program
//! may continue.

use std::ops::Range;
use std::time::Instant;

use tantalum::PowerLoss;
use tantalum_report::Monitor;

use super::drive_in_use::DriveInUse;
use super::life::{CutPoint, Life};
use super::recovery::Recovery;
use super::run_end::{Broken, Found, RunEnd};
use super::under_test::Program;
use crate::CrashOutcome;

/// A run of one seed in one setting.
#[derive(Clone, Copy)]
pub(super) struct Run<'a, P> {
    pub program: P,
    pub seed: u64,
    /// Work of a life: the maximum before a random cut, or the total.
    pub length: u64,
    /// Whether the host fails instead of the power.
    pub host_faults: bool,
    /// When it ends, although not everything is done. Each run has one cut at least.
    pub deadline: Option<Instant>,
    pub monitor: &'a Monitor,
}

impl<P: Program> Run<'_, P> {
    /// Whether the time is up.
    pub fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// The first of these numbers, and the others until the time is up.
    pub fn in_time(&self, numbers: Range<u64>) -> impl Iterator<Item = u64> {
        let first = numbers.start;
        numbers.take_while(move |number| *number == first || !self.is_late())
    }

    /// One program lives through `cuts` random cuts.
    pub fn random_cuts(
        &self,
        test_bed: P::TestBed,
        cuts: u64,
        outcome: &mut CrashOutcome,
    ) -> Result<(), RunEnd> {
        let (mut place, mut opened) = self.open_first(test_bed)?;
        for number in self.in_time(0..cuts) {
            self.monitor.check()?;
            let mut loss = PowerLoss::seeded(mix(self.seed, number, 1));
            let done = loss.random() % (self.length + 1);
            let cut = Some(CutPoint { done, operation: 1 + loss.random() % P::CUT_OPERATIONS });
            let found = |broken| RunEnd::Found(Found { cut: number, broken });
            let life = Life { seed: mix(self.seed, number, 2), cut, most: None, host: None };
            let expected = self.live(&place, opened, &life, outcome).map_err(found)?;
            (place, opened) = self.recover(place, number, &expected, &mut loss, outcome).map_err(found)?;
        }
        Ok(())
    }

    /// Flash operations of the workload, each of which will be cut.
    pub fn count_operations(&self, test_bed: P::TestBed) -> Result<u64, RunEnd> {
        let (place, opened) = self.open_first(test_bed)?;
        let before = place.flash_operations();
        let life = self.whole_life(None);
        self.live(&place, opened, &life, &mut CrashOutcome::default()).map_err(RunEnd::at_first)?;
        Ok(place.flash_operations() - before)
    }

    /// That workload, cut at the flash operation of that number, from 1.
    pub fn cut_at(
        &self,
        test_bed: P::TestBed,
        operation: u64,
        outcome: &mut CrashOutcome,
    ) -> Result<(), RunEnd> {
        self.monitor.check()?;
        let found = |broken| RunEnd::Found(Found { cut: operation, broken });
        let (place, opened) = self.open_first(test_bed)?;
        let life = self.whole_life(Some(CutPoint { done: 0, operation }));
        let expected = self.live(&place, opened, &life, outcome).map_err(found)?;
        if !place.has_power() {
            let mut loss = PowerLoss::seeded(mix(self.seed, operation, 3));
            self.recover(place, operation, &expected, &mut loss, outcome).map_err(found)?;
        }
        Ok(())
    }

    /// The first life, with all of its work.
    fn whole_life(&self, cut: Option<CutPoint>) -> Life {
        Life { seed: mix(self.seed, 0, 2), cut, most: Some(self.length), host: None }
    }

    fn open_first(&self, test_bed: P::TestBed) -> Result<(P::DriveInUse, P::Opened), RunEnd> {
        let place = self.program.take(test_bed, mix(self.seed, 0, 4));
        let opened = self.program.open_first(&place)?;
        Ok((place, opened))
    }

    fn live(
        &self,
        place: &P::DriveInUse,
        opened: P::Opened,
        life: &Life,
        outcome: &mut CrashOutcome,
    ) -> Result<P::Expected, Broken> {
        let (expected, checked) = self.program.live(place, opened, life);
        outcome.promises_checked += checked;
        expected
    }

    fn recover(
        &self,
        place: P::DriveInUse,
        cut: u64,
        expected: &P::Expected,
        loss: &mut PowerLoss,
        outcome: &mut CrashOutcome,
    ) -> Result<(P::DriveInUse, P::Opened), Broken> {
        outcome.cuts += 1;
        let seed = mix(self.seed, cut, 5);
        Recovery { program: self.program, seed, loss, outcome }.recover(place, expected)
    }
}

/// One number from three, so that the seeds of a run's parts do not overlap.
pub(super) fn mix(seed: u64, number: u64, part: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let joined = seed.wrapping_mul(FACTOR) ^ number.wrapping_add(part << 56);
    // `mix` adds the factor, which these seeds were chosen without
    tantalum_image::mix(joined.wrapping_sub(FACTOR))
}
