//! The layout of a node: format, level (0: a leaf), entries; for each entry where its key ends and a number; then the
//! keys. All little-endian. The drive keeps a checksum over each record.
//!
//! An entry of a leaf has a value's number, one of an inner node a child's and the least key that may be below it. The
//! first key of an inner node is empty: whatever is less than the second is below it.

use crate::record::Bytes;

const FORMAT: u8 = 1;
const HEAD_BYTES: usize = 4;
const ENTRY_BYTES: usize = 10;

/// Beyond this many bytes a node is split, unless it has too few entries. Two such nodes fit in a unit of the drive.
pub(super) const FULL_BYTES: usize = 2008;

/// A node has at least this many entries before it is split.
const LEAST_SPLIT: usize = 4;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub key: Bytes,
    pub number: u64,
}

/// The bytes of a node. Lookups beyond its end return none: an image may hold anything.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    level: u8,
    slots: &'a [[u8; ENTRY_BYTES]],
    keys: &'a [u8],
}

impl<'a> Node<'a> {
    pub fn parse(bytes: &'a [u8]) -> Option<Node<'a>> {
        let (&[format, level, low, high], rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let count = usize::from(u16::from_le_bytes([low, high]));
        let (slots, keys) = rest.split_at_checked(count * ENTRY_BYTES)?;
        (format == FORMAT && count > 0).then_some(Node { level, slots: slots.as_chunks().0, keys })
    }

    pub fn level(self) -> u8 {
        self.level
    }

    pub fn len(self) -> usize {
        self.slots.len()
    }

    fn end(self, at: usize) -> Option<usize> {
        let slot = self.slots.get(at)?;
        Some(usize::from(u16::from_le_bytes([slot[0], slot[1]])))
    }

    pub fn key(self, at: usize) -> Option<&'a [u8]> {
        let start = if at == 0 { 0 } else { self.end(at - 1)? };
        self.keys.get(start..self.end(at)?)
    }

    pub fn number(self, at: usize) -> Option<u64> {
        let (_, number) = self.slots.get(at)?.split_first_chunk::<2>()?;
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

    /// The number that a leaf has for a key.
    pub fn find(self, key: &[u8]) -> Option<Option<u64>> {
        let at = self.lower(key)?;
        if at == self.len() || self.key(at)? != key {
            return Some(None);
        }
        Some(Some(self.number(at)?))
    }

    /// All entries; the first key of an inner node is `low`.
    pub fn entries(self, low: &Bytes) -> Option<Vec<Entry>> {
        let entry = |at: usize| {
            let key = if self.level > 0 && at == 0 { low.clone() } else { self.key(at)?.into() };
            Some(Entry { key, number: self.number(at)? })
        };
        (0..self.len()).map(entry).collect()
    }
}

pub(super) fn encode(level: u8, entries: &[Entry]) -> Vec<u8> {
    let mut bytes = vec![FORMAT, level];
    bytes.extend_from_slice(&(entries.len() as u16).to_le_bytes());
    let key_of = |at: usize| if level > 0 && at == 0 { &[][..] } else { &entries[at].key[..] };
    let mut end = 0;
    for (at, entry) in entries.iter().enumerate() {
        end += key_of(at).len();
        bytes.extend_from_slice(&(end as u16).to_le_bytes());
        bytes.extend_from_slice(&entry.number.to_le_bytes());
    }
    assert!(end <= usize::from(u16::MAX), "{} entries of a node have keys of {end} bytes", entries.len());
    (0..entries.len()).for_each(|at| bytes.extend_from_slice(key_of(at)));
    debug_assert!(
        Node::parse(&bytes).and_then(|node| node.entries(&entries[0].key)).as_deref() == Some(entries),
        "a node would be read otherwise than it is written: {entries:?}"
    );
    bytes
}

fn entry_bytes(entry: &Entry) -> usize {
    ENTRY_BYTES + entry.key.len()
}

pub(super) fn bytes_of(entries: &[Entry]) -> usize {
    HEAD_BYTES + entries.iter().map(entry_bytes).sum::<usize>()
}

/// Divides entries into nodes: of equal size, or full ones if keys were appended, since more may follow.
pub(super) fn cut(entries: Vec<Entry>, appended: bool) -> Vec<Vec<Entry>> {
    let total = bytes_of(&entries);
    if total <= FULL_BYTES || entries.len() < LEAST_SPLIT {
        return vec![entries];
    }
    let full = if appended { FULL_BYTES } else { total / total.div_ceil(FULL_BYTES * 3 / 4) };
    let (mut nodes, mut node, mut bytes, mut left) = (Vec::new(), Vec::new(), HEAD_BYTES, entries.len());
    for entry in entries {
        if node.len() >= 2 && left >= 2 && bytes + entry_bytes(&entry) > full {
            nodes.push(std::mem::take(&mut node));
            bytes = HEAD_BYTES;
        }
        bytes += entry_bytes(&entry);
        node.push(entry);
        left -= 1;
    }
    nodes.push(node);
    assert!(nodes.iter().all(|node| !node.is_empty()), "a node of {} entries is empty", nodes.len());
    nodes
}

/// The shortest key that is greater than `before` and not greater than `after`.
pub(super) fn separator(before: &[u8], after: &[u8]) -> Bytes {
    let common = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    after[..after.len().min(common + 1)].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(keys: &[&str]) -> Vec<Entry> {
        let all = keys.iter().zip(100..);
        all.map(|(key, number)| Entry { key: key.as_bytes().into(), number }).collect()
    }

    #[test]
    fn the_layout_round_trips_and_is_as_stated() {
        let all = entries(&["apple", "pear", "plum"]);
        let leaf = encode(0, &all);
        assert_eq!(leaf.len(), bytes_of(&all));
        assert_eq!(leaf[..6], [1, 0, 3, 0, 5, 0]);
        let node = Node::parse(&leaf).unwrap();
        assert_eq!(node.entries(&Bytes::from(&b""[..])), Some(all.clone()));
        assert_eq!((node.find(b"pear"), node.find(b"peas")), (Some(Some(101)), Some(None)));
        let inner = encode(1, &all);
        let node = Node::parse(&inner).unwrap();
        assert_eq!(
            ["a", "apple", "pear", "pearl", "z"].map(|key| node.child_of(key.as_bytes())),
            [Some(0), Some(0), Some(1), Some(1), Some(2)]
        );
        assert_eq!(node.entries(&all[0].key), Some(all));
    }

    #[test]
    fn bytes_that_are_no_node_give_none_and_no_panic() {
        let whole = encode(0, &entries(&["a", "b", "c"]));
        for length in 0..whole.len() {
            let Some(node) = Node::parse(&whole[..length]) else { continue };
            assert_eq!(node.entries(&Bytes::from(&b""[..])), None, "{length}");
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 255] {
                let mut changed = whole.clone();
                changed[at] = byte;
                let Some(node) = Node::parse(&changed) else { continue };
                let _ = (node.find(b"b"), node.child_of(b"b"), node.entries(&Bytes::from(&b""[..])));
            }
        }
    }

    #[test]
    fn nodes_are_cut_evenly_or_filled_and_have_two_entries_at_least() {
        let numbered = |count: u64, bytes: usize| -> Vec<Entry> {
            (0..count).map(|number| Entry { key: vec![number as u8; bytes].into(), number }).collect()
        };
        for (count, bytes) in [(78, 16), (1000, 16), (4, 1024), (9, 1024), (5, 700), (3, 1024)] {
            for appended in [false, true] {
                let nodes = cut(numbered(count, bytes), appended);
                assert_eq!(nodes.concat(), numbered(count, bytes));
                for node in &nodes {
                    assert!(bytes_of(node) <= 4056 - 10, "{} bytes", bytes_of(node));
                    assert!(node.len() >= 2, "{count} {bytes}");
                    assert!(bytes < 100 || nodes.len() == 1 || node.len() <= 3);
                }
                let full = bytes_of(&nodes[0]) > FULL_BYTES - 30;
                assert!(bytes > 16 || full == appended, "{count} {}", bytes_of(&nodes[0]));
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
