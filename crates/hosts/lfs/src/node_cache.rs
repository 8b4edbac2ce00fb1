//! Nodes of an index in memory: read when needed, changed there. A changed node stays until it is written.

use std::collections::{BTreeSet, VecDeque};
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Unchanged nodes in memory.
const MOST_UNCHANGED: usize = 16 << 10;

/// A node of one of the indexes.
pub(crate) trait CachedNode {
    /// Names it.
    type Number: Copy + Eq + Hash + std::fmt::Debug;
    /// Changed nodes are listed in the order of this key, which never changes and is different for each node.
    type Order: Copy + Ord + std::fmt::Debug;

    /// The node's number in its index.
    fn number(&self) -> Self::Number;

    /// Its place among changed nodes.
    fn order(&self) -> Self::Order;
}

#[derive(Debug)]
struct Cached<N> {
    node: N,
    is_changed: bool,
    is_used: bool,
}

/// The nodes in memory.
#[derive(Debug)]
pub(crate) struct NodeCache<N: CachedNode> {
    cached: FxHashMap<N::Number, Cached<N>>,
    changed: BTreeSet<N::Order>,
    /// Nodes not used since the last pass are given up first.
    ring: VecDeque<N::Number>,
}

impl<N: CachedNode> Default for NodeCache<N> {
    fn default() -> Self {
        NodeCache { cached: FxHashMap::default(), changed: BTreeSet::new(), ring: VecDeque::new() }
    }
}

impl<N: CachedNode> NodeCache<N> {
    /// Changed nodes.
    pub fn changed(&self) -> &BTreeSet<N::Order> {
        &self.changed
    }

    pub fn is_changed(&self, number: N::Number) -> bool {
        self.cached.get(&number).is_some_and(|cached| cached.is_changed)
    }

    pub fn contains(&self, number: N::Number) -> bool {
        self.cached.contains_key(&number)
    }

    /// A node that is in memory.
    pub fn get(&mut self, number: N::Number) -> &N {
        let cached = self.cached.get_mut(&number).expect("it is loaded");
        cached.is_used = true;
        &cached.node
    }

    /// A node that is in memory, mutable.
    pub fn change(&mut self, number: N::Number) -> &mut N {
        let cached = self.cached.get_mut(&number).expect("it is loaded");
        cached.is_used = true;
        if !cached.is_changed {
            cached.is_changed = true;
            self.changed.insert(cached.node.order());
        }
        &mut cached.node
    }

    /// A node was read or created. Others that were not used for long make room.
    pub fn insert(&mut self, node: N, is_changed: bool) {
        let mut looks = self.ring.len();
        while looks > 0 && self.cached.len() > MOST_UNCHANGED + self.changed.len() {
            looks -= 1;
            let Some(other) = self.ring.pop_front() else { break };
            let Some(cached) = self.cached.get_mut(&other) else { continue };
            if cached.is_changed || std::mem::take(&mut cached.is_used) {
                self.ring.push_back(other);
            } else {
                self.cached.remove(&other);
            }
        }
        if is_changed {
            self.changed.insert(node.order());
        }
        let number = node.number();
        if self.cached.insert(number, Cached { node, is_changed, is_used: true }).is_none() {
            self.ring.push_back(number);
        }
    }

    /// A node is given up.
    pub fn remove(&mut self, number: N::Number) {
        if let Some(cached) = self.cached.remove(&number) {
            self.changed.remove(&cached.node.order());
        }
    }

    /// A changed node was written.
    pub fn mark_clean(&mut self, number: N::Number) {
        let cached = self.cached.get_mut(&number).expect("a written node is in memory");
        cached.is_changed = false;
        self.changed.remove(&cached.node.order());
    }
}
