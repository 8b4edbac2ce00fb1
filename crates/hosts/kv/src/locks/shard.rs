//! The locks of one shard. What needs no other transaction to be woken is done here.

use std::collections::hash_map::{Entry, OccupiedEntry};

use rustc_hash::FxHashMap;

use super::lock::{Lock, LockId};
use crate::age::{Age, Mode, Requester};

/// Locks that are kept for reuse.
const MOST_SPARE: usize = 64;

#[derive(Default)]
pub(super) struct Shard {
    locks: FxHashMap<LockId, Lock>,
    /// Lists of holders and queues, for reuse.
    spare: Vec<Lock>,
}

impl Shard {
    /// Takes or upgrades a lock, if it need not wait; returns whether it has it.
    pub fn try_acquire(&mut self, by: Requester, id: LockId, mode: Mode) -> bool {
        let spare = &mut self.spare;
        let lock = self.locks.entry(id).or_insert_with(|| spare.pop().unwrap_or_default());
        lock.try_acquire(by, mode)
    }

    /// Releases a lock for which nobody waits; returns false, and changes nothing, if somebody does.
    pub fn try_release(&mut self, age: Age, id: LockId) -> bool {
        let Entry::Occupied(mut lock) = self.locks.entry(id) else { return true };
        if lock.get().is_waited_for() {
            return false;
        }
        lock.get_mut().release(age);
        remove_unused(lock, &mut self.spare);
        true
    }

    /// A lock that somebody holds or waits for.
    pub fn lock(&self, id: LockId) -> &Lock {
        &self.locks[&id]
    }

    /// The same, if there is one.
    pub fn lock_mut(&mut self, id: LockId) -> Option<&mut Lock> {
        self.locks.get_mut(&id)
    }

    /// Removes a lock that nobody uses any more.
    pub fn tidy(&mut self, id: LockId) {
        if let Entry::Occupied(lock) = self.locks.entry(id) {
            remove_unused(lock, &mut self.spare);
        }
    }

    #[cfg(test)]
    pub fn is_unused(&self) -> bool {
        self.locks.is_empty()
    }
}

fn remove_unused(lock: OccupiedEntry<'_, LockId, Lock>, spare: &mut Vec<Lock>) {
    if lock.get().is_unused() {
        let lock = lock.remove();
        if spare.len() < MOST_SPARE {
            spare.push(lock);
        }
    }
}
