//! Who waits where, and all locks with it: what makes transactions wait, wakes them and finds deadlocks.
//!
//! A transaction waits for those that have the lock, or wait ahead of it. One that does not wait may have to, all the same:
//! its thread waits for a lock in another transaction, which it began before it ended this one. A cycle may go through both
//! kinds of waits. To give way breaks it only where the transaction before waits for a lock; if there is no such place,
//! nobody could go on, and the request is refused.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::MutexGuard;
use rustc_hash::FxHashMap;
use tantalum::NamespaceId;

use super::lock::LockId;
use super::shard::Shard;
use crate::age::{Age, Mode, Requester};
use crate::ordered_key::OrderedKey;
use crate::sharded::Sharded;
use crate::spans::{Extent, Spans};
use crate::wake::{Refusal, Wake};

/// Where a transaction waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Lock(LockId),
    Span(NamespaceId),
}

/// A transaction that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    place: Place,
    /// The number of its thread, which does nothing else meanwhile.
    thread: u64,
}

/// Which transactions cannot end while a thread waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stuck {
    /// Those that no other thread ends.
    Surely,
    /// Also those in which it took the lock: another thread may have them now.
    Probably,
}

/// A transaction in a cycle of waits.
struct Member {
    age: Age,
    /// Whether the one before it waits for a lock; otherwise, for its own thread, which waits in this one.
    is_by_lock: bool,
}

/// Locks in ordered namespaces, and the transactions that wait for any lock.
#[derive(Default)]
pub(super) struct Waits {
    pub spans: FxHashMap<NamespaceId, Spans>,
    waiting: FxHashMap<Age, Waiting>,
}

impl Waits {
    /// Releases what a transaction holds in an ordered namespace: these keys, and all ranges.
    pub fn release_spans<'a>(
        &mut self,
        age: Age,
        namespace: NamespaceId,
        keys: impl ExactSizeIterator<Item = &'a OrderedKey>,
    ) {
        if let Some(spans) = self.spans.get_mut(&namespace) {
            spans.release(age, keys);
            self.promote_spans(namespace);
        }
    }

    /// Takes a transaction that does not get its lock out of the queue of an ordered namespace.
    fn give_up_span(&mut self, age: Age, namespace: NamespaceId, why: Refusal) {
        let spans = self.spans.get_mut(&namespace).expect("it waits there");
        spans.give_up(age).expect("it waits there").wake.tell(Err(why));
        self.promote_spans(namespace);
    }

    /// Grants locks in an ordered namespace to those waiters that can have them, in order.
    fn promote_spans(&mut self, namespace: NamespaceId) {
        let Entry::Occupied(mut spans) = self.spans.entry(namespace) else { return };
        for waiter in spans.get_mut().promote() {
            let noted = self.waiting.remove(&waiter.by.age).map(|waiting| waiting.place);
            assert_eq!(noted, Some(Place::Span(namespace)), "where {:?} waits", waiter.by);
            waiter.wake.tell(Ok(()));
        }
        if spans.get().is_unused() {
            spans.remove();
        }
    }

    #[cfg(test)]
    pub fn is_unused(&self) -> bool {
        self.spans.is_empty() && self.waiting.is_empty()
    }
}

/// All locks, locked: nobody takes or releases one meanwhile.
pub(super) struct All<'a> {
    waits: MutexGuard<'a, Waits>,
    shards: Vec<MutexGuard<'a, Shard>>,
    sharded: &'a Sharded<Shard>,
}

