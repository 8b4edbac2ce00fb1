//! Locks on records and on ranges of keys, shared and exclusive, and deadlocks.
//!
//! A transaction waits for the holders of a lock in a conflicting mode, and for those that wait ahead of it: locks are
//! granted in the order of the requests, except that a holder of a shared lock that upgrades it goes first. If a wait
//! closes a cycle, the youngest transaction in it gives way. A transaction that retries keeps its age, so that it is
//! the oldest one eventually. A thread that waits in one transaction for a lock of another that it must end itself would wait
//! for ever: that is found with the cycles, and refused.
//!
//! Locks on records are in shards. Taking or releasing one for which nobody waits locks its shard only. Who must wait,
//! or wakes others, first locks `waits` and then all shards, in their order: so queues change, and are searched for
//! cycles, while nothing else does.

mod lock;
mod shard;
mod waits;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tantalum::NamespaceId;

pub(crate) use self::lock::LockId;
use self::shard::Shard;
use self::waits::{All, Stuck, Waits};
use crate::age::{Age, Mode, Requester};
use crate::ordered_key::OrderedKey;
use crate::sharded::Sharded;
use crate::spans::Extent;
use crate::wake::{Refusal, Wake};

const SHARDS: usize = 16;

/// After this long a transaction that waits for one which its own thread last locked something in is refused the lock: that
/// thread has not handed it to another one, or that one does not end it.
const PATIENCE: Duration = Duration::from_secs(1);

/// All locks of a store.
pub(crate) struct Locks {
    shards: Sharded<Shard>,
    waits: Mutex<Waits>,
    conflicts: AtomicU64,
    deadlocks: AtomicU64,
}

impl Default for Locks {
    fn default() -> Locks {
        Locks {
            shards: Sharded::new(SHARDS),
            waits: Mutex::default(),
            conflicts: AtomicU64::new(0),
            deadlocks: AtomicU64::new(0),
        }
    }
}

impl Locks {
    /// Takes or upgrades a lock; waits as long as others have it.
    pub fn acquire(&self, by: Requester, id: LockId, mode: Mode) -> Result<(), Refusal> {
        if self.shards.of(&id).try_acquire(by, id, mode) {
            return Ok(());
        }
        let mut all = All::lock(self.waits.lock(), &self.shards);
        // others may have released it meanwhile
        if all.try_acquire(by, id, mode) {
            return Ok(());
        }
        let wake = all.enqueue(by, id, mode);
        self.wait(by, all, &wake)
    }

