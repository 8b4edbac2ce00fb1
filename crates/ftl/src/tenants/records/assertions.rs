//! What recovery reads about records: for each segment of a key's value, the newest assertion.
//!
//! They are gathered in one piece of memory and sorted, because a table of millions of keys would miss the processor's
//! caches at each of them. Keys are in the order of their hashes, which is that of the indexes.

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

    /// The order: first by whose value it is.
    fn value(&self) -> (NamespaceId, u64, Key) {
        (self.namespace, self.hash, self.key)
    }
}

/// Fewer are not worth sorting before the end.
const LEAST: usize = 1 << 20;

/// Assertions; there may be several for a segment until they are sorted.
#[derive(Default)]
pub(super) struct Assertions {
    all: Vec<Assertion>,
    /// How many were left when they were last sorted.
    left: usize,
}

impl Assertions {
    /// Adds one. At least a quarter of what is kept, or few, are of different segments.
    pub fn add(&mut self, assertion: Assertion) {
        if self.all.len() >= LEAST.max(4 * self.left) {
            self.sort();
        }
        self.all.push(assertion);
    }

    /// Keeps the newest assertion for each segment, in order.
    fn sort(&mut self) {
        self.all.sort_unstable_by_key(|of| (of.value(), of.segment, of.best.version, of.best.step));
        self.all.dedup_by(|newer, older| {
            let is_same = (newer.value(), newer.segment) == (older.value(), older.segment);
            if is_same {
                *older = *newer;
            }
            is_same
        });
        self.left = self.all.len();
    }

    /// The newest assertion for each segment, in the order of namespaces, hashes and keys; the first segment of a value
    /// comes before the others.
    pub fn into_newest(mut self) -> Vec<Assertion> {
        self.sort();
        self.all
    }

    /// Those of each value.
    pub fn by_value(newest: &[Assertion]) -> impl Iterator<Item = &[Assertion]> {
        newest.chunk_by(|a, b| a.value() == b.value())
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
        for number in 0..(LEAST + 1000) as u64 {
            let drawn = random.next_u64();
            let (namespace, key) = (NamespaceId(drawn as u32 % 2), Key::new(&[drawn as u8 >> 2, 7]).unwrap());
            let (segment, version) = ((drawn >> 10) as u16 % 2, drawn >> 50);
            assertions.add(Assertion::new(namespace, key, segment, best(version, number)));
            let known = model.entry((namespace, key.hash(), key, segment)).or_insert((version, number));
            *known = (version, number).max(*known);
        }
        assert!(assertions.all.len() < LEAST, "they were sorted on the way");
        let newest = assertions.into_newest();
        let found = newest
            .iter()
            .map(|of| ((of.namespace, of.hash, of.key, of.segment), (of.best.version.0, of.best.step.0)));
        assert!(found.eq(model));
        assert!(Assertions::by_value(&newest).all(|of| of.len() <= 2 && of[0].key == of[of.len() - 1].key));
    }
}
