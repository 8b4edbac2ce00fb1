//! The records of a range, in the order of their keys, from both ends.

use std::collections::VecDeque;
use std::ops::Bound;

use tantalum::NamespaceId;

use crate::age::Mode;
use crate::error::Error;
use crate::keys::KeyRange;
use crate::record::{Bytes, Value};
use crate::spans::begins_within;

/// The number of keys fetched first, and the most fetched at once.
const FIRST_KEYS: usize = 4;
const MOST_KEYS: usize = 256;

/// Where the value of a key comes from.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    /// A change of the transaction.
    Own(Value),
    /// The record of this number.
    Number(u64),
}

/// Keys from one end of a range.
pub(crate) struct Batch {
    /// In the order of the keys, or backwards.
    pub entries: Vec<(Bytes, Found)>,
    /// What comes after them is lost.
    pub lost: Option<Error>,
    /// The rest of the range.
    pub rest: Option<KeyRange>,
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

/// The keys and values of a range; [`Iterator::rev`] gives them backwards. A transaction locks what was iterated over,
/// and at most 255 keys beyond. The iterator ends after an error, unless that says that some records are lost
/// ([`Error::is_damage`]): then it goes on behind them.
pub struct Range<'a> {
    scan: Box<dyn Scan + 'a>,
    namespace: NamespaceId,
    /// The part not read yet.
    rest: Option<KeyRange>,
    front: VecDeque<Result<(Bytes, Found), Error>>,
    /// From the end of the range, backwards.
    back: VecDeque<Result<(Bytes, Found), Error>>,
    limit: usize,
    mode: Mode,
}

impl<'a> Range<'a> {
    pub(crate) fn new(scan: impl Scan + 'a, namespace: NamespaceId, range: KeyRange) -> Range<'a> {
        let rest = begins_within(&range.0, &range.1).then_some(range);
        let (front, back) = (VecDeque::new(), VecDeque::new());
        Range { scan: Box::new(scan), namespace, rest, front, back, limit: FIRST_KEYS, mode: Mode::Shared }
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

    fn step(&mut self, backwards: bool) -> Result<Option<(Bytes, Found)>, Error> {
        loop {
            let (near, far) = match backwards {
                false => (&mut self.front, &mut self.back),
                true => (&mut self.back, &mut self.front),
            };
            if let Some(entry) = near.pop_front() {
                return entry.map(Some);
            }
            let Some(range) = self.rest.take() else { return far.pop_back().transpose() };
            let batch = self.scan.batch(self.namespace, range, backwards, self.limit, self.mode)?;
            self.limit = (self.limit * 4).min(MOST_KEYS);
            self.rest = batch.rest.filter(|(from, to)| begins_within(from, to));
            near.extend(batch.entries.into_iter().map(Ok).chain(batch.lost.map(Err)));
        }
    }

    fn entry(&mut self, backwards: bool) -> Result<Option<(Bytes, Value)>, Error> {
        let Some((key, found)) = self.step(backwards)? else { return Ok(None) };
        let value = match found {
            Found::Own(value) => value,
            Found::Number(number) => {
                self.scan.value(self.namespace, number).map_err(|error| error.of_key(&key))?
            }
        };
        Ok(Some((key, value)))
    }

    /// Ends after an error, unless it can go on behind it.
    fn or_end<T>(&mut self, entry: Result<Option<T>, Error>) -> Option<Result<T, Error>> {
        if entry.as_ref().is_err_and(|error| !error.is_damage()) {
            self.rest = None;
            self.front.clear();
            self.back.clear();
        }
        entry.transpose()
    }
}

impl Iterator for Range<'_> {
    type Item = Result<(Bytes, Value), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.entry(false);
        self.or_end(entry)
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = self.entry(true);
        self.or_end(entry)
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
}

impl Iterator for Keys<'_> {
    type Item = Result<Bytes, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.range.step(false);
        self.range.or_end(entry.map(|entry| entry.map(|(key, _)| key)))
    }
}

impl DoubleEndedIterator for Keys<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = self.range.step(true);
        self.range.or_end(entry.map(|entry| entry.map(|(key, _)| key)))
    }
}
