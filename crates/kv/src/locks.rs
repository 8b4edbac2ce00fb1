//! Locks on records and on ranges of keys, shared and exclusive, and deadlocks.
//!
//! A transaction waits for the holders of a lock in a conflicting mode, and for those that wait ahead of it: locks are
//! granted in the order of the requests, except that a holder of a shared lock that upgrades it goes first. If a wait
//! closes a cycle, the youngest transaction in it gives way. A transaction that retries keeps its age, so that it is
//! the oldest one eventually.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustc_hash::FxHashMap;
use tantalum::{Key, NamespaceId};

use crate::age::{Age, Mode, conflict};
use crate::record::Bytes;
use crate::spans::{Extent, Spans};

/// What is locked: a record, or records with consecutive numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum LockId {
    Record(NamespaceId, Key),
    Range(NamespaceId, u64),
}

impl LockId {
    pub fn of(namespace: NamespaceId, key: Key, records_per_lock: u32) -> LockId {
        if records_per_lock == 1 {
            return LockId::Record(namespace, key);
        }
        let bytes = key.as_bytes();
        let last = &bytes[bytes.len().saturating_sub(8)..];
        let number = last.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        LockId::Range(namespace, number / u64::from(records_per_lock))
    }
}

/// The transaction must give way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GiveWay;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Waits,
    Has,
    GivesWay,
}

struct Waiter {
    age: Age,
    mode: Mode,
    wake: Arc<Condvar>,
}

#[derive(Default)]
struct Lock {
    holders: Vec<(Age, Mode)>,
    queue: VecDeque<Waiter>,
}

impl Lock {
    fn held_by(&self, age: Age) -> Option<Mode> {
        self.holders.iter().find(|holder| holder.0 == age).map(|holder| holder.1)
    }

    fn is_free_for(&self, age: Age, mode: Mode) -> bool {
        self.holders.iter().all(|holder| holder.0 == age || !conflict(holder.1, mode))
    }

    /// Those that a waiting transaction waits for.
    fn blockers_of(&self, age: Age) -> Vec<Age> {
        let Some(at) = self.queue.iter().position(|waiter| waiter.age == age) else { return Vec::new() };
        let mode = self.queue[at].mode;
        let before = self.queue.iter().take(at).map(|waiter| (waiter.age, waiter.mode));
        let conflicting = self.holders.iter().copied().chain(before);
        conflicting
            .filter(|(other, held)| *other != age && conflict(mode, *held))
            .map(|(other, _)| other)
            .collect()
    }

    fn grant(&mut self, age: Age, mode: Mode) {
        match self.holders.iter_mut().find(|holder| holder.0 == age) {
            Some(holder) => holder.1 = mode,
            None => self.holders.push((age, mode)),
        }
    }
}

/// Where a transaction waits.
#[derive(Clone, Copy, Debug)]
enum Place {
    Lock(LockId),
    Span(NamespaceId),
}

#[derive(Default)]
struct Table {
    locks: FxHashMap<LockId, Lock>,
    /// Locks in ordered namespaces.
    spans: FxHashMap<NamespaceId, Spans>,
    /// Where each waiting transaction waits, and how it is woken.
    waits: FxHashMap<Age, (Place, Verdict)>,
    /// Lists of holders and queues, for reuse.
    spare: Vec<Lock>,
    conflicts: u64,
    deadlocks: u64,
}

/// All locks of a store.
#[derive(Default)]
pub(crate) struct Locks {
    table: Mutex<Table>,
}

impl Locks {
    /// Takes or upgrades a lock; waits as long as others have it.
    pub fn acquire(&self, age: Age, id: LockId, mode: Mode) -> Result<(), GiveWay> {
        let mut table = self.table.lock();
        if table.try_acquire(age, id, mode) {
            return Ok(());
        }
        table.conflicts += 1;
        let wake = table.enqueue(age, id, mode);
        table.break_circles(age);
        self.wait(table, age, &wake)
    }

    /// Takes or upgrades a lock, if it need not wait; returns whether it did.
    pub fn try_acquire(&self, age: Age, id: LockId, mode: Mode) -> bool {
        let mut table = self.table.lock();
        let has = table.try_acquire(age, id, mode);
        table.conflicts += u64::from(!has);
        has
    }

