//! Power is cut at every operation of every turn, in every variant.
//!
//! What several clients share cannot be copied, so each cut is made on a drive of its own, with all turns from the first one on.
//! Each operation in flight at that moment may not have started, or be torn, or be complete (M2 to M4). Every variant recovers, is
//! compared, continues to work, and is compared again.

use rand::Rng;
use tantalum::{Outcome, PowerLoss};

use super::case::{Case, Cuts, Found, Report};
use super::coverage::Coverage;
use super::host::Loss;
use super::run::Run;
use crate::device::CutPoint;
use crate::device::every_cut::{in_recovery, variants};
use crate::device::guard::guarded;
use crate::device::progress::Progress;
use crate::device::random::{generator, mix};
use crate::device::run::drawn_fates;
use crate::device::stop::Stop;
use crate::device::tally::{Reached, Tally};

/// Turns after a recovery.
const GO_ON: u64 = 24;

/// Selects the random numbers of a cut.
const SECOND_FATES: u64 = 2 << 32;
const LOSS: u64 = 3 << 32;

/// Every cut of the case, or the one that it names.
pub(super) fn every_cut(case: &Case, progress: &Progress<'_>) -> Report {
    let mut cutter = Cutter { case, tally: Tally::default(), coverage: Coverage::default(), cuts: 0 };
    let found = match &case.plan.cuts {
        Cuts::At(point) => cutter.one(point),
        _ => cutter.all(progress),
    };
    Report { tally: cutter.tally, coverage: cutter.coverage, found: found.err() }
}

/// The cuts of a single turn, to see whether a failure still occurs.
pub(super) fn cuts_of_turn(case: &Case, turn: u64) -> Option<Found> {
    let mut cutter = Cutter { case, tally: Tally::default(), coverage: Coverage::default(), cuts: 0 };
    cutter.turn(turn, &Progress::unseen()).err()
}

struct Cutter<'a> {
    case: &'a Case,
    tally: Tally,
    coverage: Coverage,
    cuts: u64,
}

