//! Gaps: time in which nothing is booked, before the end of the last booking.

use crate::timeline::Timeline;
use tantalum_image::Nanoseconds;

/// How many gaps are remembered besides the last one. Beyond that the earliest is lost, and someone waits longer than
/// necessary.
pub(crate) const MAX_GAPS: usize = 1024;

/// Time in which nothing is booked: from `start_ns` until just before `end_ns`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Gap {
    pub start_ns: Nanoseconds,
    pub end_ns: Nanoseconds,
}

/// The gaps of a plane or a path.
#[derive(Clone, Default, Debug)]
pub(crate) struct Gaps {
    /// Where each begins. None of them is empty.
    earlier: Timeline<Nanoseconds>,
    /// The one after those; ends at 0 if there is none. A host that waits for each answer makes no other.
    last: Gap,
    too_short: TooShort,
}

/// No gap that begins before `until_ns` has `duration_ns` left from `ready_ns` on. That stays true: gaps only shrink,
/// and new ones come after all others.
#[derive(Clone, Copy, Default, Debug)]
struct TooShort {
    ready_ns: Nanoseconds,
    duration_ns: Nanoseconds,
    until_ns: Nanoseconds,
}

impl Gaps {
    /// Adds a gap after all others, unless it is empty. Gaps before `now_ns` may be forgotten.
    #[inline]
    pub fn push(&mut self, gap: Gap, now_ns: Nanoseconds) {
        if gap.start_ns < gap.end_ns {
            if self.last.end_ns > now_ns {
                self.keep_last(now_ns);
            }
            debug_assert!(
                now_ns <= gap.start_ns && self.last.end_ns <= gap.start_ns,
                "{gap:?} is added at {now_ns} ns, but the last one is {:?}",
                self.last
            );
            self.last = gap;
        }
    }

