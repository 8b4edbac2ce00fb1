//! One lock: who holds it, and who waits for it.

use std::collections::VecDeque;
use std::sync::Arc;

use tantalum::{Key, NamespaceId};

use crate::age::{Age, Mode, Requester, conflict};
use crate::wake::Wake;

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

pub(super) struct Waiter {
    pub by: Requester,
    pub wake: Arc<Wake>,
    mode: Mode,
}

#[derive(Default)]
pub(super) struct Lock {
    holders: Vec<(Requester, Mode)>,
    queue: VecDeque<Waiter>,
}

impl Lock {
    pub fn is_unused(&self) -> bool {
        self.holders.is_empty() && self.queue.is_empty()
    }

    pub fn is_waited_for(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Takes or upgrades the lock, if it need not wait; returns whether it has it.
    pub fn try_acquire(&mut self, by: Requester, mode: Mode) -> bool {
        let held = self.held_by(by.age);
        if held.is_some_and(|held| held >= mode) {
            return true;
        }
        let may = self.is_free_for(by.age, mode) && (held.is_some() || self.queue.is_empty());
        if may {
            self.grant(by, mode);
        }
        may
    }

    /// Waits in the queue; who upgrades goes first.
    pub fn enqueue(&mut self, by: Requester, mode: Mode) -> Arc<Wake> {
        let wake = Arc::new(Wake::default());
        let waiter = Waiter { by, wake: wake.clone(), mode };
        match self.held_by(by.age) {
            Some(_) => self.queue.push_front(waiter),
            None => self.queue.push_back(waiter),
        }
        assert!(!self.blockers_of(by.age).is_empty(), "{by:?} waits for nobody, in {mode:?}");
        wake
    }

    pub fn release(&mut self, age: Age) {
        assert!(self.held_by(age).is_some(), "{age:?} releases a lock of {:?}", self.holders);
        self.holders.retain(|holder| holder.0.age != age);
    }

    /// Takes a transaction that does not get the lock out of the queue.
    pub fn give_up(&mut self, age: Age) -> Option<Waiter> {
        let at = self.queue.iter().position(|waiter| waiter.by.age == age)?;
        self.queue.remove(at)
    }

    /// Grants the lock to the first in the queue, if it can have it; it leaves the queue.
    pub fn promote(&mut self) -> Option<Waiter> {
        let first = self.queue.front()?;
        if !self.is_free_for(first.by.age, first.mode) {
            return None;
        }
        let waiter = self.queue.pop_front()?;
        self.grant(waiter.by, waiter.mode);
        Some(waiter)
    }

    /// Those that a waiting transaction waits for.
    pub fn blockers_of(&self, age: Age) -> Vec<Requester> {
        let Some(at) = self.queue.iter().position(|waiter| waiter.by.age == age) else { return Vec::new() };
        let mode = self.queue[at].mode;
        let before = self.queue.iter().take(at).map(|waiter| (waiter.by, waiter.mode));
        let conflicting = self.holders.iter().copied().chain(before);
        conflicting
            .filter(|(other, held)| other.age != age && conflict(mode, *held))
            .map(|(other, _)| other)
            .collect()
    }

    fn held_by(&self, age: Age) -> Option<Mode> {
        self.holders.iter().find(|holder| holder.0.age == age).map(|holder| holder.1)
    }

    fn is_free_for(&self, age: Age, mode: Mode) -> bool {
        self.holders.iter().all(|holder| holder.0.age == age || !conflict(holder.1, mode))
    }

    fn grant(&mut self, by: Requester, mode: Mode) {
        match self.holders.iter_mut().find(|holder| holder.0.age == by.age) {
            Some(holder) => *holder = (by, mode),
            None => self.holders.push((by, mode)),
        }
        let is_alone = mode == Mode::Shared || self.holders.len() == 1;
        assert!(is_alone, "{by:?} has a lock alone, beside {:?}", self.holders);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_share_a_lock_are_those_whose_numbers_follow_each_other() {
        let lock = |number: u64, records| {
            LockId::of(NamespaceId(1), Key::new(&number.to_be_bytes()).unwrap(), records)
        };
        assert_eq!(lock(16, 16), lock(31, 16));
        assert_ne!(lock(15, 16), lock(16, 16));
        assert_ne!(lock(16, 1), lock(17, 1));
    }
}
