//! Nodes of the index in memory, within a budget. A node that was used since the clock hand last passed gets a second
//! chance (CLOCK). Nodes are written once, so no copy is ever stale. Each node is once in the ring.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::node::Node;
use crate::storage::UNIT_BYTES;

/// A node's place: the file, and the offset in it.
pub(crate) type NodeAddress = (u64, u64);

struct Cached {
    node: Arc<Node>,
    looked_at: bool,
}

#[derive(Default)]
struct Nodes {
    nodes: FxHashMap<NodeAddress, Cached>,
    ring: VecDeque<NodeAddress>,
}

/// Nodes of all files of a store.
pub(crate) struct NodeCache {
    most: usize,
    nodes: Mutex<Nodes>,
}

impl NodeCache {
    pub fn new(bytes: usize) -> NodeCache {
        // room for at least a path to a leaf of each tree
        NodeCache { most: (bytes / UNIT_BYTES).max(8), nodes: Mutex::default() }
    }

    pub fn get(&self, place: NodeAddress) -> Option<Arc<Node>> {
        let mut nodes = self.nodes.lock();
        let cached = nodes.nodes.get_mut(&place)?;
        cached.looked_at = true;
        Some(Arc::clone(&cached.node))
    }

    pub fn put(&self, place: NodeAddress, node: Arc<Node>) {
        let mut nodes = self.nodes.lock();
        if nodes.nodes.insert(place, Cached { node, looked_at: false }).is_none() {
            nodes.ring.push_back(place);
        }
        while nodes.nodes.len() > self.most {
            nodes.evict();
        }
        nodes.assert_invariants();
    }

    /// Forgets all nodes of a file.
    pub fn forget(&self, file: u64) {
        let mut nodes = self.nodes.lock();
        nodes.nodes.retain(|place, _| place.0 != file);
        nodes.ring.retain(|place| place.0 != file);
        nodes.assert_invariants();
    }
}

impl Nodes {
    /// Whether as many nodes are in the ring as there are, and the next one to be looked at is one of them.
    fn assert_invariants(&self) {
        assert_eq!(self.nodes.len(), self.ring.len(), "nodes in memory, and places in the ring");
        let next = self.ring.front();
        debug_assert!(next.is_none_or(|next| self.nodes.contains_key(next)), "no node is at {next:?}");
    }

    fn evict(&mut self) {
        while let Some(place) = self.ring.pop_front() {
            match self.nodes.get_mut(&place) {
                Some(cached) if cached.looked_at => {
                    cached.looked_at = false;
                    self.ring.push_back(place);
                }
                Some(_) => {
                    self.nodes.remove(&place);
                    return;
                }
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::KeyValue;

    #[test]
    fn what_is_looked_at_stays_longer() {
        let cache = NodeCache::new(8 * UNIT_BYTES);
        let node = Arc::new(Node::encode(0, &[KeyValue::new(b"k", b"v")]));
        for offset in 0..20 {
            cache.put((1, offset), Arc::clone(&node));
            assert!(cache.get((1, 0)).is_some(), "after {offset}");
        }
        assert!(cache.get((1, 5)).is_none());
        cache.forget(1);
        assert!(cache.get((1, 0)).is_none());
    }
}
