//! Reading a tree: looking up keys, and iterating over entries in order.

use std::ops::Bound;
use std::sync::Arc;

use crate::cache::NodeCache;
use crate::data_file::DataFile;
use crate::error::Error;
use crate::node::Node;
use crate::storage::StorageFile;

/// A tree in a file, as of its root.
pub(crate) struct Tree<'a, F> {
    pub file: &'a DataFile<F>,
    pub cache: &'a NodeCache,
    pub root: Option<u64>,
}

impl<F> Clone for Tree<'_, F> {
    fn clone(&self) -> Self {
        Tree { file: self.file, cache: self.cache, root: self.root }
    }
}

impl<F: StorageFile> Tree<'_, F> {
    /// The node at a place; it must be of this level, if one is given.
    pub fn node(&self, offset: u64, level: Option<u8>) -> Result<Arc<Node>, Error> {
        let place = (self.file.id, offset);
        let node = match self.cache.get(place) {
            Some(node) => node,
            None => {
                let node = Arc::new(self.file.read_node(offset)?);
                self.cache.put(place, Arc::clone(&node));
                node
            }
        };
        match level {
            Some(level) if level != node.level() => {
                Err(self.file.damaged(offset, "a node is not of the level that its parent says"))
            }
            _ => Ok(node),
        }
    }

    /// The place of a child of the node at `offset`, and the child's level.
    pub fn child(&self, node: &Node, offset: u64, index: usize) -> Result<(u64, Option<u8>), Error> {
        debug_assert!(node.level() > 0, "the leaf at {offset} has no children");
        let child = node.child(index).map_err(|what| self.file.damaged(offset, what))?;
        Ok((child, Some(node.level() - 1)))
    }

    /// The value of a key.
    pub fn get<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>, Error> {
        let Some(mut offset) = self.root else { return Ok(None) };
        let mut level = None;
        loop {
            let node = self.node(offset, level)?;
            if node.level() == 0 {
                return Ok(node.find(key).ok().map(|index| read(node.value(index))));
            }
            (offset, level) = self.child(&node, offset, node.child_of(key))?;
        }
    }

    /// A cursor behind the last entry.
    pub fn cursor_at_end(&self) -> Result<Cursor, Error> {
        self.descend(|node| if node.level() == 0 { node.len() } else { node.len().saturating_sub(1) })
    }

    /// A cursor before the first entry from `start` on.
    pub fn cursor(&self, start: Bound<&[u8]>) -> Result<Cursor, Error> {
        self.descend(|node| match start {
            Bound::Unbounded => 0,
            Bound::Included(key) | Bound::Excluded(key) if node.level() > 0 => node.child_of(key),
            Bound::Included(key) => node.find(key).unwrap_or_else(|index| index),
            Bound::Excluded(key) => node.find(key).map_or_else(|index| index, |index| index + 1),
        })
    }

    /// A cursor at the place that `place` chooses in each node on the way to a leaf.
    fn descend(&self, place: impl Fn(&Node) -> usize) -> Result<Cursor, Error> {
        let mut path = Vec::new();
        let Some(mut offset) = self.root else { return Ok(Cursor { path }) };
        let mut level = None;
        loop {
            let node = self.node(offset, level)?;
            let index = place(&node);
            if node.level() == 0 {
                path.push(Step { node, offset, index });
                return Ok(Cursor { path });
            }
            if index >= node.len() {
                return Err(self.file.damaged(offset, "a node is empty"));
            }
            let child = self.child(&node, offset, index)?;
            path.push(Step { node, offset, index });
            (offset, level) = child;
        }
    }
}

struct Step {
    node: Arc<Node>,
    offset: u64,
    index: usize,
}

/// A position in a tree: the nodes from the root to a leaf.
pub(crate) struct Cursor {
    path: Vec<Step>,
}

impl Cursor {
    fn assert_is_of<F>(&self, tree: &Tree<'_, F>) {
        let root = self.path.first().map(|step| step.offset);
        debug_assert!(
            root.is_none() || root == tree.root,
            "a cursor from {root:?} goes on from {:?}",
            tree.root
        );
    }

    /// The next entry. The tree must be the cursor's own.
    pub fn next<T, F: StorageFile>(
        &mut self,
        tree: &Tree<'_, F>,
        read: impl FnOnce(&[u8], &[u8]) -> T,
    ) -> Result<Option<T>, Error> {
        self.assert_is_of(tree);
        loop {
            let Some(step) = self.path.last_mut() else { return Ok(None) };
            if step.index >= step.node.len() {
                self.path.pop();
                if let Some(parent) = self.path.last_mut() {
                    parent.index += 1;
                }
                continue;
            }
            if step.node.level() == 0 {
                let (node, index) = (&step.node, step.index);
                let entry = read(node.key(index), node.value(index));
                step.index += 1;
                return Ok(Some(entry));
            }
            let (offset, level) = tree.child(&step.node, step.offset, step.index)?;
            let node = tree.node(offset, level)?;
            self.path.push(Step { node, offset, index: 0 });
        }
    }

    /// The entry before. The tree must be the cursor's own, and the cursor only go backwards.
    pub fn previous<T, F: StorageFile>(
        &mut self,
        tree: &Tree<'_, F>,
        read: impl FnOnce(&[u8], &[u8]) -> T,
    ) -> Result<Option<T>, Error> {
        self.assert_is_of(tree);
        loop {
            let Some(step) = self.path.last_mut() else { return Ok(None) };
            let Some(before) = step.index.checked_sub(1) else {
                self.path.pop();
                continue;
            };
            step.index = before;
            if step.node.level() == 0 {
                return Ok(Some(read(step.node.key(before), step.node.value(before))));
            }
            let (offset, level) = tree.child(&step.node, step.offset, before)?;
            let node = tree.node(offset, level)?;
            let index = node.len();
            self.path.push(Step { node, offset, index });
        }
    }
}
