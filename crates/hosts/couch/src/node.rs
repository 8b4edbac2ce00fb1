//! Nodes of the index: units that are written once.
//!
//! A node has entries in the order of their keys. In a leaf, an entry has a key's value; in an inner node, a child's first key
//! and its place. Slots after the header say where the entries begin, and the last two bytes where they end, so that a key is
//! found without unpacking anything.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::storage::UNIT_BYTES;

const MAGIC: [u8; 4] = *b"TCN1";
const HEADER_BYTES: usize = size_of::<NodeHeader>();

/// Bytes of a slot and of the length of a key.
const ENTRY_BYTES: usize = 4;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct NodeHeader {
    magic: [u8; 4],
    /// Checksum of everything that follows.
    crc: U32,
    /// 0 for leaves.
    level: u8,
    zero: u8,
    entries: U16,
}

/// A node that was read or is about to be written.
#[derive(Debug)]
pub(crate) struct Node {
    unit: Box<[u8; UNIT_BYTES]>,
    level: u8,
    entries: usize,
}

impl Node {
    /// Checks a unit that was read.
    pub fn decode(unit: Box<[u8; UNIT_BYTES]>) -> Result<Node, &'static str> {
        let (header, _) = NodeHeader::read_from_prefix(&unit[..]).map_err(|_| "no node")?;
        if header.magic != MAGIC {
            return Err("a node should be here");
        }
        if header.crc.get() != tantalum_image::checksum_of(&unit[8..]) {
            return Err("a node does not have its checksum");
        }
        let node = Node { unit, level: header.level, entries: header.entries.get().into() };
        if node.is_sound() { Ok(node) } else { Err("a node's entries are not in order") }
    }

    /// Whether all entries are within the node and in the order of their keys.
    fn is_sound(&self) -> bool {
        let slots_end = HEADER_BYTES + 2 * self.entries;
        let is_inside = |index: usize| {
            let (start, end) = (self.start(index), self.end(index));
            start >= slots_end
                && start + 2 <= end
                && end <= UNIT_BYTES
                && start + 2 + self.key_bytes(start) <= end
        };
        slots_end <= UNIT_BYTES
            && self.entries > 0
            && (0..self.entries).all(is_inside)
            && (1..self.entries).all(|index| self.key(index - 1) < self.key(index))
    }

    /// Makes a node of entries that fit.
    pub fn encode(level: u8, entries: &[KeyValue]) -> Node {
        let mut unit = Box::new([0; UNIT_BYTES]);
        let mut at = HEADER_BYTES + 2 * entries.len();
        for (index, entry) in entries.iter().enumerate() {
            let slot = HEADER_BYTES + 2 * index;
            unit[slot..slot + 2].copy_from_slice(&(at as u16).to_le_bytes());
            unit[at..at + 2].copy_from_slice(&(entry.key.len() as u16).to_le_bytes());
            let value_at = at + 2 + entry.key.len();
            unit[at + 2..value_at].copy_from_slice(&entry.key);
            at = value_at + entry.value.len();
            unit[value_at..at].copy_from_slice(&entry.value);
        }
        assert!(
            at <= UNIT_BYTES - 2,
            "{} entries end at byte {at} of a node of level {level}, where its last two bytes are",
            entries.len()
        );
        unit[8] = level;
        unit[10..12].copy_from_slice(&(entries.len() as u16).to_le_bytes());
        let mut node = Node { unit, level, entries: entries.len() };
        node.set_end(at);
        node.unit[..4].copy_from_slice(&MAGIC);
        let crc = tantalum_image::checksum_of(&node.unit[8..]);
        node.unit[4..8].copy_from_slice(&crc.to_le_bytes());
        node
    }

    /// The node's bytes.
    pub fn bytes(&self) -> &[u8; UNIT_BYTES] {
        &self.unit
    }

    /// 0 for a leaf.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Number of entries; at least one.
    pub fn len(&self) -> usize {
        self.entries
    }

    fn word(&self, at: usize) -> usize {
        match self.unit.get(at..at + 2) {
            Some(bytes) => u16::from_le_bytes([bytes[0], bytes[1]]).into(),
            None => UNIT_BYTES,
        }
    }

    fn start(&self, index: usize) -> usize {
        self.word(HEADER_BYTES + 2 * index)
    }

    fn end(&self, index: usize) -> usize {
        if index + 1 < self.entries { self.start(index + 1) } else { self.word(UNIT_BYTES - 2) }
    }

    fn set_end(&mut self, end: usize) {
        self.unit[UNIT_BYTES - 2..].copy_from_slice(&(end as u16).to_le_bytes());
    }

    fn key_bytes(&self, start: usize) -> usize {
        self.word(start)
    }

    /// A key.
    pub fn key(&self, index: usize) -> &[u8] {
        let start = self.start(index);
        &self.unit[start + 2..start + 2 + self.key_bytes(start)]
    }

    /// The value of a key.
    pub fn value(&self, index: usize) -> &[u8] {
        let start = self.start(index);
        &self.unit[start + 2 + self.key_bytes(start)..self.end(index)]
    }

    /// The place of a child.
    pub fn child(&self, index: usize) -> Result<u64, &'static str> {
        let bytes = self.value(index).try_into().map_err(|_| "an inner node's entry is not a place")?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// The entry of a key, or where it would be.
    pub fn find(&self, key: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.entries);
        while low < high {
            let middle = (low + high) / 2;
            match self.key(middle).cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// The child whose range contains the key: the last one that does not begin after it, or the first.
    pub fn child_of(&self, key: &[u8]) -> usize {
        match self.find(key) {
            Ok(index) => index,
            Err(index) => index.saturating_sub(1),
        }
    }

    /// All entries, to build other nodes from.
    pub fn entries(&self) -> impl Iterator<Item = KeyValue> {
        (0..self.entries).map(|index| KeyValue::new(self.key(index), self.value(index)))
    }
}

