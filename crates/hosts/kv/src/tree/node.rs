//! The layout of a node: format, level (0: a leaf), entries; for each entry where its key ends and a number; then the
//! keys. All little-endian. The drive keeps a checksum over each record.
//!
//! An entry of a leaf has a value's number, one of an inner node a child's and the least key that may be below it. The
//! first key of an inner node is empty: whatever is less than the second is below it.
//!
//! A leaf that has values has the second format: for each entry where its key ends and where its value ends, the highest bit of
//! which is set if the value lies apart; then the keys; then the values, or the numbers of those that lie apart; then zeros, if
//! entries are very small.

use crate::large::number_of_head;
use crate::record::LEAF_BYTES;

const FORMAT: u8 = 1;
const WITH_VALUES: u8 = 2;
const HEAD_BYTES: usize = 4;
const ENTRY_BYTES: usize = 10;
const ENTRY_WITH_VALUE_BYTES: usize = 4;
const NUMBER_BYTES: usize = 8;

/// In where a value ends: it lies apart.
const APART: u16 = 1 << 15;

/// Beyond this many bytes an inner node is split, unless it has too few entries. Two such nodes fit in a unit of the drive.
pub(super) const INNER_BYTES: usize = 2008;

/// Beyond this many bytes a leaf without values is split that gets another key, unless it has too few entries. Eight such leaves fit in a
/// unit of the drive: each insert writes one. Earlier versions made leaves of up to [`INNER_BYTES`]; such a one is split when it gets a
/// key, and not when it loses one, since what it is split into takes more of the drive.
pub(super) const NUMBERS_BYTES: usize = 472;

/// An entry of a leaf that has values takes at least this much: the log of a transaction that deletes any of a full store's records
/// has a bit for each, and the store keeps room for that by its size (`limits.rs`).
const LEAST_ENTRY_BYTES: usize = 48;

/// A value lies with its key if both together have at most this many bytes.
const HERE_BYTES: usize = 320;

/// A node has at least this many entries before it is split.
const LEAST_SPLIT: usize = 4;

/// Where a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place<V> {
    /// In the leaf.
    Here(V),
    /// In a record of this number. A child of an inner node is one, too.
    Apart(u64),
}

/// How a tree is laid out. What an earlier version has logged is put in place as that version had planned it: with the same nodes, since
/// what follows in its log counts on their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// As it is now: small values lie with their keys, and leaves without values are short.
    ShortLeaves,
    /// As before: leaves without values are as long as inner nodes.
    SmallHere,
    /// As before that: all values lie apart.
    AllApart,
}

impl Layout {
    pub const NOW: Layout = Layout::ShortLeaves;

    /// Whether a value lies with its key. What could be the head of a large value never does: a head is a record.
    pub fn is_here(self, key: &[u8], value: &[u8]) -> bool {
        self != Layout::AllApart && key.len() + value.len() <= HERE_BYTES && number_of_head(value).is_none()
    }

    /// Beyond how many bytes a node of this level and these entries is split.
    pub(super) fn full_bytes(self, level: u8, entries: &[Entry<'_>]) -> usize {
        match (level, have_values(entries)) {
            (0, true) => LEAF_BYTES,
            (0, false) if self == Layout::ShortLeaves => NUMBERS_BYTES,
            _ => INNER_BYTES,
        }
    }
}

/// A key, and where its value is: pieces of a node's bytes, or of what changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry<'a> {
    pub key: &'a [u8],
    pub place: Place<&'a [u8]>,
}

impl Entry<'_> {
    /// The number of the child of an inner node.
    pub fn child(&self) -> u64 {
        match self.place {
            Place::Apart(number) => number,
            Place::Here(_) => unreachable!("an inner node has no values: {self:?}"),
        }
    }
}

/// The bytes of a node. Lookups beyond its end return none: an image may hold anything.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    level: u8,
    has_values: bool,
    count: usize,
    slots: &'a [u8],
    keys: &'a [u8],
    values: &'a [u8],
}

