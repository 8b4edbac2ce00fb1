//! Where a file's data are: runs of its units on runs of the drive's.
//!
//! Invariants of [`ExtentMap`]: extents are sorted by unit, not empty, and do not overlap; two that touch both in the
//! file and on the drive are merged. `insert` checks this around its extent in builds with debug assertions.

use std::ops::Range;

use tantalum::{Lpn, UNIT_BYTES};

/// Units on the drive, one after another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct LpnRange {
    pub lpn: Lpn,
    pub units: u32,
}

impl LpnRange {
    /// The first unit after it.
    pub fn end(self) -> u32 {
        self.lpn.0 + self.units
    }

    /// The range in bytes of the drive.
    pub fn bytes(self) -> Range<u64> {
        let start = u64::from(self.lpn.0) * UNIT_BYTES as u64;
        start..start + u64::from(self.units) * UNIT_BYTES as u64
    }
}

/// A run of a file's units that is contiguous on the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    /// The first unit in the file.
    pub unit: u32,
    /// Its place on the drive.
    pub lpn: Lpn,
    pub units: u32,
}

impl Extent {
    /// The first unit after it, in the file.
    pub fn end(&self) -> u32 {
        self.unit + self.units
    }

    fn lpn_end(&self) -> u32 {
        self.lpn.0 + self.units
    }

    fn continues(&self, before: &Extent) -> bool {
        before.end() == self.unit && before.lpn_end() == self.lpn.0
    }

    /// The part of it within units `first..end`, which it must touch.
    fn within(&self, first: u32, end: u32) -> Extent {
        let unit = self.unit.max(first);
        Extent { unit, lpn: Lpn(self.lpn.0 + (unit - self.unit)), units: self.end().min(end) - unit }
    }

    pub fn range(&self) -> LpnRange {
        LpnRange { lpn: self.lpn, units: self.units }
    }
}

/// All extents of a file. The gaps are holes and read as zeros.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ExtentMap {
    extents: Vec<Extent>,
    /// Units of all extents.
    units: u64,
}

impl ExtentMap {
    pub fn len(&self) -> usize {
        self.extents.len()
    }

    /// Units that have a place on the drive.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// The first unit after the last extent.
    pub fn end(&self) -> u32 {
        self.extents.last().map_or(0, Extent::end)
    }

    pub fn as_slice(&self) -> &[Extent] {
        &self.extents
    }

    pub fn iter(&self) -> impl Iterator<Item = &Extent> {
        self.extents.iter()
    }

    /// Checks the invariants at the head of this file.
    pub fn assert_invariants(&self) {
        for (at, extent) in self.extents.iter().enumerate() {
            assert!(extent.units > 0, "extent {at} is empty: {extent:?}");
            self.assert_follows(at);
        }
        let units: u64 = self.extents.iter().map(|e| u64::from(e.units)).sum();
        assert_eq!(units, self.units, "units in extents, and units of the file");
    }

    /// Checks the extent at `at` against the one before it.
    fn assert_follows(&self, at: usize) {
        let before = at.checked_sub(1).and_then(|before| self.extents.get(before));
        let (Some(before), Some(extent)) = (before, self.extents.get(at)) else { return };
        assert!(before.end() <= extent.unit, "{extent:?} is not behind {before:?}");
        assert!(!extent.continues(before), "{extent:?} is not merged with {before:?}");
    }

    /// A copy of the part below unit `end`.
    pub fn cut_at(&self, end: u32) -> ExtentMap {
        let extents = self.between(0, end).collect();
        let mut map = ExtentMap { extents, units: 0 };
        map.units = map.extents.iter().map(|e| u64::from(e.units)).sum();
        map
    }

    /// The extents within units `first..end`, clipped to them.
    pub fn between(&self, first: u32, end: u32) -> impl Iterator<Item = Extent> {
        let extents = &self.extents[self.position(first)..];
        extents.iter().take_while(move |e| first < end && e.unit < end).map(move |e| e.within(first, end))
    }

    /// Index of the first extent that ends after `unit`.
    fn position(&self, unit: u32) -> usize {
        self.extents.partition_point(|e| e.end() <= unit)
    }

    /// The place of `unit`, and how many units from there on are contiguous.
    pub fn run(&self, unit: u32) -> Option<LpnRange> {
        let extent = self.extents.get(self.position(unit)).filter(|e| e.unit <= unit)?;
        let skip = unit - extent.unit;
        Some(LpnRange { lpn: Lpn(extent.lpn.0 + skip), units: extent.units - skip })
    }

    /// The first run of units within `first..end` that has no place, as (unit, units).
    pub fn gap(&self, first: u32, end: u32) -> Option<(u32, u32)> {
        let mut unit = first;
        for extent in &self.extents[self.position(first)..] {
            if extent.unit > unit {
                break;
            }
            unit = extent.end();
        }
        if unit >= end {
            return None;
        }
        let next = self.extents.get(self.position(unit)).map_or(end, |e| e.unit.min(end));
        Some((unit, next - unit))
    }

    /// Units within `first..end` that have no place.
    pub fn missing(&self, first: u32, end: u32) -> u64 {
        let mut missing = 0;
        let mut unit = first;
        while let Some((gap, units)) = self.gap(unit, end) {
            missing += u64::from(units);
            unit = gap + units;
        }
        missing
    }

    /// Where `unit` should be placed to join the extent before it, or else the one after it, once the units between
    /// them are there.
    pub fn goal(&self, unit: u32) -> Option<Lpn> {
        let at = self.position(unit);
        let before = at.checked_sub(1).map(|before| &self.extents[before]);
        let from_before = before.and_then(|e| e.lpn.0.checked_add(unit - e.unit));
        let from_behind = || self.extents.get(at).and_then(|e| e.lpn.0.checked_sub(e.unit - unit));
        from_before.or_else(from_behind).map(Lpn)
    }

