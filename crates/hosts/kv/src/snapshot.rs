//! A snapshot: the committed state at one time. It reads without locks, so it blocks no writer and no writer blocks it.
//!
//! What commits overwrite while it is open is kept in memory ([`crate::Options::snapshot_bytes`]).

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use tantalum::{Key, NamespaceId};

use crate::age::Mode;
use crate::catalog::Names;
use crate::error::Error;
use crate::failure::Failure;
use crate::keys::{KeyRange, borrowed, check_ordered_key, hashed_key, prefix_range, range_of};
use crate::large::Stored;
use crate::range::{Batch, Item, Range, Scan};
use crate::record::{Name, Namespace, Order, Value};
use crate::record_store::Past;
use crate::shared::Shared;
use crate::tree::{Place, find, page, value_name};
use crate::versions::AsOf;

/// A snapshot of a store ([`crate::Store::snapshot`]). It keeps the store open. Deleting a namespace deletes it for
/// snapshots too.
pub struct Snapshot {
    shared: Arc<Shared>,
    at: AsOf,
    names: Names,
}

impl Snapshot {
    pub(crate) fn open(shared: Arc<Shared>) -> Result<Snapshot, Error> {
        let (at, names) = shared.open_snapshot()?;
        Ok(Snapshot { shared, at, names })
    }

    /// The names of all namespaces, with their kinds.
    pub fn namespaces(&self) -> impl Iterator<Item = (&str, Namespace, Order)> {
        self.names.iter().map(|(name, (namespace, order))| (&name[..], Namespace(*namespace), *order))
    }

    /// Reads a record; none if it did not exist.
    pub fn read(&self, namespace: Namespace, key: impl AsRef<[u8]>) -> Result<Option<Value>, Error> {
        let key = key.as_ref();
        let Some(stored) = self.stored(namespace, key)? else { return Ok(None) };
        self.whole(stored).map(Some).map_err(|error| error.of_key(key))
    }

    /// The number of bytes of a record's value; none if it did not exist.
    pub fn value_bytes(&self, namespace: Namespace, key: impl AsRef<[u8]>) -> Result<Option<u64>, Error> {
        Ok(self.stored(namespace, key.as_ref())?.map(|stored| stored.bytes()))
    }

    /// Copies the bytes of a record's value from an offset on into a buffer ([`crate::Transaction::read_at`]).
    pub fn read_at(
        &self,
        namespace: Namespace,
        key: impl AsRef<[u8]>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<Option<usize>, Error> {
        let key = key.as_ref();
        let Some(stored) = self.stored(namespace, key)? else { return Ok(None) };
        let read = stored.read_at(offset, buffer, |large, part| self.past(|past| past.part(large, part)));
        read.map(Some).map_err(|error| error.of_key(key))
    }

    /// A value as it is stored.
    fn stored(&self, namespace: Namespace, key: &[u8]) -> Result<Option<Stored>, Error> {
        match self.shared.order_of(namespace.0)? {
            Order::Hashed => {
                let name = (namespace.0, hashed_key(key)?);
                self.past(|past| past.stored(name))
            }
            Order::Ordered => {
                check_ordered_key(key)?;
                let found = self.past(|past| match find(past, namespace.0, key, |value| value.into())? {
                    Some(Place::Here(value)) => Ok(Some(Stored::Whole(value))),
                    Some(Place::Apart(number)) => present(past, namespace.0, number).map(Some),
                    None => Ok(None),
                });
                found.map_err(|error| error.of_key(key))
            }
        }
    }

    /// The whole of a value. Others may commit between its parts.
    fn whole(&self, stored: Stored) -> Result<Value, Error> {
        stored.whole(|large, part| self.past(|past| past.part(large, part)))
    }

    /// At most `limit` keys of a hashed namespace, as [`crate::Store::list`] gives them.
    pub fn list(&self, namespace: Namespace, from: Option<&[u8]>, limit: usize) -> Result<Vec<Key>, Error> {
        self.shared.expect_order(namespace.0, Order::Hashed)?;
        let mut from = from.map(hashed_key).transpose()?;
        let mut keys: Vec<Key> = Vec::new();
        while keys.len() < limit {
            // the first key may be the last of the previous batch
            let at_once = (limit - keys.len()).saturating_add(1);
            let (found, last) = self.past(|past| past.list(namespace.0, from.as_ref(), at_once))?;
            let before = keys.last().copied();
            keys.extend(found.into_iter().filter(|key| Some(*key) != before));
            match last {
                Some(last) => from = Some(last),
                None => break,
            }
        }
        debug_assert!(
            keys.is_sorted_by(|a, b| a.listing_order() < b.listing_order()),
            "{:?} lists keys of {namespace:?} out of order, or twice",
            self.at
        );
        keys.truncate(limit);
        Ok(keys)
    }

    /// The records of a range of an ordered namespace.
    pub fn range<K: AsRef<[u8]>>(
        &self,
        namespace: Namespace,
        range: impl RangeBounds<K>,
    ) -> Result<Range<'_>, Error> {
        self.range_in(namespace, range_of(&range))
    }

