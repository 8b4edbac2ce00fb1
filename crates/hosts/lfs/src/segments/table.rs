//! The segments of the log and how much of each lives.
//!
//! Invariants, of which `assert_invariants` checks the last three:
//! - A segment is reused only after a checkpoint that no longer names anything in it: until then it waits.
//! - `live + reserved` never exceeds the capacity that files may use, so that cleaning always finds something to gain.
//! - The free segments are those in the state [`State::Free`].
//! - Nothing lives in a free or waiting segment, and something in a full one.
//! - The total of live units is what the segments count, without those counted apart.

use std::collections::BTreeSet;

use tantalum::Lpn;
use tantalum_filesystem::Errno;

use super::holes::Holes;
use crate::error::{Damage, LfsError, Result, refuse};
use crate::marks::Marks;

/// What a segment is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Nothing durable names anything in it.
    Free,
    /// A log head writes there.
    Open,
    /// A log head fills its holes.
    Filling,
    /// Written.
    Full,
    /// Nothing in it lives, but the last checkpoint may name something there.
    Waiting,
}

/// One segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    /// Units that live.
    pub live: u32,
    /// Of these, units counted separately: the layout reserves space for them.
    pub apart: u32,
    /// When something was last written there, in units written by the file system.
    pub written: u64,
    pub state: State,
}

/// All segments.
#[derive(Clone, Debug)]
pub(crate) struct Segments {
    first: u32,
    units: u32,
    payload: u32,
    table: Vec<Segment>,
    free: BTreeSet<u32>,
    live: u64,
    reserved: u64,
    capacity: u64,
    clock: u64,
    /// Segments that changed since the table was last stored.
    changed: Marks,
    pub(super) holes: Holes,
}

impl Segments {
    /// `count` free segments of `units` each, starting at `first`. Files may use `capacity` units.
    pub fn new(first: Lpn, units: u32, count: u32, capacity: u64) -> Segments {
        let all = u64::from(count) * u64::from(units);
        assert!(capacity <= all, "files may use {capacity} units, but {count} segments have {all}");
        let free = Segment { live: 0, apart: 0, written: 0, state: State::Free };
        Segments {
            first: first.0,
            units,
            payload: units,
            table: vec![free; count as usize],
            free: (0..count).collect(),
            live: 0,
            reserved: 0,
            capacity,
            clock: 0,
            changed: Marks::new(count),
            holes: Holes::default(),
        }
    }

    /// Sets how many units of a segment can live; the others hold the file system's own data.
    pub fn with_payload(self, payload: u32) -> Segments {
        assert!(payload <= self.units, "{payload} units of a segment can live, but it has {}", self.units);
        let all = u64::from(self.count()) * u64::from(payload);
        assert!(self.capacity <= all, "files may use {} units, but {all} can live", self.capacity);
        Segments { payload, ..self }
    }

    /// What a checkpoint knows about a segment, except for units counted separately. Every segment with live units is
    /// full.
    pub fn load(&mut self, segment: u32, live: u32, written: u64) {
        let entry = &mut self.table[segment as usize];
        (entry.live, entry.written) = (entry.live + live, written);
        if live > 0 {
            entry.state = State::Full;
        }
        self.live += u64::from(live);
        if live > 0 {
            self.free.remove(&segment);
        }
        self.assert_segment(segment);
    }

    /// Checks the invariants of one segment, if assertions of debug builds are on.
    fn assert_segment(&self, segment: u32) {
        let Segment { live, apart, state, .. } = self.table[segment as usize];
        debug_assert!(
            apart <= live && live <= self.units,
            "segment {segment} of {} units has {live} live ones, of them {apart} counted apart",
            self.units
        );
        debug_assert_eq!(
            self.free.contains(&segment),
            state == State::Free,
            "segment {segment} is {state:?}, and the free ones are {:?}",
            self.free
        );
        debug_assert!(
            match state {
                State::Free | State::Waiting => live == 0,
                State::Full => live > 0,
                State::Open | State::Filling => true,
            },
            "segment {segment} is {state:?} with {live} live units"
        );
    }

    /// Checks the invariants at the head of this file, if assertions of debug builds are on.
    fn assert_invariants(&self) {
        if cfg!(debug_assertions) {
            (0..self.count()).for_each(|segment| self.assert_segment(segment));
            let counted: u64 = self.table.iter().map(|entry| u64::from(entry.live - entry.apart)).sum();
            debug_assert_eq!(counted, self.live, "the segments count other live units than their total");
        }
    }

    /// Continues the clock of a checkpoint.
    pub fn load_clock(&mut self, clock: u64, reserved: u64) {
        (self.clock, self.reserved) = (clock, reserved);
        self.assert_invariants();
    }

    pub fn count(&self) -> u32 {
        self.table.len() as u32
    }

    /// Units of a segment.
    pub fn units(&self) -> u32 {
        self.units
    }

    /// Units of a segment that can live.
    pub fn payload(&self) -> u32 {
        self.payload
    }

    pub fn get(&self, segment: u32) -> Segment {
        self.table[segment as usize]
    }