    /// Adds an extent in a gap.
    pub fn insert(&mut self, extent: Extent) {
        let at = self.position(extent.unit);
        if let Some(next) = self.extents.get(at) {
            assert!(extent.end() <= next.unit, "{extent:?} overlaps {next:?}");
        }
        self.units += u64::from(extent.units);
        self.extents.insert(at, extent);
        self.merge(at + 1);
        self.merge(at);
        if cfg!(debug_assertions) {
            (at.saturating_sub(1)..at + 2).for_each(|at| self.assert_follows(at));
        }
    }

    /// Merges the extent at `at` with the one before it, if it continues it.
    fn merge(&mut self, at: usize) {
        if at == 0 || at >= self.extents.len() || !self.extents[at].continues(&self.extents[at - 1]) {
            return;
        }
        let units = self.extents[at].units;
        self.extents[at - 1].units += units;
        self.extents.remove(at);
    }

    /// Removes what is within units `first..end`, and returns it.
    pub fn take(&mut self, first: u32, end: u32) -> Vec<Extent> {
        let taken: Vec<Extent> = self.between(first, end).collect();
        let start = self.position(first);
        let stop = start + taken.len();
        let head = self.extents[start..stop].first().filter(|e| e.unit < first).map(|e| e.within(0, first));
        let tail =
            self.extents[start..stop].last().filter(|e| e.end() > end).map(|e| e.within(end, u32::MAX));
        self.extents.splice(start..stop, head.into_iter().chain(tail));
        self.units -= taken.iter().map(|e| u64::from(e.units)).sum::<u64>();
        debug_assert!(self.between(first, end).next().is_none(), "units {first}..{end} still have places");
        debug_assert!(!self.extents.is_empty() || self.units == 0, "{} units are in no extent", self.units);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(unit: u32, lpn: u32, units: u32) -> Extent {
        Extent { unit, lpn: Lpn(lpn), units }
    }

    fn map(extents: &[(u32, u32, u32)]) -> ExtentMap {
        let mut map = ExtentMap::default();
        for &(unit, lpn, units) in extents {
            map.insert(extent(unit, lpn, units));
        }
        map
    }

    #[test]
    fn extents_that_touch_in_file_and_on_drive_become_one() {
        let map = map(&[(0, 100, 4), (8, 108, 4), (4, 104, 4)]);
        assert_eq!(map.iter().copied().collect::<Vec<_>>(), [extent(0, 100, 12)]);
    }

    #[test]
    fn extents_that_touch_in_the_file_only_stay_apart() {
        let map = map(&[(0, 100, 4), (4, 200, 4)]);
        assert_eq!(map.len(), 2);
        assert_eq!(map.run(3), Some(LpnRange { lpn: Lpn(103), units: 1 }));
        assert_eq!(map.run(4), Some(LpnRange { lpn: Lpn(200), units: 4 }));
    }

    #[test]
    fn gaps_are_found_before_between_and_behind_extents() {
        let map = map(&[(2, 100, 2), (4, 300, 2), (10, 200, 2)]);
        assert_eq!(map.gap(0, 20), Some((0, 2)));
        assert_eq!(map.gap(2, 20), Some((6, 4)));
        assert_eq!(map.gap(3, 6), None);
        assert_eq!(map.gap(10, 20), Some((12, 8)));
        assert_eq!(map.gap(7, 9), Some((7, 2)));
        assert_eq!(map.missing(0, 20), 14);
    }

    #[test]
    fn what_is_taken_out_leaves_the_rest_of_its_extents() {
        let mut map = map(&[(0, 100, 4), (10, 200, 4), (20, 300, 4)]);
        assert_eq!(map.take(2, 21), [extent(2, 102, 2), extent(10, 200, 4), extent(20, 300, 1)]);
        assert_eq!(map.as_slice(), [extent(0, 100, 2), extent(21, 301, 3)]);
        assert_eq!(map.take(22, 23), [extent(22, 302, 1)]);
        assert_eq!(map.as_slice(), [extent(0, 100, 2), extent(21, 301, 1), extent(23, 303, 1)]);
        assert_eq!(map.take(2, 21), []);
        assert_eq!(map.units(), 4);
    }

    /// It split the extent in two, and an empty piece of it was given up.
    #[test]
    fn an_empty_range_takes_nothing() {
        let mut map = map(&[(0, 100, 4)]);
        assert_eq!(map.take(2, 2), []);
        assert_eq!(map.as_slice(), [extent(0, 100, 4)]);
    }

    #[test]
    fn goals_let_pieces_grow_together() {
        let map = map(&[(10, 200, 4), (20, 300, 4)]);
        assert_eq!(map.goal(14), Some(Lpn(204)));
        assert_eq!(map.goal(17), Some(Lpn(207)));
        assert_eq!(map.goal(30), Some(Lpn(310)));
        assert_eq!(map.goal(8), Some(Lpn(198)));
        assert_eq!(ExtentMap::default().goal(8), None);
    }

    #[test]
    fn a_copy_is_cut_within_an_extent() {
        let map = map(&[(0, 100, 4), (10, 200, 4)]);
        assert_eq!(map.cut_at(11).as_slice(), [extent(0, 100, 4), extent(10, 200, 1)]);
        assert_eq!(map.cut_at(10).units(), 4);
    }

    #[test]
    #[should_panic(expected = "overlaps")]
    fn overlapping_extents_are_a_broken_invariant() {
        map(&[(4, 100, 4), (2, 200, 4)]);
    }
}
