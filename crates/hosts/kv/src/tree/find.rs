//! Finding one key, or those of a range.

use std::ops::Bound;

use tantalum::NamespaceId;

use super::node::{Node, Place};
use super::{Kind, ROOT, name};
use crate::failure::Failure;
use crate::keys::KeyRange;
use crate::record::{Bytes, Value};
use crate::record_store::Source;
use crate::spans::begins_within;

/// A node's record; `None` if there is no root.
pub(super) fn node_at(
    source: &impl Source,
    namespace: NamespaceId,
    number: u64,
) -> Result<Option<Value>, Failure> {
    match source.record(name(namespace, Kind::Node, number))? {
        None if number != ROOT => Err(Failure::Node { namespace }),
        found => Ok(found),
    }
}

/// Keys that cannot be found, because a node is damaged or missing: from one on, up to but not including another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Gap {
    pub from: Bytes,
    pub to: Option<Bytes>,
}

impl Gap {
    fn new(from: &[u8], to: Option<&[u8]>) -> Gap {
        Gap { from: from.into(), to: to.map(Bytes::from) }
    }

    /// Divides a range behind the gap.
    pub fn divide(&self, (from, to): KeyRange, backwards: bool) -> (KeyRange, Option<KeyRange>) {
        let rest = match (backwards, &self.to) {
            (false, Some(end)) => (Bound::Included(end.clone()), to.clone()),
            (true, _) if !self.from.is_empty() => (from.clone(), Bound::Excluded(self.from.clone())),
            _ => return ((from, to), None),
        };
        if !begins_within(&rest.0, &rest.1) {
            return ((from, to), None);
        }
        match (backwards, &rest) {
            (false, (Bound::Included(end), _)) => ((from, Bound::Excluded(end.clone())), Some(rest)),
            _ => ((Bound::Included(self.from.clone()), to), Some(rest)),
        }
    }
}

/// Where a key's value is, and what `here` makes of one that is in its leaf.
pub(crate) fn find<T>(
    source: &impl Source,
    namespace: NamespaceId,
    key: &[u8],
    here: impl FnOnce(&[u8]) -> T,
) -> Result<Option<Place<T>>, Failure> {
    let (mut number, mut above) = (ROOT, None);
    loop {
        let bytes = match node_at(source, namespace, number) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(failure) if failure.is_damage() => return Err(lost(source, namespace, key)),
            Err(failure) => return Err(failure),
        };
        let node = Node::parse(&bytes).filter(|node| above.is_none_or(|above| node.level() < above));
        let Some(node) = node else { return Err(lost(source, namespace, key)) };
        if node.level() == 0 {
            let found = node.find(key).ok_or_else(|| lost(source, namespace, key))?;
            return Ok(found.map(|place| match place {
                Place::Here(value) => Place::Here(here(value)),
                Place::Apart(number) => Place::Apart(number),
            }));
        }
        above = Some(node.level());
        let child = node.child_of(key).and_then(|at| node.number(at));
        number = child.ok_or_else(|| lost(source, namespace, key))?;
    }
}

/// Where a key cannot be found: the keys of the last node on the way to it that its parent names.
#[cold]
fn lost(source: &impl Source, namespace: NamespaceId, key: &[u8]) -> Failure {
    let mut gap = Gap::new(&[], None);
    let (mut number, mut above) = (ROOT, None);
    while let Ok(Some(bytes)) = node_at(source, namespace, number) {
        let node = Node::parse(&bytes).filter(|node| node.level() > 0);
        let node = node.filter(|node| above.is_none_or(|above| node.level() < above));
        let child = node.and_then(|node| {
            let at = node.child_of(key)?;
            Some((node, at, node.number(at)?, node.key(at)?))
        });
        let Some((node, at, child, low)) = child else { break };
        if at > 0 {
            gap.from = low.into();
        }
        if at + 1 < node.len() {
            gap.to = node.key(at + 1).map(Bytes::from);
        }
        (number, above) = (child, Some(node.level()));
    }
    Failure::Lost { namespace, gap }
}

/// A piece of a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    start: u32,
    end: u32,
}

impl Piece {
    /// A piece of these bytes.
    fn of(whole: &[u8], piece: &[u8]) -> Piece {
        let start = piece.as_ptr().addr() - whole.as_ptr().addr();
        assert!(
            start + piece.len() <= whole.len(),
            "{} bytes from {start} on, of {}",
            piece.len(),
            whole.len()
        );
        Piece { start: start as u32, end: (start + piece.len()) as u32 }
    }

