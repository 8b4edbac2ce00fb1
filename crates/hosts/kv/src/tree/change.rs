//! Applies a transaction's changes to a tree: the records to put for them.
//!
//! Each node on the way is read once and written once, however many of its keys change. A node that grows too large is
//! split, one that becomes small is merged with a neighbour, and one that becomes empty is removed. Keys and values are borrowed from
//! the nodes that were read and from what changes until the new nodes are written.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashSet};

use tantalum::{Footprint, NamespaceId};

use super::find::node_at;
use super::node::{Entry, INNER_BYTES, Layout, Node, Place, bytes_of, cut, encode, have_values, separator};
use super::{Kind, Numbers, ROOT, name, value_name};
use crate::failure::Failure;
use crate::record::{Name, Value};
use crate::record_store::{Records, Source};

/// The records to put for the changes, and the numbers that remain afterwards.
pub(crate) struct Changed {
    pub records: Records,
    pub numbers: Numbers,
}

/// Computes what to put.
pub(crate) fn change(
    source: &impl Source,
    namespace: NamespaceId,
    changes: &[Change<'_>],
    numbers: Numbers,
    layout: Layout,
) -> Result<Changed, Failure> {
    let loaded = Loaded::default();
    let mut work = Work { layout, ..Work::new(source, &loaded, namespace, numbers) };
    work.root(changes)?;
    Ok(work.changed(numbers))
}

/// What to put so that a tree does without what cannot be read of it.
pub(crate) struct Mended {
    pub records: Records,
    /// The numbers of the nodes that can be read, and of the values that they name.
    pub named: HashSet<u64>,
}

/// Computes what to put so that a tree does without the nodes that cannot be read: their parents lose the entries for them.
pub(crate) fn mend(source: &impl Source, namespace: NamespaceId) -> Result<Mended, Failure> {
    // none are taken
    let numbers = Numbers::after(ROOT);
    let loaded = Loaded::default();
    let mut work = Work::new(source, &loaded, namespace, numbers);
    let mut named = HashSet::new();
    if let Some((level, root)) = work.readable(ROOT, None, &[], &mut named)? {
        work.raise(level, vec![root])?;
    }
    Ok(Mended { records: work.changed(numbers).records, named })
}

/// A key's new value, none if it is to be deleted. Several are in the order of their keys.
pub(crate) type Change<'a> = (&'a [u8], &'a Option<Value>);

/// The bytes of nodes that were read, each with the place for those of the next one.
#[derive(Default)]
struct Loaded(OnceCell<Box<(Value, Loaded)>>);

impl Loaded {
    /// Keeps the bytes of a node here. Returns them, and where the next ones are kept.
    fn keep(&self, bytes: Value) -> (&[u8], &Loaded) {
        assert!(self.0.get().is_none(), "two nodes are kept in one place");
        let (bytes, next) = &**self.0.get_or_init(|| Box::new((bytes, Loaded::default())));
        (bytes, next)
    }
}

impl Drop for Loaded {
    /// One after the other: there may be more than fit on the stack.
    fn drop(&mut self) {
        let mut next = self.0.take();
        while let Some(mut loaded) = next {
            next = loaded.1.0.take();
        }
    }
}

/// A child as its parent will have it.
struct Child<'a> {
    low: &'a [u8],
    number: u64,
    /// Its entries, if they differ from those stored.
    changed: Option<Vec<Entry<'a>>>,
}

impl Child<'_> {
    /// Whether it has changed and become small.
    fn is_small(&self, layout: Layout, level: u8) -> bool {
        self.changed.as_ref().is_some_and(|all| bytes_of(all) < layout.full_bytes(level, all) / 4)
    }
}

/// A child of an inner node: its place, its number, the least key that it may have, and that of the next one.
struct Below<'a> {
    at: usize,
    number: u64,
    from: &'a [u8],
    to: Option<&'a [u8]>,
}

struct Work<'a, S> {
    source: &'a S,
    /// Where the next node that is read is kept.
    loaded: &'a Loaded,
    namespace: NamespaceId,
    numbers: Numbers,
    layout: Layout,
    /// Nodes to be written, with their levels; `None` for those to be removed.
    nodes: BTreeMap<u64, Option<(u8, Vec<Entry<'a>>)>>,
    records: Records,
}

