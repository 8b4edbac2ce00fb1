//! One run of one seed: the database lives until power goes, is recovered and checked, and may live on.

use tantalum::PowerLoss;
use tantalum_report::{Interrupted, Monitor};
use tantalum_sqlite::Synchronous;
use tantalum_sqlite::{Drive, Mode};
use tantalum_volume::Volume;

use super::history::{Broken, History};
use super::recovery::{Recovered, Recovery};
use super::session::{self, Session, Stop};
use super::step::Steps;
use super::{contents::Contents, mix};
use crate::CrashOutcome;
use crate::error::CrashError;

/// The most flash operations until a random cut, once one has been decided on.
const CUT_OPERATIONS: u64 = 30;

/// Steps after which a life without a cut is abandoned, because nothing reaches flash any more.
const MOST_STEPS: u64 = 100_000;

/// When power goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CutPoint {
    /// After this many acknowledged transactions.
    pub transactions: u64,
    /// Then the flash operation of this number, from 1, finds no power.
    pub operation: u64,
}

/// A run of one seed in one mode.
pub(super) struct Run<'a> {
    pub mode: Mode,
    pub synchronous: Synchronous,
    pub seed: u64,
    /// Transactions of a life: before a random cut at most, or in all.
    pub transactions: u64,
    pub monitor: &'a Monitor,
}

/// What a run found: the cut and the promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub cut: u64,
    pub broken: Broken,
}

/// Why a run ended early.
pub(super) enum RunEnd {
    Found(Found),
    Failed(CrashError),
}

impl From<Interrupted> for RunEnd {
    fn from(interrupted: Interrupted) -> RunEnd {
        CrashError::from(interrupted).into()
    }
}

impl From<CrashError> for RunEnd {
    fn from(error: CrashError) -> RunEnd {
        RunEnd::Failed(error)
    }
}

impl Run<'_> {
    /// One database lives through `cuts` random cuts.
    pub fn random_cuts(&self, volume: Volume, cuts: u64, outcome: &mut CrashOutcome) -> Result<(), RunEnd> {
        let mut alive = self.first_open(volume)?;
        for cut in 0..cuts {
            self.monitor.check()?;
            let mut loss = PowerLoss::seeded(mix(self.seed, cut, 1));
            let point = CutPoint {
                transactions: loss.random() % (self.transactions + 1),
                operation: 1 + loss.random() % CUT_OPERATIONS,
            };
            let found = |broken| RunEnd::Found(Found { cut, broken });
            let (drive, history) = self.live(alive, cut, Some(point), None, outcome).map_err(found)?;
            alive = self.recover(drive, cut, &history, &mut loss, outcome).map_err(found)?;
        }
        Ok(())
    }

    /// Flash operations of the workload, each of which will be cut.
    pub fn count_operations(&self, volume: Volume) -> Result<u64, RunEnd> {
        let alive = self.first_open(volume)?;
        let before = alive.drive.volume().device().flash_operations();
        let found = |broken| RunEnd::Found(Found { cut: 0, broken });
        let outcome = &mut CrashOutcome::default();
        let (drive, _) = self.live(alive, 0, None, Some(self.transactions), outcome).map_err(found)?;
        let after = drive.volume().device().flash_operations();
        Ok(after - before)
    }

    /// That workload, cut at the flash operation of that number, from 1.
    pub fn cut_at(&self, volume: Volume, operation: u64, outcome: &mut CrashOutcome) -> Result<(), RunEnd> {
        self.monitor.check()?;
        let found = |broken| RunEnd::Found(Found { cut: operation, broken });
        let point = CutPoint { transactions: 0, operation };
        let alive = self.first_open(volume)?;
        let most = Some(self.transactions);
        let (drive, history) = self.live(alive, 0, Some(point), most, outcome).map_err(found)?;
        if !drive.volume().device().has_power() {
            let mut loss = PowerLoss::seeded(mix(self.seed, operation, 3));
            self.recover(drive, operation, &history, &mut loss, outcome).map_err(found)?;
        }
        Ok(())
    }

    /// The database in the run's mode, with what it holds before the first transaction.
    fn first_open(&self, volume: Volume) -> Result<Recovered, CrashError> {
        let drive = Drive::new(volume, self.mode, Some(mix(self.seed, 0, 4)));
        let failed = CrashError::sqlite("opening the new database");
        let connection = session::open(&drive, self.synchronous).map_err(failed)?;
        Ok(Recovered { connection, contents: Contents::default(), drive })
    }

    /// Works until power goes, or until `most` transactions were acknowledged, and closes the connections.
    fn live(
        &self,
        alive: Recovered,
        life: u64,
        cut: Option<CutPoint>,
        most: Option<u64>,
        outcome: &mut CrashOutcome,
    ) -> Result<(Drive, History), Broken> {
        let Recovered { connection, contents, drive } = alive;
        let mut history = History::new(self.mode, self.synchronous, contents);
        let mut session = Session::new(&drive, self.synchronous, connection, &mut history);
        let steps = Steps::new(mix(self.seed, life, 2), self.mode);
        let worked = work(&mut session, &drive, steps, cut, most);
        outcome.promises_checked += session.checked;
        drop(session);
        worked.map(|()| (drive, history))
    }

    fn recover(
        &self,
        drive: Drive,
        cut: u64,
        history: &History,
        loss: &mut PowerLoss,
        outcome: &mut CrashOutcome,
    ) -> Result<Recovered, Broken> {
        outcome.cuts += 1;
        let seed = mix(self.seed, cut, 5);
        Recovery { mode: self.mode, synchronous: self.synchronous, loss, outcome }
            .recover(drive, seed, history)
    }
}

/// Does the steps until power goes, or until `most` transactions were acknowledged.
fn work(
    session: &mut Session<'_>,
    drive: &Drive,
    mut steps: Steps,
    mut cut: Option<CutPoint>,
    most: Option<u64>,
) -> Result<(), Broken> {
    for _ in 0..MOST_STEPS {
        if let Some(point) = cut.take_if(|point| session.transactions >= point.transactions) {
            drive.volume().device().cut_after(Some(point.operation));
        }
        match session.step(&steps.next()) {
            Ok(()) if drive.volume().device().has_power() => {}
            Ok(()) | Err(Stop::PowerLost) => return Ok(()),
            Err(Stop::Broken(broken)) => return Err(broken),
        }
        if most.is_some_and(|most| session.transactions >= most) {
            return Ok(());
        }
    }
    Err(Broken::new("the workload reaches flash", format!("no cut came within {MOST_STEPS} steps")))
}
