//! Who waits where, and all locks with it: what makes transactions wait, wakes them and finds deadlocks.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::MutexGuard;
use rustc_hash::FxHashMap;
use tantalum::NamespaceId;

use super::lock::LockId;
use super::shard::Shard;
use crate::age::{Age, Mode};
use crate::record::Bytes;
use crate::sharded::Sharded;
use crate::spans::{Extent, Spans};
use crate::wake::{GiveWay, Wake};

/// Where a transaction waits.
#[derive(Clone, Copy, Debug)]
enum Place {
    Lock(LockId),
    Span(NamespaceId),
}

/// Locks in ordered namespaces, and the transactions that wait for any lock.
#[derive(Default)]
pub(super) struct Waits {
    pub spans: FxHashMap<NamespaceId, Spans>,
    waiting: FxHashMap<Age, Place>,
}

impl Waits {
    /// Releases what a transaction holds in an ordered namespace: these keys, and all ranges.
    pub fn release_spans<'a>(
        &mut self,
        age: Age,
        namespace: NamespaceId,
        keys: impl Iterator<Item = &'a Bytes>,
    ) {
        if let Some(spans) = self.spans.get_mut(&namespace) {
            spans.release(age, keys);
            self.promote_spans(namespace);
        }
    }

    /// Takes a transaction that gives way out of the queue of an ordered namespace.
    fn give_up_span(&mut self, age: Age, namespace: NamespaceId) {
        let spans = self.spans.get_mut(&namespace).expect("it waits there");
        spans.give_up(age).expect("it waits there").wake.tell(Err(GiveWay));
        self.promote_spans(namespace);
    }

    /// Grants locks in an ordered namespace to those waiters that can have them, in order.
    fn promote_spans(&mut self, namespace: NamespaceId) {
        let Entry::Occupied(mut spans) = self.spans.entry(namespace) else { return };
        for waiter in spans.get_mut().promote() {
            self.waiting.remove(&waiter.age);
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
    pub fn try_acquire(&mut self, age: Age, id: LockId, mode: Mode) -> bool {
        self.shard_mut(id).try_acquire(age, id, mode)
    }

    /// Begins to wait for a lock that is taken.
    pub fn enqueue(&mut self, age: Age, id: LockId, mode: Mode) -> Arc<Wake> {
        self.waits.waiting.insert(age, Place::Lock(id));
        self.shard_mut(id).lock_mut(id).expect("somebody has it").enqueue(age, mode)
    }

    /// The same in an ordered namespace.
    pub fn enqueue_span(
        &mut self,
        age: Age,
        namespace: NamespaceId,
        extent: Extent,
        mode: Mode,
    ) -> Arc<Wake> {
        self.waits.waiting.insert(age, Place::Span(namespace));
        self.waits.spans.entry(namespace).or_default().enqueue(age, extent, mode)
    }

    /// Releases a lock, and grants it to those that can have it now.
    pub fn release(&mut self, age: Age, id: LockId) {
        if let Some(lock) = self.shard_mut(id).lock_mut(id) {
            lock.release(age);
        }
        self.promote(id);
        self.shard_mut(id).tidy(id);
    }

    /// As long as `age` waits in a cycle, the youngest transaction in it gives way. Returns how many did.
    pub fn break_circles(&mut self, age: Age) -> u64 {
        let mut broken = 0;
        while let Some(circle) = self.circle(age) {
            broken += 1;
            let youngest = *circle.iter().max().expect("a circle has members");
            match self.waits.waiting.remove(&youngest).expect("all in a circle wait") {
                Place::Lock(id) => self.give_up(youngest, id),
                Place::Span(namespace) => self.waits.give_up_span(youngest, namespace),
            }
        }
        broken
    }

    /// Takes a transaction that gives way out of the queue.
    fn give_up(&mut self, age: Age, id: LockId) {
        let lock = self.shard_mut(id).lock_mut(id).expect("it waits for it");
        lock.give_up(age).expect("it waits there").wake.tell(Err(GiveWay));
        self.promote(id);
    }

    /// Grants a lock to those waiters that can have it, in order.
    fn promote(&mut self, id: LockId) {
        let number = self.sharded.number_of(&id);
        let Some(lock) = self.shards[number].lock_mut(id) else { return };
        while let Some(waiter) = lock.promote() {
            self.waits.waiting.remove(&waiter.age);
            waiter.wake.tell(Ok(()));
        }
    }

    /// A cycle of waits through `age`, if there is one.
    fn circle(&self, age: Age) -> Option<Vec<Age>> {
        let mut path = vec![age];
        let mut seen = vec![age];
        self.reaches(age, age, &mut path, &mut seen).then_some(path)
    }

    fn reaches(&self, from: Age, goal: Age, path: &mut Vec<Age>, seen: &mut Vec<Age>) -> bool {
        let blockers = match self.waits.waiting.get(&from) {
            Some(Place::Lock(id)) => self.shard(*id).lock(*id).blockers_of(from),
            Some(Place::Span(namespace)) => self.waits.spans[namespace].blockers_of(from),
            None => return false,
        };
        for next in blockers {
            if next == goal {
                return true;
            }
            if seen.contains(&next) {
                continue;
            }
            seen.push(next);
            path.push(next);
            if self.reaches(next, goal, path, seen) {
                return true;
            }
            path.pop();
        }
        false
    }

    fn shard(&self, id: LockId) -> &Shard {
        &self.shards[self.sharded.number_of(&id)]
    }

    fn shard_mut(&mut self, id: LockId) -> &mut Shard {
        &mut self.shards[self.sharded.number_of(&id)]
    }
}
