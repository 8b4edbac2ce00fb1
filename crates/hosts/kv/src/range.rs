//! The records of a range, in the order of their keys, from both ends.

use std::collections::VecDeque;
use std::ops::Bound;

use tantalum::NamespaceId;

use crate::age::Mode;
use crate::cache::MOST_AT_ONCE;
use crate::error::Error;
use crate::keys::KeyRange;
use crate::record::{Bytes, Name, Value};
use crate::spans::begins_within;
use crate::tree::{PageEntry, Piece, Place, value_name};

/// The number of keys fetched first, and the most fetched at once.
const FIRST_KEYS: usize = 16;
const MOST_KEYS: usize = 256;

/// A record of a batch.
#[derive(Debug)]
pub(crate) enum Item {
    /// In a leaf of the batch.
    InLeaf(PageEntry),
    /// A change of the transaction.
    Own(Bytes, Value),
    /// What is lost here.
    Lost(Box<Error>),
}

/// Records from one end of a range.
pub(crate) struct Batch {
    /// The leaves that records are in.
    pub leaves: Vec<Value>,
    /// In the order of the keys, or backwards.
    pub entries: VecDeque<Item>,
    /// What comes after them is lost.
    pub lost: Option<Error>,
    /// The rest of the range.
    pub rest: Option<KeyRange>,
}

/// Records that were fetched from one end of a range, and not used yet.
#[derive(Default)]
struct Fetched {
    leaves: Vec<Value>,
    items: VecDeque<Item>,
    /// The numbers of values of the next records that lie apart; and those that were in the cache.
    values: VecDeque<(u64, Option<Value>)>,
}

impl Fetched {
    /// The numbers of values that lie apart, of the next records.
    fn numbers(&self) -> impl Iterator<Item = u64> {
        self.items.iter().map_while(|item| match item {
            Item::InLeaf(PageEntry { place: Place::Apart(number), .. }) => Some(*number),
            _ => None,
        })
    }

    /// Takes the next record, if its value lies apart and was looked up and found.
    fn pop_cached(&mut self) -> Option<(u32, Piece, Value)> {
        let Some(Item::InLeaf(PageEntry { leaf, key, place: Place::Apart(number) })) = self.items.front()
        else {
            return None;
        };
        let value = match self.values.front_mut() {
            Some((found, value)) if found == number => value.take()?,
            _ => return None,
        };
        let found = (*leaf, *key, value);
        self.values.pop_front();
        self.items.pop_front();
        Some(found)
    }

    /// Takes the next record, if its value is in the leaf too: the number of the leaf, and the pieces of it.
    fn pop_here(&mut self) -> Option<(u32, Piece, Piece)> {
        match self.items.front() {
            Some(Item::InLeaf(PageEntry { leaf, key, place: Place::Here(value) })) => {
                let found = (*leaf, *key, *value);
                self.items.pop_front();
                Some(found)
            }
            _ => None,
        }
    }
}

/// A record, as it was found.
enum Current {
    InLeaf { leaf: Value, key: Piece, value: Piece },
    Apart { leaf: Value, key: Piece, value: Value },
    Own(Bytes, Value),
}

impl Current {
    fn borrowed(&self) -> Lent<'_> {
        match self {
            Current::InLeaf { leaf, key, value } => (key.of_leaf(leaf), value.of_leaf(leaf)),
            Current::Apart { leaf, key, value } => (key.of_leaf(leaf), value),
            Current::Own(key, value) => (key, value),
        }
    }

    fn owned(self) -> (Bytes, Value) {
        match self {
            Current::InLeaf { leaf, key, value } => (key.of_leaf(&leaf).into(), value.of_leaf(&leaf).into()),
            Current::Apart { leaf, key, value } => (key.of_leaf(&leaf).into(), value),
            Current::Own(key, value) => (key, value),
        }
    }
}