    pub fn of_leaf(self, leaf: &[u8]) -> &[u8] {
        &leaf[self.start as usize..self.end as usize]
    }
}

/// A key of a range, with the place of its value: pieces of a leaf, which is shared by all of its keys.
#[derive(Clone, Debug)]
pub(crate) struct PageEntry {
    /// Which leaf of the page.
    pub leaf: u32,
    pub key: Piece,
    pub place: Place<Piece>,
}

/// Keys of a range with the places of their values.
pub(crate) struct Page {
    /// The leaves that the entries are in.
    pub leaves: Vec<Value>,
    /// In the order of the keys, or backwards.
    pub entries: Vec<PageEntry>,
    /// Whether these are all keys of the range.
    pub is_all: bool,
    /// What comes after them cannot be read.
    pub gap: Option<Gap>,
}

impl Page {
    /// The key of an entry.
    pub fn key(&self, entry: &PageEntry) -> &[u8] {
        entry.key.of_leaf(&self.leaves[entry.leaf as usize])
    }

    /// The last key, if there are more in the range.
    pub fn last(&self) -> Option<&[u8]> {
        self.entries.last().filter(|_| !self.is_all).map(|entry| self.key(entry))
    }
}

/// At most `limit` keys of a range, from its beginning, or backwards from its end.
pub(crate) fn page(
    source: &impl Source,
    namespace: NamespaceId,
    range: (Bound<&[u8]>, Bound<&[u8]>),
    backwards: bool,
    limit: usize,
) -> Result<Page, Failure> {
    let page = Page { leaves: Vec::new(), entries: Vec::new(), is_all: true, gap: None };
    let mut walk = Walk { source, namespace, range, backwards, limit, page };
    walk.subtree(ROOT, None, (&[], None))?;
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
    /// Visits the subtree of a node, whose keys are within these. Returns whether to continue.
    fn subtree(
        &mut self,
        number: u64,
        above: Option<u8>,
        (low, high): (&[u8], Option<&[u8]>),
    ) -> Result<bool, Failure> {
        let bytes = match node_at(self.source, self.namespace, number) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(false),
            Err(failure) if failure.is_damage() => return Ok(self.end_before(low, high)),
            Err(failure) => return Err(failure),
        };
        let node = Node::parse(&bytes).filter(|node| above.is_none_or(|above| node.level() < above));
        let Some(node) = node else { return Ok(self.end_before(low, high)) };
        if node.level() == 0 {
            return Ok(self.leaf(&bytes, node).unwrap_or_else(|| self.end_before(low, high)));
        }
        let Some(children) = self.children(node) else { return Ok(self.end_before(low, high)) };
        for at in children {
            let (Some(child), Some(key)) = (node.number(at), node.key(at)) else {
                return Ok(self.end_before(low, high));
            };
            let from = if at == 0 { low } else { key };
            let to = if at + 1 < node.len() { node.key(at + 1) } else { high };
            if !self.subtree(child, Some(node.level()), (from, to))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends the walk before keys that cannot be read.
    fn end_before(&mut self, low: &[u8], high: Option<&[u8]>) -> bool {
        self.page.is_all = false;
        self.page.gap = Some(Gap::new(low, high));
        false
    }

    /// The children that may have keys of the range, in the order of the walk.
    fn children(&self, node: Node<'_>) -> Option<Vec<usize>> {
        let first = match self.range.0 {
            Bound::Included(key) | Bound::Excluded(key) => node.child_of(key)?,
            Bound::Unbounded => 0,
        };
        let last = match self.range.1 {
            Bound::Included(key) => node.child_of(key)?,
            // not the child that begins there: a walk backwards goes on before a damaged one
            Bound::Excluded(key) => node.child_before(key)?,
            Bound::Unbounded => node.len() - 1,
        };
        let children = first..=last;
        Some(if self.backwards { children.rev().collect() } else { children.collect() })
    }

    fn leaf(&mut self, bytes: &Value, node: Node<'_>) -> Option<bool> {
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
        let leaf = self.page.leaves.len() as u32;
        if first < end {
            self.page.leaves.push(bytes.clone());
        }
        for step in 0..end.saturating_sub(first) {
            if self.page.entries.len() == self.limit {
                self.page.is_all = false;
                return Some(false);
            }
            let at = if self.backwards { end - 1 - step } else { first + step };
            let place = match node.place(at)? {
                Place::Here(value) => Place::Here(Piece::of(bytes, value)),
                Place::Apart(number) => Place::Apart(number),
            };
            self.page.entries.push(PageEntry { leaf, key: Piece::of(bytes, node.key(at)?), place });
        }
        Some(true)
    }
}
