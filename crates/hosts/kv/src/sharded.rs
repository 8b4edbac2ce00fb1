//! State in parts, by a hash of what it is about, so that threads that work on different things rarely meet.
//!
//! A thread that locks more than one part locks all of them, in their order, so none waits for another in a circle.

use std::hash::{BuildHasher, Hash};

use parking_lot::{Mutex, MutexGuard};
use rustc_hash::FxBuildHasher;

use crate::cache_padded::CachePadded;

/// The first of the bits of a hash that choose the part. A table in a part takes the lowest bits and the highest ones;
/// if they were the same in all its keys, these would collide.
const FIRST_BIT: u32 = 22;

pub(crate) struct Sharded<T> {
    parts: Box<[CachePadded<Mutex<T>>]>,
}

impl<T: Default> Sharded<T> {
    /// Parts, a power of two.
    pub fn new(parts: usize) -> Sharded<T> {
        assert!(parts.is_power_of_two(), "{parts} parts");
        Sharded { parts: (0..parts).map(|_| CachePadded::default()).collect() }
    }

    pub fn count(&self) -> usize {
        self.parts.len()
    }

    /// The number of the part that something belongs to.
    pub fn number_of(&self, what: &impl Hash) -> usize {
        self.number_of_hash(FxBuildHasher.hash_one(what))
    }

    /// The number of the part that what has this hash belongs to.
    pub fn number_of_hash(&self, hash: u64) -> usize {
        (hash >> FIRST_BIT) as usize & (self.parts.len() - 1)
    }

    /// Locks the part that what has this hash belongs to.
    pub fn of_hash(&self, hash: u64) -> MutexGuard<'_, T> {
        self.at(self.number_of_hash(hash))
    }

    /// Locks the part that something belongs to.
    pub fn of(&self, what: &impl Hash) -> MutexGuard<'_, T> {
        self.at(self.number_of(what))
    }

    /// Locks the part of that number.
    pub fn at(&self, number: usize) -> MutexGuard<'_, T> {
        self.parts[number].lock()
    }

    /// Locks all parts.
    pub fn all(&self) -> Vec<MutexGuard<'_, T>> {
        self.parts.iter().map(|part| part.lock()).collect()
    }
}

#[cfg(test)]
mod tests {
    use tantalum::{Key, NamespaceId};

    use super::*;

    #[test]
    fn keys_are_spread_evenly_whether_numbers_come_first_or_last() {
        let sharded = Sharded::<u32>::new(16);
        for make in [u64::to_be_bytes, u64::to_le_bytes] {
            sharded.all().into_iter().for_each(|mut part| *part = 0);
            for number in 0..16_000_u64 {
                *sharded.of(&(NamespaceId(1), Key::new(&make(number)).unwrap())) += 1;
            }
            let counts: Vec<u32> = sharded.all().iter().map(|part| **part).collect();
            assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
        }
    }
}
