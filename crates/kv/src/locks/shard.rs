//! The locks of one shard. What needs no other transaction to be woken is done here.

use rustc_hash::FxHashMap;

use super::lock::{Lock, LockId};
use crate::age::{Age, Mode};

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
    pub fn try_acquire(&mut self, age: Age, id: LockId, mode: Mode) -> bool {
        let spare = &mut self.spare;
        let lock = self.locks.entry(id).or_insert_with(|| spare.pop().unwrap_or_default());
        lock.try_acquire(age, mode)
    }

    /// Releases a lock for which nobody waits; returns false, and changes nothing, if somebody does.
    pub fn try_release(&mut self, age: Age, id: LockId) -> bool {
        let Some(lock) = self.locks.get_mut(&id) else { return true };
        if lock.is_waited_for() {
            return false;
        }
        lock.release(age);
        self.tidy(id);
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
        if self.locks.get(&id).is_some_and(Lock::is_unused) {
            let lock = self.locks.remove(&id).expect("it was just there");
            if self.spare.len() < MOST_SPARE {
                self.spare.push(lock);
            }
        }
    }

    #[cfg(test)]
    pub fn is_unused(&self) -> bool {
        self.locks.is_empty()
    }
}
