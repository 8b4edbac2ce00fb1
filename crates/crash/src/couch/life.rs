//! One run of one seed: the store lives until power goes, is recovered and checked, and perhaps lives on.

use tantalum::PowerLoss;
use tantalum_couch::{VolumeStorage, Way};
use tantalum_volume::Volume;

use super::Broken;
use super::contents::Contents;
use super::recovery::{Recovered, recover};
use super::session::{self, Expected, Session, Stop};
use crate::CrashOutcome;
use crate::error::CrashError;
use crate::sqlite::mix;
use tantalum_report::{Interrupted, Monitor};

/// Flash operations after which a random cut comes at most, once it was decided that one will.
const CUT_OPERATIONS: u64 = 60;

/// Steps after which a life without a cut is given up: nothing reaches flash any more.
const MOST_STEPS: u64 = 100_000;

/// When power goes.
#[derive(Clone, Copy)]
struct CutPoint {
    /// So many commits must have been acknowledged.
    commits: u64,
    /// Then the flash operation of this number, from 1, finds no power.
    operation: u64,
}

/// A run of one seed in one way.
pub(super) struct Run<'a> {
    pub way: Way,
    pub seed: u64,
    /// Commits of a life: before a random cut at most, or in all.
    pub commits: u64,
    pub monitor: &'a Monitor,
}

/// What a run found: the cut and the promise.
pub(super) struct Found {
    pub cut: u64,
    pub broken: Broken,
}

/// Why a run ended early.
pub(super) enum RunEnd {
    Found(Found),
    Failed(CrashError),
}

impl From<CrashError> for RunEnd {
    fn from(error: CrashError) -> RunEnd {
        RunEnd::Failed(error)
    }
}

impl From<Interrupted> for RunEnd {
    fn from(error: Interrupted) -> RunEnd {
        RunEnd::Failed(error.into())
    }
}

impl Run<'_> {
    /// One store lives through `cuts` random cuts.
    pub fn random_cuts(&self, volume: Volume, cuts: u64, outcome: &mut CrashOutcome) -> Result<(), RunEnd> {
        let mut alive = self.first_open(volume)?;
        for cut in 0..cuts {
            self.monitor.check()?;
            let mut loss = PowerLoss::seeded(mix(self.seed, cut, 1));
            let point = CutPoint {
                commits: loss.random() % (self.commits + 1),
                operation: 1 + loss.random() % CUT_OPERATIONS,
            };
            let found = |broken| RunEnd::Found(Found { cut, broken });
            let (storage, expected) = self.live(alive, cut, Some(point), None, outcome).map_err(found)?;
            outcome.cuts += 1;
            alive = recover(storage, self.way, &expected, &mut loss, outcome).map_err(found)?;
        }
        Ok(())
    }

    /// Flash operations of the workload of which every one is to be cut.
    pub fn count_operations(&self, volume: Volume) -> Result<u64, RunEnd> {
        let alive = self.first_open(volume)?;
        let before = alive.storage.volume().device().flash_operations();
        let found = |broken| RunEnd::Found(Found { cut: 0, broken });
        let most = Some(self.commits);
        let (storage, _) = self.live(alive, 0, None, most, &mut CrashOutcome::default()).map_err(found)?;
        let after = storage.volume().device().flash_operations();
        Ok(after - before)
    }

    /// That workload, cut at the flash operation of that number, from 1.
    pub fn cut_at(&self, volume: Volume, operation: u64, outcome: &mut CrashOutcome) -> Result<(), RunEnd> {
        self.monitor.check()?;
        let found = |broken| RunEnd::Found(Found { cut: operation, broken });
        let point = CutPoint { commits: 0, operation };
        let alive = self.first_open(volume)?;
        let most = Some(self.commits);
        let (storage, expected) = self.live(alive, 0, Some(point), most, outcome).map_err(found)?;
        if !storage.volume().device().has_power() {
            outcome.cuts += 1;
            let mut loss = PowerLoss::seeded(mix(self.seed, operation, 3));
            recover(storage, self.way, &expected, &mut loss, outcome).map_err(found)?;
        }
        Ok(())
    }

    /// The new store.
    fn first_open(&self, volume: Volume) -> Result<Recovered, RunEnd> {
        let storage = VolumeStorage::new(volume);
        let store = session::open(&storage, self.way).map_err(|error| {
            RunEnd::Found(Found { cut: 0, broken: Broken::new("a store can be made", error.to_string()) })
        })?;
        Ok(Recovered { storage, store, contents: Contents::default() })
    }

    /// Works until power goes, or until `most` commits were acknowledged, and closes the store.
    fn live(
        &self,
        alive: Recovered,
        life: u64,
        cut: Option<CutPoint>,
        most: Option<u64>,
        outcome: &mut CrashOutcome,
    ) -> Result<(VolumeStorage, Expected), Broken> {
        let Recovered { storage, store, contents } = alive;
        let mut expected = Expected { contents, under_way: None };
        let seed = mix(self.seed, life, 2);
        let mut session = Session::new(storage.clone(), store, seed, &mut expected);
        let worked = work(&mut session, &storage, cut, most);
        outcome.promises_checked += session.checked;
        drop(session);
        worked.map(|()| (storage, expected))
    }
}

/// Does steps until power goes, or until `most` commits were acknowledged.
fn work(
    session: &mut Session<'_>,
    storage: &VolumeStorage,
    mut cut: Option<CutPoint>,
    most: Option<u64>,
) -> Result<(), Broken> {
    for _ in 0..MOST_STEPS {
        if let Some(point) = cut.take_if(|point| session.commits >= point.commits) {
            storage.volume().device().cut_after(Some(point.operation));
        }
        match session.step() {
            Ok(()) if storage.volume().device().has_power() => {}
            Ok(()) | Err(Stop::PowerLost) => return Ok(()),
            Err(Stop::Broken(broken)) => return Err(broken),
        }
        if most.is_some_and(|most| session.commits >= most) {
            return Ok(());
        }
    }
    Err(Broken::new("the workload reaches flash", format!("no cut came within {MOST_STEPS} steps")))
}
