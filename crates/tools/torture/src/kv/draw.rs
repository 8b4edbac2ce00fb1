//! What a transaction changes, drawn at random.

use std::ops::Range;
use std::sync::Arc;

use rand::{Rng, RngExt};
use tantalum_kv::{Error, Transaction};

use super::contents::PART_BYTES;
use super::contents::{Contents, Digest, Namespaces, Random};
use super::keys::{BULK, KEYS, bulk_key, key};

/// One record in either namespace: in the hashed one a number stands for its key.
struct Change {
    is_ordered: bool,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

/// The changes of a transaction.
pub(super) struct Changes(Vec<Change>);

impl Changes {
    /// A few records, or some dozens, so that nodes are split and merged.
    pub fn some(random: &mut Random) -> Changes {
        let count = match random.random_range(0..4) {
            0 => random.random_range(30..150),
            _ => random.random_range(1..7),
        };
        // phases in which a tree grows, and in which it shrinks
        let deletes = [10, 50, 95][random.random_range(0..3)];
        // adjacent keys, or keys anywhere
        let (first, span) = match random.random_range(0..3) {
            0 => (random.random_range(0..KEYS), KEYS / 8),
            _ => (0, KEYS),
        };
        let change = |_| {
            let number = (first + random.random_range(0..span)) % KEYS;
            let is_ordered = random.random_range(0..4) > 0;
            let key = if is_ordered { key(number) } else { number.to_be_bytes().to_vec() };
            let value = (random.random_range(0..100) >= deletes).then(|| value(random));
            Change { is_ordered, key, value }
        };
        let mut changes = Changes((0..count).map(change).collect());
        // each is as much work as some dozen others
        if random.random_range(0..40) == 0 {
            changes.0.push(large(random));
        }
        changes
    }

    /// More records than fit in one `put` of the drive, in both namespaces; or deletes all of them.
    pub fn many(random: &mut Random, is_there: bool) -> Changes {
        let number = random.random::<u64>().to_le_bytes();
        // of a few KiB, or more than the room that a store reserves for deletes
        let number = number.repeat([1, 1, 100][random.random_range(0..3)]);
        let value = |_| (!is_there).then(|| number.clone());
        let all = (0..BULK).map(|record| Change {
            is_ordered: record % 5 > 0,
            key: bulk_key(record),
            value: value(record),
        });
        let mut changes = Changes(all.collect());
        changes.0.extend(Changes::some(random).0);
        changes
    }

    /// Deletes of all records, of some of each kind, or of those from a key on.
    pub fn deletes(random: &mut Random, contents: &Contents) -> Changes {
        let kind = random.random_range(0..4);
        let all = [(true, &contents.ordered), (false, &contents.hashed)];
        let change = |is_ordered, key: &Arc<[u8]>| Change { is_ordered, key: key.to_vec(), value: None };
        let mut changes = Vec::new();
        for (is_ordered, map) in all {
            let from = random.random_range(0..map.len() + 1);
            for (at, key) in map.keys().enumerate() {
                let is_meant = match kind {
                    0 => true,
                    1 => at % 2 == 0,
                    2 => random.random_range(0..2) == 0,
                    _ => at >= from,
                };
                changes.extend(is_meant.then(|| change(is_ordered, key)));
            }
        }
        Changes(changes)
    }

    /// Makes the changes. Returns the contents after them.
    pub fn make(
        &self,
        tx: &mut Transaction,
        namespaces: Namespaces,
        before: &Contents,
    ) -> Result<Contents, Error> {
        let mut after = before.clone();
        for Change { is_ordered, key, value } in &self.0 {
            let (namespace, map) = match is_ordered {
                true => (namespaces.ordered, &mut after.ordered),
                false => (namespaces.hashed, &mut after.hashed),
            };
            match value {
                Some(value) => {
                    tx.put(namespace, key, value)?;
                    map.insert(key[..].into(), Digest::of(value));
                }
                None => {
                    tx.delete(namespace, key)?;
                    map.remove(&key[..]);
                }
            }
        }
        Ok(after)
    }
}

/// A value that is stored in parts, for one of two keys that others change too: more would fill the drive.
fn large(random: &mut Random) -> Change {
    let is_ordered = random.random_range(0..2) > 0;
    let key = if is_ordered { key(0) } else { 0_u32.to_be_bytes().to_vec() };
    let most = [5, 5, 5, 9][random.random_range(0..4)] * PART_BYTES / 4;
    Change { is_ordered, key, value: Some(bytes(random, PART_BYTES + 1..most)) }
}

fn value(random: &mut Random) -> Vec<u8> {
    let lengths = [0..20, 0..300, 0..300, 3000..6000][random.random_range(0..4)].clone();
    bytes(random, lengths)
}

fn bytes(random: &mut Random, lengths: Range<usize>) -> Vec<u8> {
    let mut value = vec![0; random.random_range(lengths)];
    random.fill_bytes(&mut value);
    value
}