/// What a node takes of the drive.
fn chunks_of(entries: &[Entry<'_>]) -> u64 {
    Footprint::of(bytes_of(entries)).chunks
}

impl<'a, S: Source> Work<'a, S> {
    fn new(source: &'a S, loaded: &'a Loaded, namespace: NamespaceId, numbers: Numbers) -> Work<'a, S> {
        let (nodes, records) = (BTreeMap::new(), Records::new());
        Work { source, loaded, namespace, numbers, layout: Layout::NOW, nodes, records }
    }

    fn damaged(&self) -> Failure {
        Failure::Node { namespace: self.namespace }
    }

    /// A node as it is stored; none if there is no root.
    fn node(&mut self, number: u64) -> Result<Option<Node<'a>>, Failure> {
        let Some(bytes) = node_at(self.source, self.namespace, number)? else { return Ok(None) };
        let (bytes, next) = self.loaded.keep(bytes);
        self.loaded = next;
        Node::parse(bytes).map(Some).ok_or(self.damaged())
    }

    fn root(&mut self, changes: &[Change<'a>]) -> Result<(), Failure> {
        let (level, children) = match self.node(ROOT)? {
            Some(node) => (node.level(), self.subtree(node, ROOT, &[], changes)?),
            None => {
                let (entries, _) = self.merged(&[], changes);
                let full = self.layout.full_bytes(0, &entries);
                (0, self.pieces(ROOT, &[], 0, entries, full, true))
            }
        };
        self.raise(level, children)
    }

    /// A node of this level, or of any, as its parent gets it without the children that cannot be read; none if nothing is left
    /// of it.
    fn readable(
        &mut self,
        number: u64,
        level: Option<u8>,
        low: &'a [u8],
        named: &mut HashSet<u64>,
    ) -> Result<Option<(u8, Child<'a>)>, Failure> {
        let node = match self.node(number) {
            Err(failure) if failure.is_damage() => None,
            found => found?,
        };
        let node = node.filter(|node| level.is_none_or(|level| node.level() == level));
        let Some((level, before)) = node.and_then(|node| Some((node.level(), node.entries(low)?))) else {
            self.nodes.insert(number, None);
            return Ok(None);
        };
        let mut changed = None;
        if level == 0 {
            named.extend(before.iter().filter_map(|entry| match entry.place {
                Place::Apart(number) => Some(number),
                Place::Here(_) => None,
            }));
        } else {
            let mut children = Vec::with_capacity(before.len());
            for entry in &before {
                let child = self.readable(entry.child(), Some(level - 1), entry.key, named)?;
                children.extend(child.map(|(_, child)| child));
            }
            let after = self.store_children(level - 1, children);
            if after.is_empty() {
                self.nodes.insert(number, None);
                return Ok(None);
            }
            changed = (after != before).then_some(after);
        }
        named.insert(number);
        Ok(Some((level, Child { low, number, changed })))
    }

    /// Writes nodes of one level, and those above up to the root.
    fn raise(&mut self, mut level: u8, mut children: Vec<Child<'a>>) -> Result<(), Failure> {
        if let [Child { number: ROOT, changed, .. }] = &mut children[..] {
            return match changed.take() {
                Some(entries) => self.store_root(level, entries),
                None => Ok(()),
            };
        }
        while children.len() > 1 {
            let entries = self.store_children(level, children);
            level = level.checked_add(1).ok_or(self.damaged())?;
            let nodes = cut(entries, INNER_BYTES, true);
            children = nodes.into_iter().map(|entries| self.new_child(entries)).collect();
        }
        match children.pop().and_then(|child| child.changed) {
            Some(entries) => self.store_root(level, entries),
            None => Ok(()),
        }
    }

    /// What is to be put.
    fn changed(self, before: Numbers) -> Changed {
        let Work { namespace, numbers, nodes, mut records, .. } = self;
        numbers.store(before, namespace, &mut records);
        for (number, node) in nodes {
            let value = node.map(|(level, entries)| encode(level, &entries).into());
            records.push((name(namespace, Kind::Node, number), value));
        }
        debug_assert!(
            records.iter().map(|(name, _)| *name).collect::<HashSet<Name>>().len() == records.len(),
            "a change of {namespace:?} puts a record twice: {records:?}"
        );
        Changed { records, numbers }
    }

    fn new_child(&mut self, entries: Vec<Entry<'a>>) -> Child<'a> {
        // the root, if it is the only one: then this number is not used
        Child { low: entries[0].key, number: ROOT, changed: Some(entries) }
    }

    /// Writes the root; a root with a single child is replaced by it.
    fn store_root(&mut self, mut level: u8, mut entries: Vec<Entry<'a>>) -> Result<(), Failure> {
        while level > 0 && entries.len() == 1 {
            let only = entries[0].child();
            (level, entries) = self.load(only, level, &[])?;
            self.nodes.insert(only, None);
        }
        assert!(level == 0 || entries.len() > 1, "the root is on level {level}, with {entries:?}");
        self.nodes.insert(ROOT, Some((level, entries)));
        Ok(())
    }

    /// The entries of a node, as it is stored or will be.
    fn load(&mut self, number: u64, above: u8, low: &'a [u8]) -> Result<(u8, Vec<Entry<'a>>), Failure> {
        if let Some(Some(node)) = self.nodes.get(&number) {
            return Ok(node.clone());
        }
        let node = self.node(number)?.filter(|node| node.level() < above).ok_or(self.damaged())?;
        Ok((node.level(), node.entries(low).ok_or(self.damaged())?))
    }

    /// Changes the subtree of a node. Returns the entries that its parent gets for it.
    fn subtree(
        &mut self,
        node: Node<'a>,
        number: u64,
        low: &'a [u8],
        changes: &[Change<'a>],
    ) -> Result<Vec<Child<'a>>, Failure> {
        let (level, damaged) = (node.level(), self.damaged());
        if level > 0 {
            return self.inner(node, number, low, changes);
        }
        if self.changes_values_alone(node, changes).ok_or(damaged.clone())? {
            return Ok(vec![Child { low, number, changed: None }]);
        }
        let before = node.entries(low).ok_or(damaged)?;
        let (after, appended) = self.merged(&before, changes);
        // what leaves of earlier versions are split into takes more, and a full store must be able to delete
        let stays = !have_values(&after) && after.len() <= before.len();
        let full = if stays { INNER_BYTES } else { self.layout.full_bytes(level, &after) };
        Ok(self.pieces(number, low, level, after, full, appended))
    }

    /// The same of an inner node: the changes of each child together.
    fn inner(
        &mut self,
        node: Node<'a>,
        number: u64,
        low: &'a [u8],
        mut changes: &[Change<'a>],
    ) -> Result<Vec<Child<'a>>, Failure> {
        let (level, damaged) = (node.level() - 1, self.damaged());
        let mut changed: Vec<(usize, u64, Vec<Child<'a>>)> = Vec::new();
        while let Some((first, _)) = changes.first() {
            let Below { at, number, from, to } = self.below(node, first, low).ok_or(damaged.clone())?;
            let (here, rest) =
                changes.split_at(changes.partition_point(|(key, _)| to.is_none_or(|to| *key < to)));
            assert!(!here.is_empty(), "the child of {first:?} ends before it");
            let below = self.node(number)?.filter(|node| node.level() == level).ok_or(damaged.clone())?;
            changed.push((at, number, self.subtree(below, number, from, here)?));
            changes = rest;
        }
        let stays = |(_, number, children): &(usize, u64, Vec<Child<'a>>)| match &children[..] {
            [child] => child.number == *number && !child.is_small(self.layout, level),
            _ => false,
        };
        if changed.iter().all(stays) {
            self.store_children(level, changed.into_iter().flat_map(|(.., children)| children));
            return Ok(vec![Child { low, number, changed: None }]);
        }
        let before = node.entries(low).ok_or(damaged)?;
        let mut changed = changed.into_iter().peekable();
        let mut children = Vec::with_capacity(before.len());
        for (at, entry) in before.iter().enumerate() {
            match changed.next_if(|(changed, ..)| *changed == at) {
                Some((.., changed)) => children.extend(changed),
                None => children.push(Child { low: entry.key, number: entry.child(), changed: None }),
            }
        }
        let children = self.merge_small(level, children)?;
        let after = self.store_children(level, children);
        if after == before {
            return Ok(vec![Child { low, number, changed: None }]);
        }
        let appended = after.starts_with(&before);
        Ok(self.pieces(number, low, level + 1, after, INNER_BYTES, appended))
    }

    /// The child of an inner node that has a key.
    fn below(&self, node: Node<'a>, key: &[u8], low: &'a [u8]) -> Option<Below<'a>> {
        let at = node.child_of(key)?;
        let from = if at == 0 { low } else { node.key(at)? };
        let to = if at + 1 < node.len() { Some(node.key(at + 1)?) } else { None };
        Some(Below { at, number: node.number(at)?, from, to })
    }

    /// Whether a leaf keeps its keys, and all values that change lie apart; then only these are put.
    fn changes_values_alone(&mut self, leaf: Node<'_>, changes: &[Change<'_>]) -> Option<bool> {
        let mut numbers = Vec::with_capacity(changes.len());
        for (key, value) in changes {
            match (leaf.find(key)?, value) {
                (Some(Place::Apart(number)), Some(value)) if !self.layout.is_here(key, value) => {
                    numbers.push(Some(number));
                }
                // a key that is not there is not deleted
                (None, None) => numbers.push(None),
                _ => return Some(false),
            }
        }
        for ((_, value), number) in changes.iter().zip(numbers) {
            if let Some(number) = number {
                self.records.push((value_name(self.namespace, number), (*value).clone()));
            }
        }
        Some(true)
    }

    /// A leaf's entries with the changes applied, and whether they are those before with others behind them; values that lie
    /// apart are put.
    fn merged(&mut self, mut before: &[Entry<'a>], changes: &[Change<'a>]) -> (Vec<Entry<'a>>, bool) {
        let (mut after, mut appended) = (Vec::with_capacity(before.len() + changes.len()), true);
        for (key, value) in changes {
            let less = before.iter().take_while(|entry| entry.key < *key).count();
            let (less, rest) = before.split_at(less);
            after.extend_from_slice(less);
            let old = rest.first().filter(|entry| entry.key == *key);
            before = if old.is_some() { &rest[1..] } else { rest };
            let place = self.placed(key, old.map(|old| old.place), value);
            appended &= rest.is_empty() || old.is_none() && place.is_none();
            after.extend(place.map(|place| Entry { key, place }));
        }
        after.extend_from_slice(before);
        (after, appended)
    }

    /// Where the new value of a key is; none if the key is deleted. What lies apart is put, or deleted.
    fn placed(
        &mut self,
        key: &[u8],
        before: Option<Place<&[u8]>>,
        value: &'a Option<Value>,
    ) -> Option<Place<&'a [u8]>> {
        let here = value.as_ref().filter(|value| self.layout.is_here(key, value));
        let number = match (before, here, value) {
            (Some(Place::Apart(number)), ..) => number,
            (_, None, Some(_)) => self.numbers.take(),
            (_, Some(here), _) => return Some(Place::Here(here)),
            (_, None, None) => return None,
        };
        let apart = value.as_ref().filter(|_| here.is_none()).cloned();
        let is_apart = apart.is_some();
        self.records.push((value_name(self.namespace, number), apart));
        match here {
            Some(here) => Some(Place::Here(here)),
            None => is_apart.then_some(Place::Apart(number)),
        }
    }

    /// Merges changed children that have become small with a neighbour.
    fn merge_small(&mut self, level: u8, children: Vec<Child<'a>>) -> Result<Vec<Child<'a>>, Failure> {
        let mut merged: Vec<Child<'a>> = Vec::with_capacity(children.len());
        for child in children {
            match merged.pop() {
                Some(left) if left.is_small(self.layout, level) || child.is_small(self.layout, level) => {
                    let mut entries = self.entries_of(&left, level)?;
                    let right = self.entries_of(&child, level)?;
                    let apart = chunks_of(&entries) + chunks_of(&right);
                    entries.extend(right);
                    // a full store must be able to delete
                    if bytes_of(&entries) > self.layout.full_bytes(level, &entries) * 3 / 4
                        || chunks_of(&entries) > apart
                    {
                        merged.extend([left, child]);
                        continue;
                    }
                    self.nodes.insert(child.number, None);
                    merged.push(Child { changed: Some(entries), ..left });
                }
                left => merged.extend(left.into_iter().chain([child])),
            }
        }
        Ok(merged)
    }

    fn entries_of(&mut self, child: &Child<'a>, level: u8) -> Result<Vec<Entry<'a>>, Failure> {
        match &child.changed {
            Some(entries) => Ok(entries.clone()),
            None => match self.load(child.number, level + 1, child.low)? {
                (found, entries) if found == level => Ok(entries),
                _ => Err(self.damaged()),
            },
        }
    }

    /// Writes the children that changed. Returns the entries of their parent.
    fn store_children(&mut self, level: u8, children: impl IntoIterator<Item = Child<'a>>) -> Vec<Entry<'a>> {
        let children = children.into_iter();
        let mut entries = Vec::with_capacity(children.size_hint().0);
        for Child { low, number, changed } in children {
            // the root's entries move to a separate node when it gets neighbours
            let number = if number == ROOT { self.numbers.take() } else { number };
            if let Some(changed) = changed {
                assert!(!changed.is_empty(), "node {number} of {:?} is empty, and stays", self.namespace);
                self.nodes.insert(number, Some((level, changed)));
            }
            entries.push(Entry { key: low, place: Place::Apart(number) });
        }
        debug_assert!(
            entries.iter().all(|entry| !matches!(self.nodes.get(&entry.child()), Some(None))),
            "a node of {:?} is removed, and its parent names it: {entries:?}",
            self.namespace
        );
        entries
    }

    /// The nodes into which a node is split beyond so many bytes; none if it is empty.
    fn pieces(
        &mut self,
        number: u64,
        low: &'a [u8],
        level: u8,
        entries: Vec<Entry<'a>>,
        full: usize,
        appended: bool,
    ) -> Vec<Child<'a>> {
        if entries.is_empty() {
            self.nodes.insert(number, None);
            return Vec::new();
        }
        let mut children: Vec<Child<'a>> = Vec::new();
        for entries in cut(entries, full, appended) {
            let (low, number) = match children.last().and_then(|before| before.changed.as_ref()?.last()) {
                None => (low, number),
                Some(last) if level == 0 => (separator(last.key, entries[0].key), self.numbers.take()),
                Some(_) => (entries[0].key, self.numbers.take()),
            };
            children.push(Child { low, number, changed: Some(entries) });
        }
        children
    }
}