/// Readers of ranges: transactions and snapshots.
pub(crate) trait Scan {
    /// About `limit` keys from one end of a range.
    fn batch(
        &mut self,
        namespace: NamespaceId,
        range: KeyRange,
        backwards: bool,
        limit: usize,
        mode: Mode,
    ) -> Result<Batch, Error>;

    /// Values of keys that were found, for each of which `found` is called in order: none for those that are not simply in the cache.
    fn cached(&mut self, names: &[Name], found: &mut dyn FnMut(Option<Value>)) -> Result<(), Error>;

    /// The value of a key that was found.
    fn value(&mut self, namespace: NamespaceId, number: u64) -> Result<Value, Error>;
}

impl<T: Scan + ?Sized> Scan for &mut T {
    fn batch(
        &mut self,
        namespace: NamespaceId,
        range: KeyRange,
        backwards: bool,
        limit: usize,
        mode: Mode,
    ) -> Result<Batch, Error> {
        (**self).batch(namespace, range, backwards, limit, mode)
    }

    fn cached(&mut self, names: &[Name], found: &mut dyn FnMut(Option<Value>)) -> Result<(), Error> {
        (**self).cached(names, found)
    }

    fn value(&mut self, namespace: NamespaceId, number: u64) -> Result<Value, Error> {
        (**self).value(namespace, number)
    }
}

/// Some records of a range ([`Range::part`]).
pub struct Part {
    /// In the order of the iteration.
    pub records: Vec<(Bytes, Value)>,
    /// What happened after them, if anything did.
    pub error: Option<Error>,
    /// The rest of the range, if there may be more; after damage, what is behind it.
    pub rest: Option<(Bound<Bytes>, Bound<Bytes>)>,
}

/// A key and its value, borrowed ([`Range::lend`]).
pub type Lent<'a> = (&'a [u8], &'a [u8]);

/// The keys and values of a range; [`Iterator::rev`] gives them backwards. A transaction locks what was iterated over,
/// and at most 255 keys beyond. The iterator ends after an error, unless that says that some records are lost
/// ([`Error::is_damage`]): then it goes on behind them.
pub struct Range<'a> {
    scan: Box<dyn Scan + 'a>,
    namespace: NamespaceId,
    /// The part not read yet.
    rest: Option<KeyRange>,
    front: Fetched,
    /// From the end of the range, backwards.
    back: Fetched,
    /// The record that is lent.
    lent: Option<Current>,
    /// The value that is lent, of a record in `front` or `back`.
    lent_value: Option<Value>,
    limit: usize,
    mode: Mode,
}

impl<'a> Range<'a> {
    pub(crate) fn new(scan: impl Scan + 'a, namespace: NamespaceId, range: KeyRange) -> Range<'a> {
        let rest = begins_within(&range.0, &range.1).then_some(range);
        let (front, back) = (Fetched::default(), Fetched::default());
        let (scan, limit, mode) = (Box::new(scan), FIRST_KEYS, Mode::Shared);
        Range { scan, namespace, rest, front, back, lent: None, lent_value: None, limit, mode }
    }

    /// Locks what is iterated over exclusively: two transactions that are about to change it wait for each other here,
    /// instead of giving way later. A snapshot has no locks, and ignores this.
    pub fn for_update(mut self) -> Range<'a> {
        self.mode = Mode::Exclusive;
        self
    }

