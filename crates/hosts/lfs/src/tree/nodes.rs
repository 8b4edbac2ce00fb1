//! Nodes in memory: read when needed, changed there, and written to the log by a checkpoint.
//!
//! Invariants, of which assertions check the first:
//! - No snapshot sees a changed node.
//! - Space is promised for each node that was never written, and for a copy of each node that a snapshot shares with the
//!   present: so a change of a tree that adds nothing is never refused.

use tantalum_filesystem::FileId;

use super::Tree;
use super::node::Node;
use super::summary::What;
use super::translation::Number;
use crate::bytes::zeros;
use crate::error::{Damage, LfsError, Result};
use crate::node_cache::CachedNode;
use crate::segments::Log;

impl CachedNode for Node {
    type Number = Number;
    type Order = Number;

    fn number(&self) -> Number {
        self.number()
    }

    fn order(&self) -> Number {
        self.number()
    }
}

impl Tree {
    /// A node.
    pub(super) fn node(&mut self, log: &mut Log, number: Number) -> Result<&Node> {
        self.load(log, number)?;
        Ok(self.nodes.get(number))
    }

    /// A node that no snapshot sees, mutable.
    pub(super) fn change(&mut self, log: &mut Log, number: Number) -> Result<&mut Node> {
        self.load(log, number)?;
        debug_assert_ne!(
            self.is_shared(log, number),
            Ok(true),
            "node {number:?} is changed, but a snapshot sees it"
        );
        Ok(self.nodes.change(number))
    }

    fn load(&mut self, log: &mut Log, number: Number) -> Result<()> {
        if self.nodes.contains(number) {
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
        self.nodes.insert(node, false);
        Ok(())
    }

    /// A child of a branch, with its level checked.
    pub(super) fn child(&mut self, log: &mut Log, parent: Number, index: usize) -> Result<Number> {
        let node = self.node(log, parent)?;
        let (child, level) = (Number(node.value(index)), node.level() - 1);
        match self.node(log, child)?.level() == level {
            true => Ok(child),
            false => Err(self.of_another_level(log, child)),
        }
    }

    /// A node is not one level below its parent.
    pub(super) fn of_another_level(&mut self, log: &mut Log, number: Number) -> LfsError {
        let damage = Damage::NotA { expected: "a node of another level" };
        self.place_of(log, number).map_or_else(|error| error, |lpn| LfsError::Damaged { lpn, damage })
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
        self.nodes.insert(Node::new(number, file, level, is_root), true);
        Ok(number)
    }

    /// The node to change instead of `number`: a copy if a snapshot sees it.
    pub(super) fn own(&mut self, log: &mut Log, number: Number) -> Result<Number> {
        if !self.is_shared(log, number)? {
            return Ok(number);
        }
        let mut node = self.node(log, number)?.clone();
        let copy = self.free_number(log)?;
        node.set_number(copy);
        self.use_for_node(log, copy)?;
        self.give_up(log, number)?;
        self.shared_nodes = self.shared_nodes.saturating_sub(1); // the promise for the copy now belongs to the copy itself
        self.nodes.insert(node, true);
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
        while let Some(number) = self.nodes.changed().first().copied() {
            let is_new = self.translation(log, number)?.place.is_none();
            let node = self.nodes.change(number);
            node.seal();
            let lpn = self.partial.append(log, What::Unit(number), &node.page)?;
            self.nodes.mark_clean(number);
            self.relocate(log, number, lpn)?;
            if is_new {
                log.segments.unreserve();
            }
        }
        Ok(())
    }
}
