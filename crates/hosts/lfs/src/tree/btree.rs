//! B-trees: finding, adding and removing keys. A node that becomes empty is removed; nodes are not merged otherwise.
//!
//! To change a tree, the caller must have a root that no snapshot sees; the nodes on the way are copied as needed.

use std::ops::Range;

use tantalum_filesystem::Errno;

use super::Tree;
use super::translation::Number;
use crate::error::{Damage, LfsError, Result, refuse};
use crate::segments::Log;

impl Tree {
    /// What a key stands for.
    pub(super) fn find(&mut self, log: &mut Log, root: Number, key: u32) -> Result<Option<u32>> {
        let leaf = self.leaf_of(log, root, key)?;
        let node = self.node(log, leaf)?;
        Ok(node.search(key).ok().map(|index| node.value(index)))
    }

    /// The leaf that has a key, if any has it.
    pub(super) fn leaf_of(&mut self, log: &mut Log, root: Number, key: u32) -> Result<Number> {
        let mut number = root;
        let mut node = self.node(log, number)?;
        while node.level() > 0 {
            let level = node.level() - 1;
            number = Number(node.value(node.child_for(key)));
            node = self.node(log, number)?;
            if node.level() != level {
                return Err(self.of_another_level(log, number));
            }
        }
        Ok(number)
    }

    /// The first key at or after `from`, and what it stands for.
    pub(super) fn next(&mut self, log: &mut Log, root: Number, from: u32) -> Result<Option<(u32, u32)>> {
        let node = self.node(log, root)?;
        if node.level() == 0 {
            let index = node.search(from).unwrap_or_else(|index| index);
            return Ok((index < node.len()).then(|| (node.key(index), node.value(index))));
        }
        let (first, end) = (node.child_for(from), node.len());
        for index in first..end {
            let child = self.child(log, root, index)?;
            if let Some(found) = self.next(log, child, from)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The nodes from the root to the leaf for a key, for changing them.
    fn own_path(&mut self, log: &mut Log, root: Number, key: u32) -> Result<Vec<Number>> {
        let mut path = vec![root];
        let mut number = root;
        loop {
            let node = self.node(log, number)?;
            if node.level() == 0 {
                return Ok(path);
            }
            let index = node.child_for(key);
            let child = self.child(log, number, index)?;
            let own = self.own(log, child)?;
            if own != child {
                self.change(log, number)?.set_value(index, own.0);
            }
            path.push(own);
            number = own;
        }
    }

    /// Sets what a key stands for. `ENOSPC` is possible only if the key is new: then there must be space for the nodes
    /// that it needs, and for `others` more units.
    pub(super) fn put(
        &mut self,
        log: &mut Log,
        root: Number,
        key: u32,
        value: u32,
        others: u64,
    ) -> Result<()> {
        let path = self.own_path(log, root, key)?;
        let leaf = path[path.len() - 1];
        if let Ok(index) = self.node(log, leaf)?.search(key) {
            self.change(log, leaf)?.set_value(index, value);
            return Ok(());
        }
        let mut splits = 0;
        for number in path.iter().rev() {
            if !self.node(log, *number)?.is_full() {
                break;
            }
            splits += 1;
        }
        // A full root gives its keys to a new node, which is then just as full.
        splits += u64::from(splits == path.len() as u64);
        if !self.is_recovering && log.segments.available() < splits + others {
            return refuse(Errno::ENOSPC);
        }
        for branch in &path[..path.len() - 1] {
            if key < self.node(log, *branch)?.key(0) {
                self.change(log, *branch)?.set_key(0, key);
            }
        }
        self.insert(log, &path, key, value)?;
        debug_assert_eq!(
            self.find(log, root, key),
            Ok(Some(value)),
            "key {key} was added to the tree of node {root:?}"
        );
        Ok(())
    }

    /// Adds a new key to the last node of a path.
    fn insert(&mut self, log: &mut Log, path: &[Number], key: u32, value: u32) -> Result<()> {
        let number = path[path.len() - 1];
        if !self.node(log, number)?.is_full() {
            self.change(log, number)?.insert(key, value);
            return Ok(());
        }
        if path.len() == 1 {
            let child = self.push_down(log, number, key)?;
            return self.insert(log, &[number, child], key, value);
        }
        let node = self.node(log, number)?;
        let (file, level, len) = (node.file(), node.level(), node.len());
        // Keys that come in order fill nodes.
        let is_last = key > node.key(len - 1);
        let right = self.new_node(log, file, level, false)?;
        let moved = self.change(log, number)?.take(if is_last { len } else { len / 2 }..len);
        self.change(log, right)?.extend(&moved);
        let into = if is_last || key > moved[0].0 { right } else { number };
        self.change(log, into)?.insert(key, value);
        let least = self.node(log, right)?.key(0);
        self.insert(log, &path[..path.len() - 1], least, right.0)
    }

    /// Moves all keys of a root to a new child, which is about to get another key, and returns the child.
    fn push_down(&mut self, log: &mut Log, root: Number, key: u32) -> Result<Number> {
        let node = self.node(log, root)?;
        let (file, level, len) = (node.file(), node.level(), node.len());
        let child = self.new_node(log, file, level, false)?;
        let moved = self.change(log, root)?.take(0..len);
        self.change(log, child)?.extend(&moved);
        let root = self.change(log, root)?;
        root.set_level(level + 1);
        root.insert(key.min(moved[0].0), child.0);
        Ok(child)
    }

    /// Removes the first keys of a range that are in one leaf, and returns them with what they stood for; none if there
    /// are none in the range.
    pub(super) fn take(
        &mut self,
        log: &mut Log,
        root: Number,
        range: &Range<u64>,
    ) -> Result<Vec<(u32, u32)>> {
        let Ok(from) = u32::try_from(range.start) else { return Ok(Vec::new()) };
        let first = self.next(log, root, from)?;
        let Some((first, _)) = first.filter(|(key, _)| u64::from(*key) < range.end) else {
            return Ok(Vec::new());
        };
        let path = self.own_path(log, root, first)?;
        let number = path[path.len() - 1];
        let Ok(start) = self.node(log, number)?.search(first) else {
            let lpn = self.place_of(log, number)?;
            return Err(LfsError::Damaged { lpn, damage: Damage::NotA { expected: "a leaf with a key" } });
        };
        let leaf = self.change(log, number)?;
        let end = (start..leaf.len()).find(|index| u64::from(leaf.key(*index)) >= range.end);
        let taken = leaf.take(start..end.unwrap_or(leaf.len()));
        assert!(
            taken.first().is_some_and(|(key, _)| *key == first)
                && taken.iter().all(|(key, _)| range.contains(&u64::from(*key))),
            "keys {taken:?} were taken from {range:?}, of which {first} is the first"
        );
        self.prune(log, path)?;
        Ok(taken)
    }

    /// Gives up nodes of a path that have become empty.
    fn prune(&mut self, log: &mut Log, mut path: Vec<Number>) -> Result<()> {
        while let [.., parent, number] = path[..] {
            if self.node(log, number)?.len() > 0 {
                return Ok(());
            }
            let node = self.change(log, parent)?;
            let index = (0..node.len()).find(|index| node.value(*index) == number.0);
            let index = index.expect("a parent points to its child");
            node.take(index..index + 1);
            self.free_node(log, number)?;
            path.pop();
        }
        let root = self.node(log, path[0])?;
        if root.len() == 0 && root.level() > 0 {
            self.change(log, path[0])?.set_level(0);
        }
        Ok(())
    }
}