impl<'a> All<'a> {
    /// Locks the shards too.
    pub fn lock(waits: MutexGuard<'a, Waits>, sharded: &'a Sharded<Shard>) -> All<'a> {
        All { waits, shards: sharded.all(), sharded }
    }

    /// Takes or upgrades a lock, if it need not wait; returns whether it has it.
    pub fn try_acquire(&mut self, by: Requester, id: LockId, mode: Mode) -> bool {
        self.shard_mut(id).try_acquire(by, id, mode)
    }

    /// Begins to wait for a lock that is taken.
    pub fn enqueue(&mut self, by: Requester, id: LockId, mode: Mode) -> Arc<Wake> {
        self.note(by, Place::Lock(id));
        self.shard_mut(id).lock_mut(id).expect("somebody has it").enqueue(by, mode)
    }

    /// The same in an ordered namespace.
    pub fn enqueue_span(
        &mut self,
        by: Requester,
        namespace: NamespaceId,
        extent: Extent,
        mode: Mode,
    ) -> Arc<Wake> {
        self.note(by, Place::Span(namespace));
        self.waits.spans.entry(namespace).or_default().enqueue(by, extent, mode)
    }

    fn note(&mut self, by: Requester, place: Place) {
        let mut others = self.waits.waiting.values();
        debug_assert!(
            others.all(|waiting| waiting.thread != by.thread.number),
            "{by:?} waits for {place:?}, and its thread waits already"
        );
        let before = self.waits.waiting.insert(by.age, Waiting { place, thread: by.thread.number });
        assert!(before.is_none(), "{by:?} waits for {place:?}, and in {before:?}");
    }

    /// Releases a lock, and grants it to those that can have it now.
    pub fn release(&mut self, age: Age, id: LockId) {
        if let Some(lock) = self.shard_mut(id).lock_mut(id) {
            lock.release(age);
        }
        self.promote(id);
        self.shard_mut(id).tidy(id);
    }

    /// As long as a transaction waits in a cycle, the youngest one in it gives way, or its own request is refused. Returns
    /// how many did.
    pub fn break_circles(&mut self, by: Requester, stuck: Stuck) -> u64 {
        let mut broken = 0;
        while self.waits.waiting.contains_key(&by.age)
            && let Some(circle) = self.circle(by, stuck)
        {
            let can_give_way =
                |member: &&Member| member.is_by_lock && self.waits.waiting.contains_key(&member.age);
            let youngest = circle.iter().filter(can_give_way).map(|member| member.age).max();
            broken += u64::from(youngest.is_some());
            match youngest {
                Some(youngest) => self.refuse(youngest, Refusal::GiveWay),
                None => self.refuse(by.age, Refusal::OwnThread),
            }
        }
        broken
    }

    /// Takes a transaction that does not get its lock out of the queue.
    fn refuse(&mut self, age: Age, why: Refusal) {
        match self.waits.waiting.remove(&age).expect("it waits").place {
            Place::Lock(id) => {
                let lock = self.shard_mut(id).lock_mut(id).expect("it waits for it");
                lock.give_up(age).expect("it waits there").wake.tell(Err(why));
                self.promote(id);
            }
            Place::Span(namespace) => self.waits.give_up_span(age, namespace, why),
        }
    }

    /// Grants a lock to those waiters that can have it, in order.
    fn promote(&mut self, id: LockId) {
        let number = self.sharded.number_of(&id);
        let Some(lock) = self.shards[number].lock_mut(id) else { return };
        while let Some(waiter) = lock.promote() {
            let noted = self.waits.waiting.remove(&waiter.by.age).map(|waiting| waiting.place);
            assert_eq!(noted, Some(Place::Lock(id)), "where {:?} waits", waiter.by);
            waiter.wake.tell(Ok(()));
        }
    }

    /// A cycle of waits through a transaction, if there is one.
    fn circle(&self, by: Requester, stuck: Stuck) -> Option<Vec<Member>> {
        let mut path = Vec::new();
        let mut seen = vec![by.age];
        self.reaches(by, by.age, stuck, &mut path, &mut seen).then_some(path)
    }

    fn reaches(
        &self,
        from: Requester,
        goal: Age,
        stuck: Stuck,
        path: &mut Vec<Member>,
        seen: &mut Vec<Age>,
    ) -> bool {
        let (blockers, is_by_lock) = self.blockers_of(from, stuck);
        for next in blockers {
            path.push(Member { age: next.age, is_by_lock });
            if next.age == goal {
                return true;
            }
            if !seen.contains(&next.age) {
                seen.push(next.age);
                if self.reaches(next, goal, stuck, path, seen) {
                    return true;
                }
            }
            path.pop();
        }
        false
    }

    /// The transactions that must go on before this one can, and whether it waits for a lock of them.
    fn blockers_of(&self, of: Requester, stuck: Stuck) -> (Vec<Requester>, bool) {
        let place = self.waits.waiting.get(&of.age).map(|waiting| waiting.place);
        match place {
            Some(Place::Lock(id)) => (self.shard(id).lock(id).blockers_of(of.age), true),
            Some(Place::Span(namespace)) => (self.waits.spans[&namespace].blockers_of(of.age), true),
            None if of.thread.ends_it || stuck == Stuck::Probably => {
                let mut waiting = self.waits.waiting.iter();
                let its_own = waiting.find(|(_, waiting)| waiting.thread == of.thread.number);
                (its_own.map(|(age, _)| Requester { age: *age, ..of }).into_iter().collect(), false)
            }
            None => (Vec::new(), false),
        }
    }

    fn shard(&self, id: LockId) -> &Shard {
        &self.shards[self.sharded.number_of(&id)]
    }

    fn shard_mut(&mut self, id: LockId) -> &mut Shard {
        &mut self.shards[self.sharded.number_of(&id)]
    }
}
