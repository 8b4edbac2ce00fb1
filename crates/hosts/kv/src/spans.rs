//! Locks in an ordered namespace: on keys, and on ranges of keys whether or not they exist. No key appears in or
//! disappears from a locked range, so scans see no phantoms.
//!
//! Requests are granted in their order where they conflict. A transaction that already holds a lock overlapping its
//! request does not wait for those in the queue, since they may be waiting for it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::Arc;

use tantalum_canaries::guard;

use crate::age::{Age, Mode, Requester, conflict};
use crate::ordered_key::OrderedKey;
use crate::record::Bytes;
use crate::wake::Wake;

/// What is locked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    Point(OrderedKey),
    /// Never empty: `from` is not after `to`.
    Range(Bound<Bytes>, Bound<Bytes>),
}

impl Extent {
    fn has(&self, key: &[u8]) -> bool {
        match self {
            Extent::Point(point) => **point == *key,
            Extent::Range(from, to) => is_within(key, from, to),
        }
    }

    fn overlaps(&self, other: &Extent) -> bool {
        match (self, other) {
            (Extent::Point(key), extent) | (extent, Extent::Point(key)) => extent.has(key),
            (Extent::Range(from, to), Extent::Range(other_from, other_to)) => {
                begins_within(from, other_to) && begins_within(other_from, to)
            }
        }
    }
}

fn is_within(key: &[u8], from: &Bound<Bytes>, to: &Bound<Bytes>) -> bool {
    let after = match from {
        Bound::Included(from) => key >= &from[..],
        Bound::Excluded(from) => key > &from[..],
        Bound::Unbounded => true,
    };
    let before = match to {
        Bound::Included(to) => key <= &to[..],
        Bound::Excluded(to) => key < &to[..],
        Bound::Unbounded => true,
    };
    after && before
}

/// Whether a range that begins at `from` begins before the end of one that ends at `to`.
pub(crate) fn begins_within(from: &Bound<Bytes>, to: &Bound<Bytes>) -> bool {
    match (from, to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Included(from), Bound::Included(to)) => from <= to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
            from < to
        }
    }
}

struct Held {
    by: Requester,
    mode: Mode,
    extent: Extent,
}

pub(crate) struct SpanWaiter {
    pub by: Requester,
    pub wake: Arc<Wake>,
    mode: Mode,
    extent: Extent,
}

/// Who holds the lock of a key: mostly one transaction, for which nothing is allocated.
struct Holders {
    first: (Requester, Mode),
    others: Vec<(Requester, Mode)>,
}

impl Holders {
    fn all(&self) -> impl Iterator<Item = (Requester, Mode)> + '_ {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }

    /// Adds one, or what it holds in addition.
    fn add(&mut self, by: Requester, mode: Mode) {
        let mut all = std::iter::once(&mut self.first).chain(&mut self.others);
        match all.find(|holder| holder.0.age == by.age) {
            Some(holder) => *holder = (by, holder.1.max(mode)),
            None => self.others.push((by, mode)),
        }
    }

    /// Those without one; none if nobody is left.
    fn without(mut self, age: Age) -> Option<Holders> {
        (!self.remove(age)).then_some(self)
    }

    /// Removes one; returns whether nobody is left.
    fn remove(&mut self, age: Age) -> bool {
        self.others.retain(|holder| holder.0.age != age);
        if self.first.0.age != age {
            return false;
        }
        match self.others.pop() {
            Some(other) => {
                self.first = other;
                false
            }
            None => true,
        }
    }
}

/// Locks of a transaction are released in one pass over all if they are more than these, and more than one in this many.
const FEW: usize = 16;
const MOST_OF: usize = 4;

/// The locks of one namespace.
#[derive(Default)]
pub(crate) struct Spans {
    points: BTreeMap<OrderedKey, Holders>,
    ranges: Vec<Held>,
    queue: Vec<SpanWaiter>,
}

impl Spans {
    pub fn is_unused(&self) -> bool {
        self.points.is_empty() && self.ranges.is_empty() && self.queue.is_empty()
    }

