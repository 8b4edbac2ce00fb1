//! Ranges of ordered namespaces as a transaction sees them: committed records with its own changes.
//!
//! A range is locked up to the last key found before that key is used, and read again if somebody has committed
//! meanwhile. So what a scan returns is exactly what the range contains, until the transaction ends.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Bound, RangeBounds};

use tantalum::NamespaceId;
use tantalum_canaries::guard;

use super::Transaction;
use crate::age::Mode;
use crate::error::Error;
use crate::failure::Failure;
use crate::keys::{KeyRange, borrowed, prefix_range, range_of};
use crate::range::{Batch, Item, Range, Scan};
use crate::record::{Bytes, Name, Namespace, Order, Value};
use crate::spans::Extent;
use crate::tree::{Page, page, value_name};

impl Transaction {
    /// The records of a range of an ordered namespace.
    ///
    /// ```
    /// # fn main() -> Result<(), tantalum_kv::Error> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.tant");
    /// let store = tantalum_kv::Store::open(&path)?;
    /// let events = store.namespace("events")?;
    /// store.transact(|tx| ["may", "june", "july"].iter().try_for_each(|key| tx.put(events, key, b"1")))?;
    /// let mut tx = store.begin()?;
    /// let keys: Result<Vec<_>, _> = tx.range(events, "july".."june")?.keys().collect();
    /// assert_eq!(keys?, [(*b"july").into()]);
    /// let last = tx.all(events)?.next_back().transpose()?;
    /// assert_eq!(&last.unwrap().0[..], b"may");
    /// # Ok(())
    /// # }
    /// ```
    pub fn range<K: AsRef<[u8]>>(
        &mut self,
        namespace: Namespace,
        range: impl RangeBounds<K>,
    ) -> Result<Range<'_>, Error> {
        self.range_in(namespace, range_of(&range))
    }

    /// The records of an ordered namespace whose keys begin with these bytes.
    pub fn prefix(&mut self, namespace: Namespace, prefix: impl AsRef<[u8]>) -> Result<Range<'_>, Error> {
        self.range_in(namespace, prefix_range(prefix.as_ref()))
    }

    /// All records of an ordered namespace.
    pub fn all(&mut self, namespace: Namespace) -> Result<Range<'_>, Error> {
        self.range_in(namespace, (Bound::Unbounded, Bound::Unbounded))
    }

    fn range_in(&mut self, namespace: Namespace, range: KeyRange) -> Result<Range<'_>, Error> {
        self.shared.expect_order(namespace.0, Order::Ordered)?;
        Ok(Range::new(self, namespace.0, range))
    }

    /// The committed records in a range, and how much had been put at that time.
    fn committed(
        &self,
        namespace: NamespaceId,
        range: &KeyRange,
        backwards: bool,
        limit: usize,
    ) -> Result<(Page, u64), Error> {
        let stable = self.shared.drive.stable();
        let puts = stable.puts();
        let found = page(&stable, namespace, borrowed(range), backwards, limit);
        drop(stable);
        Ok((found.map_err(|failure| self.shared.failed(failure))?, puts))
    }

    fn lock_range(&mut self, namespace: NamespaceId, range: &KeyRange, mode: Mode) -> Result<(), Error> {
        let extent = Extent::Range(range.0.clone(), range.1.clone());
        self.ordered.entry(namespace).or_default();
        let acquired = self.shared.locks.acquire_span(self.requester(), namespace, extent, mode);
        let first = match &range.0 {
            Bound::Included(key) | Bound::Excluded(key) => &key[..],
            Bound::Unbounded => &[],
        };
        acquired.map_err(|why| self.refused(why, first))
    }

    /// Merges this transaction's changes into the committed records of a range.
    fn with_own(
        &self,
        namespace: NamespaceId,
        range: &KeyRange,
        backwards: bool,
        committed: Page,
    ) -> (Vec<Value>, VecDeque<Item>) {
        let own = self.ordered.get(&namespace).into_iter();
        let own = own.flat_map(|keys| keys.range::<[u8], _>(borrowed(range)));
        let mut own = own.filter_map(|(key, held)| Some((key, held.change.as_ref()?))).peekable();
        if own.peek().is_none() {
            return (committed.leaves, committed.entries.into_iter().map(Item::InLeaf).collect());
        }
        let mut all: BTreeMap<Bytes, Item> = committed
            .entries
            .iter()
            .map(|entry| (committed.key(entry).into(), Item::InLeaf(entry.clone())))
            .collect();
        for (key, value) in own {
            match value {
                Some(value) => {
                    let key = Bytes::from(&key[..]);
                    all.insert(key.clone(), Item::Own(key, value.clone()));
                }
                None => drop(all.remove(&key[..])),
            }
        }
        let items = all.into_values();
        (committed.leaves, if backwards { items.rev().collect() } else { items.collect() })
    }
}

/// Splits a range after a key.
fn divide(range: KeyRange, backwards: bool, at: &Bytes) -> (KeyRange, KeyRange) {
    let (from, to) = range;
    let (key, beyond) = (Bound::Included(at.clone()), Bound::Excluded(at.clone()));
    match backwards {
        false => ((from, key), (beyond, to)),
        true => ((key, to), (from, beyond)),
    }
}

impl Scan for Transaction {
    fn batch(
        &mut self,
        namespace: NamespaceId,
        range: KeyRange,
        backwards: bool,
        limit: usize,
        mode: Mode,
    ) -> Result<Batch, Error> {
        self.check_open(namespace)?;
        let (mut found, puts) = self.committed(namespace, &range, backwards, limit)?;
        let (range, rest) = match (&found.gap, found.last()) {
            (Some(gap), _) => gap.divide(range, backwards),
            (None, Some(last)) => {
                let (range, rest) = divide(range, backwards, &last.into());
                (range, Some(rest))
            }
            (None, None) => (range, None),
        };
        guard!(RangeNotLocked, self.lock_range(namespace, &range, mode)?);
        if guard!(NotReadAgain, self.shared.drive.stable().puts() != puts) {
            found = self.committed(namespace, &range, backwards, usize::MAX)?.0;
            assert!(
                found.is_all || found.gap.is_some(),
                "{} keys of a range are not all that it has, and none is lost",
                found.entries.len()
            );
        }
        let lost = found.gap.take().map(|gap| self.shared.failed(Failure::Lost { namespace, gap }));
        let (leaves, entries) = self.with_own(namespace, &range, backwards, found);
        Ok(Batch { leaves, entries, lost, rest })
    }

    fn cached(&mut self, names: &[Name], found: &mut dyn FnMut(Option<Value>)) -> Result<(), Error> {
        self.shared.drive.cached_in_scan(names, found);
        Ok(())
    }

    fn value(&mut self, namespace: NamespaceId, number: u64) -> Result<Value, Error> {
        let name = value_name(namespace, number);
        let found = self.shared.stored_in_scan(name, &mut self.now_ns)?;
        let stored = found.ok_or_else(|| self.shared.failed(Failure::missing(name)))?;
        self.shared.whole(stored, &mut self.now_ns)
    }
}