    pub fn first_lpn(&self, segment: u32) -> Lpn {
        debug_assert!(segment <= self.count(), "segment {segment} is beyond the {} of the log", self.count());
        Lpn(self.first + segment * self.units)
    }

    /// The segment of a unit; `None` if the unit is not in the log.
    pub fn find(&self, lpn: Lpn) -> Option<u32> {
        let segment = lpn.0.checked_sub(self.first)? / self.units;
        (segment < self.count()).then_some(segment)
    }

    fn of(&self, lpn: Lpn) -> Result<u32> {
        self.find(lpn)
            .ok_or(LfsError::Damaged { lpn, damage: Damage::NotA { expected: "a unit of the log" } })
    }

    /// Units that files have been promised and that have no place yet.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Units that files and their index may use.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Units that are still available.
    pub fn available(&self) -> u64 {
        self.capacity.saturating_sub(self.live + self.reserved)
    }

    pub fn free_segments(&self) -> u32 {
        self.free.len() as u32
    }

    /// Units of an index that may wait for a checkpoint: a quarter of the space that is free beyond `least` segments,
    /// between two and `most` segments. So a checkpoint has room, and the index of many new files is not rewritten
    /// repeatedly.
    pub fn may_wait(&self, least: u32, most: u32) -> u64 {
        let segments = (self.free_segments().saturating_sub(least) / 4).clamp(2, most);
        u64::from(segments) * u64::from(self.units)
    }

    /// Whether a checkpoint would free segments.
    pub fn waiting_segments(&self) -> u32 {
        self.table.iter().filter(|segment| segment.state == State::Waiting).count() as u32
    }

    /// Units written so far: the clock of ages.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// Takes a free segment for a log head.
    pub fn open(&mut self) -> Result<u32> {
        let Some(segment) = self.free.pop_first() else { return refuse(Errno::ENOSPC) };
        let entry = &mut self.table[segment as usize];
        assert_eq!((entry.state, entry.live), (State::Free, 0), "segment {segment} is opened");
        entry.state = State::Open;
        self.changed.insert(segment);
        self.assert_invariants();
        Ok(segment)
    }

    /// Takes a certain segment for a log head, as the checkpoint has it.
    pub fn open_again(&mut self, segment: u32) {
        self.free.remove(&segment);
        self.table[segment as usize].state = State::Open;
        self.assert_segment(segment);
    }

    /// A log head is done with a segment.
    pub fn close(&mut self, segment: u32) {
        let entry = &mut self.table[segment as usize];
        assert!(matches!(entry.state, State::Open | State::Filling), "only an open segment is closed");
        entry.state = if entry.live > 0 { State::Full } else { State::Waiting };
        self.assert_invariants();
    }

    /// A log head fills the holes of a full segment.
    pub fn fill(&mut self, segment: u32) {
        let (units, entry) = (self.units, &mut self.table[segment as usize]);
        assert_eq!(entry.state, State::Full, "only a full segment is filled");
        assert!(entry.live < units, "segment {segment} is filled, but all its {units} units live");
        entry.state = State::Filling;
    }

    /// A segment must not be reused before the next checkpoint, because recovery may read it.
    pub fn hold(&mut self, segment: u32) {
        if self.free.remove(&segment) {
            self.table[segment as usize].state = State::Waiting;
        }
        self.assert_segment(segment);
    }

    /// A unit of a segment was written.
    pub fn wrote(&mut self, segment: u32) {
        self.clock += 1;
        self.table[segment as usize].written = self.clock;
        self.changed.insert(segment);
    }

    /// A unit lives from now on.
    pub fn add(&mut self, lpn: Lpn) -> Result<()> {
        let segment = self.count_in(lpn)?;
        self.live += 1;
        self.changed.insert(segment);
        Ok(())
    }

    /// A unit that is counted separately lives.
    pub fn add_apart(&mut self, lpn: Lpn) -> Result<()> {
        let segment = self.count_in(lpn)?;
        self.table[segment as usize].apart += 1;
        Ok(())
    }

    fn count_in(&mut self, lpn: Lpn) -> Result<u32> {
        let segment = self.of(lpn)?;
        let (units, entry) = (self.units, &mut self.table[segment as usize]);
        if entry.live == units {
            return Err(miscounted(lpn, "its segment has no unit that is dead"));
        }
        entry.live += 1;
        if matches!(entry.state, State::Free | State::Waiting) {
            entry.state = State::Full; // recovery finds what was written after the checkpoint
            self.free.remove(&segment);
        }
        self.assert_segment(segment);
        Ok(segment)
    }

    /// A unit no longer lives.
    pub fn release(&mut self, lpn: Lpn) -> Result<()> {
        let segment = self.count_out(lpn, |entry| entry.live - entry.apart)?;
        self.live -= 1;
        self.changed.insert(segment);
        self.assert_segment(segment);
        Ok(())
    }

    /// A unit that was counted separately no longer lives.
    pub fn release_apart(&mut self, lpn: Lpn) -> Result<()> {
        let segment = self.count_out(lpn, |entry| entry.apart)?;
        self.table[segment as usize].apart -= 1;
        self.assert_segment(segment);
        Ok(())
    }