    /// Takes or upgrades a lock in an ordered namespace; waits as long as others have it.
    pub fn acquire_span(
        &self,
        age: Age,
        namespace: NamespaceId,
        extent: Extent,
        mode: Mode,
    ) -> Result<(), GiveWay> {
        let mut table = self.table.lock();
        let spans = table.spans.entry(namespace).or_default();
        if spans.try_acquire(age, &extent, mode) {
            return Ok(());
        }
        let wake = spans.enqueue(age, extent, mode);
        table.conflicts += 1;
        table.waits.insert(age, (Place::Span(namespace), Verdict::Waits));
        table.break_circles(age);
        self.wait(table, age, &wake)
    }

    /// Takes or upgrades a lock in an ordered namespace, if it need not wait; returns whether it did.
    pub fn try_acquire_span(&self, age: Age, namespace: NamespaceId, extent: &Extent, mode: Mode) -> bool {
        let mut table = self.table.lock();
        let has = table.spans.entry(namespace).or_default().try_acquire(age, extent, mode);
        table.conflicts += u64::from(!has);
        has
    }

    /// Releases what a transaction holds in an ordered namespace: these keys, and all ranges.
    pub fn release_spans<'a>(&self, age: Age, namespace: NamespaceId, keys: impl Iterator<Item = &'a Bytes>) {
        let mut table = self.table.lock();
        if let Some(spans) = table.spans.get_mut(&namespace) {
            spans.release(age, keys);
            table.promote_spans(namespace);
        }
    }

    fn wait(&self, mut table: MutexGuard<'_, Table>, age: Age, wake: &Condvar) -> Result<(), GiveWay> {
        loop {
            match table.waits[&age].1 {
                Verdict::Waits => wake.wait(&mut table),
                Verdict::Has => {
                    table.waits.remove(&age);
                    return Ok(());
                }
                Verdict::GivesWay => {
                    table.waits.remove(&age);
                    return Err(GiveWay);
                }
            }
        }
    }

    /// Releases locks.
    pub fn release(&self, age: Age, ids: impl Iterator<Item = LockId>) {
        let mut table = self.table.lock();
        for id in ids {
            table.release(age, id);
        }
    }

    /// The number of times that a transaction found a lock taken, and that one had to give way.
    pub fn counters(&self) -> (u64, u64) {
        let table = self.table.lock();
        (table.conflicts, table.deadlocks)
    }
}

impl Table {
    fn try_acquire(&mut self, age: Age, id: LockId, mode: Mode) -> bool {
        let spare = &mut self.spare;
        let lock = self.locks.entry(id).or_insert_with(|| spare.pop().unwrap_or_default());
        let held = lock.held_by(age);
        if held.is_some_and(|held| held >= mode) {
            return true;
        }
        let may = lock.is_free_for(age, mode) && (held.is_some() || lock.queue.is_empty());
        if may {
            lock.grant(age, mode);
        }
        may
    }

    fn enqueue(&mut self, age: Age, id: LockId, mode: Mode) -> Arc<Condvar> {
        let wake = Arc::new(Condvar::new());
        let lock = self.locks.get_mut(&id).expect("it is held, so it is there");
        let waiter = Waiter { age, mode, wake: wake.clone() };
        match lock.held_by(age) {
            Some(_) => lock.queue.push_front(waiter),
            None => lock.queue.push_back(waiter),
        }
        self.waits.insert(age, (Place::Lock(id), Verdict::Waits));
        wake
    }

    /// As long as `age` waits in a cycle, the youngest transaction in it gives way.
    fn break_circles(&mut self, age: Age) {
        while let Some(circle) = self.circle(age) {
            self.deadlocks += 1;
            let youngest = *circle.iter().max().expect("a circle has members");
            let (place, verdict) = self.waits.get_mut(&youngest).expect("all in a circle wait");
            *verdict = Verdict::GivesWay;
            match *place {
                Place::Lock(id) => self.give_up(youngest, id),
                Place::Span(namespace) => {
                    let spans = self.spans.get_mut(&namespace).expect("it waits there");
                    spans.give_up(youngest).expect("it waits there").wake.notify_one();
                    self.promote_spans(namespace);
                }
            }
        }
    }

