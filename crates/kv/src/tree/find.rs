//! Finding one key, or those of a range.

use std::ops::Bound;

use tantalum::NamespaceId;

use super::node::Node;
use super::{Kind, ROOT, name};
use crate::drive::Source;
use crate::failure::Failure;
use crate::record::{Bytes, Value};

/// A node's record; `None` if there is no root.
pub(super) fn node_at(
    source: &impl Source,
    namespace: NamespaceId,
    number: u64,
) -> Result<Option<Value>, Failure> {
    match source.record(name(namespace, Kind::Node, number))? {
        None if number != ROOT => Err(Failure::Node { namespace, node: number }),
        found => Ok(found),
    }
}

/// The number of a key's value.
pub(crate) fn find(source: &impl Source, namespace: NamespaceId, key: &[u8]) -> Result<Option<u64>, Failure> {
    let (mut number, mut above) = (ROOT, None);
    loop {
        let Some(bytes) = node_at(source, namespace, number)? else { return Ok(None) };
        let damaged = Failure::Node { namespace, node: number };
        let node = Node::parse(&bytes).filter(|node| above.is_none_or(|above| node.level() < above));
        let node = node.ok_or(damaged.clone())?;
        if node.level() == 0 {
            return node.find(key).ok_or(damaged);
        }
        above = Some(node.level());
        number = node.child_of(key).and_then(|at| node.number(at)).ok_or(damaged)?;
    }
}

/// Keys of a range with the numbers of their values.
pub(crate) struct Page {
    /// In the order of the keys, or backwards.
    pub entries: Vec<(Bytes, u64)>,
    /// Whether these are all keys of the range.
    pub is_all: bool,
}

/// At most `limit` keys of a range, from its beginning, or backwards from its end.
pub(crate) fn page(
    source: &impl Source,
    namespace: NamespaceId,
    range: (Bound<&[u8]>, Bound<&[u8]>),
    backwards: bool,
    limit: usize,
) -> Result<Page, Failure> {
    let (entries, is_all) = (Vec::new(), true);
    let mut walk = Walk { source, namespace, range, backwards, limit, page: Page { entries, is_all } };
    walk.subtree(ROOT, None)?;
    Ok(walk.page)
}

struct Walk<'a, S> {
    source: &'a S,
    namespace: NamespaceId,
    range: (Bound<&'a [u8]>, Bound<&'a [u8]>),
    backwards: bool,
    limit: usize,
    page: Page,
}

impl<S: Source> Walk<'_, S> {
    /// Visits the subtree of a node. Returns whether to continue.
    fn subtree(&mut self, number: u64, above: Option<u8>) -> Result<bool, Failure> {
        let Some(bytes) = node_at(self.source, self.namespace, number)? else { return Ok(false) };
        let damaged = Failure::Node { namespace: self.namespace, node: number };
        let node = Node::parse(&bytes).filter(|node| above.is_none_or(|above| node.level() < above));
        let node = node.ok_or(damaged.clone())?;
        match node.level() {
            0 => self.leaf(node).ok_or(damaged),
            level => {
                for at in self.children(node).ok_or(damaged.clone())? {
                    let child = node.number(at).ok_or(damaged.clone())?;
                    if !self.subtree(child, Some(level))? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    /// The children that may have keys of the range, in the order of the walk.
    fn children(&self, node: Node<'_>) -> Option<Vec<usize>> {
        let first = match self.range.0 {
            Bound::Included(key) | Bound::Excluded(key) => node.child_of(key)?,
            Bound::Unbounded => 0,
        };
        let last = match self.range.1 {
            Bound::Included(key) | Bound::Excluded(key) => node.child_of(key)?,
            Bound::Unbounded => node.len() - 1,
        };
        let children = first..=last;
        Some(if self.backwards { children.rev().collect() } else { children.collect() })
    }

    fn leaf(&mut self, node: Node<'_>) -> Option<bool> {
        let after = |key: &[u8]| {
            let at = node.lower(key)?;
            Some(if at < node.len() && node.key(at)? == key { at + 1 } else { at })
        };
        let first = match self.range.0 {
            Bound::Included(key) => node.lower(key)?,
            Bound::Excluded(key) => after(key)?,
            Bound::Unbounded => 0,
        };
        let end = match self.range.1 {
            Bound::Included(key) => after(key)?,
            Bound::Excluded(key) => node.lower(key)?,
            Bound::Unbounded => node.len(),
        };
        for step in 0..end.saturating_sub(first) {
            if self.page.entries.len() == self.limit {
                self.page.is_all = false;
                return Some(false);
            }
            let at = if self.backwards { end - 1 - step } else { first + step };
            self.page.entries.push((node.key(at)?.into(), node.number(at)?));
        }
        Some(true)
    }
}