    /// Waits until the transaction has the lock that it queues for, or is refused it.
    fn wait<'a>(&'a self, by: Requester, mut all: All<'a>, wake: &Wake) -> Result<(), Refusal> {
        self.found_taken();
        let mut stuck = Stuck::Surely;
        loop {
            self.deadlocks.fetch_add(all.break_circles(by, stuck), Ordering::Relaxed);
            drop(all);
            if let Some(verdict) = wake.wait_for(PATIENCE) {
                return verdict;
            }
            stuck = Stuck::Probably;
            all = All::lock(self.waits.lock(), &self.shards);
        }
    }

    /// Takes or upgrades a lock, if it need not wait; returns whether it did.
    pub fn try_acquire(&self, by: Requester, id: LockId, mode: Mode) -> bool {
        let has = self.shards.of(&id).try_acquire(by, id, mode);
        if !has {
            self.found_taken();
        }
        has
    }

    /// Takes or upgrades a lock in an ordered namespace; waits as long as others have it.
    pub fn acquire_span(
        &self,
        by: Requester,
        namespace: NamespaceId,
        extent: Extent,
        mode: Mode,
    ) -> Result<(), Refusal> {
        let mut waits = self.waits.lock();
        if waits.spans.entry(namespace).or_default().try_acquire(by, &extent, mode) {
            return Ok(());
        }
        let mut all = All::lock(waits, &self.shards);
        let wake = all.enqueue_span(by, namespace, extent, mode);
        self.wait(by, all, &wake)
    }

    /// Takes or upgrades a lock in an ordered namespace, if it need not wait; returns whether it did.
    pub fn try_acquire_span(
        &self,
        by: Requester,
        namespace: NamespaceId,
        extent: &Extent,
        mode: Mode,
    ) -> bool {
        let mut waits = self.waits.lock();
        let has = waits.spans.entry(namespace).or_default().try_acquire(by, extent, mode);
        if !has {
            self.found_taken();
        }
        has
    }

    /// Releases what a transaction holds in an ordered namespace: these keys, and all ranges.
    pub fn release_spans<'a>(
        &self,
        age: Age,
        namespace: NamespaceId,
        keys: impl ExactSizeIterator<Item = &'a OrderedKey>,
    ) {
        self.waits.lock().release_spans(age, namespace, keys);
    }

    /// Releases locks.
    pub fn release(&self, age: Age, ids: impl Iterator<Item = LockId>) {
        for id in ids {
            let released = self.shards.of(&id).try_release(age, id);
            if !released {
                All::lock(self.waits.lock(), &self.shards).release(age, id);
            }
        }
    }

    /// The number of times that a transaction found a lock taken, and that one had to give way.
    pub fn counters(&self) -> (u64, u64) {
        (self.conflicts.load(Ordering::Relaxed), self.deadlocks.load(Ordering::Relaxed))
    }

    fn found_taken(&self) {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicI64;
    use std::time::Duration;

    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use tantalum::Key;

    use super::*;
    use crate::age::Thread;

    fn id(number: u8) -> LockId {
        LockId::Record(NamespaceId(0), Key::new(&[number]).unwrap())
    }

    /// A transaction in a thread of its own.
    fn by(number: u64) -> Requester {
        within(number, number)
    }

    /// A transaction in the thread of another one, which it must let go on.
    fn within(thread: u64, age: u64) -> Requester {
        Requester { age: Age(age), thread: Thread { number: thread, ends_it: true } }
    }

    impl Locks {
        fn number_of(&self, id: &LockId) -> usize {
            self.shards.number_of(id)
        }

        fn is_unused(&self) -> bool {
            self.waits.lock().is_unused() && self.shards.all().iter().all(|shard| shard.is_unused())
        }
    }

    fn wait_for_conflicts(locks: &Locks, conflicts: u64) {
        while locks.counters().0 < conflicts {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn two_who_wait_for_each_other_do_not_wait_for_ever_and_the_older_one_goes_on() {
        let locks = Arc::new(Locks::default());
        locks.acquire(by(1), id(1), Mode::Exclusive).unwrap();
        locks.acquire(by(2), id(2), Mode::Exclusive).unwrap();
        let other = locks.clone();
        let older = std::thread::spawn(move || other.acquire(by(1), id(2), Mode::Shared));
        wait_for_conflicts(&locks, 1);
        assert_eq!(locks.acquire(by(2), id(1), Mode::Shared), Err(Refusal::GiveWay));
        locks.release(Age(2), [id(2)].into_iter());
        assert_eq!(older.join().unwrap(), Ok(()));
    }

    /// Two readers that both want to write would wait for each other.
    #[test]
    fn two_who_hold_a_lock_shared_and_want_it_exclusively_are_a_deadlock() {
        let locks = Arc::new(Locks::default());
        locks.acquire(by(1), id(1), Mode::Shared).unwrap();
        locks.acquire(by(2), id(1), Mode::Shared).unwrap();
        let other = locks.clone();
        let younger = std::thread::spawn(move || {
            let result = other.acquire(by(2), id(1), Mode::Exclusive);
            other.release(Age(2), [id(1)].into_iter());
            result
        });
        wait_for_conflicts(&locks, 1);
        assert_eq!(locks.acquire(by(1), id(1), Mode::Exclusive), Ok(()));
        assert_eq!(younger.join().unwrap(), Err(Refusal::GiveWay));
    }

    /// It must not wait for itself, which would be a deadlock.
    #[test]
    fn one_who_wants_more_of_a_lock_than_it_holds_waits_for_the_others_that_hold_it() {
        let locks = Arc::new(Locks::default());
        locks.acquire(by(1), id(1), Mode::Shared).unwrap();
        locks.acquire(by(2), id(1), Mode::Shared).unwrap();
        let other = locks.clone();
        let waits = std::thread::spawn(move || other.acquire(by(2), id(1), Mode::Exclusive));
        wait_for_conflicts(&locks, 1);
        locks.release(Age(1), [id(1)].into_iter());
        assert_eq!(waits.join().unwrap(), Ok(()));
    }

    #[test]
    fn who_does_not_want_to_wait_neither_waits_nor_passes_those_who_do() {
        let locks = Arc::new(Locks::default());
        assert!(locks.try_acquire(by(1), id(1), Mode::Shared));
        assert!(locks.try_acquire(by(2), id(1), Mode::Shared) && locks.counters().0 == 0);
        assert!(!locks.try_acquire(by(2), id(1), Mode::Exclusive) && locks.counters().0 == 1);
        let other = locks.clone();
        let waits = std::thread::spawn(move || other.acquire(by(3), id(1), Mode::Exclusive));
        wait_for_conflicts(&locks, 2);
        assert!(!locks.try_acquire(by(4), id(1), Mode::Shared), "one who waits is passed");
        locks.release(Age(1), [id(1)].into_iter());
        locks.release(Age(2), [id(1)].into_iter());
        assert_eq!(waits.join().unwrap(), Ok(()));
        assert!(!locks.try_acquire(by(4), id(1), Mode::Shared) && locks.counters().0 == 4);
        locks.release(Age(3), [id(1)].into_iter());
        assert!(locks.try_acquire(by(4), id(1), Mode::Exclusive) && locks.counters().0 == 4);
    }

    #[test]
    fn a_reader_does_not_pass_a_writer_that_waits() {
        let locks = Arc::new(Locks::default());
        locks.acquire(by(1), id(1), Mode::Shared).unwrap();
        let order = Arc::new(AtomicU64::new(0));
        let start = |age, mode, conflicts| {
            let (other, taken) = (locks.clone(), order.clone());
            let thread = std::thread::spawn(move || {
                other.acquire(by(age), id(1), mode).unwrap();
                let place = taken.fetch_add(1, Ordering::SeqCst);
                other.release(Age(age), [id(1)].into_iter());
                place
            });
            wait_for_conflicts(&locks, conflicts);
            thread
        };
        let writer = start(3, Mode::Exclusive, 1);
        let reader = start(2, Mode::Shared, 2);
        locks.release(Age(1), [id(1)].into_iter());
        assert_eq!((writer.join().unwrap(), reader.join().unwrap()), (0, 1));
        assert!(locks.is_unused());
    }

    /// One waits for a record of a hashed namespace, the other for a range of an ordered one.
    #[test]
    fn a_circle_through_both_kinds_of_namespaces_is_a_deadlock() {
        let locks = Arc::new(Locks::default());
        let namespace = NamespaceId(7);
        let all = Extent::Range(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        locks.acquire(by(1), id(1), Mode::Exclusive).unwrap();
        locks.acquire_span(by(2), namespace, Extent::Point(b"k"[..].into()), Mode::Exclusive).unwrap();
        let other = locks.clone();
        let older = std::thread::spawn(move || other.acquire_span(by(1), namespace, all, Mode::Shared));
        wait_for_conflicts(&locks, 1);
        assert_eq!(locks.acquire(by(2), id(1), Mode::Shared), Err(Refusal::GiveWay));
        locks.release_spans(Age(2), namespace, [b"k"[..].into()].iter());
        assert_eq!(older.join().unwrap(), Ok(()));
        locks.release_spans(Age(1), namespace, [].iter());
        locks.release(Age(1), [id(1)].into_iter());
        assert!(locks.is_unused());
    }

    /// A transaction within another one of the same thread waited for it for ever.
    #[test]
    fn a_thread_that_waits_for_its_own_transaction_is_refused() {
        let (locks, namespace) = (Locks::default(), NamespaceId(7));
        locks.acquire(by(1), id(1), Mode::Shared).unwrap();
        assert_eq!(locks.acquire(within(1, 2), id(1), Mode::Shared), Ok(()), "both read");
        assert_eq!(locks.acquire(within(1, 2), id(1), Mode::Exclusive), Err(Refusal::OwnThread));
        let key = || Extent::Point(b"k"[..].into());
        locks.acquire_span(by(1), namespace, key(), Mode::Exclusive).unwrap();
        assert_eq!(locks.acquire_span(within(1, 2), namespace, key(), Mode::Shared), Err(Refusal::OwnThread));
        // it goes on without that lock, and others get it
        locks.acquire(within(1, 2), id(2), Mode::Exclusive).unwrap();
        locks.release(Age(2), [id(1), id(2)].into_iter());
        locks.release(Age(1), [id(1)].into_iter());
        locks.release_spans(Age(1), namespace, [b"k"[..].into()].iter());
        assert!(locks.is_unused() && locks.counters() == (2, 0));
    }

    /// Both have a transaction of their own open; to give way within it would change nothing.
    #[test]
    fn two_threads_that_wait_for_each_others_outer_transactions_are_a_deadlock() {
        let locks = Arc::new(Locks::default());
        locks.acquire(by(1), id(1), Mode::Exclusive).unwrap();
        locks.acquire(by(2), id(2), Mode::Exclusive).unwrap();
        let other = locks.clone();
        let first = std::thread::spawn(move || other.acquire(within(1, 3), id(2), Mode::Shared));
        wait_for_conflicts(&locks, 1);
        assert_eq!(locks.acquire(within(2, 4), id(1), Mode::Shared), Err(Refusal::OwnThread));
        locks.release(Age(2), [id(2)].into_iter());
        assert_eq!(first.join().unwrap(), Ok(()));
    }

    /// The oldest one waits for the first of two transactions of one thread, the second for the oldest: if the second gave
    /// way and tried again, it would be as before.
    #[test]
    fn one_whose_lock_is_waited_for_gives_way_to_a_thread_with_two_transactions() {
        let locks = Arc::new(Locks::default());
        locks.acquire(by(1), id(1), Mode::Exclusive).unwrap();
        locks.acquire(by(2), id(2), Mode::Exclusive).unwrap();
        let other = locks.clone();
        let oldest = std::thread::spawn(move || {
            let result = other.acquire(by(1), id(2), Mode::Exclusive);
            other.release(Age(1), [id(1)].into_iter());
            result
        });
        wait_for_conflicts(&locks, 1);
        assert_eq!(locks.acquire(within(2, 3), id(1), Mode::Exclusive), Ok(()));
        assert_eq!(oldest.join().unwrap(), Err(Refusal::GiveWay));
        assert_eq!(locks.counters().1, 1);
    }

    /// Another thread may have been given the transaction, and end it.
    #[test]
    fn a_transaction_that_may_have_moved_is_waited_for_but_not_for_ever() {
        let locks = Arc::new(Locks::default());
        let moves = |age| Requester { age: Age(age), thread: Thread { number: 1, ends_it: false } };
        locks.acquire(moves(1), id(1), Mode::Exclusive).unwrap();
        let other = locks.clone();
        let waits = std::thread::spawn(move || other.acquire(moves(2), id(1), Mode::Exclusive));
        wait_for_conflicts(&locks, 1);
        locks.release(Age(1), [id(1)].into_iter());
        assert_eq!(waits.join().unwrap(), Ok(()), "it was ended elsewhere");
        assert_eq!(locks.acquire(moves(3), id(1), Mode::Exclusive), Err(Refusal::OwnThread));
    }

    /// Two locks in different shards.
    fn two_in_different_shards(locks: &Locks) -> [LockId; 2] {
        let other = (1..=u8::MAX).map(id).find(|other| locks.number_of(other) != locks.number_of(&id(0)));
        [id(0), other.expect("not all are in one shard")]
    }

    #[test]
    fn a_circle_through_two_shards_is_a_deadlock() {
        let locks = Arc::new(Locks::default());
        let [a, b] = two_in_different_shards(&locks);
        locks.acquire(by(1), a, Mode::Exclusive).unwrap();
        locks.acquire(by(2), b, Mode::Exclusive).unwrap();
        let other = locks.clone();
        let older = std::thread::spawn(move || other.acquire(by(1), b, Mode::Exclusive));
        wait_for_conflicts(&locks, 1);
        assert_eq!(locks.acquire(by(2), a, Mode::Exclusive), Err(Refusal::GiveWay));
        locks.release(Age(2), [b].into_iter());
        assert_eq!(older.join().unwrap(), Ok(()));
        locks.release(Age(1), [a, b].into_iter());
        assert!(locks.is_unused() && locks.counters() == (2, 1));
    }

    /// The first waits for the second to release its share; the second waits for the first in another shard.
    #[test]
    fn an_upgrade_that_closes_a_circle_through_two_shards_is_a_deadlock() {
        let locks = Arc::new(Locks::default());
        let [a, b] = two_in_different_shards(&locks);
        locks.acquire(by(1), a, Mode::Shared).unwrap();
        locks.acquire(by(2), a, Mode::Shared).unwrap();
        locks.acquire(by(1), b, Mode::Exclusive).unwrap();
        let other = locks.clone();
        let younger = std::thread::spawn(move || {
            let result = other.acquire(by(2), b, Mode::Shared);
            other.release(Age(2), [a].into_iter());
            result
        });
        wait_for_conflicts(&locks, 1);
        assert_eq!(locks.acquire(by(1), a, Mode::Exclusive), Ok(()));
        assert_eq!(younger.join().unwrap(), Err(Refusal::GiveWay));
        locks.release(Age(1), [a, b].into_iter());
        assert!(locks.is_unused() && locks.counters().1 == 1);
    }

    /// Who has a lock notes it beside the lock: readers add 1, and a writer subtracts this.
    const WRITER: i64 = 1000;

    const NOTED: usize = 6;

    /// Takes and upgrades random locks for one transaction after the other; returns how many had to give way.
    fn take_random(locks: &Locks, notes: &[AtomicI64; NOTED], ages: &AtomicU64, seed: u64) -> u64 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut gave_way = 0;
        for _ in 0..20_000 {
            let age = Age(ages.fetch_add(1, Ordering::SeqCst));
            let mut held = [None; NOTED];
            for _ in 0..random.random_range(1..5) {
                let number = random.random_range(0..NOTED);
                let mode = if random.random() { Mode::Shared } else { Mode::Exclusive };
                if held[number] >= Some(mode) {
                    continue;
                }
                if locks.acquire(by(age.0), id(number as u8), mode).is_err() {
                    gave_way += 1;
                    break;
                }
                let own = i64::from(held[number].is_some());
                let change = if mode == Mode::Shared { 1 } else { -WRITER - own };
                let before = notes[number].fetch_add(change, Ordering::SeqCst);
                let is_alone = if mode == Mode::Shared { before >= 0 } else { before == own };
                assert!(is_alone, "seed {seed}: {mode:?} granted beside {before}");
                held[number] = Some(mode);
                // on a busy machine each thread was done before the next began
                if random.random_range(0..16) == 0 {
                    std::thread::yield_now();
                }
            }
            for (note, mode) in notes.iter().zip(held) {
                let change = mode.map_or(0, |mode| if mode == Mode::Shared { -1 } else { WRITER });
                note.fetch_add(change, Ordering::SeqCst);
            }
            let ids = (0..NOTED).filter(|number| held[*number].is_some());
            locks.release(age, ids.map(|number| id(number as u8)));
        }
        gave_way
    }

    #[test]
    fn no_lock_is_granted_twice_and_nobody_waits_for_ever() {
        let shared = Arc::new((Locks::default(), [const { AtomicI64::new(0) }; NOTED], AtomicU64::new(0)));
        let (done, all_done) = std::sync::mpsc::channel();
        let all_there = Arc::new(std::sync::Barrier::new(4));
        for seed in 0..4 {
            let (shared, done, all_there) = (shared.clone(), done.clone(), all_there.clone());
            std::thread::spawn(move || {
                let (locks, notes, ages) = &*shared;
                all_there.wait();
                done.send(take_random(locks, notes, ages, seed)).unwrap();
            });
        }
        let wait =
            || all_done.recv_timeout(Duration::from_secs(120)).expect("a thread failed, or waits for ever");
        let gave_way: u64 = (0..4).map(|_| wait()).sum();
        let (locks, notes, _) = &*shared;
        assert_eq!(locks.counters().1, gave_way);
        assert!(gave_way > 0 && locks.counters().0 > gave_way, "{:?}", locks.counters());
        assert!(locks.is_unused() && notes.iter().all(|note| note.load(Ordering::SeqCst) == 0));
    }
}
