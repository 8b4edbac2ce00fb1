//! What a zone may hold after a cut.
//!
//! A zone has *lives*, which resets end. Until a reset is acknowledged, a cut may leave the life before it. Of a life any number of units
//! may be there, from its beginning on, but not fewer than were durable.

use std::collections::BTreeSet;

use tantalum::{ZoneCondition, ZoneState};

use crate::device::stop::Stop;

/// What is in a unit.
pub(super) type Stamp = u64;

/// When the host was to learn that something is done; what it could not learn has this time.
pub(super) const NEVER: u64 = u64::MAX;

/// A unit as it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    Stamp(Stamp),
    /// Its page is lost.
    Unreadable,
}

/// A zone between two resets.
#[derive(Clone, Debug, Default)]
struct Life {
    /// When the reset that began it was done.
    begun_ns: u64,
    /// Its units, with the times when they were done.
    units: Vec<(Stamp, u64)>,
    /// How many units were durable from which time on.
    promises: Vec<(u64, usize)>,
    /// When it was finished.
    finished_ns: Option<u64>,
    /// Units that have been lost.
    lost: BTreeSet<usize>,
}

impl Life {
    /// Units that must be there after a cut.
    fn durable(&self, cut_ns: u64) -> usize {
        let kept = self.promises.iter().filter(|(done_ns, _)| *done_ns <= cut_ns);
        kept.map(|(_, units)| *units).max().unwrap_or(0)
    }

    /// Whether it must have begun before a cut: its reset was done, or something in it was durable.
    fn must_have_begun(&self, cut_ns: u64) -> bool {
        let is_finished = self.finished_ns.is_some_and(|done_ns| done_ns <= cut_ns);
        self.begun_ns <= cut_ns || self.durable(cut_ns) > 0 || is_finished
    }

    /// What is wrong with a zone that was read, if it is in this life.
    fn wrong(
        &mut self,
        cut_ns: u64,
        full_units: usize,
        state: &ZoneState,
        found: &[Unit],
        loses: bool,
    ) -> Option<String> {
        let (written, durable) = (state.written as usize, self.durable(cut_ns));
        if written < durable {
            return Some(format!("its write pointer is at {written}, and {durable} units were durable"));
        }
        if written > self.units.len() {
            return Some(format!(
                "its write pointer is at {written}, and {} units were written",
                self.units.len()
            ));
        }
        for (index, unit) in found.iter().enumerate() {
            let expected = if index < written { self.units[index].0 } else { 0 };
            match unit {
                Unit::Stamp(stamp) if *stamp == expected && !self.lost.contains(&index) => {}
                Unit::Unreadable if loses && index < written => drop(self.lost.insert(index)),
                _ => {
                    return Some(format!(
                        "unit {index} is {unit:?} where {expected} was written, before {written}"
                    ));
                }
            }
        }
        let must_be_full = written == full_units || self.finished_ns.is_some_and(|done_ns| done_ns <= cut_ns);
        let may_be_full = written == full_units || self.finished_ns.is_some();
        let is_full = state.condition == ZoneCondition::Full;
        let fits = match state.condition {
            ZoneCondition::ReadOnly => true,
            ZoneCondition::Full => may_be_full,
            ZoneCondition::Empty => !must_be_full && written == 0,
            _ => !must_be_full && written > 0,
        };
        (!fits).then(|| {
            format!(
                "it is {}, with {written} units, finished {:?}, full {is_full}",
                state.condition, self.finished_ns
            )
        })
    }
}

/// A zone.
#[derive(Clone, Debug)]
pub(super) struct ZoneOracle {
    lives: Vec<Life>,
    full_units: usize,
}

impl ZoneOracle {
    pub fn new(full_units: usize) -> ZoneOracle {
        ZoneOracle { lives: vec![Life::default()], full_units }
    }

    fn life(&mut self) -> &mut Life {
        self.lives.last_mut().expect("a zone has a life")
    }

    /// Units so far.
    pub fn written(&self) -> usize {
        self.lives.last().map_or(0, |life| life.units.len())
    }

    /// Units that were submitted. `is_durable` if they are durable when they are done, and with them all before them.
    pub fn wrote(&mut self, stamps: impl Iterator<Item = Stamp>, done_ns: u64, is_durable: bool) {
        let life = self.life();
        life.units.extend(stamps.map(|stamp| (stamp, done_ns)));
        if is_durable {
            life.promises.push((done_ns, life.units.len()));
        }
    }

    /// Only so many units of the last write were written: the rest was refused.
    pub fn truncate(&mut self, units: usize) {
        self.life().units.truncate(units);
        let most = self.written();
        self.life().promises.iter_mut().for_each(|(_, units)| *units = most.min(*units));
    }

    /// A flush was submitted, and done: what the host had been told of by then is durable.
    pub fn flushed(&mut self, at_ns: u64, done_ns: u64) {
        let life = self.life();
        let told = life.units.iter().take_while(|(_, told_ns)| *told_ns <= at_ns).count();
        life.promises.push((done_ns, told));
    }