    /// The holders of a lock overlapping this extent.
    fn holders(&self, extent: &Extent) -> Vec<(Requester, Mode)> {
        let mut holders = Vec::new();
        match extent {
            Extent::Point(key) => holders.extend(self.points.get(key).into_iter().flat_map(Holders::all)),
            Extent::Range(from, to) => {
                let bounds = (from.as_ref().map(|key| &key[..]), to.as_ref().map(|key| &key[..]));
                let points = self.points.range::<[u8], _>(bounds).flat_map(|(_, holders)| holders.all());
                guard!(RangeOverPoints, holders.extend(points));
            }
        }
        let ranges = self.ranges.iter().filter(|held| held.extent.overlaps(extent));
        holders.extend(ranges.map(|held| (held.by, held.mode)));
        holders
    }

    /// The transactions that a request waits for, with the first `ahead` of the queue before it.
    fn blockers(&self, age: Age, extent: &Extent, mode: Mode, ahead: usize) -> Vec<Requester> {
        let holders = self.holders(extent);
        let mut blockers: Vec<Requester> = holders
            .iter()
            .filter(|(holder, held)| holder.age != age && conflict(*held, mode))
            .map(|(holder, _)| *holder)
            .collect();
        if !holders.iter().any(|(holder, _)| holder.age == age) {
            let before = self.queue[..ahead].iter();
            let before =
                before.filter(|waiter| conflict(waiter.mode, mode) && waiter.extent.overlaps(extent));
            blockers.extend(before.map(|waiter| waiter.by));
        }
        blockers
    }

    /// The transactions that a waiting transaction waits for.
    pub fn blockers_of(&self, age: Age) -> Vec<Requester> {
        let Some(at) = self.queue.iter().position(|waiter| waiter.by.age == age) else { return Vec::new() };
        let SpanWaiter { mode, extent, .. } = &self.queue[at];
        self.blockers(age, extent, *mode, at)
    }

    /// Takes a lock if it need not wait; returns whether it did.
    pub fn try_acquire(&mut self, by: Requester, extent: &Extent, mode: Mode) -> bool {
        if let Extent::Point(key) = extent
            && self.queue.is_empty()
        {
            return self.try_acquire_point(by, key, mode);
        }
        let may = self.blockers(by.age, extent, mode, self.queue.len()).is_empty();
        if may {
            self.grant(by, extent.clone(), mode);
        }
        may
    }

    /// The same for a key, while nobody waits: it is looked for once.
    fn try_acquire_point(&mut self, by: Requester, key: &OrderedKey, mode: Mode) -> bool {
        let blocks = |(holder, held): (Requester, Mode)| holder.age != by.age && conflict(held, mode);
        let mut ranges = self.ranges.iter();
        if ranges.any(|held| blocks((held.by, held.mode)) && held.extent.has(key)) {
            return false;
        }
        match self.points.entry(key.clone()) {
            Entry::Occupied(holders) if holders.get().all().any(blocks) => return false,
            Entry::Occupied(mut holders) => holders.get_mut().add(by, mode),
            Entry::Vacant(entry) => {
                entry.insert(Holders { first: (by, mode), others: Vec::new() });
            }
        }
        debug_assert!(
            self.blockers(by.age, &Extent::Point(key.clone()), mode, 0).is_empty(),
            "{by:?} gets {key:?} in {mode:?}, which others have"
        );
        true
    }

    fn grant(&mut self, by: Requester, extent: Extent, mode: Mode) {
        debug_assert!(
            self.holders(&extent).iter().all(|(other, held)| other.age == by.age || !conflict(*held, mode)),
            "{by:?} gets {extent:?} in {mode:?}, which others have"
        );
        match extent {
            Extent::Point(key) => match self.points.entry(key) {
                Entry::Occupied(mut entry) => entry.get_mut().add(by, mode),
                Entry::Vacant(entry) => {
                    entry.insert(Holders { first: (by, mode), others: Vec::new() });
                }
            },
            Extent::Range(from, to) => {
                assert!(begins_within(&from, &to), "{by:?} locks nothing: {from:?} to {to:?}");
                if !self.extend(by.age, mode, &from, &to) {
                    self.ranges.push(Held { by, mode, extent: Extent::Range(from, to) });
                }
            }
        }
    }

