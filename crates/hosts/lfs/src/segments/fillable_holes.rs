//! Holes: units of full segments that nothing names, which a head fills when free segments run short (F2FS's slack
//! space recycling). It costs a summary for each segment, whereas cleaning moves every live unit there.
//!
//! Invariants:
//! - **H1** A unit that was live at the last durable checkpoint, or since, is not a hole: the checkpoint, the chain
//!   after it or a list may name it.
//! - **H2** Nothing is filled before a checkpoint of this mount is durable: until then recovery may have to reread what
//!   seems dead.
//! - **H3** A segment is filled only if its summary explains everything that is live there.

use std::collections::{BTreeSet, VecDeque};

use tantalum::Lpn;
use tantalum_canaries::guard;

use super::holes::Candidates;
use super::table::{Segments, State};

/// A segment with fewer than one hole in this many units is not worth its summary.
const LEAST_SHARE: u32 = 32;

/// Segments with fewer than one live unit in this many are left to the cleaner: it has little to move, and often they
/// soon become free by themselves, like those of nodes, which are rewritten again and again.
const EMPTY_SHARE: u32 = 8;

impl Segments {
    fn dead(&self, segment: u32) -> u32 {
        self.units() - self.get(segment).live
    }

    fn holes_in(&self, segment: u32) -> u32 {
        self.dead(segment).saturating_sub(self.holes.held_in(segment))
    }

    fn is_worth_filling(&self, segment: u32, holes: u32) -> bool {
        self.get(segment).state == State::Full
            && holes * LEAST_SHARE >= self.units()
            && self.get(segment).live * EMPTY_SHARE >= self.units()
            && !self.holes.unexplained.contains(&segment)
    }

    fn find_candidates(&mut self) -> &mut Candidates {
        if self.holes.candidates.is_none() {
            let all = (0..self.count()).map(|segment| (self.holes_in(segment), segment));
            let is_candidate = |(holes, segment): &(u32, u32)| self.is_worth_filling(*segment, *holes);
            let mut segments: Vec<(u32, u32)> = all.filter(is_candidate).collect();
            segments.sort_unstable();
            let holes = segments.iter().map(|(holes, _)| u64::from(*holes)).sum();
            debug_assert!(
                segments.iter().all(|(holes, segment)| *holes <= self.dead(*segment)),
                "a segment has more holes than dead units: {segments:?}"
            );
            self.holes.candidates = Some(Candidates { segments, holes });
        }
        self.holes.candidates.as_mut().expect("they were looked for")
    }

    /// Whether recovery may still need what is dead.
    fn is_settled(&self) -> bool {
        guard!(HolesInRecovery, self.holes.is_settled)
    }

    /// Units that heads could put into holes now.
    pub fn holes(&mut self) -> u64 {
        if self.is_settled() { self.find_candidates().holes } else { 0 }
    }

    /// Whether nothing that is durable names a unit of a segment (H1).
    pub(super) fn is_hole(&self, segment: u32, lpn: Lpn) -> bool {
        self.get(segment).state == State::Filling
            && !self.holes.is_held(segment, lpn.0 - self.first_lpn(segment).0)
    }

    /// Whether a checkpoint would make this many holes.
    pub fn would_have_holes(&self, units: u64) -> bool {
        // Examining all segments takes a while.
        if self.holes.held_units < units {
            return false;
        }
        let dead = (0..self.count()).map(|segment| (segment, self.dead(segment)));
        let worth = dead.filter(|(segment, dead)| self.is_worth_filling(*segment, *dead));
        worth.map(|(_, dead)| u64::from(dead)).sum::<u64>() >= units
    }

    /// The segment with most holes, to be filled next.
    pub fn next_to_fill(&mut self) -> Option<u32> {
        if !self.is_settled() {
            return None;
        }
        let candidates = self.find_candidates();
        let (holes, segment) = candidates.segments.pop()?;
        candidates.holes -= u64::from(holes);
        assert!(
            !candidates.segments.is_empty() || candidates.holes == 0,
            "{} holes are left in no segment after segment {segment}",
            candidates.holes
        );
        Some(segment)
    }

    /// The holes of a segment, given the live units found there; none if the table counts another number.
    pub fn holes_beside(&mut self, segment: u32, living: &BTreeSet<Lpn>) -> VecDeque<Lpn> {
        if let (Some(first), Some(last)) = (living.first(), living.last()) {
            assert_eq!(
                (self.find(*first), self.find(*last)),
                (Some(segment), Some(segment)),
                "units {first} to {last} live in segment {segment}"
            );
        }
        if living.len() != self.get(segment).live as usize {
            self.holes.unexplained.insert(segment);
            return VecDeque::new();
        }
        let first = self.first_lpn(segment).0;
        let is_hole =
            |unit: &u32| !living.contains(&Lpn(first + unit)) && !self.holes.is_held(segment, *unit);
        (0..self.units()).filter(is_hole).map(|unit| Lpn(first + unit)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four segments of 64 units, of which the first is full and has two dead units.
    fn segments() -> Segments {
        let mut segments = Segments::new(Lpn(100), 64, 4, 256);
        let segment = segments.open().unwrap();
        (100..164).for_each(|lpn| segments.add(Lpn(lpn)).unwrap());
        segments.close(segment);
        [103, 163].into_iter().for_each(|lpn| segments.release(Lpn(lpn)).unwrap());
        segments
    }

    #[test]
    fn what_was_given_up_is_a_hole_behind_the_next_checkpoint() {
        let mut segments = segments();
        assert_eq!(
            (segments.holes(), segments.would_have_holes(2), segments.would_have_holes(3)),
            (0, true, false)
        );
        segments.checkpointed();
        segments.release(Lpn(104)).unwrap();
        assert_eq!((segments.holes(), segments.would_have_holes(1)), (2, true));
        let living: BTreeSet<Lpn> =
            (100..164).filter(|lpn| ![103, 104, 163].contains(lpn)).map(Lpn).collect();
        let segment = segments.next_to_fill().unwrap();
        assert_eq!(segments.holes_beside(segment, &living), [Lpn(103), Lpn(163)]);
        assert_eq!(segments.next_to_fill(), None);
    }

    #[test]
    fn a_segment_that_its_summary_does_not_explain_is_not_filled() {
        let mut segments = segments();
        segments.checkpointed();
        let living = (100..160).map(Lpn).collect();
        let segment = segments.next_to_fill().unwrap();
        assert!(segments.holes_beside(segment, &living).is_empty());
        segments.checkpointed();
        assert_eq!((segments.holes(), segments.next_to_fill()), (0, None));
    }
}
