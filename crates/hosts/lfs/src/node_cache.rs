//! Nodes of an index in memory: read when needed, changed there. A changed node stays until it is written.
//!
//! Invariants, which assertions check:
//! - A node is listed as changed if and only if it differs from what the drive holds.
//! - Every node is in the ring, or it would never be given up.

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
        debug_assert_eq!(cached.node.number(), number, "a node is in memory under another number");
        &cached.node
    }

    /// A node that is in memory, mutable.
    pub fn change(&mut self, number: N::Number) -> &mut N {
        let cached = self.cached.get_mut(&number).expect("it is loaded");
        cached.is_used = true;
        if !cached.is_changed {
            cached.is_changed = true;
            let is_new = self.changed.insert(cached.node.order());
            debug_assert!(is_new, "node {number:?} is unchanged, but listed as changed");
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
        match self.cached.insert(number, Cached { node, is_changed, is_used: true }) {
            None => self.ring.push_back(number),
            Some(old) => assert!(!old.is_changed, "node {number:?} replaces one that was never written"),
        }
        assert!(
            self.ring.len() >= self.cached.len() && self.cached.len() >= self.changed.len(),
            "{} nodes are in memory, {} in the ring, and {} changed",
            self.cached.len(),
            self.ring.len(),
            self.changed.len()
        );
    }

    /// A node is given up.
    pub fn remove(&mut self, number: N::Number) {
        if let Some(cached) = self.cached.remove(&number) {
            let was_listed = self.changed.remove(&cached.node.order());
            debug_assert_eq!(was_listed, cached.is_changed, "node {number:?} is given up");
        }
    }

    /// A changed node was written.
    pub fn mark_clean(&mut self, number: N::Number) {
        let cached = self.cached.get_mut(&number).expect("a written node is in memory");
        cached.is_changed = false;
        let was_listed = self.changed.remove(&cached.node.order());
        assert!(was_listed, "node {number:?} was written, but was not changed");
    }
}
