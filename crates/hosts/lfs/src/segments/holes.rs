//! What must be known about dead units before they may be filled ([`super::fillable_holes`]): which were given up since the last
//! durable checkpoint, and which segments are worth filling.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use tantalum_canaries::guard;

/// Units of a segment, as bits.
#[derive(Clone, Debug, Default)]
struct Units {
    words: Vec<u64>,
    count: u32,
}

impl Units {
    fn insert(&mut self, unit: u32) {
        let (word, bit) = (unit as usize / 64, 1 << (unit % 64));
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.count += u32::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    fn contains(&self, unit: u32) -> bool {
        self.words.get(unit as usize / 64).is_some_and(|word| word >> (unit % 64) & 1 == 1)
    }
}

/// What must be known about dead units.
#[derive(Clone, Debug, Default)]
pub(super) struct Holes {
    /// A checkpoint of this mount is durable.
    pub is_settled: bool,
    /// Units that were given up since the last durable checkpoint, by segment.
    held: FxHashMap<u32, Units>,
    pub held_units: u64,
    /// Segments whose summaries do not explain everything that is live there.
    pub unexplained: BTreeSet<u32>,
    /// Segments worth filling, those with most holes last; `None` if they must be searched for.
    pub candidates: Option<Candidates>,
}

/// Segments that are worth filling. Units given up in the meantime do not change their holes.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidates {
    /// Holes and number of each.
    pub segments: Vec<(u32, u32)>,
    /// Holes of all.
    pub holes: u64,
}

impl Holes {
    /// A unit was given up.
    pub fn hold(&mut self, segment: u32, unit: u32) {
        let units = self.held.entry(segment).or_default();
        units.insert(unit);
        self.held_units += 1;
        debug_assert!(
            u64::from(units.count) <= self.held_units,
            "segment {segment} holds {} units, and all segments {}",
            units.count,
            self.held_units
        );
    }

    /// A checkpoint is durable that names nothing of what was given up before.
    pub fn checkpointed(&mut self) {
        self.is_settled = true;
        self.held.clear();
        self.held_units = 0;
        self.candidates = None;
    }

    /// A segment became empty, and will be free.
    pub fn emptied(&mut self) {
        self.candidates = None;
    }

    /// How many units of a segment were given up since the last durable checkpoint.
    pub fn held_in(&self, segment: u32) -> u32 {
        self.still_named(segment).map_or(0, |units| units.count)
    }

    /// Whether a unit was given up since the last durable checkpoint.
    pub fn is_held(&self, segment: u32, unit: u32) -> bool {
        self.still_named(segment).is_some_and(|units| units.contains(unit))
    }

    fn still_named(&self, segment: u32) -> Option<&Units> {
        guard!(HoleStillNamed, self.held.get(&segment))
    }
}