impl<'a> Node<'a> {
    pub fn parse(bytes: &'a [u8]) -> Option<Node<'a>> {
        let (&[format, level, low, high], rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let count = usize::from(u16::from_le_bytes([low, high]));
        let has_values = match (format, level) {
            (FORMAT, _) => false,
            (WITH_VALUES, 0) => true,
            _ => return None,
        };
        let slot_bytes = if has_values { ENTRY_WITH_VALUE_BYTES } else { ENTRY_BYTES };
        let (slots, keys) = rest.split_at_checked(count * slot_bytes)?;
        let mut node = Node { level, has_values, count, slots, keys, values: &[] };
        if has_values {
            (node.keys, node.values) = keys.split_at_checked(node.end(count.checked_sub(1)?)?)?;
        }
        (count > 0).then_some(node)
    }

    pub fn level(self) -> u8 {
        self.level
    }

    pub fn len(self) -> usize {
        self.count
    }

    fn slot_bytes(self) -> usize {
        if self.has_values { ENTRY_WITH_VALUE_BYTES } else { ENTRY_BYTES }
    }

    /// Two bytes of an entry, from one on.
    fn half(self, at: usize, from: usize) -> Option<u16> {
        let bytes = self.slots.get(at * self.slot_bytes() + from..)?.first_chunk()?;
        Some(u16::from_le_bytes(*bytes))
    }

    fn end(self, at: usize) -> Option<usize> {
        self.half(at, 0).map(usize::from)
    }

    /// Where the value of an entry ends, and whether it is a number.
    fn value_end(self, at: usize) -> Option<(usize, bool)> {
        let end = self.half(at, 2)?;
        Some((usize::from(end & !APART), end & APART != 0))
    }

    pub fn key(self, at: usize) -> Option<&'a [u8]> {
        let start = if at == 0 { 0 } else { self.end(at - 1)? };
        self.keys.get(start..self.end(at)?)
    }

    /// Where the value of an entry is.
    pub fn place(self, at: usize) -> Option<Place<&'a [u8]>> {
        if !self.has_values {
            return self.number(at).map(Place::Apart);
        }
        let start = if at == 0 { 0 } else { self.value_end(at - 1)?.0 };
        let (end, is_apart) = self.value_end(at)?;
        let bytes = self.values.get(start..end)?;
        Some(match is_apart {
            true => Place::Apart(u64::from_le_bytes(bytes.try_into().ok()?)),
            false => Place::Here(bytes),
        })
    }

    /// The number of a child.
    pub fn number(self, at: usize) -> Option<u64> {
        let start = at * ENTRY_BYTES + 2;
        let number = self.slots.get(start..start + NUMBER_BYTES)?;
        Some(u64::from_le_bytes(number.try_into().ok()?))
    }

    /// The number of entries, starting at `first`, whose keys satisfy this; those that do come first.
    fn partition(self, first: usize, is_before: impl Fn(&[u8]) -> bool) -> Option<usize> {
        let (mut least, mut most) = (first, self.len());
        while least < most {
            let middle = (least + most) / 2;
            if is_before(self.key(middle)?) { least = middle + 1 } else { most = middle }
        }
        Some(least)
    }

    /// The first entry of a leaf whose key is not less.
    pub fn lower(self, key: &[u8]) -> Option<usize> {
        self.partition(0, |other| other < key)
    }

    /// The child of an inner node that has a key.
    pub fn child_of(self, key: &[u8]) -> Option<usize> {
        Some(self.partition(1, |other| other <= key)? - 1)
    }

    /// The last child of an inner node that may have keys less than this one.
    pub fn child_before(self, key: &[u8]) -> Option<usize> {
        Some(self.partition(1, |other| other < key)? - 1)
    }

    /// Where a leaf has the value of a key.
    pub fn find(self, key: &[u8]) -> Option<Option<Place<&'a [u8]>>> {
        let at = self.lower(key)?;
        if at == self.len() || self.key(at)? != key {
            return Some(None);
        }
        Some(Some(self.place(at)?))
    }

    /// All entries; the first key of an inner node is `low`.
    pub fn entries(self, low: &'a [u8]) -> Option<Vec<Entry<'a>>> {
        let entry = |at: usize| {
            let key = if self.level > 0 && at == 0 { low } else { self.key(at)? };
            Some(Entry { key, place: self.place(at)? })
        };
        let mut entries = Vec::with_capacity(self.len());
        for at in 0..self.len() {
            entries.push(entry(at)?);
        }
        Some(entries)
    }
}