    /// Takes a transaction that gives way out of the queue.
    fn give_up(&mut self, age: Age, id: LockId) {
        let lock = self.locks.get_mut(&id).expect("it waits for it");
        if let Some(at) = lock.queue.iter().position(|waiter| waiter.age == age) {
            let waiter = lock.queue.remove(at).expect("it was found there");
            waiter.wake.notify_one();
        }
        self.promote(id);
    }

    /// A cycle of waits through `age`, if there is one.
    fn circle(&self, age: Age) -> Option<Vec<Age>> {
        let mut path = vec![age];
        let mut seen = vec![age];
        self.reaches(age, age, &mut path, &mut seen).then_some(path)
    }

    fn reaches(&self, from: Age, goal: Age, path: &mut Vec<Age>, seen: &mut Vec<Age>) -> bool {
        let blockers = match self.waits.get(&from) {
            Some((Place::Lock(id), Verdict::Waits)) => self.locks[id].blockers_of(from),
            Some((Place::Span(namespace), Verdict::Waits)) => self.spans[namespace].blockers_of(from),
            _ => return false,
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

    fn release(&mut self, age: Age, id: LockId) {
        let Some(lock) = self.locks.get_mut(&id) else { return };
        lock.holders.retain(|holder| holder.0 != age);
        self.promote(id);
        if let Some(lock) = self.locks.get(&id)
            && lock.holders.is_empty()
            && lock.queue.is_empty()
        {
            let lock = self.locks.remove(&id).expect("it was just there");
            if self.spare.len() < 1024 {
                self.spare.push(lock);
            }
        }
    }

    /// Grants a lock to those waiters that can have it, in order.
    fn promote(&mut self, id: LockId) {
        let lock = self.locks.get_mut(&id).expect("somebody waits for it or had it");
        while let Some(first) = lock.queue.front()
            && lock.is_free_for(first.age, first.mode)
        {
            let waiter = lock.queue.pop_front().expect("it was just there");
            lock.grant(waiter.age, waiter.mode);
            self.waits.insert(waiter.age, (Place::Lock(id), Verdict::Has));
            waiter.wake.notify_one();
        }
    }

    /// The same in an ordered namespace.
    fn promote_spans(&mut self, namespace: NamespaceId) {
        let Entry::Occupied(mut spans) = self.spans.entry(namespace) else { return };
        for waiter in spans.get_mut().promote() {
            self.waits.insert(waiter.age, (Place::Span(namespace), Verdict::Has));
            waiter.wake.notify_one();
        }
        if spans.get().is_unused() {
            spans.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    fn id(number: u8) -> LockId {
        LockId::Record(NamespaceId(0), Key::new(&[number]).unwrap())
    }

    #[test]
    fn records_that_share_a_lock_are_those_whose_numbers_follow_each_other() {
        let lock = |number: u64, records| {
            LockId::of(NamespaceId(1), Key::new(&number.to_be_bytes()).unwrap(), records)
        };
        assert_eq!(lock(16, 16), lock(31, 16));
        assert_ne!(lock(15, 16), lock(16, 16));
        assert_ne!(lock(16, 1), lock(17, 1));
    }

    #[test]
    fn two_who_wait_for_each_other_do_not_wait_for_ever_and_the_older_one_goes_on() {
        let locks = Arc::new(Locks::default());
        locks.acquire(Age(1), id(1), Mode::Exclusive).unwrap();
        locks.acquire(Age(2), id(2), Mode::Exclusive).unwrap();
        let other = locks.clone();
        let older = std::thread::spawn(move || other.acquire(Age(1), id(2), Mode::Shared));
        while locks.counters().0 < 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(locks.acquire(Age(2), id(1), Mode::Shared), Err(GiveWay));
        locks.release(Age(2), [id(2)].into_iter());
        assert_eq!(older.join().unwrap(), Ok(()));
    }

    /// Two readers that both want to write would wait for each other.
    #[test]
    fn two_who_hold_a_lock_shared_and_want_it_exclusively_are_a_deadlock() {
        let locks = Arc::new(Locks::default());
        locks.acquire(Age(1), id(1), Mode::Shared).unwrap();
        locks.acquire(Age(2), id(1), Mode::Shared).unwrap();
        let other = locks.clone();
        let younger = std::thread::spawn(move || {
            let result = other.acquire(Age(2), id(1), Mode::Exclusive);
            other.release(Age(2), [id(1)].into_iter());
            result
        });
        while locks.counters().0 < 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(locks.acquire(Age(1), id(1), Mode::Exclusive), Ok(()));
        assert_eq!(younger.join().unwrap(), Err(GiveWay));
    }

    /// It must not wait for itself, which would be a deadlock.
    #[test]
    fn one_who_wants_more_of_a_lock_than_it_holds_waits_for_the_others_that_hold_it() {
        let locks = Arc::new(Locks::default());
        locks.acquire(Age(1), id(1), Mode::Shared).unwrap();
        locks.acquire(Age(2), id(1), Mode::Shared).unwrap();
        let other = locks.clone();
        let waits = std::thread::spawn(move || other.acquire(Age(2), id(1), Mode::Exclusive));
        while locks.counters().0 < 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
        locks.release(Age(1), [id(1)].into_iter());
        assert_eq!(waits.join().unwrap(), Ok(()));
    }

    #[test]
    fn who_does_not_want_to_wait_neither_waits_nor_passes_those_who_do() {
        let locks = Arc::new(Locks::default());
        assert!(locks.try_acquire(Age(1), id(1), Mode::Shared));
        assert!(locks.try_acquire(Age(2), id(1), Mode::Shared) && locks.counters().0 == 0);
        assert!(!locks.try_acquire(Age(2), id(1), Mode::Exclusive) && locks.counters().0 == 1);
        let other = locks.clone();
        let waits = std::thread::spawn(move || other.acquire(Age(3), id(1), Mode::Exclusive));
        while locks.counters().0 < 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!locks.try_acquire(Age(4), id(1), Mode::Shared), "one who waits is passed");
        locks.release(Age(1), [id(1)].into_iter());
        locks.release(Age(2), [id(1)].into_iter());
        assert_eq!(waits.join().unwrap(), Ok(()));
        assert!(!locks.try_acquire(Age(4), id(1), Mode::Shared) && locks.counters().0 == 4);
        locks.release(Age(3), [id(1)].into_iter());
        assert!(locks.try_acquire(Age(4), id(1), Mode::Exclusive) && locks.counters().0 == 4);
    }

    #[test]
    fn a_reader_does_not_pass_a_writer_that_waits() {
        let locks = Arc::new(Locks::default());
        locks.acquire(Age(1), id(1), Mode::Shared).unwrap();
        let order = Arc::new(AtomicU64::new(0));
        let start = |age, mode, conflicts| {
            let (other, taken) = (locks.clone(), order.clone());
            let thread = std::thread::spawn(move || {
                other.acquire(Age(age), id(1), mode).unwrap();
                let place = taken.fetch_add(1, Ordering::SeqCst);
                other.release(Age(age), [id(1)].into_iter());
                place
            });
            while locks.counters().0 < conflicts {
                std::thread::sleep(Duration::from_millis(1));
            }
            thread
        };
        let writer = start(3, Mode::Exclusive, 1);
        let reader = start(2, Mode::Shared, 2);
        locks.release(Age(1), [id(1)].into_iter());
        assert_eq!((writer.join().unwrap(), reader.join().unwrap()), (0, 1));
        assert!(locks.table.lock().locks.is_empty() && locks.table.lock().waits.is_empty());
    }

    /// One waits for a record of a hashed namespace, the other for a range of an ordered one.
    #[test]
    fn a_circle_through_both_kinds_of_namespaces_is_a_deadlock() {
        let locks = Arc::new(Locks::default());
        let namespace = NamespaceId(7);
        let all = Extent::Range(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        locks.acquire(Age(1), id(1), Mode::Exclusive).unwrap();
        locks.acquire_span(Age(2), namespace, Extent::Point(b"k"[..].into()), Mode::Exclusive).unwrap();
        let other = locks.clone();
        let older = std::thread::spawn(move || other.acquire_span(Age(1), namespace, all, Mode::Shared));
        while locks.counters().0 < 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(locks.acquire(Age(2), id(1), Mode::Shared), Err(GiveWay));
        locks.release_spans(Age(2), namespace, [b"k"[..].into()].iter());
        assert_eq!(older.join().unwrap(), Ok(()));
        locks.release_spans(Age(1), namespace, [].iter());
        assert!(locks.table.lock().spans.is_empty());
    }
}