    /// Gaps that are not over at a time, in order.
    #[inline]
    pub fn after(&self, at_ns: Nanoseconds) -> impl Iterator<Item = Gap> + '_ {
        let last = (self.last.end_ns > at_ns).then_some(self.last);
        (self.index_after(at_ns)..self.earlier.len()).filter_map(|index| self.earlier(index)).chain(last)
    }

    /// Gaps that are long enough for what is ready at a time, in order.
    #[inline]
    pub fn long_enough(
        &self,
        ready_ns: Nanoseconds,
        duration_ns: Nanoseconds,
    ) -> impl Iterator<Item = Gap> + '_ {
        let TooShort { ready_ns: earliest_ns, duration_ns: shortest_ns, until_ns } = self.too_short;
        let is_known = earliest_ns <= ready_ns && shortest_ns <= duration_ns;
        let gaps = self.after(if is_known { until_ns.max(ready_ns) } else { ready_ns });
        gaps.filter(move |gap| gap.start_ns.max(ready_ns) + duration_ns <= gap.end_ns)
    }

    /// Notes that no gap that begins before `until_ns` is long enough for what was ready at `ready_ns`.
    #[inline]
    pub fn are_too_short(&mut self, ready_ns: Nanoseconds, duration_ns: Nanoseconds, until_ns: Nanoseconds) {
        let fits = |gap: Gap| gap.start_ns.max(ready_ns) + duration_ns <= gap.end_ns;
        debug_assert!(
            !self.after(ready_ns).any(|gap| gap.start_ns < until_ns && fits(gap)),
            "a gap that begins before {until_ns} ns has {duration_ns} ns from {ready_ns} ns on"
        );
        self.too_short = TooShort { ready_ns, duration_ns, until_ns };
    }

    /// Takes the idle time from `start_ns` until just before `end_ns`. Returns how much that was.
    pub fn take(&mut self, start_ns: Nanoseconds, end_ns: Nanoseconds, now_ns: Nanoseconds) -> Nanoseconds {
        self.keep_last(now_ns);
        let mut index = self.index_after(start_ns);
        let mut idle_ns = 0;
        while let Some(gap) = self.earlier(index).filter(|gap| gap.start_ns < end_ns) {
            let (start_ns, end_ns) = (gap.start_ns.max(start_ns), gap.end_ns.min(end_ns));
            index = self.take_from(index, start_ns, end_ns);
            idle_ns += end_ns - start_ns;
        }
        debug_assert!(
            idle_ns <= end_ns - start_ns,
            "{idle_ns} ns were idle from {start_ns} to {end_ns} ns: gaps overlap"
        );
        idle_ns
    }

    /// Takes the first `duration_ns` of idle time from `ready_ns` on, in pieces if need be, or whatever there is.
    /// Returns when the last piece ends, and how much is missing.
    pub fn take_first(
        &mut self,
        ready_ns: Nanoseconds,
        duration_ns: Nanoseconds,
        now_ns: Nanoseconds,
    ) -> (Nanoseconds, Nanoseconds) {
        self.keep_last(now_ns);
        let (mut end_ns, mut missing_ns) = (ready_ns, duration_ns);
        let mut index = self.index_after(ready_ns);
        while missing_ns > 0
            && let Some(gap) = self.earlier(index)
        {
            let start_ns = gap.start_ns.max(ready_ns);
            debug_assert!(
                end_ns <= start_ns,
                "a piece begins at {start_ns} ns, before one ends at {end_ns} ns"
            );
            end_ns = gap.end_ns.min(start_ns + missing_ns);
            missing_ns -= end_ns - start_ns;
            index = self.take_from(index, start_ns, end_ns);
        }
        (end_ns, missing_ns)
    }

    /// The index of the first of the earlier gaps that is not over at a time.
    #[inline]
    fn index_after(&self, at_ns: Nanoseconds) -> usize {
        match self.earlier.ends_ns().last() {
            Some(end_ns) if *end_ns > at_ns => self.earlier.index_after(at_ns),
            _ => self.earlier.len(),
        }
    }

    #[inline]
    fn earlier(&self, index: usize) -> Option<Gap> {
        self.earlier.get(index).map(|(start_ns, end_ns)| Gap { start_ns, end_ns })
    }

    /// Takes a part of a gap. Returns the index of the next one.
    fn take_from(&mut self, index: usize, start_ns: Nanoseconds, end_ns: Nanoseconds) -> usize {
        let gap = self.earlier(index).expect("it was found there");
        debug_assert!(
            gap.start_ns <= start_ns && start_ns <= end_ns && end_ns <= gap.end_ns,
            "{start_ns} to {end_ns} ns are taken from {gap:?}"
        );
        match (gap.start_ns < start_ns, end_ns < gap.end_ns) {
            (false, false) => {
                self.earlier.remove(index);
                index
            }
            (false, true) => {
                self.earlier.set(index, end_ns, gap.end_ns);
                index + 1
            }
            (true, false) => {
                self.earlier.set(index, gap.start_ns, start_ns);
                index + 1
            }
            (true, true) => {
                self.earlier.set(index, gap.start_ns, start_ns);
                let next = index + 1 - self.make_room();
                self.earlier.insert(next, end_ns, gap.end_ns);
                next + 1
            }
        }
    }

    /// Adds the last gap to the earlier ones, and forgets those that are past.
    fn keep_last(&mut self, now_ns: Nanoseconds) {
        while self.earlier.ends_ns().first().is_some_and(|end_ns| *end_ns <= now_ns) {
            self.earlier.forget_first();
        }
        let last = std::mem::take(&mut self.last);
        if last.end_ns > now_ns {
            debug_assert!(
                self.earlier.ends_ns().last().is_none_or(|end_ns| *end_ns <= last.start_ns),
                "{last:?} does not follow a gap that ends at {:?} ns",
                self.earlier.ends_ns().last()
            );
            self.make_room();
            self.earlier.push(last.start_ns, last.end_ns);
        }
    }

    /// Makes room for one more gap. Returns how many were lost.
    fn make_room(&mut self) -> usize {
        debug_assert!(self.earlier.len() <= MAX_GAPS, "{} gaps are remembered", self.earlier.len());
        if self.earlier.len() < MAX_GAPS {
            return 0;
        }
        self.earlier.forget_first();
        1
    }

    /// Forgets all gaps.
    pub fn clear(&mut self) {
        *self = Gaps::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_image::SplitMix64;

    fn gaps(of: &[(u64, u64)]) -> Gaps {
        let mut gaps = Gaps::default();
        of.iter().for_each(|&(start_ns, end_ns)| gaps.push(Gap { start_ns, end_ns }, 0));
        gaps
    }

    fn list(gaps: &Gaps, at_ns: u64) -> Vec<(u64, u64)> {
        gaps.after(at_ns).map(|gap| (gap.start_ns, gap.end_ns)).collect()
    }

    #[test]
    fn what_is_taken_is_no_gap_any_more() {
        let mut gaps = gaps(&[(10, 20), (30, 40), (40, 40), (50, 60)]);
        assert_eq!(list(&gaps, 20), [(30, 40), (50, 60)]);
        assert_eq!(gaps.take(32, 34, 0), 2);
        assert_eq!(list(&gaps, 0), [(10, 20), (30, 32), (34, 40), (50, 60)]);
        assert_eq!(gaps.take(15, 55, 0), 5 + 2 + 6 + 5, "of all that it touches");
        assert_eq!(list(&gaps, 0), [(10, 15), (55, 60)]);
        assert_eq!((gaps.take(15, 55, 0), gaps.take(0, 100, 0)), (0, 10));
        assert_eq!(list(&gaps, 0), []);
    }

    #[test]
    fn the_past_is_forgotten() {
        let mut gaps = gaps(&[(10, 20), (30, 40)]);
        gaps.push(Gap { start_ns: 50, end_ns: 60 }, 25);
        assert_eq!(list(&gaps, 0), [(30, 40), (50, 60)]);
        gaps.push(Gap { start_ns: 70, end_ns: 80 }, 65);
        assert_eq!((list(&gaps, 65), gaps.take(70, 80, 65), list(&gaps, 0)), (vec![(70, 80)], 10, vec![]));
        gaps.push(Gap { start_ns: 90, end_ns: 95 }, 65);
        gaps.clear();
        assert_eq!(list(&gaps, 0), []);
    }

    #[test]
    fn the_earliest_are_lost_if_there_are_too_many() {
        let mut gaps = Gaps::default();
        for number in 1..=2 * MAX_GAPS as u64 {
            gaps.push(Gap { start_ns: 10 * number, end_ns: 10 * number + 5 }, 0);
        }
        let first = 10 * MAX_GAPS as u64;
        assert_eq!(list(&gaps, 0)[0], (first, first + 5));
        assert_eq!(gaps.take(first + 21, first + 23, 0), 2);
        assert_eq!((list(&gaps, 0).len(), list(&gaps, 0)[0]), (MAX_GAPS, (first + 20, first + 21)));
    }

    /// As in a line of one priority: every gap that is long enough is found, whatever was too short before.
    #[test]
    fn what_was_too_short_is_passed_over_and_nothing_else_is() {
        for seed in 0..100 {
            let mut random = SplitMix64(seed);
            let (mut gaps, mut end_ns, mut now_ns) = (Gaps::default(), 0, 0);
            for step in 0..500 {
                now_ns += random.below(10);
                let start_ns = now_ns.max(end_ns);
                end_ns = start_ns + random.below(2) * random.below(100);
                gaps.push(Gap { start_ns, end_ns }, now_ns);
                end_ns += 1;
                let (ready_ns, duration_ns) = (now_ns + random.below(2000), 1 + random.below(60));
                let fits = |gap: &Gap| gap.start_ns.max(ready_ns) + duration_ns <= gap.end_ns;
                let expected: Vec<Gap> = gaps.after(ready_ns).filter(fits).collect();
                let found: Vec<Gap> = gaps.long_enough(ready_ns, duration_ns).collect();
                assert_eq!(found, expected, "seed {seed}, step {step}");
                let start_ns = found.first().map_or(end_ns, |gap| gap.start_ns.max(ready_ns));
                gaps.take(start_ns, start_ns + duration_ns, now_ns);
                gaps.are_too_short(ready_ns, duration_ns, start_ns);
            }
        }
    }
}
