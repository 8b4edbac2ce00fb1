//! Power is cut at every operation of every command, in every variant, each time on a copy of the drive.
//!
//! The run itself continues without a cut. A copy made before a command repeats it and finds no power at one of its
//! operations. Each operation in flight at that moment may not have started, or be torn, or be complete (M2 to M4). Every
//! variant recovers, is compared, continues to work, and is compared again.

use rand::{Rng, RngExt};
use tantalum::{Outcome, PowerLoss};

use super::case::{Case, Cuts, Found, Report};
use super::cut_point::CutPoint;
use super::guard::guarded;
use super::progress::Progress;
use super::random::{generator, mix};
use super::run::{Run, drawn_fates};
use super::stop::Stop;
use super::tally::{Reached, Tally};

/// Combinations of complete and not complete that are tried at one cut; if there are more, this many are drawn.
const COMBINATIONS: usize = 32;

/// Commands that a drive executes after a recovery.
const GO_ON: u64 = 24;

/// Selects the random numbers of a cut.
const FATES: u64 = 1 << 32;
const SECOND_FATES: u64 = 2 << 32;
const LOSS: u64 = 3 << 32;
const AFTERWARDS: u64 = 4 << 32;

/// Every cut of the case, or the one that it names.
pub(super) fn every_cut(case: &Case, progress: &Progress<'_>) -> Report {
    let mut cutter = Cutter { case, tally: Tally::default(), cuts: 0 };
    let found = match &case.plan.cuts {
        Cuts::At(point) => cutter.one(point, progress),
        _ => cutter.all(progress),
    };
    Report { tally: cutter.tally, found: found.err() }
}

/// The cuts of a single command, to see whether a failure still occurs.
pub(super) fn cuts_of_command(case: &Case, command: u64) -> Option<Found> {
    let mut cutter = Cutter { case, tally: Tally::default(), cuts: 0 };
    let mut run = match cutter.aged(command, &Progress::unseen()) {
        Ok(run) => run?,
        Err(found) => return Some(found),
    };
    cutter.command(&mut run, command, &Progress::unseen()).err()
}

struct Cutter<'a> {
    case: &'a Case,
    tally: Tally,
    cuts: u64,
}

