//! A node of a B-tree: keys and what they stand for, in the order of the keys.
//!
//! The nodes of a file's tree have units of the file as keys, and virtual numbers at their leaves; a tree of files has
//! numbers of files, and at its leaves the numbers of their roots. A key of a branch is the least one that its child may
//! have. A root begins with the file's inode; the root of the tree of files has none.
//!
//! Every node ends with a footer of 16 bytes, little-endian: checksum of everything else, its number, its file (4 each),
//! level, whether it is a root (1 each), keys (2).
//!
//! `assert_invariants` checks after each change that the keys fit and are in order.

use tantalum::UNIT_BYTES;
use tantalum_filesystem::FileId;
use tantalum_image::{checksum_of, checksum_with};

use super::translation::Number;
use crate::bytes::{Page, get16, get32, put16, put32, zeros};
use crate::error::Damage;
use crate::inode::INODE_BYTES;

const FOOTER_AT: usize = UNIT_BYTES - 16;
const ENTRY_BYTES: usize = 8;

/// Stands for a unit of a file that has space but no contents yet.
pub(super) const RESERVED: u32 = u32::MAX;

/// Levels of the highest tree: nodes of at least 255 keys reach all units.
const MOST_LEVELS: u8 = 8;

/// A node in memory.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub page: Box<Page>,
}

impl Node {
    pub fn new(number: Number, file: FileId, level: u8, is_root: bool) -> Node {
        let mut page = zeros();
        put32(&mut page[..], FOOTER_AT + 8, file.0);
        page[FOOTER_AT + 13] = u8::from(is_root);
        let mut node = Node { page };
        node.set_number(number);
        node.set_level(level);
        node
    }

    pub fn number(&self) -> Number {
        Number(get32(&self.page[..], FOOTER_AT + 4))
    }

    pub fn set_number(&mut self, number: Number) {
        put32(&mut self.page[..], FOOTER_AT + 4, number.0);
    }

    pub fn file(&self) -> FileId {
        FileId(get32(&self.page[..], FOOTER_AT + 8))
    }

    /// 0 for a leaf.
    pub fn level(&self) -> u8 {
        self.page[FOOTER_AT + 12]
    }

    pub fn set_level(&mut self, level: u8) {
        assert!(level < MOST_LEVELS, "node {:?} is at level {level} of {MOST_LEVELS}", self.number());
        self.page[FOOTER_AT + 12] = level;
    }

    pub fn is_root(&self) -> bool {
        self.page[FOOTER_AT + 13] == 1
    }

    /// Keys.
    pub fn len(&self) -> usize {
        usize::from(get16(&self.page[..], FOOTER_AT + 14))
    }

    fn set_len(&mut self, len: usize) {
        put16(&mut self.page[..], FOOTER_AT + 14, len as u16);
    }

    fn most(&self) -> usize {
        (FOOTER_AT - self.at(0)) / ENTRY_BYTES
    }

    pub fn is_full(&self) -> bool {
        self.len() == self.most()
    }

    fn at(&self, index: usize) -> usize {
        (if self.is_root() { INODE_BYTES } else { 0 }) + ENTRY_BYTES * index
    }

    pub fn key(&self, index: usize) -> u32 {
        get32(&self.page[..], self.at(index))
    }

    pub fn set_key(&mut self, index: usize, key: u32) {
        let at = self.at(index);
        put32(&mut self.page[..], at, key);
    }

    pub fn value(&self, index: usize) -> u32 {
        get32(&self.page[..], self.at(index) + 4)
    }

    pub fn set_value(&mut self, index: usize, value: u32) {
        let at = self.at(index) + 4;
        put32(&mut self.page[..], at, value);
    }