    /// Extends a range that ends where this one begins, or vice versa, as successive steps of one scan do.
    fn extend(&mut self, age: Age, mode: Mode, from: &Bound<Bytes>, to: &Bound<Bytes>) -> bool {
        for held in self.ranges.iter_mut().rev().filter(|held| (held.by.age, held.mode) == (age, mode)) {
            let Extent::Range(held_from, held_to) = &mut held.extent else { continue };
            match (&*held_to, from) {
                (Bound::Included(end), Bound::Excluded(begin)) if end == begin => {
                    *held_to = to.clone();
                    return true;
                }
                _ => {}
            }
            match (to, &*held_from) {
                (Bound::Excluded(end), Bound::Included(begin)) if end == begin => {
                    *held_from = from.clone();
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    pub fn enqueue(&mut self, by: Requester, extent: Extent, mode: Mode) -> Arc<Wake> {
        let wake = Arc::new(Wake::default());
        self.queue.push(SpanWaiter { by, wake: wake.clone(), mode, extent });
        assert!(!self.blockers_of(by.age).is_empty(), "{by:?} waits for nobody, in {mode:?}");
        wake
    }

    /// Takes a transaction that does not get the lock out of the queue.
    pub fn give_up(&mut self, age: Age) -> Option<SpanWaiter> {
        let at = self.queue.iter().position(|waiter| waiter.by.age == age)?;
        Some(self.queue.remove(at))
    }

    /// Releases what a transaction holds: these keys, and all its ranges.
    pub fn release<'a>(&mut self, age: Age, keys: impl ExactSizeIterator<Item = &'a OrderedKey>) {
        if keys.len() > FEW && keys.len() > self.points.len() / MOST_OF {
            // one pass over all is less work than to look for each
            let all = std::mem::take(&mut self.points).into_iter();
            self.points = all.filter_map(|(key, holders)| Some((key, holders.without(age)?))).collect();
        } else {
            for key in keys {
                let Entry::Occupied(mut holders) = self.points.entry(key.clone()) else { continue };
                if holders.get_mut().remove(age) {
                    holders.remove();
                }
            }
        }
        self.ranges.retain(|held| held.by.age != age);
        debug_assert!(
            self.points.values().flat_map(Holders::all).all(|(holder, _)| holder.age != age),
            "{age:?} has ended, and still has a key locked"
        );
    }

    /// Grants locks to those waiters that can have them, in order; they leave the queue.
    pub fn promote(&mut self) -> Vec<SpanWaiter> {
        let (mut granted, mut at) = (Vec::new(), 0);
        while at < self.queue.len() {
            let SpanWaiter { by, mode, extent, .. } = &self.queue[at];
            if self.blockers(by.age, extent, *mode, at).is_empty() {
                let waiter = self.queue.remove(at);
                self.grant(waiter.by, waiter.extent.clone(), waiter.mode);
                granted.push(waiter);
            } else {
                at += 1;
            }
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::age::Thread;

    /// A transaction in a thread of its own.
    fn by(number: u64) -> Requester {
        Requester { age: Age(number), thread: Thread { number, ends_it: true } }
    }

    fn point(key: &str) -> Extent {
        Extent::Point(key.as_bytes().into())
    }

    fn range(from: Bound<&str>, to: Bound<&str>) -> Extent {
        let owned = |bound: Bound<&str>| bound.map(|key| Bytes::from(key.as_bytes()));
        Extent::Range(owned(from), owned(to))
    }

    #[test]
    fn extents_overlap_where_they_have_a_key_in_common() {
        use Bound::{Excluded, Included, Unbounded};
        let b_to_d = range(Included("b"), Excluded("d"));
        for (other, overlaps) in [
            (point("b"), true),
            (point("cz"), true),
            (point("d"), false),
            (point("az"), false),
            (range(Unbounded, Excluded("b")), false),
            (range(Unbounded, Included("b")), true),
            (range(Excluded("c"), Unbounded), true),
            (range(Included("d"), Unbounded), false),
            (range(Unbounded, Unbounded), true),
        ] {
            assert_eq!(b_to_d.overlaps(&other), overlaps, "{other:?}");
            assert_eq!(other.overlaps(&b_to_d), overlaps, "{other:?}");
        }
    }

    #[test]
    fn a_range_that_is_read_keeps_out_new_keys_and_lets_readers_in() {
        let mut spans = Spans::default();
        let all = range(Bound::Included("b"), Bound::Included("d"));
        assert!(spans.try_acquire(by(1), &all, Mode::Shared));
        assert!(spans.try_acquire(by(2), &all, Mode::Shared));
        assert!(!spans.try_acquire(by(3), &point("c"), Mode::Exclusive));
        assert!(spans.try_acquire(by(3), &point("e"), Mode::Exclusive));
        assert!(!spans.try_acquire(by(1), &range(Bound::Excluded("d"), Bound::Unbounded), Mode::Shared));
        spans.release(Age(1), [].iter());
        assert!(!spans.try_acquire(by(3), &point("c"), Mode::Exclusive), "the second still reads");
        spans.release(Age(2), [].iter());
        assert!(spans.try_acquire(by(3), &point("c"), Mode::Exclusive));
        let keys = ["c", "e"].map(|key| OrderedKey::from(key.as_bytes()));
        spans.release(Age(3), keys.iter());
        assert!(spans.is_unused());
    }

    #[test]
    fn those_who_wait_are_granted_in_order_where_they_conflict() {
        let mut spans = Spans::default();
        assert!(spans.try_acquire(by(1), &point("c"), Mode::Shared));
        spans.enqueue(by(2), point("c"), Mode::Exclusive);
        assert!(!spans.try_acquire(by(3), &point("c"), Mode::Shared), "a writer waits");
        spans.enqueue(by(3), point("c"), Mode::Shared);
        assert!(spans.try_acquire(by(4), &point("d"), Mode::Exclusive), "that is another key");
        assert_eq!((spans.blockers_of(Age(2)), spans.blockers_of(Age(3))), (vec![by(1)], vec![by(2)]));
        assert!(spans.promote().is_empty());
        spans.release(Age(1), [OrderedKey::from(&b"c"[..])].iter());
        let granted: Vec<Age> = spans.promote().iter().map(|waiter| waiter.by.age).collect();
        assert_eq!(granted, [Age(2)]);
    }

    #[test]
    fn a_key_that_several_read_is_free_once_the_last_one_has_ended_in_any_order() {
        for order in [[1, 2, 3], [3, 2, 1], [2, 1, 3], [2, 3, 1]] {
            let mut spans = Spans::default();
            for number in 1..=3 {
                assert!(spans.try_acquire(by(number), &point("c"), Mode::Shared));
                assert!(spans.try_acquire(by(number), &point("c"), Mode::Shared), "again");
            }
            for (left, number) in (0..3).rev().zip(order) {
                assert!(!spans.try_acquire(by(4), &point("c"), Mode::Exclusive), "{order:?}");
                spans.release(Age(number), [OrderedKey::from(&b"c"[..])].iter());
                assert_eq!(spans.is_unused(), left == 0, "{order:?}");
            }
            assert!(spans.try_acquire(by(4), &point("c"), Mode::Exclusive));
        }
    }

    #[test]
    fn who_releases_many_keys_at_once_leaves_those_of_others() {
        for others in [0, 1, 40, 1000] {
            let mut spans = Spans::default();
            let key = |number: u32| OrderedKey::from(&number.to_be_bytes()[..]);
            let own: Vec<OrderedKey> = (0..100).map(|number| key(number * 20)).collect();
            for key in &own {
                assert!(spans.try_acquire(by(1), &Extent::Point(key.clone()), Mode::Shared));
            }
            // each tenth key is one that the first has too
            for number in (0..others).map(|number| number * 2) {
                assert!(spans.try_acquire(by(2), &Extent::Point(key(number)), Mode::Shared));
            }
            spans.release(Age(1), own.iter());
            assert_eq!(spans.points.len(), others as usize);
            for number in 0..2000 {
                let is_free = spans.try_acquire(by(3), &Extent::Point(key(number)), Mode::Exclusive);
                assert_eq!(is_free, number % 2 == 1 || number >= others * 2, "{number} of {others}");
            }
        }
    }

    #[test]
    fn the_steps_of_a_scan_are_one_range() {
        let mut spans = Spans::default();
        let mut from = Bound::Included("a");
        for key in ["c", "e", "g"] {
            assert!(spans.try_acquire(by(1), &range(from, Bound::Included(key)), Mode::Shared));
            from = Bound::Excluded(key);
        }
        assert!(spans.try_acquire(by(1), &range(Bound::Unbounded, Bound::Excluded("a")), Mode::Shared));
        assert_eq!(spans.ranges.len(), 1);
        assert_eq!(spans.ranges[0].extent, range(Bound::Unbounded, Bound::Included("g")));
    }
}