    /// The records of an ordered namespace whose keys begin with these bytes.
    pub fn prefix(&self, namespace: Namespace, prefix: impl AsRef<[u8]>) -> Result<Range<'_>, Error> {
        self.range_in(namespace, prefix_range(prefix.as_ref()))
    }

    /// All records of an ordered namespace.
    pub fn all(&self, namespace: Namespace) -> Result<Range<'_>, Error> {
        self.range_in(namespace, (Bound::Unbounded, Bound::Unbounded))
    }

    fn range_in(&self, namespace: Namespace, range: KeyRange) -> Result<Range<'_>, Error> {
        self.shared.expect_order(namespace.0, Order::Ordered)?;
        Ok(Range::new(self, namespace.0, range))
    }

    /// Reads the state of the snapshot.
    fn past<T>(&self, work: impl FnOnce(&Past<'_>) -> Result<T, Failure>) -> Result<T, Error> {
        self.shared.check_process()?;
        let found = self.shared.drive.stable().past(self.at).and_then(|past| work(&past));
        found.map_err(|failure| self.shared.failed(failure))
    }
}

impl Scan for &Snapshot {
    fn batch(
        &mut self,
        namespace: NamespaceId,
        range: KeyRange,
        backwards: bool,
        limit: usize,
        _mode: Mode,
    ) -> Result<Batch, Error> {
        let found = self.past(|past| page(past, namespace, borrowed(&range), backwards, limit))?;
        let rest = match (&found.gap, found.last()) {
            (Some(gap), _) => gap.divide(range, backwards).1,
            (None, Some(last)) => {
                let last = Bound::Excluded(last.into());
                Some(if backwards { (range.0, last) } else { (last, range.1) })
            }
            (None, None) => None,
        };
        let lost = found.gap.map(|gap| self.shared.failed(Failure::Lost { namespace, gap }));
        Ok(Batch {
            leaves: found.leaves,
            entries: found.entries.into_iter().map(Item::InLeaf).collect(),
            lost,
            rest,
        })
    }

    fn cached(&mut self, names: &[Name], found: &mut dyn FnMut(Option<Value>)) -> Result<(), Error> {
        self.past(|past| {
            past.cached_in_scan(names, found);
            Ok(())
        })
    }

    fn value(&mut self, namespace: NamespaceId, number: u64) -> Result<Value, Error> {
        let name = value_name(namespace, number);
        let stored = self.past(|past| past.stored_in_scan(name)?.ok_or_else(|| Failure::missing(name)))?;
        self.whole(stored)
    }
}

/// A value that the tree names; one that is not there is lost.
fn present(past: &Past<'_>, namespace: NamespaceId, number: u64) -> Result<Stored, Failure> {
    let name = value_name(namespace, number);
    past.stored(name)?.ok_or_else(|| Failure::missing(name))
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // a forked process must not touch the parent's snapshots
        if self.shared.check_process().is_ok() {
            self.shared.drive.close_snapshot(self.at);
        }
    }
}
