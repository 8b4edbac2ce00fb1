//! Writing trees: nodes are never changed, so a change writes a new leaf and new nodes up to the root.
//!
//! New nodes are appended to what the current commit will write. A node that loses entries is not merged with its
//! neighbours; compaction does that.

use std::sync::Arc;

use crate::error::Error;
use crate::node::{CAPACITY_BYTES, KeyValue, Node};
use crate::storage::{StorageFile, UNIT_BYTES};
use crate::tree::Tree;

/// A change of a key: its new value, or none.
pub(crate) type KeyChange = (Box<[u8]>, Option<Box<[u8]>>);

/// How entries are divided if a node cannot hold them all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Split {
    /// Evenly, so that every node has room for more.
    Even,
    /// Into full nodes and a rest, because new entries come at the end.
    Full,
}

/// What a commit appends to a file.
#[derive(Default)]
pub(crate) struct Appended {
    /// The buffer's place in the file.
    pub start: u64,
    pub buffer: Vec<u8>,
    /// The nodes in it, for the cache.
    pub nodes: Vec<(u64, Arc<Node>)>,
    /// Nodes no longer needed.
    pub replaced_nodes: u64,
}

impl Appended {
    /// Nothing yet; it will be at `start`.
    pub fn at(start: u64) -> Appended {
        Appended { start, ..Appended::default() }
    }

    /// Where the next bytes go.
    pub fn end(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }

    /// The checksum of everything from this place on.
    pub fn checksum_from(&self, from: u64) -> u32 {
        let (start, end) = (self.start, self.end());
        assert!((start..=end).contains(&from), "a checksum from {from} on, of what is at {start}..{end}");
        tantalum_image::checksum_of(&self.buffer[(from - self.start) as usize..])
    }

    /// Appends a node; only whole units may precede it.
    fn push(&mut self, node: Node) -> u64 {
        let waiting = self.buffer.len();
        assert!(
            waiting.is_multiple_of(UNIT_BYTES),
            "a node follows {waiting} bytes, which are not whole units"
        );
        let offset = self.end();
        self.buffer.extend_from_slice(node.bytes());
        self.nodes.push((offset, Arc::new(node)));
        offset
    }

    /// Appends nodes of entries, and returns the entries of their parent.
    fn push_all(&mut self, level: u8, entries: &[KeyValue], split: Split) -> Vec<KeyValue> {
        // the order of inner nodes is that of the file, which may be damaged
        debug_assert!(
            level > 0 || entries.is_sorted_by(|a, b| a.key < b.key),
            "the {} entries of leaves are not in order",
            entries.len()
        );
        let mut parents = Vec::new();
        let mut rest = entries;
        let mut left: usize = entries.iter().map(KeyValue::bytes).sum();
        while !rest.is_empty() {
            let goal = match split {
                Split::Full => CAPACITY_BYTES,
                Split::Even => left.div_ceil(left.div_ceil(CAPACITY_BYTES)),
            };
            let (count, bytes) = prefix(rest, goal);
            debug_assert!(count > 0 && bytes <= left, "{count} entries have {bytes} of {left} bytes");
            let (part, others) = rest.split_at(count);
            let offset = self.push(Node::encode(level, part));
            parents.push(KeyValue::child(&part[0].key, offset));
            (rest, left) = (others, left - bytes);
        }
        parents
    }

    /// Adds a root above entries of this level.
    fn root(&mut self, mut level: u8, mut entries: Vec<KeyValue>, split: Split) -> Option<u64> {
        while entries.len() > 1 {
            level += 1;
            entries = self.push_all(level, &entries, split);
        }
        entries.first().map(|entry| u64::from_le_bytes((&entry.value[..]).try_into().expect("it is a place")))
    }
}

/// How many entries reach `goal` bytes, or just exceed it if they fit, and their bytes.
fn prefix(entries: &[KeyValue], goal: usize) -> (usize, usize) {
    let (mut count, mut bytes) = (0, 0);
    for entry in entries {
        let with = bytes + entry.bytes();
        if count > 0 && (with > CAPACITY_BYTES || bytes >= goal) {
            break;
        }
        (count, bytes) = (count + 1, with);
    }
    (count, bytes)
}