    pub fn reset(&mut self, done_ns: u64) {
        self.lives.push(Life { begun_ns: done_ns, ..Life::default() });
    }

    pub fn finished(&mut self, at_ns: u64, done_ns: u64) {
        self.flushed(at_ns, done_ns);
        self.life().finished_ns.get_or_insert(done_ns);
    }

    /// Compares a zone after a cut, and goes on from what it holds; with `cut_ns` at the end of time while it runs.
    pub fn compare(
        &mut self,
        cut_ns: u64,
        state: &ZoneState,
        found: &[Unit],
        loses: bool,
    ) -> Result<(), Stop> {
        let first = self.lives.iter().rposition(|life| life.must_have_begun(cut_ns)).unwrap_or(0);
        let full_units = self.full_units;
        let mut wrongs = Vec::new();
        for life in self.lives[first..].iter_mut().rev() {
            match life.wrong(cut_ns, full_units, state, found, loses) {
                None => {
                    let mut life = life.clone();
                    life.units.truncate(state.written as usize);
                    life.units.iter_mut().for_each(|unit| unit.1 = 0);
                    let is_finished = state.condition == ZoneCondition::Full;
                    life.finished_ns = is_finished.then_some(0);
                    life.promises = vec![(0, life.units.len())];
                    life.begun_ns = 0;
                    self.lives = vec![life];
                    return Ok(());
                }
                Some(wrong) => wrongs.push(wrong),
            }
        }
        Err(Stop::broken("zone", format!("zone {}: {}", state.zone, wrongs.join("; or "))))
    }

    /// Compares a zone of the running drive, which has had everything.
    pub fn compare_running(&mut self, state: &ZoneState, found: &[Unit], loses: bool) -> Result<(), Stop> {
        let full_units = self.full_units;
        let life = self.life();
        let promises = std::mem::take(&mut life.promises);
        let finished_ns = life.finished_ns;
        life.finished_ns = finished_ns.map(|_| 0);
        let all = life.units.len();
        let wrong = match state.condition {
            _ if state.written as usize != all => {
                Some(format!("its write pointer is at {} of {all}", state.written))
            }
            // open zones may be empty
            ZoneCondition::ImplicitlyOpen | ZoneCondition::ExplicitlyOpen if all == 0 => None,
            _ => life.wrong(NEVER, full_units, state, found, loses),
        };
        (life.promises, life.finished_ns) = (promises, finished_ns);
        match wrong {
            None => Ok(()),
            Some(wrong) => Err(Stop::broken("running drive", format!("zone {}: {wrong}", state.zone))),
        }
    }
}

#[cfg(test)]
mod tests {
    use tantalum::ZoneId;

    use super::*;

    fn compare(oracle: &ZoneOracle, cut_ns: u64, condition: ZoneCondition, stamps: &[Stamp]) -> bool {
        let state = ZoneState { zone: ZoneId(0), condition, written: stamps.len() as u32 };
        let mut found: Vec<Unit> = stamps.iter().map(|stamp| Unit::Stamp(*stamp)).collect();
        found.resize(4, Unit::Stamp(0));
        oracle.clone().compare(cut_ns, &state, &found, false).is_ok()
    }

    #[test]
    fn a_zone_holds_a_beginning_that_is_not_shorter_than_what_was_durable() {
        use ZoneCondition::{Closed, Empty, Full};
        let mut oracle = ZoneOracle::new(4);
        oracle.wrote([1, 2].into_iter(), 10, false);
        oracle.flushed(10, 20);
        oracle.wrote([3].into_iter(), 30, false);
        let all = |cut_ns| {
            [(Empty, &[][..]), (Closed, &[1]), (Closed, &[1, 2]), (Closed, &[1, 2, 3]), (Closed, &[1, 3])]
                .map(|(condition, stamps)| compare(&oracle, cut_ns, condition, stamps))
        };
        assert_eq!(all(15), [true, true, true, true, false]);
        assert_eq!(all(20), [false, false, true, true, false]);
        assert!(!compare(&oracle, 20, Full, &[1, 2, 3]), "it was not finished");
        oracle.reset(50);
        assert!(compare(&oracle, 40, Closed, &[1, 2]) && compare(&oracle, 40, Empty, &[]));
        assert!(!compare(&oracle, 50, Closed, &[1, 2]) && compare(&oracle, 50, Empty, &[]));
        oracle.wrote([7].into_iter(), 60, true);
        oracle.finished(60, 70);
        assert!(compare(&oracle, 60, Full, &[7]) && compare(&oracle, 60, Closed, &[7]));
        assert!(compare(&oracle, 70, Full, &[7]) && !compare(&oracle, 70, Closed, &[7]));
        oracle.reset(100);
        assert!(compare(&oracle, 90, Full, &[7]));
        oracle.wrote([8].into_iter(), 90, true);
        assert!(!compare(&oracle, 90, Full, &[7]), "what was written after the reset was durable");
        assert!(compare(&oracle, 90, Closed, &[8]));
    }
}
