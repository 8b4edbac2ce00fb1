//! What recovery reads about records: for each segment of a key's value, the newest assertion.
//!
//! They are gathered one after the other and sorted, because a table of millions of keys would miss the processor's caches
//! at each of them. Keys are in the order of their hashes, which is that of the indexes.

use super::record::RecordPlace;
use crate::key::{Key, NamespaceId};
use crate::types::Seq;

/// What was read about a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Best {
    pub version: Seq,
    pub step: Seq,
    pub place: RecordPlace,
    pub continuations: u16,
    pub tombstone: bool,
}

/// A segment, and the best that is known about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Assertion {
    /// Of the key.
    hash: u64,
    pub namespace: NamespaceId,
    pub key: Key,
    pub segment: u16,
    pub best: Best,
}

impl Assertion {
    pub fn new(namespace: NamespaceId, key: Key, segment: u16, best: Best) -> Assertion {
        Assertion { hash: key.hash(), namespace, key, segment, best }
    }

    /// Whose value it is, in order.
    fn value(&self) -> (u64, NamespaceId, Key) {
        (self.hash, self.namespace, self.key)
    }
}

/// Parts, each of which has its share of all hashes. Sorting a part of millions of assertions stays in the processor's caches.
const PARTS: usize = 1 << PART_BITS;
const PART_BITS: u32 = 8;

/// Fewer in a part are not worth sorting before the end.
const LEAST: usize = 1 << 12;

/// Assertions; there may be several for a segment until they are sorted.
pub(super) struct Assertions {
    parts: Vec<Part>,
    scratch: Scratch,
}

/// For the part that is sorted: hashes and positions move until they are in order, because assertions are four times as long.
#[derive(Default)]
struct Scratch {
    order: Vec<(u64, usize)>,
    sorted: Vec<Assertion>,
}

/// Those with the same first bits of their hashes.
#[derive(Clone, Default)]
struct Part {
    all: Vec<Assertion>,
    /// How many were left when they were last sorted.
    left: usize,
}

impl Default for Assertions {
    fn default() -> Assertions {
        Assertions { parts: vec![Part::default(); PARTS], scratch: Scratch::default() }
    }
}

impl Assertions {
    /// Adds one. At least a quarter of what is kept, or few, are of different segments.
    pub fn add(&mut self, assertion: Assertion) {
        let part = &mut self.parts[(assertion.hash >> (u64::BITS - PART_BITS)) as usize];
        if part.all.len() >= LEAST.max(4 * part.left) {
            part.sort(&mut self.scratch);
        }
        part.all.push(assertion);
    }

    /// The newest assertion for each segment, in the order of hashes; the first segment of a value comes before the others.
    pub fn into_newest(mut self) -> Newest {
        let sorted = self.parts.into_iter().map(|mut part| {
            part.sort(&mut self.scratch);
            part.all
        });
        Newest { parts: sorted.collect() }
    }
}

impl Part {
    /// Keeps the newest assertion for each segment, in order.
    fn sort(&mut self, scratch: &mut Scratch) {
        scratch.order.clear();
        scratch.order.extend(self.all.iter().enumerate().map(|(number, of)| (of.hash, number)));
        scratch.order.sort_unstable();
        scratch.sorted.clear();
        scratch.sorted.extend(scratch.order.iter().map(|(_, number)| self.all[*number]));
        self.all.copy_from_slice(&scratch.sorted);
        for same in self.all.chunk_by_mut(|a, b| a.hash == b.hash).filter(|same| same.len() > 1) {
            same.sort_unstable_by_key(|of| (of.value(), of.segment, of.best.version, of.best.step));
        }
        self.all.dedup_by(|newer, older| {
            let is_same = (newer.value(), newer.segment) == (older.value(), older.segment);
            if is_same {
                *older = *newer;
            }
            is_same
        });
        self.left = self.all.len();
    }
}

/// The newest assertions, part by part.
pub(super) struct Newest {
    parts: Vec<Vec<Assertion>>,
}

impl Newest {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }

    /// Those of each value.
    pub fn by_value(&self) -> impl Iterator<Item = &[Assertion]> {
        self.parts.iter().flat_map(|part| part.chunk_by(|a, b| a.value() == b.value()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tantalum_nand::{Ppn, SplitMix64};

    use super::*;

    fn best(version: u64, step: u64) -> Best {
        let place = RecordPlace { ppn: Ppn(version as u32), chunk: 0, chunks: 1 };
        Best { version: Seq(version), step: Seq(step), place, continuations: 0, tombstone: false }
    }

    #[test]
    fn the_newest_of_each_segment_is_left_however_many_there_are() {
        let mut random = SplitMix64(1);
        let (mut assertions, mut model) = (Assertions::default(), BTreeMap::new());
        for number in 0..256 * LEAST as u64 {
            let drawn = random.next_u64();
            let (namespace, key) = (NamespaceId(drawn as u32 % 2), Key::new(&[drawn as u8 >> 2, 7]).unwrap());
            let (segment, version) = ((drawn >> 10) as u16 % 2, drawn >> 50);
            assertions.add(Assertion::new(namespace, key, segment, best(version, number)));
            let known = model.entry((namespace, key.hash(), key, segment)).or_insert((version, number));
            *known = (version, number).max(*known);
        }
        assert!(assertions.parts.iter().all(|part| part.all.len() <= LEAST), "they were sorted on the way");
        let newest = assertions.into_newest();
        let of_values: Vec<&[Assertion]> = newest.by_value().collect();
        assert!(of_values.iter().all(|of| of.len() <= 2 && of[0].key == of[of.len() - 1].key));
        let mut found: Vec<_> = of_values
            .concat()
            .iter()
            .map(|of| ((of.namespace, of.hash, of.key, of.segment), (of.best.version.0, of.best.step.0)))
            .collect();
        assert_eq!(newest.len(), found.len());
        assert!(found.is_sorted_by_key(|((namespace, hash, key, segment), _)| {
            (*hash, *namespace, *key, *segment)
        }));
        found.sort_unstable();
        assert!(found.into_iter().eq(model));
    }
}