impl<F: StorageFile> Tree<'_, F> {
    /// Applies changes, whose keys must be different and in order; returns the new root.
    pub fn change(
        &self,
        changes: &[KeyChange],
        split: Split,
        appended: &mut Appended,
    ) -> Result<Option<u64>, Error> {
        if changes.is_empty() {
            return Ok(self.root);
        }
        let Some(root) = self.root else {
            let entries = merge(std::iter::empty(), changes);
            let parents = appended.push_all(0, &entries, split);
            return Ok(appended.root(0, parents, split));
        };
        let level = self.node(root, None)?.level();
        let entries = self.change_node(root, None, changes, split, appended)?;
        let Some(mut root) = appended.root(level, entries, split) else { return Ok(None) };
        // an inner root with one child is not needed
        loop {
            let written = appended.nodes.iter().rev().find(|(offset, _)| *offset == root);
            let node = match written {
                Some((_, node)) => Arc::clone(node),
                None => self.node(root, None)?,
            };
            if node.level() == 0 || node.len() > 1 {
                return Ok(Some(root));
            }
            appended.replaced_nodes += 1;
            root = self.child(&node, root, 0)?.0;
        }
    }

    /// Writes a node and what changes below it; returns the parent's new entries for it.
    fn change_node(
        &self,
        offset: u64,
        level: Option<u8>,
        changes: &[KeyChange],
        split: Split,
        appended: &mut Appended,
    ) -> Result<Vec<KeyValue>, Error> {
        let node = self.node(offset, level)?;
        appended.replaced_nodes += 1;
        if node.level() == 0 {
            let entries = merge(node.entries(), changes);
            return Ok(appended.push_all(0, &entries, split));
        }
        let mut entries = Vec::with_capacity(node.len() + 1);
        let mut rest = changes;
        for index in 0..node.len() {
            let is_of_child =
                |change: &KeyChange| index + 1 == node.len() || change.0[..] < *node.key(index + 1);
            let (own, others) = rest.split_at(rest.partition_point(is_of_child));
            rest = others;
            let (child, child_level) = self.child(&node, offset, index)?;
            if own.is_empty() {
                entries.push(KeyValue::child(node.key(index), child));
            } else {
                entries.extend(self.change_node(child, child_level, own, split, appended)?);
            }
        }
        Ok(appended.push_all(node.level(), &entries, split))
    }
}

/// A leaf's entries with the changes applied, in order.
fn merge(entries: impl Iterator<Item = KeyValue>, changes: &[KeyChange]) -> Vec<KeyValue> {
    let mut merged = Vec::new();
    let mut changes = changes.iter().peekable();
    let put = |merged: &mut Vec<KeyValue>, (key, value): &KeyChange| {
        merged.extend(value.as_ref().map(|value| KeyValue { key: key.clone(), value: value.clone() }));
    };
    for entry in entries {
        while let Some(change) = changes.next_if(|change| change.0 < entry.key) {
            put(&mut merged, change);
        }
        match changes.next_if(|change| change.0 == entry.key) {
            Some(change) => put(&mut merged, change),
            None => merged.push(entry),
        }
    }
    changes.for_each(|change| put(&mut merged, change));
    merged
}

/// Builds a whole tree from entries in order.
pub(crate) struct Builder {
    /// Entries whose node is not full yet, by level.
    levels: Vec<(Vec<KeyValue>, usize)>,
}

impl Builder {
    pub fn new() -> Builder {
        Builder { levels: Vec::new() }
    }

    /// Adds the next entry; full nodes are appended.
    pub fn push(&mut self, entry: KeyValue, appended: &mut Appended) {
        self.push_at(0, entry, appended);
    }

    fn push_at(&mut self, level: usize, entry: KeyValue, appended: &mut Appended) {
        if self.levels.len() == level {
            self.levels.push((Vec::new(), 0));
        }
        let bytes = entry.bytes();
        if self.levels[level].1 + bytes > CAPACITY_BYTES {
            let (full, _) = std::mem::take(&mut self.levels[level]);
            let offset = appended.push(Node::encode(level as u8, &full));
            self.push_at(level + 1, KeyValue::child(&full[0].key, offset), appended);
        }
        let (entries, used) = &mut self.levels[level];
        entries.push(entry);
        *used += bytes;
        assert!(*used <= CAPACITY_BYTES, "{used} bytes wait for one node of level {level}");
    }

    /// Appends the remaining nodes, and returns the root.
    pub fn finish(mut self, appended: &mut Appended) -> Option<u64> {
        let mut level = 0;
        loop {
            let (entries, used) = std::mem::take(self.levels.get_mut(level)?);
            let bytes: usize = entries.iter().map(KeyValue::bytes).sum();
            assert_eq!(
                bytes, used,
                "bytes of the entries that wait for a node of level {level}, and those counted"
            );
            let is_top = level + 1 == self.levels.len();
            if let (true, true, [only]) = (is_top, level > 0, &entries[..]) {
                return Some(u64::from_le_bytes((&only.value[..]).try_into().expect("it is a place")));
            }
            let offset = appended.push(Node::encode(level as u8, &entries));
            if is_top {
                return Some(offset);
            }
            self.push_at(level + 1, KeyValue::child(&entries[0].key, offset), appended);
            level += 1;
        }
    }
}
