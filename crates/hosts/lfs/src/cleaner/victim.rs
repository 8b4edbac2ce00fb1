//! Chooses the segment to clean next.

use std::collections::BTreeSet;

use crate::segments::{Segments, State};

/// How a victim is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Policy {
    /// The one with the fewest live units: most space at once. For the foreground.
    Greedy,
    /// The one with the largest `(1 - u) / (1 + u) * age`, where `u` is the live share: data not written for a long
    /// time stay where they are put (Rosenblum and Ousterhout, section 3.6, without the cost of reading the whole
    /// segment). For the background.
    CostBenefit,
}

/// The best victim, if any segment has something to gain.
pub(super) fn choose(segments: &Segments, policy: Policy, except: &BTreeSet<u32>) -> Option<u32> {
    let units = segments.units();
    let payload = segments.payload();
    let can_gain = |segment: &u32| {
        let entry = segments.get(*segment);
        entry.state == State::Full && entry.live < payload && !except.contains(segment)
    };
    let candidates = (0..segments.count()).filter(can_gain);
    match policy {
        Policy::Greedy => candidates.min_by_key(|segment| segments.get(*segment).live),
        Policy::CostBenefit => candidates.max_by_key(|segment| {
            let entry = segments.get(*segment);
            let age = u128::from(segments.clock() - entry.written) + 1;
            u128::from(units - entry.live) * age * 1024 / u128::from(units + entry.live)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum::Lpn;

    #[test]
    fn greedy_takes_the_emptiest_and_cost_benefit_the_older_of_similar_ones() {
        let mut segments = Segments::new(Lpn(0), 16, 5, 60);
        for (segment, live, written) in [(0, 4, 900), (1, 5, 10), (2, 16, 1), (3, 15, 950)] {
            segments.load(segment, live, written);
        }
        segments.load_clock(1000, 0);
        let none = BTreeSet::new();
        assert_eq!(choose(&segments, Policy::Greedy, &none), Some(0));
        assert_eq!(choose(&segments, Policy::CostBenefit, &none), Some(1));
        assert_eq!(choose(&segments, Policy::Greedy, &BTreeSet::from([0, 1])), Some(3));
        assert_eq!(choose(&segments, Policy::Greedy, &BTreeSet::from([0, 1, 3])), None);
    }
}
