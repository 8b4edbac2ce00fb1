//! Applies a transaction's changes to a tree: the records to put for them.
//!
//! Each node on the way is read once and written once, however many of its keys change. A node that grows too large is
//! split, one that becomes small is merged with a neighbour, and one that becomes empty is removed.

use std::collections::{BTreeMap, HashSet};

use tantalum::{Footprint, NamespaceId};

use super::find::node_at;
use super::node::{Entry, Node, Place, Placement, bytes_of, cut, encode, full_bytes, separator};
use super::{Kind, Numbers, ROOT, name, value_name};
use crate::failure::Failure;
use crate::record::{Bytes, Name, Value};
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
    placement: Placement,
) -> Result<Changed, Failure> {
    let mut work = Work { placement, ..Work::new(source, namespace, numbers) };
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
    let mut work = Work::new(source, namespace, numbers);
    let mut named = HashSet::new();
    if let Some((level, root)) = work.readable(ROOT, None, no_key(), &mut named)? {
        work.raise(level, vec![root])?;
    }
    Ok(Mended { records: work.changed(numbers).records, named })
}

/// A key's new value, none if it is to be deleted. Several are in the order of their keys.
pub(crate) type Change<'a> = (&'a Bytes, &'a Option<Value>);

/// A child as its parent will have it.
struct Child {
    low: Bytes,
    number: u64,
    /// Its entries, if they differ from those stored.
    changed: Option<Vec<Entry>>,
}

struct Work<'a, S> {
    source: &'a S,
    namespace: NamespaceId,
    numbers: Numbers,
    placement: Placement,
    /// Nodes to be written, with their levels; `None` for those to be removed.
    nodes: BTreeMap<u64, Option<(u8, Vec<Entry>)>>,
    records: Records,
}

fn no_key() -> Bytes {
    Bytes::from(&[][..])
}

/// What a node takes of the drive.
fn chunks_of(entries: &[Entry]) -> u64 {
    Footprint::of(bytes_of(entries)).chunks
}