pub(super) fn encode(level: u8, entries: &[Entry<'_>]) -> Vec<u8> {
    let has_values = have_values(entries);
    assert!(level == 0 || !has_values, "a node on level {level} has values: {entries:?}");
    let mut bytes = Vec::with_capacity(bytes_of(entries));
    bytes.extend_from_slice(&[if has_values { WITH_VALUES } else { FORMAT }, level]);
    bytes.extend_from_slice(&(entries.len() as u16).to_le_bytes());
    let key_of = |at: usize| if level > 0 && at == 0 { &[][..] } else { entries[at].key };
    let (mut end, mut value_end) = (0, 0);
    for (at, entry) in entries.iter().enumerate() {
        end += key_of(at).len();
        bytes.extend_from_slice(&(end as u16).to_le_bytes());
        match &entry.place {
            Place::Apart(number) if !has_values => bytes.extend_from_slice(&number.to_le_bytes()),
            place => {
                value_end += value_bytes(place);
                let apart = if matches!(place, Place::Apart(_)) { APART } else { 0 };
                bytes.extend_from_slice(&(value_end as u16 | apart).to_le_bytes());
            }
        }
    }
    assert!(
        end <= usize::from(u16::MAX) && value_end < usize::from(APART),
        "{} entries of a node have keys of {end} bytes and values of {value_end}",
        entries.len()
    );
    (0..entries.len()).for_each(|at| bytes.extend_from_slice(key_of(at)));
    for entry in entries.iter().filter(|_| has_values) {
        match &entry.place {
            Place::Here(value) => bytes.extend_from_slice(value),
            Place::Apart(number) => bytes.extend_from_slice(&number.to_le_bytes()),
        }
    }
    bytes.resize(bytes_of(entries), 0);
    debug_assert!(
        Node::parse(&bytes).and_then(|node| node.entries(entries[0].key)).as_deref() == Some(entries),
        "a node would be read otherwise than it is written: {entries:?}"
    );
    bytes
}

/// Whether a node of these entries has values.
pub(super) fn have_values(entries: &[Entry<'_>]) -> bool {
    entries.iter().any(|entry| matches!(entry.place, Place::Here(_)))
}

/// What an entry's value, or its number, takes behind the keys of a leaf that has values.
fn value_bytes(place: &Place<&[u8]>) -> usize {
    match place {
        Place::Here(value) => value.len(),
        Place::Apart(_) => NUMBER_BYTES,
    }
}

fn entry_bytes(entry: &Entry<'_>, has_values: bool) -> usize {
    match has_values {
        true => (ENTRY_WITH_VALUE_BYTES + entry.key.len() + value_bytes(&entry.place)).max(LEAST_ENTRY_BYTES),
        false => ENTRY_BYTES + entry.key.len(),
    }
}

pub(super) fn bytes_of(entries: &[Entry<'_>]) -> usize {
    let has_values = have_values(entries);
    HEAD_BYTES + entries.iter().map(|entry| entry_bytes(entry, has_values)).sum::<usize>()
}

/// Divides entries into nodes, beyond so many bytes: of equal size, or full ones if keys were appended, since more may follow.
pub(super) fn cut(entries: Vec<Entry<'_>>, full: usize, appended: bool) -> Vec<Vec<Entry<'_>>> {
    let (total, has_values) = (bytes_of(&entries), have_values(&entries));
    if total <= full || entries.len() < LEAST_SPLIT {
        return vec![entries];
    }
    let full = if appended { full } else { total / total.div_ceil(full * 3 / 4) };
    let (mut nodes, mut node, mut bytes, mut left) = (Vec::new(), Vec::new(), HEAD_BYTES, entries.len());
    for entry in entries {
        if node.len() >= 2 && left >= 2 && bytes + entry_bytes(&entry, has_values) > full {
            nodes.push(std::mem::take(&mut node));
            bytes = HEAD_BYTES;
        }
        bytes += entry_bytes(&entry, has_values);
        node.push(entry);
        left -= 1;
    }
    nodes.push(node);
    assert!(nodes.iter().all(|node| !node.is_empty()), "a node of {} entries is empty", nodes.len());
    nodes
}

/// The shortest key that is greater than `before` and not greater than `after`.
pub(super) fn separator<'a>(before: &[u8], after: &'a [u8]) -> &'a [u8] {
    let common = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    &after[..after.len().min(common + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(keys: &[&'static str]) -> Vec<Entry<'static>> {
        let all = keys.iter().zip(100..);
        all.map(|(key, number)| Entry { key: key.as_bytes(), place: Place::Apart(number) }).collect()
    }

    /// The same, with values in the leaf for the keys in odd places.
    fn mixed(keys: &[&'static str]) -> Vec<Entry<'static>> {
        let mut all = entries(keys);
        for (at, entry) in all.iter_mut().enumerate().filter(|(at, _)| at % 2 == 1) {
            entry.place = Place::Here(&[7; 100][..at * 5 - 5]);
        }
        all
    }

    #[test]
    fn the_layout_round_trips_and_is_as_stated() {
        let all = entries(&["apple", "pear", "plum"]);
        let leaf = encode(0, &all);
        assert_eq!(leaf.len(), bytes_of(&all));
        assert_eq!(leaf[..6], [1, 0, 3, 0, 5, 0]);
        let node = Node::parse(&leaf).unwrap();
        assert_eq!(node.entries(b""), Some(all.clone()));
        assert_eq!((node.find(b"pear"), node.find(b"peas")), (Some(Some(Place::Apart(101))), Some(None)));
        let inner = encode(1, &all);
        let node = Node::parse(&inner).unwrap();
        assert_eq!(
            ["a", "apple", "pear", "pearl", "z"].map(|key| node.child_of(key.as_bytes())),
            [Some(0), Some(0), Some(1), Some(1), Some(2)]
        );
        assert_eq!(node.entries(all[0].key), Some(all));
    }

    #[test]
    fn a_leaf_with_values_round_trips_and_is_as_stated() {
        let all = mixed(&["a", "pear", "plum", "zoo"]);
        let leaf = encode(0, &all);
        assert_eq!((leaf.len(), bytes_of(&all)), (4 + 4 * 48, 4 + 4 * 48), "zeros follow small entries");
        assert_eq!(leaf[..12], [2, 0, 4, 0, 1, 0, 8, 0x80, 5, 0, 8, 0]);
        assert_eq!(leaf[20..32], *b"apearplumzoo");
        assert_eq!(leaf[40..58], [&102_u64.to_le_bytes()[..], &[7; 10]].concat());
        let large = [Entry { key: &[1; 9], place: Place::Here(&[7; 90]) }];
        assert_eq!((encode(0, &large).len(), bytes_of(&large)), (4 + 4 + 9 + 90, 4 + 4 + 9 + 90));
        let node = Node::parse(&leaf).unwrap();
        assert_eq!(node.entries(b""), Some(all));
        let found = ["pear", "plum", "zoo", "zoon"].map(|key| node.find(key.as_bytes()).unwrap());
        let [empty, ten] = [0, 10].map(|bytes| Some(Place::Here(&[7; 10][..bytes])));
        assert_eq!(found, [empty, Some(Place::Apart(102)), ten, None]);
        let mut inner = leaf;
        inner[1] = 1;
        assert!(Node::parse(&inner).is_none(), "no inner node has values");
    }

    /// What could be the head of a large value is a record: its description names it.
    #[test]
    fn small_values_lie_with_their_keys_but_heads_do_not() {
        let is_here = |key: usize, value: &[u8]| Layout::NOW.is_here(&vec![1; key], value);
        assert!(is_here(16, &[0; 304]) && is_here(320, b"") && is_here(1, b"largo\0\0\0\0\0\0\0\0"));
        assert!(!is_here(16, &[0; 305]) && !is_here(321, b"") && !is_here(1, b"large\0\0\0\0\0\0\0\0"));
        assert!(!Layout::AllApart.is_here(b"a", b"b"));
    }

    #[test]
    fn bytes_that_are_no_node_give_none_and_no_panic() {
        for all in [entries(&["a", "b", "c"]), mixed(&["a", "b", "c"])] {
            let whole = encode(0, &all);
            // zeros may be missing
            let length = 4 + if all == mixed(&["a", "b", "c"]) { 3 * 4 + 3 + 2 * 8 } else { 3 * 10 + 3 };
            for length in 0..length {
                let Some(node) = Node::parse(&whole[..length]) else { continue };
                assert_eq!(node.entries(b""), None, "{length}");
            }
            for at in 0..whole.len() {
                for byte in [0, 1, 2, 127, 128, 255] {
                    let mut changed = whole.clone();
                    changed[at] = byte;
                    let Some(node) = Node::parse(&changed) else { continue };
                    let _ = (node.find(b"b"), node.child_of(b"b"), node.entries(b""));
                    for at in 0..node.len() + 1 {
                        let _ = (node.number(at), node.place(at));
                    }
                }
            }
        }
    }

    #[test]
    fn nodes_are_cut_evenly_or_filled_and_have_two_entries_at_least() {
        for (count, bytes) in [(78, 16), (1000, 16), (4, 1024), (9, 1024), (5, 700), (3, 1024)] {
            let keys: Vec<Vec<u8>> = (0..count).map(|number| vec![number as u8; bytes]).collect();
            let all: Vec<Entry<'_>> = keys
                .iter()
                .zip(0..)
                .map(|(key, number)| Entry { key, place: Place::Apart(number) })
                .collect();
            for (full, appended) in
                [INNER_BYTES, NUMBERS_BYTES].map(|full| [(full, false), (full, true)]).concat()
            {
                let nodes = cut(all.clone(), full, appended);
                assert_eq!(nodes.concat(), all);
                for node in &nodes {
                    assert!(bytes_of(node) <= 4056 - 10, "{} bytes", bytes_of(node));
                    assert!(node.len() >= 2, "{count} {bytes}");
                    assert!(bytes < 100 || nodes.len() == 1 || node.len() <= 3);
                }
                let is_full = bytes_of(&nodes[0]) > full - 30;
                assert!(bytes > 16 || is_full == appended, "{count} {}", bytes_of(&nodes[0]));
            }
        }
    }

    #[test]
    fn leaves_with_values_are_cut_so_that_four_fit_in_a_unit() {
        let keys: Vec<[u8; 8]> = (0..100_u64).map(u64::to_be_bytes).collect();
        for (count, value) in [(9, 100), (100, 100), (4, 312), (50, 0), (100, 0)] {
            let value = vec![7; value];
            let all: Vec<Entry<'_>> =
                keys[..count].iter().map(|key| Entry { key, place: Place::Here(&value) }).collect();
            for appended in [false, true] {
                let nodes = cut(all.clone(), LEAF_BYTES, appended);
                assert_eq!(nodes.concat(), all);
                let is_whole = |node: &Vec<Entry<'_>>| bytes_of(node) <= LEAF_BYTES;
                assert!(nodes[..nodes.len() - 1].iter().all(is_whole), "{count}");
                // one that would be alone stays with those before it
                assert!(bytes_of(&nodes[nodes.len() - 1]) <= LEAF_BYTES + 324, "{count}");
                assert!(!appended || nodes.len() == 1 || bytes_of(&nodes[0]) > LEAF_BYTES - 324);
            }
        }
    }

    #[test]
    fn a_separator_is_as_short_as_can_be() {
        let between = |a: &str, b: &str| separator(a.as_bytes(), b.as_bytes()).to_vec();
        assert_eq!(between("apple", "apricot"), b"apr");
        assert_eq!(between("a", "ab"), b"ab");
        assert_eq!(between("abc", "b"), b"b");
    }
}
