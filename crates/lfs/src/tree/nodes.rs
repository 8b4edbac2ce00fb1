//! Nodes in memory: read when needed, changed there, and written to the log by a checkpoint.
//!
//! Invariants:
//! - A changed node stays in memory until it is written, and no snapshot sees it.
//! - Space is promised for each node that was never written, and for a copy of each node that a snapshot shares with the
//!   present: so a change of a tree that adds nothing is never refused.

use std::collections::{BTreeSet, VecDeque};

use rustc_hash::FxHashMap;
use tantalum_filesystem::FileId;

use super::Tree;
use super::node::Node;
use super::summary::What;
use super::translation::Number;
use crate::bytes::zeros;
use crate::error::{Damage, LfsError, Result};
use crate::segments::Log;

/// Unchanged nodes in memory.
const MOST_UNCHANGED: usize = 16 << 10;

#[derive(Debug)]
struct Cached {
    node: Node,
    is_changed: bool,
    is_used: bool,
}

/// The nodes in memory.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    cached: FxHashMap<Number, Cached>,
    changed: BTreeSet<Number>,
    ring: VecDeque<Number>,
}

impl Nodes {
    pub fn changed_count(&self) -> usize {
        self.changed.len()
    }

    pub fn is_changed(&self, number: Number) -> bool {
        self.changed.contains(&number)
    }

    fn insert(&mut self, number: Number, node: Node, is_changed: bool) {
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
            self.changed.insert(number);
        }
        if self.cached.insert(number, Cached { node, is_changed, is_used: true }).is_none() {
            self.ring.push_back(number);
        }
    }

    fn remove(&mut self, number: Number) {
        self.cached.remove(&number);
        self.changed.remove(&number);
    }
}

impl Tree {
    /// A node.
    pub(super) fn node(&mut self, log: &mut Log, number: Number) -> Result<&Node> {
        self.load(log, number)?;
        let cached = self.nodes.cached.get_mut(&number).expect("it is loaded");
        cached.is_used = true;
        Ok(&cached.node)
    }

    /// A node that no snapshot sees, to be changed.
    pub(super) fn change(&mut self, log: &mut Log, number: Number) -> Result<&mut Node> {
        self.load(log, number)?;
        let cached = self.nodes.cached.get_mut(&number).expect("it is loaded");
        (cached.is_used, cached.is_changed) = (true, true);
        self.nodes.changed.insert(number);
        Ok(&mut cached.node)
    }

    fn load(&mut self, log: &mut Log, number: Number) -> Result<()> {
        if self.nodes.cached.contains_key(&number) {
            return Ok(());
        }
        let lpn = self.place_of(log, number)?;
        let mut page = zeros();
        log.read(lpn, &mut page[..])?;
        let node = Node::parse(page).map_err(|damage| LfsError::Damaged { lpn, damage })?;
        if node.number() != number {
            let damage = Damage::OtherNode { found: node.number().0, expected: number.0 };
            return Err(LfsError::Damaged { lpn, damage });
        }
        self.nodes.insert(number, node, false);
        Ok(())
    }

    /// A child of a branch, with its level checked.
    pub(super) fn child(&mut self, log: &mut Log, parent: Number, index: usize) -> Result<Number> {
        let node = self.node(log, parent)?;
        let (child, level) = (Number(node.value(index)), node.level() - 1);
        if self.node(log, child)?.level() != level {
            let lpn = self.place_of(log, child)?;
            return Err(LfsError::Damaged {
                lpn,
                damage: Damage::NotA { expected: "a node of another level" },
            });
        }
        Ok(child)
    }

    /// A new node. There is space for it.
    pub(super) fn new_node(
        &mut self,
        log: &mut Log,
        file: FileId,
        level: u8,
        is_root: bool,
    ) -> Result<Number> {
        let number = self.free_number(log)?;
        log.segments.reserve_anyway();
        self.use_for_node(log, number)?;
        self.node_count += 1;
        self.nodes.insert(number, Node::new(number, file, level, is_root), true);
        Ok(number)
    }

    /// The node to be changed instead of `number`: a copy if a snapshot sees that.
    pub(super) fn own(&mut self, log: &mut Log, number: Number) -> Result<Number> {
        if !self.is_shared(log, number)? {
            return Ok(number);
        }
        let mut node = self.node(log, number)?.clone();
        let copy = self.free_number(log)?;
        node.set_number(copy);
        self.use_for_node(log, copy)?;
        self.give_up(log, number)?;
        self.shared_nodes = self.shared_nodes.saturating_sub(1); // what was promised for the copy is now promised to it
        self.nodes.insert(copy, node, true);
        Ok(copy)
    }

    /// Gives a node up.
    pub(super) fn free_node(&mut self, log: &mut Log, number: Number) -> Result<()> {
        let is_new = self.translation(log, number)?.place.is_none();
        let is_shared = self.is_shared(log, number)?;
        self.give_up(log, number)?;
        self.shared_nodes = self.shared_nodes.saturating_sub(u32::from(is_shared));
        if is_new || is_shared {
            log.segments.unreserve();
        }
        self.node_count = self.node_count.saturating_sub(1);
        self.nodes.remove(number);
        Ok(())
    }

    /// Appends all changed nodes to the log.
    pub(super) fn write_nodes(&mut self, log: &mut Log) -> Result<()> {
        while let Some(number) = self.nodes.changed.first().copied() {
            let is_new = self.translation(log, number)?.place.is_none();
            let cached = self.nodes.cached.get_mut(&number).expect("a changed node is in memory");
            cached.node.seal();
            let lpn = self.partial.append(log, What::Unit(number), &cached.node.page)?;
            cached.is_changed = false;
            self.nodes.changed.remove(&number);
            self.relocate(log, number, lpn)?;
            if is_new {
                log.segments.unreserve();
            }
        }
        Ok(())
    }
}
