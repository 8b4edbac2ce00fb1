//! The changed bytes of an image, as ranges that neither overlap nor touch.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of bytes, identified by their places.
#[derive(Default)]
pub(super) struct Ranges {
    /// The end of each range, by its start.
    ends: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Ranges {
    /// Adds bytes; those already in the set are not counted twice.
    pub fn add(&mut self, mut added: Range<u64>) {
        if added.is_empty() {
            return;
        }
        while let Some((&start, &end)) = self.ends.range(..=added.end).next_back()
            && end >= added.start
        {
            self.ends.remove(&start);
            self.bytes -= end - start;
            added = added.start.min(start)..added.end.max(end);
        }
        self.bytes += added.end - added.start;
        self.ends.insert(added.start, added.end);
    }

    /// Removes bytes.
    pub fn remove(&mut self, removed: Range<u64>) {
        while let Some((&start, &end)) = self.ends.range(..removed.end).next_back()
            && end > removed.start
        {
            self.ends.remove(&start);
            self.bytes -= end - start;
            self.add(start..removed.start.max(start));
            self.add(removed.end.min(end)..end);
        }
    }

    /// The number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of ranges.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// The ranges, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.ends.iter().map(|(start, end)| *start..*end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_overlap_or_touch_are_one() {
        let mut ranges = Ranges::default();
        for (added, expected) in [
            (10..20, &[(10, 20)][..]),
            (30..40, &[(10, 20), (30, 40)]),
            (5..5, &[(10, 20), (30, 40)]),
            (12..15, &[(10, 20), (30, 40)]),
            (20..22, &[(10, 22), (30, 40)]),
            (8..10, &[(8, 22), (30, 40)]),
            (50..60, &[(8, 22), (30, 40), (50, 60)]),
            (21..55, &[(8, 60)]),
            (0..100, &[(0, 100)]),
        ] {
            ranges.add(added);
            let found: Vec<(u64, u64)> = ranges.iter().map(|range| (range.start, range.end)).collect();
            assert_eq!(found, expected);
            assert_eq!(ranges.bytes(), expected.iter().map(|(start, end)| end - start).sum::<u64>());
            assert_eq!(ranges.count(), expected.len());
        }
    }

    #[test]
    fn what_is_removed_is_no_longer_in_the_set() {
        let mut ranges = Ranges::default();
        [(0..100), (200..300), (400..500)].into_iter().for_each(|added| ranges.add(added));
        for (removed, expected) in [
            (100..200, &[(0, 100), (200, 300), (400, 500)][..]),
            (20..30, &[(0, 20), (30, 100), (200, 300), (400, 500)]),
            (90..250, &[(0, 20), (30, 90), (250, 300), (400, 500)]),
            (25..450, &[(0, 20), (450, 500)]),
            (0..20, &[(450, 500)]),
            (450..501, &[]),
        ] {
            ranges.remove(removed);
            let found: Vec<(u64, u64)> = ranges.iter().map(|range| (range.start, range.end)).collect();
            assert_eq!(found, expected);
            assert_eq!(ranges.bytes(), expected.iter().map(|(start, end)| end - start).sum::<u64>());
        }
    }
}