    /// Only the keys; values are not read.
    pub fn keys(self) -> Keys<'a> {
        Keys { range: self }
    }

    /// The first records, or the last ones, for callers that cannot hold an iterator, such as other languages. `bounds` are
    /// those of the range.
    pub fn part(
        mut self,
        bounds: (Bound<Bytes>, Bound<Bytes>),
        most_records: usize,
        backwards: bool,
    ) -> Part {
        let (from, to) = bounds;
        let mut records: Vec<(Bytes, Value)> = Vec::new();
        let behind = |key: &[u8]| {
            let key = Bound::Excluded(Bytes::from(key));
            if backwards { (from.clone(), key) } else { (key, to.clone()) }
        };
        while records.len() < most_records {
            match if backwards { self.next_back() } else { self.next() } {
                Some(Ok(record)) => records.push(record),
                None => return Part { records, error: None, rest: None },
                Some(Err(error)) => {
                    let rest = match &error {
                        Error::Damaged { key, .. } => Some(behind(key)),
                        Error::DamagedIndex { from: first, .. } if backwards && !first.is_empty() => {
                            Some(behind(first))
                        }
                        Error::DamagedIndex { to: Some(end), .. } if !backwards => {
                            Some((Bound::Included(Bytes::from(&end[..])), to.clone()))
                        }
                        _ => None,
                    };
                    return Part { records, error: Some(error), rest };
                }
            }
        }
        let rest = records.last().map(|(key, _)| behind(key));
        Part { records, error: None, rest }
    }

    /// The next record, borrowed until the one after it is asked for: it is not copied. For the rest this is
    /// [`Iterator::next`].
    ///
    /// ```
    /// # fn main() -> Result<(), tantalum_kv::Error> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = tantalum_kv::Store::open(&folder.path().join("app.tant"))?;
    /// # let events = store.namespace("events")?;
    /// # store.transact(|tx| ["may", "june"].iter().try_for_each(|key| tx.put(events, key, b"1234")))?;
    /// let snapshot = store.snapshot()?;
    /// let (mut all, mut bytes) = (snapshot.all(events)?, 0);
    /// while let Some(record) = all.lend() {
    ///     let (key, value) = record?;
    ///     bytes += key.len() + value.len();
    /// }
    /// assert_eq!(bytes, 15);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lend(&mut self) -> Option<Result<Lent<'_>, Error>> {
        self.lend_from(false)
    }

    /// The same from the end of the range.
    pub fn lend_back(&mut self) -> Option<Result<Lent<'_>, Error>> {
        self.lend_from(true)
    }

    fn lend_from(&mut self, backwards: bool) -> Option<Result<Lent<'_>, Error>> {
        let here = if backwards { self.back.pop_here() } else { self.front.pop_here() };
        if let Some((leaf, key, value)) = here {
            let near = if backwards { &self.back } else { &self.front };
            let leaf = &near.leaves[leaf as usize];
            return Some(Ok((key.of_leaf(leaf), value.of_leaf(leaf))));
        }
        // the same of a value that lies apart and was looked up
        let cached = if backwards { self.back.pop_cached() } else { self.front.pop_cached() };
        if let Some((leaf, key, value)) = cached {
            let value = self.lent_value.insert(value);
            let near = if backwards { &self.back } else { &self.front };
            return Some(Ok((key.of_leaf(&near.leaves[leaf as usize]), value)));
        }
        let entry = self.entry(backwards);
        match self.or_end(entry)? {
            Ok(current) => Some(Ok(self.lent.insert(current).borrowed())),
            Err(error) => Some(Err(error)),
        }
    }

    /// The next record, and a share of the leaf that it is in.
    fn step(&mut self, backwards: bool) -> Result<Option<(Item, Option<Value>)>, Error> {
        loop {
            let (near, far) = match backwards {
                false => (&mut self.front, &mut self.back),
                true => (&mut self.back, &mut self.front),
            };
            let (item, leaves) = match (near.items.pop_front(), &self.rest) {
                (Some(item), _) => (Some(item), &near.leaves),
                (None, None) => (far.items.pop_back(), &far.leaves),
                (None, Some(_)) => (None, &near.leaves),
            };
            match item {
                Some(Item::Lost(error)) => return Err(*error),
                Some(item) => {
                    let leaf = match &item {
                        Item::InLeaf(entry) => Some(leaves[entry.leaf as usize].clone()),
                        _ => None,
                    };
                    return Ok(Some((item, leaf)));
                }
                None => {}
            }
            let Some(range) = self.rest.take() else { return Ok(None) };
            let batch = self.scan.batch(self.namespace, range, backwards, self.limit, self.mode)?;
            self.limit = (self.limit * 4).min(MOST_KEYS);
            self.rest = batch.rest.filter(|(from, to)| begins_within(from, to));
            *near = Fetched { leaves: batch.leaves, items: batch.entries, values: VecDeque::new() };
            near.items.extend(batch.lost.map(|error| Item::Lost(error.into())));
        }
    }

    fn entry(&mut self, backwards: bool) -> Result<Option<Current>, Error> {
        let (entry, leaf) = match self.step(backwards)? {
            Some((Item::InLeaf(entry), Some(leaf))) => (entry, leaf),
            Some((Item::Own(key, value), _)) => return Ok(Some(Current::Own(key, value))),
            Some((item, _)) => unreachable!("{item:?} is in no leaf"),
            None => return Ok(None),
        };
        let key = entry.key;
        Ok(Some(match entry.place {
            Place::Here(value) => Current::InLeaf { leaf, key, value },
            Place::Apart(number) => {
                let value = self.value(number, backwards);
                let value = value.map_err(|error| error.of_key(key.of_leaf(&leaf)))?;
                Current::Apart { leaf, key, value }
            }
        }))
    }

    /// The value of a record that lies apart. Those of the next records are looked up with it.
    fn value(&mut self, number: u64, backwards: bool) -> Result<Value, Error> {
        let near = if backwards { &mut self.back } else { &mut self.front };
        if near.values.front().is_none_or(|(next, _)| *next != number) {
            let (mut numbers, mut count) = ([number; MOST_AT_ONCE], 1);
            for (place, number) in numbers[1..].iter_mut().zip(near.numbers()) {
                (*place, count) = (number, count + 1);
            }
            let names = numbers.map(|number| value_name(self.namespace, number));
            near.values.clear();
            let (values, mut numbers) = (&mut near.values, numbers.iter());
            let mut found = |value| values.extend(numbers.next().map(|number| (*number, value)));
            self.scan.cached(&names[..count], &mut found)?;
        }
        match near.values.pop_front() {
            Some((_, Some(value))) => Ok(value),
            _ => self.scan.value(self.namespace, number),
        }
    }

    /// Ends after an error, unless it can go on behind it.
    fn or_end<T>(&mut self, entry: Result<Option<T>, Error>) -> Option<Result<T, Error>> {
        if entry.as_ref().is_err_and(|error| !error.is_damage()) {
            self.rest = None;
            (self.front, self.back) = (Fetched::default(), Fetched::default());
        }
        entry.transpose()
    }
}

impl Iterator for Range<'_> {
    type Item = Result<(Bytes, Value), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entry(false);
        self.or_end(entry.map(|entry| entry.map(Current::owned)))
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = self.entry(true);
        self.or_end(entry.map(|entry| entry.map(Current::owned)))
    }
}

/// The keys of a range.
pub struct Keys<'a> {
    range: Range<'a>,
}

impl Keys<'_> {
    /// Locks what is iterated over exclusively, as [`Range::for_update`] does.
    pub fn for_update(self) -> Self {
        Keys { range: self.range.for_update() }
    }

    fn key(&mut self, backwards: bool) -> Option<Result<Bytes, Error>> {
        let entry = self.range.step(backwards);
        let key = |(item, leaf): (Item, Option<Value>)| match (item, leaf) {
            (Item::InLeaf(entry), Some(leaf)) => entry.key.of_leaf(&leaf).into(),
            (Item::Own(key, _), _) => key,
            (item, _) => unreachable!("{item:?} is in no leaf"),
        };
        self.range.or_end(entry.map(|entry| entry.map(key)))
    }
}

impl Iterator for Keys<'_> {
    type Item = Result<Bytes, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.key(false)
    }
}

impl DoubleEndedIterator for Keys<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.key(true)
    }
}
