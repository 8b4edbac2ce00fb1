//! Units of the drive that belong to no file: those that are free, and those that were given up and are not trimmed yet.
//!
//! Derived from the inodes at mount, never stored. Invariants:
//! - Free ranges are not empty, do not overlap or touch, and everything in them reads as zeros (it was never written, or was
//!   trimmed before it was freed). Both indexes have the same ranges. Each change is checked beside the place that it
//!   changed, everything by [`crate::Volume`]'s own check.
//! - No durable inode names what is given up here, and it is free only once it is trimmed (V3).
//! - Those who may access a place learn that it will no longer be the file's before it is trimmed ([`BeforeReuse`]).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tantalum::Lpn;

use crate::drive::VolumeClient;
use crate::error::VolumeError;
use crate::extents::LpnRange;
use crate::reuse::BeforeReuse;

/// The units that belong to no file.
#[derive(Default)]
pub(crate) struct Space {
    /// First unit to length.
    by_place: BTreeMap<u32, u32>,
    /// The free runs as (length, first unit).
    by_size: BTreeSet<(u32, u32)>,
    free: u64,
    /// No durable inode names these any more; they are to be trimmed, and are then free.
    untrimmed: Vec<LpnRange>,
    /// Called with places before files give them up.
    before_reuse: BeforeReuse,
}

impl Space {
    /// A copy, which tells nobody of what is given up.
    pub fn copy(&self) -> Space {
        Space {
            by_place: self.by_place.clone(),
            by_size: self.by_size.clone(),
            free: self.free,
            untrimmed: self.untrimmed.clone(),
            before_reuse: BeforeReuse::default(),
        }
    }

    /// Units that are free.
    pub fn units(&self) -> u64 {
        self.free
    }

    /// The free ranges.
    pub fn ranges(&self) -> impl Iterator<Item = LpnRange> {
        self.by_place.iter().map(|(&lpn, &units)| LpnRange { lpn: Lpn(lpn), units })
    }

    fn add(&mut self, start: u32, units: u32) {
        if units > 0 {
            self.by_place.insert(start, units);
            self.by_size.insert((units, start));
            self.free += u64::from(units);
            debug_assert_eq!(self.by_place.len(), self.by_size.len(), "free ranges by place and by size");
            let next = self.by_place.range(start + 1..).next();
            debug_assert!(
                next.is_none_or(|(&next, _)| start + units < next),
                "{units} free units at {start} reach {next:?}"
            );
        }
    }

    fn take_out(&mut self, start: u32, units: u32) {
        let by_place = self.by_place.remove(&start);
        assert_eq!(by_place, Some(units), "units that are free at {start}, by place and by size");
        assert!(self.by_size.remove(&(units, start)), "{units} units at {start} are free by place only");
        self.free -= u64::from(units);
    }

    /// Checks the invariant at the head of this file.
    pub fn assert_invariants(&self) {
        let mut end = None;
        for range in self.ranges() {
            assert!(range.units > 0, "a free range at {:?} is empty", range.lpn);
            assert!(
                end.is_none_or(|end| end < range.lpn.0),
                "{range:?} touches the one that ends at {end:?}"
            );
            let is_by_size = self.by_size.contains(&(range.units, range.lpn.0));
            assert!(is_by_size, "{range:?} is free by place only");
            end = Some(range.end());
        }
        assert_eq!(self.by_place.len(), self.by_size.len(), "free ranges by place and by size");
        let units: u64 = self.ranges().map(|range| u64::from(range.units)).sum();
        assert_eq!(units, self.free, "units in free ranges, and free units");
    }

    /// The free range that contains `lpn`, as (first unit, length).
    fn containing(&self, lpn: u32) -> Option<(u32, u32)> {
        let (&start, &units) = self.by_place.range(..=lpn).next_back()?;
        (lpn - start < units).then_some((start, units))
    }

    /// Takes a given range; returns false, and takes nothing, if some of it is not free.
    #[must_use]
    pub fn claim(&mut self, range: LpnRange) -> bool {
        let Some((start, units)) = self.containing(range.lpn.0) else { return false };
        let before = range.lpn.0 - start;
        if range.units > units - before {
            return false;
        }
        self.take_out(start, units);
        self.add(start, before);
        self.add(range.lpn.0 + range.units, units - before - range.units);
        true
    }

    /// Takes up to `units` units in one piece: at `goal` if that is free; otherwise in the middle of the largest range,
    /// so that files that grow at the same time do not grow into each other.
    pub fn allocate(&mut self, goal: Option<Lpn>, units: u32) -> Option<LpnRange> {
        let place = goal.and_then(|goal| {
            let (start, length) = self.containing(goal.0)?;
            Some(LpnRange { lpn: goal, units: units.min(length - (goal.0 - start)) })
        });
        let range = place.or_else(|| {
            let &(length, start) = self.by_size.last()?;
            let skip = if length / 4 >= units { length / 2 } else { 0 };
            Some(LpnRange { lpn: Lpn(start + skip), units: units.min(length) })
        })?;
        assert!(self.claim(range), "{range:?} was found free but could not be taken");
        Some(range)
    }

    /// Takes up to `units` units in one piece where that fragments the least: the whole of the smallest range that is
    /// large enough, or part of the largest.
    pub fn allocate_apart(&mut self, units: u32) -> Option<LpnRange> {
        let &(length, start) = self.by_size.range((units, 0)..).next().or_else(|| self.by_size.last())?;
        let range = LpnRange { lpn: Lpn(start), units: units.min(length) };
        assert!(self.claim(range), "{range:?} was found free but could not be taken");
        Some(range)
    }