impl Cutter<'_> {
    fn all(&mut self, progress: &Progress<'_>) -> Result<(), Found> {
        let (first, count) = (self.case.plan.age, self.case.plan.commands);
        let Some(mut run) = self.aged(first, progress)? else { return Ok(()) };
        for index in first..first.saturating_add(count) {
            if !self.case.plan.skip.contains(index) {
                self.command(&mut run, index, progress)?;
            }
            if !progress.advance(1) {
                break;
            }
        }
        run.count_work();
        self.tally.add(&run.tally);
        Ok(())
    }

    fn one(&mut self, point: &CutPoint, progress: &Progress<'_>) -> Result<(), Found> {
        let Some(before) = self.aged(point.command, progress)? else { return Ok(()) };
        let Some(cut) = self.cut(&before, point)? else { return Ok(()) };
        match &point.second {
            None => self.recovered(&cut, point),
            Some((_, fates)) => self.recovered_twice(&cut, point, |_| fates.clone()).map(drop),
        }
    }

    /// A run before command `upto`; `None` if it was interrupted.
    fn aged(&self, upto: u64, progress: &Progress<'_>) -> Result<Option<Run>, Found> {
        let made = guarded(|| Run::new(self.case));
        let mut run = made.map_err(|stop| Found::new(stop, 0, 0, None))?;
        let steps = u64::from(matches!(self.case.plan.cuts, Cuts::At(_)));
        for index in (0..upto).filter(|index| !self.case.plan.skip.contains(*index)) {
            guarded(|| run.command(index)).map_err(|stop| Found::new(stop, index, 0, None))?;
            if !progress.advance(steps) {
                return Ok(None);
            }
        }
        Ok(Some(run))
    }

    /// Executes a command, and cuts power before it and at each of its operations, until it is time to stop.
    fn command(&mut self, run: &mut Run, index: u64, progress: &Progress<'_>) -> Result<(), Found> {
        let before = run.fork();
        let first = run.host.operations();
        guarded(|| run.command(index)).map_err(|stop| Found::new(stop, index, self.cuts, None))?;
        for operation in 0..=run.host.operations() - first {
            let mut point = CutPoint { command: index, operation, fates: Vec::new(), second: None };
            let Some(cut) = self.cut(&before, &point)? else {
                let detail = format!("command {index} has no operation {operation} when it is repeated");
                return Err(self.found(Stop::broken("running drive", detail), &point));
            };
            let under_way = cut.host.device.in_flight().len();
            for fates in variants(self.case.seed, &point, under_way) {
                point.fates = fates;
                self.recovered(&cut, &point)?;
                if self.case.plan.second_cut {
                    self.cuts_in_recovery(&cut, &point)?;
                }
                if !progress.goes_on() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// A copy of the run on which power has just gone; `None` if the command has no such operation.
    fn cut(&mut self, before: &Run, point: &CutPoint) -> Result<Option<Run>, Found> {
        let mut cut = before.fork();
        let stopped = guarded(|| match point.operation {
            0 => {
                cut.host.device.cut_power(cut.host.now_ns);
                Err(Stop::PowerLost)
            }
            operation => {
                cut.host.cut_after(Some(operation));
                cut.command(point.command)
            }
        });
        match stopped {
            Err(Stop::PowerLost) => {
                cut.tally = Tally::default();
                Ok(Some(cut))
            }
            Err(broken) => Err(self.found(broken, point)),
            Ok(()) => Ok(None),
        }
    }

    /// Power comes back, everything is compared, and the drive continues to work.
    fn recovered(&mut self, cut: &Run, point: &CutPoint) -> Result<(), Found> {
        let mut run = cut.fork();
        let done = guarded(|| {
            run.power_on(&mut self.loss(point))?;
            run.compare()?;
            self.go_on(&mut run, point)
        });
        // a copy's work is repeated work
        self.tally.add(&Tally { reached: Reached::default(), ..run.tally });
        done.map_err(|stop| self.found(stop, point))?;
        self.cuts += 1;
        Ok(())
    }

    /// Power comes back, is cut at a known place of recovery and comes back again, and everything is compared. False if
    /// the recovery has fewer operations.
    fn recovered_twice(
        &mut self,
        cut: &Run,
        point: &CutPoint,
        fates: impl FnOnce(usize) -> Vec<Outcome>,
    ) -> Result<bool, Found> {
        let mut run = cut.fork();
        let mut tried = point.clone();
        let done = guarded(|| {
            let Some((operation, under_way)) = &mut tried.second else { return Ok(false) };
            run.host.cut_after(Some(*operation));
            match run.power_on(&mut self.loss(point)) {
                Ok(()) => return Ok(false),
                Err(Stop::PowerLost) => {}
                Err(broken) => return Err(broken),
            }
            *under_way = fates(run.host.device.in_flight().len());
            let seed = mix(&[self.case.seed, LOSS, point.command, point.operation, *operation]);
            run.power_on_again(&mut PowerLoss::listed(under_way, seed))?;
            run.compare().map(|()| true)
        });
        let again = done.map_err(|stop| in_recovery(self.found(stop, &tried)))?;
        if again {
            self.tally.add(&run.tally);
            self.cuts += 1;
        }
        Ok(again)
    }

    fn loss(&self, point: &CutPoint) -> PowerLoss {
        let seed = mix(&[self.case.seed, LOSS, point.command, point.operation]);
        PowerLoss::listed(&point.fates, seed)
    }

    /// Some commands, a flush, and sometimes a shutdown or another power cut: one more chance to notice what was lost.
    fn go_on(&self, run: &mut Run, point: &CutPoint) -> Result<(), Stop> {
        for index in (point.command + 1..).take(GO_ON as usize) {
            if !self.case.plan.skip.contains(index) {
                run.command(index)?;
            }
        }
        run.flush()?;
        run.compare_running()?;
        let mut rng = generator(&[self.case.seed, AFTERWARDS, point.command, point.operation]);
        match rng.random_range(0..4) {
            0 => run.reopen(&mut rng),
            1 => {
                run.host.device.cut_power(run.host.now_ns);
                run.power_on(&mut PowerLoss::seeded(rng.next_u64()))?;
                run.compare()
            }
            _ => Ok(()),
        }
    }

    /// Cuts power at each operation of the recovery, and recovers from that.
    fn cuts_in_recovery(&mut self, cut: &Run, point: &CutPoint) -> Result<(), Found> {
        let place = mix(&[self.case.seed, SECOND_FATES, point.command, point.operation]);
        for operation in 1.. {
            let mut rng = generator(&[place, operation]);
            let tried = CutPoint { second: Some((operation, Vec::new())), ..point.clone() };
            let draw = |under_way| drawn_fates(under_way, || rng.next_u64());
            if !self.recovered_twice(cut, &tried, draw)? {
                break;
            }
        }
        Ok(())
    }

    fn found(&self, stop: Stop, point: &CutPoint) -> Found {
        Found::new(stop, point.command, self.cuts, Some(point.clone()))
    }
}

/// The previous recovery was right, so the cut in this one caused the failure.
pub(crate) fn in_recovery(mut found: Found) -> Found {
    if found.broken.promise != "panic" {
        found.broken.detail =
            format!("{} after a cut in recovery: {}", found.broken.promise, found.broken.detail);
        found.broken.promise = "D5";
    }
    found
}

/// The possible outcomes of operations in flight: all not started, all torn, all complete, and every combination of
/// complete and not complete.
pub(crate) fn variants(seed: u64, point: &CutPoint, under_way: usize) -> Vec<Vec<Outcome>> {
    let uniform = [Outcome::NotStarted, Outcome::Torn, Outcome::Completed].map(|fate| vec![fate; under_way]);
    if under_way == 0 {
        return vec![Vec::new()];
    }
    let mut variants: Vec<Vec<Outcome>> = uniform.into();
    let mut rng = generator(&[seed, FATES, point.command, point.operation]);
    let drawn = under_way > COMBINATIONS.ilog2() as usize;
    let combinations = if drawn { COMBINATIONS } else { 1 << under_way };
    for combination in 0..combinations as u64 {
        let complete = if drawn { rng.next_u64() } else { combination };
        // the uniform ones are already there
        if !drawn && (complete == 0 || complete + 1 == combinations as u64) {
            continue;
        }
        let fate = |index: usize| match (complete >> (index % 64) & 1, rng.random_ratio(1, 2)) {
            (1, _) => Outcome::Completed,
            (_, true) => Outcome::Torn,
            (_, false) => Outcome::NotStarted,
        };
        let fates: Vec<Outcome> = (0..under_way).map(fate).collect();
        if !variants.contains(&fates) {
            variants.push(fates);
        }
    }
    variants
}
