//! The shared memory in which SQLite's connections keep the index of a write-ahead log, and its eight locks.
//!
//! All connections are in this process, so the memory is plain heap. A region never moves while any connection has it
//! mapped. It is freed when the last one leaves: the next one rebuilds the index from the log.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::AtomicU64;

use crate::ffi::SQLITE_SHM_NLOCK;
use crate::lock::HandleId;

const LOCKS: usize = SQLITE_SHM_NLOCK as usize;

/// The locks that one handle holds, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ShmHeld {
    shared: u8,
    exclusive: u8,
}

/// Who holds one of the locks.
#[derive(Clone, Copy, Debug, Default)]
struct ShmLock {
    shared: u32,
    exclusive: bool,
}

/// The shared memory of one database.
#[derive(Debug, Default)]
pub(crate) struct Shm {
    /// Cells of 8 bytes that SQLite writes through a pointer; atomics because they are shared between threads.
    regions: Vec<Box<[AtomicU64]>>,
    locks: [ShmLock; LOCKS],
    users: BTreeSet<HandleId>,
}

impl Shm {
    /// The address of region `index` of `bytes` bytes. None if there is no such region and none may be created.
    pub fn map(&mut self, user: HandleId, index: usize, bytes: usize, extend: bool) -> Option<*mut c_void> {
        self.users.insert(user);
        if index >= self.regions.len() {
            if !extend {
                return None;
            }
            let cells = bytes.div_ceil(size_of::<AtomicU64>());
            self.regions.resize_with(index + 1, || (0..cells).map(|_| AtomicU64::new(0)).collect());
        }
        Some(self.regions[index].as_ptr().cast_mut().cast())
    }

    /// A handle leaves. It has released its locks.
    pub fn unmap(&mut self, user: HandleId) {
        self.users.remove(&user);
        if self.users.is_empty() {
            self.regions.clear();
        }
    }

    /// Takes all locks of a range for a handle, shared or exclusive; or takes none and returns false.
    pub fn lock(&mut self, held: &mut ShmHeld, range: Range<usize>, exclusive: bool) -> bool {
        let bits = bits(&range);
        if exclusive {
            if self.locks[range.clone()].iter().any(|lock| lock.exclusive || lock.shared > 0) {
                return false;
            }
            self.locks[range].iter_mut().for_each(|lock| lock.exclusive = true);
            held.exclusive |= bits;
        } else {
            if held.shared & bits == bits {
                return true;
            }
            if self.locks[range.clone()].iter().any(|lock| lock.exclusive) {
                return false;
            }
            self.locks[range].iter_mut().for_each(|lock| lock.shared += 1);
            held.shared |= bits;
        }
        true
    }

    /// Releases what a handle holds within a range.
    pub fn unlock(&mut self, held: &mut ShmHeld, range: Range<usize>) {
        for (index, lock) in self.locks.iter_mut().enumerate().take(range.end).skip(range.start) {
            let bit = 1 << index;
            if held.exclusive & bit != 0 {
                lock.exclusive = false;
            }
            if held.shared & bit != 0 {
                lock.shared -= 1;
            }
        }
        held.shared &= !bits(&range);
        held.exclusive &= !bits(&range);
    }

    /// Releases everything that a handle holds.
    pub fn unlock_all(&mut self, held: &mut ShmHeld) {
        self.unlock(held, 0..LOCKS);
    }
}

/// The bits of a range of locks.
fn bits(range: &Range<usize>) -> u8 {
    range.clone().fold(0, |bits, index| bits | (1 << index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_stay_where_they_are_until_the_last_user_leaves() {
        let mut shm = Shm::default();
        assert_eq!(shm.map(HandleId(1), 0, 32768, false), None);
        let first = shm.map(HandleId(1), 0, 32768, true);
        let second = shm.map(HandleId(2), 1, 32768, true);
        assert_eq!(shm.map(HandleId(2), 0, 32768, false), first);
        assert_ne!(first, second);
        shm.unmap(HandleId(1));
        assert_eq!(shm.map(HandleId(2), 0, 32768, false), first);
        shm.unmap(HandleId(2));
        assert_eq!(shm.map(HandleId(3), 0, 32768, false), None);
    }

    #[test]
    fn an_exclusive_lock_is_alone() {
        let mut shm = Shm::default();
        let (mut a, mut b) = (ShmHeld::default(), ShmHeld::default());
        assert!(shm.lock(&mut a, 3..4, false));
        assert!(shm.lock(&mut b, 3..4, false));
        assert!(!shm.lock(&mut b, 3..8, true), "all of the range or nothing");
        assert!(shm.lock(&mut b, 4..8, true));
        shm.unlock(&mut a, 3..4);
        shm.unlock(&mut b, 3..4);
        assert!(shm.lock(&mut a, 3..4, true));
        assert!(!shm.lock(&mut b, 3..4, false));
        shm.unlock_all(&mut a);
        shm.unlock_all(&mut b);
        assert!(shm.lock(&mut b, 0..8, true));
    }

    #[test]
    fn who_leaves_releases_nothing_that_another_holds() {
        let mut shm = Shm::default();
        let (mut a, mut b) = (ShmHeld::default(), ShmHeld::default());
        assert!(shm.lock(&mut a, 3..4, true));
        shm.unlock(&mut a, 3..4);
        assert!(shm.lock(&mut b, 3..5, true));
        shm.unlock_all(&mut a);
        shm.unlock_all(&mut ShmHeld::default());
        assert!(!shm.lock(&mut a, 3..4, false) && !shm.lock(&mut a, 4..5, true));
    }
}