    /// Returns a range that reads as zeros.
    pub fn release(&mut self, range: LpnRange) {
        let (mut start, mut units) = (range.lpn.0, range.units);
        if let Some((&before, &length)) = self.by_place.range(..=start).next_back() {
            assert!(before + length <= start, "{range:?} is free already: {length} units at {before} are");
            if before + length == start {
                self.take_out(before, length);
                (start, units) = (before, units + length);
            }
        }
        if let Some((&next, &length)) = self.by_place.range(start..).next() {
            assert!(start + units <= next, "{range:?} is free already: {length} units at {next} are");
            if start + units == next {
                self.take_out(next, length);
                units += length;
            }
        }
        self.add(start, units);
    }

    // -- what is given up -------------------------------------------------------------------------------------------

    /// From now on only `tell` is called with bytes of the drive before a file gives them up.
    pub fn set_before_reuse(&mut self, tell: impl FnMut(Range<u64>) + Send + 'static) {
        self.before_reuse.set(tell);
    }

    /// Units of a file are about to become another file's, or to move within it.
    pub fn tell_before_move(&mut self, range: LpnRange) {
        self.before_reuse.tell(range);
    }

    /// No durable inode names these any more.
    pub fn give_up(&mut self, mut ranges: Vec<LpnRange>) {
        for range in &ranges {
            debug_assert!(range.units > 0, "nothing is given up at {:?}", range.lpn);
            debug_assert!(self.containing(range.lpn.0).is_none(), "{range:?} is given up and free already");
        }
        self.untrimmed.append(&mut ranges);
    }

    /// What was given up and is not trimmed.
    pub fn untrimmed(&self) -> &[LpnRange] {
        &self.untrimmed
    }

    /// Trims what was given up, and frees it. What could not be trimmed is not free, and is left for the next time.
    pub fn trim(&mut self, drive: &mut VolumeClient) -> Result<(), VolumeError> {
        self.untrimmed.sort_unstable();
        merge(&mut self.untrimmed);
        for (range, next) in self.untrimmed.iter().zip(self.untrimmed.iter().skip(1)) {
            assert!(range.end() < next.lpn.0, "{range:?} and {next:?} were given up and not merged");
        }
        self.untrimmed.iter().for_each(|&range| self.before_reuse.tell(range));
        while let Some(&range) = self.untrimmed.last() {
            drive.trim(range)?;
            self.release(range);
            self.untrimmed.pop();
        }
        Ok(())
    }
}

/// Merges sorted ranges that touch.
fn merge(ranges: &mut Vec<LpnRange>) {
    ranges.dedup_by(|range, before| {
        let touches = before.lpn.0 + before.units == range.lpn.0;
        if touches {
            before.units += range.units;
        }
        touches
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(lpn: u32, units: u32) -> LpnRange {
        LpnRange { lpn: Lpn(lpn), units }
    }

    fn space(lpn: u32, units: u32) -> Space {
        let mut space = Space::default();
        space.release(range(lpn, units));
        space
    }

    #[test]
    fn a_goal_that_is_free_is_taken() {
        let mut space = space(10, 100);
        assert_eq!(space.allocate(Some(Lpn(50)), 20), Some(range(50, 20)));
        assert_eq!(space.allocate(Some(Lpn(100)), 20), Some(range(100, 10)));
        assert_eq!(space.units(), 70);
    }

    #[test]
    fn two_files_that_grow_in_turn_stay_in_one_piece_each() {
        let mut space = space(0, 1 << 16);
        let (mut a, mut b) = (None, None);
        let mut pieces = 0;
        for _ in 0..100 {
            for goal in [&mut a, &mut b] {
                let got = space.allocate(*goal, 16).unwrap();
                pieces += u32::from(*goal != Some(got.lpn));
                *goal = Some(Lpn(got.lpn.0 + 16));
            }
        }
        assert_eq!(pieces, 2);
    }

    #[test]
    fn what_lies_apart_is_taken_from_the_smallest_range_that_will_do() {
        let mut space = space(10, 100);
        space.release(range(200, 8));
        space.release(range(300, 3));
        assert_eq!(space.allocate_apart(5), Some(range(200, 5)));
        assert_eq!(space.allocate_apart(200), Some(range(10, 100)));
        assert_eq!(space.allocate_apart(200), Some(range(300, 3)));
    }

    #[test]
    fn everything_can_be_taken_and_given_back() {
        let mut space = space(10, 100);
        let mut taken = Vec::new();
        while let Some(range) = space.allocate(None, 7) {
            taken.push(range);
        }
        assert_eq!(space.units(), 0);
        for range in taken {
            space.release(range);
        }
        assert_eq!(space.ranges().collect::<Vec<_>>(), [range(10, 100)]);
    }

    #[test]
    fn a_claim_that_is_partly_taken_takes_nothing() {
        let mut space = space(10, 100);
        assert!(space.claim(range(20, 10)));
        assert!(!space.claim(range(15, 10)));
        assert!(!space.claim(range(105, 10)));
        assert!(!space.claim(range(5, 10)));
        assert_eq!(space.units(), 90);
    }

    #[test]
    #[should_panic(expected = "free already")]
    fn giving_back_twice_is_a_broken_invariant() {
        let mut space = space(10, 100);
        space.release(range(109, 2));
    }

    /// Units merged by mistake belong to another file, and would be trimmed.
    #[test]
    fn only_ranges_that_touch_are_merged() {
        let mut ranges =
            [(100, 2), (102, 3), (105, 1), (200, 5), (400, 2), (403, 1)].map(|(l, u)| range(l, u)).to_vec();
        merge(&mut ranges);
        assert_eq!(ranges, [(100, 6), (200, 5), (400, 2), (403, 1)].map(|(l, u)| range(l, u)));
    }
}
