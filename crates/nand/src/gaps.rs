//! Gaps: time in which nothing is booked, before the end of what is.

use std::collections::VecDeque;

use crate::geometry::Nanoseconds;

/// The most gaps that are remembered beside the last one. Then the earliest is lost: somebody waits longer than he had to.
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
    /// In the order of time, none of them empty.
    earlier: VecDeque<Gap>,
    /// The one after those; over at 0 if there is none. A host that waits for each answer makes no other.
    last: Gap,
}

impl Gaps {
    /// Notes a gap after all others, unless it is empty. Nothing is booked before `now_ns` any more.
    #[inline]
    pub fn push(&mut self, gap: Gap, now_ns: Nanoseconds) {
        if gap.start_ns < gap.end_ns {
            if self.last.end_ns > now_ns {
                self.keep_last(now_ns);
            }
            self.last = gap;
        }
    }

    /// Those that are not over at a time, in their order.
    #[inline]
    pub fn after(&self, at_ns: Nanoseconds) -> impl Iterator<Item = Gap> + '_ {
        // none is over later than the last one, unless that was taken
        let first = match self.earlier.back() {
            Some(gap) if gap.end_ns > at_ns => self.earlier.partition_point(|gap| gap.end_ns <= at_ns),
            _ => self.earlier.len(),
        };
        let last = (self.last.end_ns > at_ns).then_some(self.last);
        self.earlier.range(first..).copied().chain(last)
    }

    /// Takes what is idle from `start_ns` until just before `end_ns`. Returns how much that is.
    pub fn take(&mut self, start_ns: Nanoseconds, end_ns: Nanoseconds, now_ns: Nanoseconds) -> Nanoseconds {
        self.keep_last(now_ns);
        let mut index = self.earlier.partition_point(|gap| gap.end_ns <= start_ns);
        let mut idle_ns = 0;
        while let Some(gap) = self.earlier.get(index).copied().filter(|gap| gap.start_ns < end_ns) {
            let (start_ns, end_ns) = (gap.start_ns.max(start_ns), gap.end_ns.min(end_ns));
            index = self.take_from(index, start_ns, end_ns);
            idle_ns += end_ns - start_ns;
        }
        idle_ns
    }

    /// Takes a part of a gap. Returns the index of the next one.
    fn take_from(&mut self, index: usize, start_ns: Nanoseconds, end_ns: Nanoseconds) -> usize {
        let gap = &mut self.earlier[index];
        let after = Gap { start_ns: end_ns, end_ns: gap.end_ns };
        match (gap.start_ns < start_ns, end_ns < gap.end_ns) {
            (false, false) => {
                self.earlier.remove(index);
                index
            }
            (false, true) => {
                gap.start_ns = end_ns;
                index + 1
            }
            (true, false) => {
                gap.end_ns = start_ns;
                index + 1
            }
            (true, true) => {
                gap.end_ns = start_ns;
                let next = index + 1 - self.make_room();
                self.earlier.insert(next, after);
                next + 1
            }
        }
    }

    /// Has the last gap among the others, and forgets those that nobody can take any more.
    fn keep_last(&mut self, now_ns: Nanoseconds) {
        while self.earlier.front().is_some_and(|gap| gap.end_ns <= now_ns) {
            self.earlier.pop_front();
        }
        let last = std::mem::take(&mut self.last);
        if last.end_ns > now_ns {
            self.make_room();
            self.earlier.push_back(last);
        }
    }

    /// Makes room for one more gap. Returns how many were lost.
    fn make_room(&mut self) -> usize {
        if self.earlier.len() < MAX_GAPS {
            return 0;
        }
        self.earlier.pop_front();
        1
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.earlier.clear();
        self.last = Gap::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