    /// Where a key is, or where it belongs.
    pub fn search(&self, key: u32) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.key(middle).cmp(&key) {
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// Of a branch: the child that has a key, if any has it.
    pub fn child_for(&self, key: u32) -> usize {
        self.search(key).unwrap_or_else(|index| index.saturating_sub(1))
    }

    /// Adds a key where it belongs. The node is not full.
    pub fn insert(&mut self, key: u32, value: u32) {
        let (len, index) = (self.len(), self.search(key).expect_err("the key is new"));
        assert!(!self.is_full(), "a full node is split");
        let (from, to) = (self.at(index), self.at(len));
        self.page.copy_within(from..to, from + ENTRY_BYTES);
        self.set_len(len + 1);
        self.set_key(index, key);
        self.set_value(index, value);
        self.assert_invariants();
    }

    /// Checks the order of keys, if assertions of debug builds are on.
    fn assert_invariants(&self) {
        let len = self.len();
        debug_assert!(
            len <= self.most(),
            "node {:?} has {len} keys, and room for {}",
            self.number(),
            self.most()
        );
        debug_assert!(
            self.has_keys_in_order(),
            "the keys of node {:?} of file {} are {:?}",
            self.number(),
            self.file(),
            (0..len).map(|index| self.key(index)).collect::<Vec<_>>()
        );
    }

    fn has_keys_in_order(&self) -> bool {
        (1..self.len()).all(|index| self.key(index - 1) < self.key(index))
    }

    /// Removes adjacent keys, and returns what they stood for.
    pub fn take(&mut self, range: std::ops::Range<usize>) -> Vec<(u32, u32)> {
        let len = self.len();
        assert!(range.end <= len, "keys {range:?} are taken from node {:?}, which has {len}", self.number());
        let taken = range.clone().map(|index| (self.key(index), self.value(index))).collect();
        let (start, end, to) = (self.at(range.start), self.at(range.end), self.at(len));
        self.page.copy_within(end..to, start);
        self.page[to - (end - start)..to].fill(0);
        self.set_len(len - range.len());
        self.assert_invariants();
        taken
    }

    /// Adds keys after all others.
    pub fn extend(&mut self, entries: &[(u32, u32)]) {
        let len = self.len();
        let (all, most) = (len + entries.len(), self.most());
        assert!(all <= most, "node {:?} gets {} keys, and has {len} of {most}", self.number(), entries.len());
        self.set_len(len + entries.len());
        for (index, (key, value)) in (len..).zip(entries) {
            self.set_key(index, *key);
            self.set_value(index, *value);
        }
        self.assert_invariants();
    }

    /// Completes the node for being written.
    pub fn seal(&mut self) {
        let checksum = Node::checksum(&self.page);
        put32(&mut self.page[..], FOOTER_AT, checksum);
    }

    fn checksum(page: &Page) -> u32 {
        checksum_with(checksum_of(&page[..FOOTER_AT]), &page[FOOTER_AT + 4..])
    }

    /// The node in a unit.
    pub fn parse(page: Box<Page>) -> Result<Node, Damage> {
        let (found, computed) = (get32(&page[..], FOOTER_AT), Node::checksum(&page));
        if found != computed {
            return Err(Damage::Checksum { found, computed });
        }
        let node = Node { page };
        let is_sound = node.level() < MOST_LEVELS
            && node.len() <= node.most()
            && (node.level() == 0 || node.len() > 0)
            && node.has_keys_in_order();
        if is_sound { Ok(node) } else { Err(Damage::NotA { expected: "a node" }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_in_order_and_a_node_reads_back() {
        let mut node = Node::new(Number(7), FileId(5), 0, true);
        for key in [5, 1, 9, 3] {
            node.insert(key, 10 * key);
        }
        assert_eq!(
            (node.search(3), node.search(4), node.child_for(8), node.child_for(0)),
            (Ok(1), Err(2), 2, 0)
        );
        assert_eq!(node.take(1..3), [(3, 30), (5, 50)]);
        node.extend(&[(11, 110)]);
        node.seal();
        let read = Node::parse(node.page.clone()).unwrap();
        assert_eq!(
            (read.number(), read.file(), read.level(), read.is_root()),
            (Number(7), FileId(5), 0, true)
        );
        let entries: Vec<_> = (0..read.len()).map(|index| (read.key(index), read.value(index))).collect();
        assert_eq!(entries, [(1, 10), (9, 90), (11, 110)]);
        assert_eq!(node.page[FOOTER_AT + 4..], *b"\x07\0\0\0\x05\0\0\0\0\x01\x03\0");
        for byte in [0, FOOTER_AT, UNIT_BYTES - 1] {
            let mut page = node.page.clone();
            page[byte] ^= 1;
            assert!(Node::parse(page).is_err(), "byte {byte}");
        }
    }
}