impl Cutter<'_> {
    fn all(&mut self, progress: &Progress<'_>) -> Result<(), Found> {
        let (first, count) = (self.case.plan.age, self.case.plan.commands);
        for turn in first..first.saturating_add(count) {
            if !self.case.plan.skip.contains(turn) {
                self.turn(turn, progress)?;
            }
            if !progress.advance(1) {
                break;
            }
        }
        // the work of one run, which the others repeat
        let mut run = self.aged(first)?;
        run.count_work();
        self.tally.add(&Tally { reached: run.tally.reached, ..Tally::default() });
        Ok(())
    }

    fn one(&mut self, point: &CutPoint) -> Result<(), Found> {
        match &point.second {
            None => self.recovered(point).map(drop),
            Some((_, fates)) => self.recovered_twice(point, |_| fates.clone()).map(drop),
        }
    }

    /// A run before a turn.
    fn aged(&self, upto: u64) -> Result<Run, Found> {
        let mut run = guarded(|| Run::new(self.case)).map_err(|stop| Found::new(stop, 0, 0, None))?;
        run.host.lose_by(Loss::Power);
        for index in (0..upto).filter(|index| !self.case.plan.skip.contains(*index)) {
            guarded(|| run.turn(index)).map_err(|stop| Found::new(stop, index, self.cuts, None))?;
        }
        Ok(run)
    }

    /// Cuts power before a turn, and at each of its operations, until it is time to stop.
    fn turn(&mut self, turn: u64, progress: &Progress<'_>) -> Result<(), Found> {
        for operation in 0.. {
            let mut point = CutPoint { command: turn, operation, fates: Vec::new(), second: None };
            let Some(cut) = self.cut(&point)? else { break };
            let under_way = cut.host.drive().lock().in_flight().len();
            drop(cut);
            for fates in variants(self.case.seed, &point, under_way) {
                point.fates = fates;
                self.recovered(&point)?;
                if self.case.plan.second_cut {
                    self.cuts_in_recovery(&point)?;
                }
                if !progress.goes_on() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// A run on which power has just gone; `None` if the turn has no such operation.
    fn cut(&self, point: &CutPoint) -> Result<Option<Run>, Found> {
        let mut run = self.aged(point.command)?;
        let stopped = guarded(|| match point.operation {
            0 => {
                let now_ns = run.host.now_ns;
                run.host.drive().lock().cut_power(now_ns);
                Err(Stop::PowerLost)
            }
            operation => {
                run.host.cut_after(Some(operation));
                run.turn(point.command)
            }
        });
        match stopped {
            Ok(()) => Ok(None),
            Err(Stop::PowerLost) => {
                run.tally = Tally::default();
                let place = if run.pending.values().any(|pending| pending.lost) {
                    "in a command"
                } else {
                    "while all waited"
                };
                guarded(|| run.lose_power(place)).map_err(|stop| self.found(stop, point))?;
                Ok(Some(run))
            }
            Err(broken) => Err(self.found(broken, point)),
        }
    }

    /// Power comes back, everything is compared, and the clients continue to work. False if there is no such cut.
    fn recovered(&mut self, point: &CutPoint) -> Result<bool, Found> {
        let Some(mut run) = self.cut(point)? else { return Ok(false) };
        let done = guarded(|| {
            run.host.cut_after(None);
            run.power_on(&mut self.loss(point))?;
            run.compare()?;
            for index in (point.command + 1..).take(GO_ON as usize) {
                if !self.case.plan.skip.contains(index) {
                    run.turn(index)?;
                }
            }
            run.wait_for_all()?;
            run.compare_running()
        });
        self.count(&run);
        done.map_err(|stop| self.found(stop, point))?;
        Ok(true)
    }

    /// Power comes back, is cut at a known place of recovery and comes back again, and everything is compared. False if
    /// the recovery has fewer operations.
    fn recovered_twice(
        &mut self,
        point: &CutPoint,
        fates: impl FnOnce(usize) -> Vec<Outcome>,
    ) -> Result<bool, Found> {
        let Some(mut run) = self.cut(point)? else { return Ok(false) };
        let mut tried = point.clone();
        let done = guarded(|| {
            let Some((operation, under_way)) = &mut tried.second else { return Ok(false) };
            run.host.cut_after(Some(*operation));
            match run.power_on(&mut self.loss(point)) {
                Ok(()) => return Ok(false),
                Err(Stop::PowerLost) => {}
                Err(broken) => return Err(broken),
            }
            *under_way = fates(run.host.drive().lock().in_flight().len());
            run.tally.second_cuts += 1;
            run.coverage.cut("in recovery");
            run.host.cut_after(None);
            let seed = mix(&[self.case.seed, LOSS, point.command, point.operation, *operation]);
            run.power_on(&mut PowerLoss::listed(under_way, seed))?;
            run.compare().map(|()| true)
        });
        let again = done.map_err(|stop| in_recovery(self.found(stop, &tried)))?;
        if again {
            self.count(&run);
        }
        Ok(again)
    }

    fn cuts_in_recovery(&mut self, point: &CutPoint) -> Result<(), Found> {
        let place = mix(&[self.case.seed, SECOND_FATES, point.command, point.operation]);
        for operation in 1.. {
            let mut rng = generator(&[place, operation]);
            let tried = CutPoint { second: Some((operation, Vec::new())), ..point.clone() };
            if !self.recovered_twice(&tried, |under_way| drawn_fates(under_way, || rng.next_u64()))? {
                break;
            }
        }
        Ok(())
    }

    /// Counts a cut; the work before it is repeated work.
    fn count(&mut self, run: &Run) {
        self.cuts += 1;
        self.tally.add(&Tally { reached: Reached::default(), ..run.tally });
        self.coverage.add(&run.coverage);
    }

    fn loss(&self, point: &CutPoint) -> PowerLoss {
        let seed = mix(&[self.case.seed, LOSS, point.command, point.operation]);
        PowerLoss::listed(&point.fates, seed)
    }

    fn found(&self, stop: Stop, point: &CutPoint) -> Found {
        Found::new(stop, point.command, self.cuts, Some(point.clone()))
    }
}