    /// A unit no longer lives, of those in its segment that `counted` counts.
    fn count_out(&mut self, lpn: Lpn, counted: impl Fn(&Segment) -> u32) -> Result<u32> {
        let segment = self.of(lpn)?;
        let entry = &mut self.table[segment as usize];
        if counted(entry) == 0 {
            return Err(miscounted(lpn, "its segment has no unit that lives"));
        }
        entry.live -= 1;
        if entry.live == 0 && entry.state == State::Full {
            entry.state = State::Waiting;
            self.holes.emptied();
        }
        self.holes.hold(segment, lpn.0 - self.first - segment * self.units);
        Ok(segment)
    }

    /// Promises a unit; `ENOSPC` if there is none.
    pub fn reserve(&mut self) -> Result<()> {
        self.reserve_many(1)
    }

    /// Promises units; `ENOSPC` if fewer are free.
    pub fn reserve_many(&mut self, units: u64) -> Result<()> {
        if self.available() < units {
            return refuse(Errno::ENOSPC);
        }
        self.reserved += units;
        Ok(())
    }

    /// Promises a unit that something durable already has.
    pub fn reserve_anyway(&mut self) {
        self.reserved += 1;
    }

    /// Takes back a promise.
    pub fn unreserve(&mut self) {
        self.unreserve_many(1);
    }

    /// Takes back promises.
    pub fn unreserve_many(&mut self, units: u64) {
        // Only a damaged checkpoint counts fewer than there are; a check reports this.
        self.reserved = self.reserved.saturating_sub(units);
    }

    /// A checkpoint is durable: what waited is free. Returns those segments.
    pub fn checkpointed(&mut self) -> Vec<u32> {
        let waiting = |segment: &u32| self.table[*segment as usize].state == State::Waiting;
        let freed: Vec<u32> = (0..self.count()).filter(waiting).collect();
        for segment in &freed {
            let entry = &mut self.table[*segment as usize];
            assert_eq!(entry.live, 0, "segment {segment} is freed, and {} of its units live", entry.live);
            entry.state = State::Free;
        }
        self.free.extend(&freed);
        self.holes.checkpointed();
        self.assert_invariants();
        freed
    }

    /// Segments that changed since the table was last stored.
    pub fn changed_count(&self) -> usize {
        self.changed.len()
    }

    /// The segments that changed since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<u32> {
        self.changed.take()
    }

    /// Compares the counts with an audit that found `live` units in each segment: returns the first difference.
    pub fn differs_from(&self, live: &[u32]) -> Option<(u32, u32, u32)> {
        assert_eq!(live.len(), self.table.len(), "an audit counted other segments than there are");
        let pairs = self.table.iter().zip(live).enumerate();
        let mut different = pairs.filter(|(_, (segment, live))| segment.live != **live);
        different.next().map(|(number, (segment, live))| (number as u32, segment.live, *live))
    }
}

/// The table of segments differs from what was written: damage that checksums do not detect.
fn miscounted(lpn: Lpn, why: &'static str) -> LfsError {
    LfsError::Damaged { lpn, damage: Damage::Miscounted(why) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emptied_segment_waits_for_a_checkpoint() {
        let mut segments = Segments::new(Lpn(100), 8, 4, 20);
        let segment = segments.open().unwrap();
        let lpn = segments.first_lpn(segment);
        segments.add(lpn).unwrap();
        segments.close(segment);
        segments.release(lpn).unwrap();
        assert_eq!((segments.get(segment).state, segments.free_segments()), (State::Waiting, 3));
        assert_eq!(segments.checkpointed(), [segment]);
        assert_eq!(segments.free_segments(), 4);
        assert_eq!(
            (segments.find(Lpn(99)), segments.find(Lpn(131)), segments.find(Lpn(132))),
            (None, Some(3), None)
        );
    }

    #[test]
    fn no_more_is_promised_than_there_is() {
        let mut segments = Segments::new(Lpn(0), 8, 4, 2);
        segments.reserve().unwrap();
        segments.add(Lpn(3)).unwrap();
        assert!(segments.reserve().is_err());
        segments.release(Lpn(3)).unwrap();
        assert!(segments.release(Lpn(3)).is_err() && segments.add(Lpn(32)).is_err());
        segments.reserve().unwrap();
        assert_eq!((segments.reserved(), segments.available()), (2, 0));
    }

    /// A damaged table can name a unit where only units counted apart live. It was released all the same, and the total of
    /// live units went below zero.
    #[test]
    fn a_unit_counted_apart_is_not_released_as_another() {
        let mut segments = Segments::new(Lpn(0), 8, 4, 20);
        segments.add_apart(Lpn(3)).unwrap();
        assert!(segments.release(Lpn(3)).is_err());
        segments.add(Lpn(9)).unwrap();
        assert!(segments.release_apart(Lpn(9)).is_err());
        assert_eq!((segments.get(0).live, segments.get(1).live, segments.available()), (1, 1, 19));
    }
}