/// A key and its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeyValue {
    pub key: Box<[u8]>,
    pub value: Box<[u8]>,
}

impl KeyValue {
    pub fn new(key: &[u8], value: &[u8]) -> KeyValue {
        KeyValue { key: key.into(), value: value.into() }
    }

    /// An inner node's.
    pub fn child(first_key: &[u8], offset: u64) -> KeyValue {
        KeyValue::new(first_key, &offset.to_le_bytes())
    }

    /// Bytes that it takes in a node.
    pub fn bytes(&self) -> usize {
        ENTRY_BYTES + self.key.len() + self.value.len()
    }
}

/// Bytes of a node available to entries.
pub(crate) const CAPACITY_BYTES: usize = UNIT_BYTES - HEADER_BYTES - 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(count: usize) -> Vec<KeyValue> {
        (0..count).map(|i| KeyValue::new(format!("key{i:03}").as_bytes(), &vec![i as u8; i % 9])).collect()
    }

    #[test]
    fn nodes_are_read_as_they_were_written() {
        assert_eq!(HEADER_BYTES, 12);
        let entries = entries(200);
        assert!(entries.iter().map(KeyValue::bytes).sum::<usize>() <= CAPACITY_BYTES);
        let node = Node::decode(Box::new(*Node::encode(0, &entries).bytes())).unwrap();
        assert_eq!(node.entries().collect::<Vec<_>>(), entries);
        for (index, entry) in entries.iter().enumerate() {
            assert_eq!(node.find(&entry.key), Ok(index));
        }
        assert_eq!(node.find(b"a"), Err(0));
        assert_eq!(node.find(b"key0005"), Err(1));
        assert_eq!((node.child_of(b"a"), node.child_of(b"key0005"), node.child_of(b"z")), (0, 0, 199));
    }

    #[test]
    fn a_full_node_holds_what_its_capacity_says() {
        let value = vec![7; CAPACITY_BYTES - ENTRY_BYTES - 1];
        let entry = KeyValue::new(b"k", &value);
        assert_eq!(entry.bytes(), CAPACITY_BYTES);
        let node = Node::decode(Box::new(*Node::encode(1, std::slice::from_ref(&entry)).bytes())).unwrap();
        assert_eq!(node.value(0), value);
    }

    #[test]
    fn damaged_nodes_are_refused() {
        let node = Node::encode(0, &entries(10));
        for place in 0..UNIT_BYTES {
            let mut unit = Box::new(*node.bytes());
            unit[place] ^= 1;
            assert!(Node::decode(unit).is_err(), "byte {place}");
        }
    }

    /// Whatever is in a unit with the right checksum, reading it ends without a panic.
    #[test]
    fn nonsense_with_the_right_checksum_is_refused_or_sound() {
        for seed in 0..2000_u32 {
            let mut unit = Box::new(*Node::encode(0, &entries(20)).bytes());
            let place = 8 + (seed as usize * 37) % 80;
            unit[place] = (seed >> 3) as u8;
            let crc = tantalum_image::checksum_of(&unit[8..]);
            unit[4..8].copy_from_slice(&crc.to_le_bytes());
            if let Ok(node) = Node::decode(unit) {
                for index in 0..node.len() {
                    let _ = (node.key(index), node.value(index), node.child(index));
                }
            }
        }
    }
}