impl<'a, S: Source> Work<'a, S> {
    fn new(source: &'a S, namespace: NamespaceId, numbers: Numbers) -> Work<'a, S> {
        let (nodes, records) = (BTreeMap::new(), Records::new());
        Work { source, namespace, numbers, placement: Placement::SmallHere, nodes, records }
    }

    fn damaged(&self) -> Failure {
        Failure::Node { namespace: self.namespace }
    }

    fn root(&mut self, changes: &[Change<'_>]) -> Result<(), Failure> {
        let (level, children) = match node_at(self.source, self.namespace, ROOT)? {
            Some(bytes) => {
                let level = Node::parse(&bytes).ok_or(self.damaged())?.level();
                (level, self.subtree(ROOT, level, no_key(), changes)?)
            }
            None => {
                let entries = self.merged(Vec::new(), changes);
                (0, self.pieces(ROOT, no_key(), 0, entries, true))
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
        low: Bytes,
        named: &mut HashSet<u64>,
    ) -> Result<Option<(u8, Child)>, Failure> {
        let bytes = match node_at(self.source, self.namespace, number) {
            Err(failure) if failure.is_damage() => None,
            found => found?,
        };
        let node = bytes.as_deref().and_then(Node::parse);
        let node = node.filter(|node| level.is_none_or(|level| node.level() == level));
        let Some((level, before)) = node.and_then(|node| Some((node.level(), node.entries(&low)?))) else {
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
                let child = self.readable(entry.child(), Some(level - 1), entry.key.clone(), named)?;
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
    fn raise(&mut self, mut level: u8, mut children: Vec<Child>) -> Result<(), Failure> {
        if let [Child { number: ROOT, changed, .. }] = &mut children[..] {
            return match changed.take() {
                Some(entries) => self.store_root(level, entries),
                None => Ok(()),
            };
        }
        while children.len() > 1 {
            let entries = self.store_children(level, children);
            level = level.checked_add(1).ok_or(self.damaged())?;
            let nodes = cut(entries, true);
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

    fn new_child(&mut self, entries: Vec<Entry>) -> Child {
        // the root, if it is the only one: then this number is not used
        Child { low: entries[0].key.clone(), number: ROOT, changed: Some(entries) }
    }

    /// Writes the root; a root with a single child is replaced by it.
    fn store_root(&mut self, mut level: u8, mut entries: Vec<Entry>) -> Result<(), Failure> {
        while level > 0 && entries.len() == 1 {
            let only = entries[0].child();
            (level, entries) = self.load(only, level, &no_key())?;
            self.nodes.insert(only, None);
        }
        assert!(level == 0 || entries.len() > 1, "the root is on level {level}, with {entries:?}");
        self.nodes.insert(ROOT, Some((level, entries)));
        Ok(())
    }

    /// The entries of a node, as it is stored or will be.
    fn load(&self, number: u64, above: u8, low: &Bytes) -> Result<(u8, Vec<Entry>), Failure> {
        if let Some(Some(node)) = self.nodes.get(&number) {
            return Ok(node.clone());
        }
        let bytes = node_at(self.source, self.namespace, number)?.ok_or(self.damaged())?;
        let node = Node::parse(&bytes).filter(|node| node.level() < above);
        let node = node.ok_or(self.damaged())?;
        Ok((node.level(), node.entries(low).ok_or(self.damaged())?))
    }

    /// Changes the subtree of a node. Returns the entries that its parent gets for it.
    fn subtree(
        &mut self,
        number: u64,
        level: u8,
        low: Bytes,
        changes: &[Change<'_>],
    ) -> Result<Vec<Child>, Failure> {
        let bytes = node_at(self.source, self.namespace, number)?.ok_or(self.damaged())?;
        let node = Node::parse(&bytes).filter(|node| node.level() == level).ok_or(self.damaged())?;
        let damaged = self.damaged();
        let (before, after) = if level == 0 {
            if self.changes_values_alone(node, changes).ok_or(damaged.clone())? {
                return Ok(vec![Child { low, number, changed: None }]);
            }
            let before = node.entries(&low).ok_or(damaged)?;
            (before.clone(), self.merged(before, changes))
        } else {
            let before = node.entries(&low).ok_or(damaged)?;
            let children = self.children(level, &before, changes)?;
            let after = self.store_children(level - 1, children);
            if after == before {
                return Ok(vec![Child { low, number, changed: None }]);
            }
            (before, after)
        };
        let appended = after.starts_with(&before);
        Ok(self.pieces(number, low, level, after, appended))
    }

    /// Whether a leaf keeps its keys, and all values that change lie apart; then only these are put.
    fn changes_values_alone(&mut self, leaf: Node<'_>, changes: &[Change<'_>]) -> Option<bool> {
        let mut numbers = Vec::with_capacity(changes.len());
        for (key, value) in changes {
            match (leaf.find(key)?, value) {
                (Some(Place::Apart(number)), Some(value)) if !self.placement.is_here(key, value) => {
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

    /// A leaf's entries with the changes applied; the new values are put.
    fn merged(&mut self, before: Vec<Entry>, changes: &[Change<'_>]) -> Vec<Entry> {
        let mut after = Vec::with_capacity(before.len() + changes.len());
        let mut before = before.into_iter().peekable();
        for (key, value) in changes {
            while let Some(entry) = before.next_if(|entry| entry.key < **key) {
                after.push(entry);
            }
            let old = before.next_if(|entry| entry.key == **key);
            let before = old.map(|old| old.place);
            if let Some(place) = self.placed(key, before, value) {
                after.push(Entry { key: (*key).clone(), place });
            }
        }
        after.extend(before);
        after
    }

    /// Where the new value of a key is; none if the key is deleted. What lies apart is put, or deleted.
    fn placed(
        &mut self,
        key: &[u8],
        before: Option<Place<Value>>,
        value: &Option<Value>,
    ) -> Option<Place<Value>> {
        let here = value.as_ref().filter(|value| self.placement.is_here(key, value));
        let number = match (before, here, value) {
            (Some(Place::Apart(number)), ..) => number,
            (_, None, Some(_)) => self.numbers.take(),
            (_, Some(here), _) => return Some(Place::Here(here.clone())),
            (_, None, None) => return None,
        };
        let apart = value.as_ref().filter(|_| here.is_none()).cloned();
        let is_apart = apart.is_some();
        self.records.push((value_name(self.namespace, number), apart));
        match here {
            Some(here) => Some(Place::Here(here.clone())),
            None => is_apart.then_some(Place::Apart(number)),
        }
    }

    /// Changes the subtree of an inner node. Returns its new children.
    fn children(
        &mut self,
        level: u8,
        entries: &[Entry],
        mut changes: &[Change<'_>],
    ) -> Result<Vec<Child>, Failure> {
        let mut children = Vec::with_capacity(entries.len());
        for (at, entry) in entries.iter().enumerate() {
            let (key, number) = (&entry.key, entry.child());
            let next = entries.get(at + 1).map(|next| &next.key);
            let here = changes.partition_point(|(key, _)| next.is_none_or(|next| *key < next));
            let (here, rest) = changes.split_at(here);
            changes = rest;
            if here.is_empty() {
                children.push(Child { low: key.clone(), number, changed: None });
            } else {
                children.extend(self.subtree(number, level - 1, key.clone(), here)?);
            }
        }
        self.merge_small(level - 1, children)
    }

    /// Merges changed children that have become small with a neighbour.
    fn merge_small(&mut self, level: u8, children: Vec<Child>) -> Result<Vec<Child>, Failure> {
        let is_small =
            |child: &Child| child.changed.as_ref().is_some_and(|all| bytes_of(all) < full_bytes(all) / 4);
        let mut merged: Vec<Child> = Vec::with_capacity(children.len());
        for child in children {
            match merged.pop() {
                Some(left) if is_small(&left) || is_small(&child) => {
                    let mut entries = self.entries_of(&left, level)?;
                    let right = self.entries_of(&child, level)?;
                    let apart = chunks_of(&entries) + chunks_of(&right);
                    entries.extend(right);
                    // a full store must be able to delete
                    if bytes_of(&entries) > full_bytes(&entries) * 3 / 4 || chunks_of(&entries) > apart {
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

    fn entries_of(&self, child: &Child, level: u8) -> Result<Vec<Entry>, Failure> {
        match &child.changed {
            Some(entries) => Ok(entries.clone()),
            None => match self.load(child.number, level + 1, &child.low)? {
                (found, entries) if found == level => Ok(entries),
                _ => Err(self.damaged()),
            },
        }
    }

    /// Writes the children that changed. Returns the entries of their parent.
    fn store_children(&mut self, level: u8, children: Vec<Child>) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(children.len());
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

    /// The nodes into which a node is split; none if it is empty.
    fn pieces(
        &mut self,
        number: u64,
        low: Bytes,
        level: u8,
        entries: Vec<Entry>,
        appended: bool,
    ) -> Vec<Child> {
        if entries.is_empty() {
            self.nodes.insert(number, None);
            return Vec::new();
        }
        let mut children: Vec<Child> = Vec::new();
        for entries in cut(entries, appended) {
            let (low, number) = match children.last().and_then(|before| before.changed.as_ref()?.last()) {
                None => (low.clone(), number),
                Some(last) if level == 0 => (separator(&last.key, &entries[0].key), self.numbers.take()),
                Some(_) => (entries[0].key.clone(), self.numbers.take()),
            };
            children.push(Child { low, number, changed: Some(entries) });
        }
        children
    }
}
