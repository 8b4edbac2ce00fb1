//! One run of one seed: the program lives until power goes, what it left is recovered and checked, and may live on.

use tantalum::PowerLoss;
use tantalum_volume::Volume;

use super::broken::{Broken, Found, RunEnd, Stop};
use super::recovery::Recovery;
use super::{Place, Program, Run, mix};
use crate::CrashOutcome;

/// Steps after which a life without a cut is abandoned, because nothing reaches flash any more.
const MOST_STEPS: u64 = 100_000;

/// When power goes.
#[derive(Clone, Copy)]
struct CutPoint {
    /// After this much acknowledged work.
    done: u64,
    /// Then the flash operation of this number, from 1, finds no power.
    operation: u64,
}

/// A life of a program.
pub(crate) struct Life {
    /// Decides what it does.
    pub seed: u64,
    cut: Option<CutPoint>,
    /// Acknowledged work after which it is over.
    most: Option<u64>,
}

/// Does the steps of a life until power goes, or until it is over. A step returns how much work has been acknowledged.
pub(crate) fn live_steps(
    life: &Life,
    place: &impl Place,
    mut step: impl FnMut() -> Result<u64, Stop>,
) -> Result<(), Broken> {
    let (mut cut, mut done) = (life.cut, 0);
    for _ in 0..MOST_STEPS {
        if let Some(point) = cut.take_if(|point| done >= point.done) {
            place.cut_after(Some(point.operation));
        }
        match step() {
            Ok(acknowledged) if place.has_power() => done = acknowledged,
            Ok(_) | Err(Stop::PowerLost) => return Ok(()),
            Err(Stop::Broken(broken)) => return Err(broken),
        }
        if life.most.is_some_and(|most| done >= most) {
            return Ok(());
        }
    }
    Err(Broken::new("the workload reaches flash", format!("no cut came within {MOST_STEPS} steps")))
}

impl<P: Program> Run<'_, P> {
    /// One program lives through `cuts` random cuts.
    pub fn random_cuts(&self, volume: Volume, cuts: u64, outcome: &mut CrashOutcome) -> Result<(), RunEnd> {
        let (mut place, mut opened) = self.open_first(volume)?;
        for number in 0..cuts {
            self.monitor.check()?;
            let mut loss = PowerLoss::seeded(mix(self.seed, number, 1));
            let done = loss.random() % (self.length + 1);
            let cut = Some(CutPoint { done, operation: 1 + loss.random() % P::CUT_OPERATIONS });
            let found = |broken| RunEnd::Found(Found { cut: number, broken });
            let life = Life { seed: mix(self.seed, number, 2), cut, most: None };
            let expected = self.live(&place, opened, &life, outcome).map_err(found)?;
            (place, opened) = self.recover(place, number, &expected, &mut loss, outcome).map_err(found)?;
        }
        Ok(())
    }

    /// Flash operations of the workload, each of which will be cut.
    pub fn count_operations(&self, volume: Volume) -> Result<u64, RunEnd> {
        let (place, opened) = self.open_first(volume)?;
        let before = place.flash_operations();
        let life = self.whole_life(None);
        self.live(&place, opened, &life, &mut CrashOutcome::default()).map_err(RunEnd::at_first)?;
        Ok(place.flash_operations() - before)
    }

    /// That workload, cut at the flash operation of that number, from 1.
    pub fn cut_at(&self, volume: Volume, operation: u64, outcome: &mut CrashOutcome) -> Result<(), RunEnd> {
        self.monitor.check()?;
        let found = |broken| RunEnd::Found(Found { cut: operation, broken });
        let (place, opened) = self.open_first(volume)?;
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
        Life { seed: mix(self.seed, 0, 2), cut, most: Some(self.length) }
    }

    fn open_first(&self, volume: Volume) -> Result<(P::Place, P::Opened), RunEnd> {
        let place = self.program.take(volume, mix(self.seed, 0, 4));
        let opened = self.program.open_first(&place)?;
        Ok((place, opened))
    }

    fn live(
        &self,
        place: &P::Place,
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
        place: P::Place,
        cut: u64,
        expected: &P::Expected,
        loss: &mut PowerLoss,
        outcome: &mut CrashOutcome,
    ) -> Result<(P::Place, P::Opened), Broken> {
        outcome.cuts += 1;
        let seed = mix(self.seed, cut, 5);
        Recovery { program: self.program, seed, loss, outcome }.recover(place, expected)
    }
}
