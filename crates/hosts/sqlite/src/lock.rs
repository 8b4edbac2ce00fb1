//! SQLite's locks on a database file, between the connections of this process.
//!
//! The image is locked against other processes, so they need not know of these locks. The rules are those of SQLite's
//! "File Locking And Concurrency": any number of readers, one of which may intend to write (RESERVED); a waiting writer
//! keeps new readers out (PENDING) and writes once it is alone (EXCLUSIVE).

/// One open handle of a database file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct HandleId(pub u64);

/// A handle's lock. The order is SQLite's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) enum LockLevel {
    #[default]
    None,
    Shared,
    Reserved,
    Pending,
    Exclusive,
}

/// The locks on one database file.
///
/// Invariants: a holder of RESERVED, PENDING or EXCLUSIVE is one of the `shared`; with EXCLUSIVE it is the only one.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    shared: u32,
    reserved: Option<HandleId>,
    pending: Option<HandleId>,
    exclusive: Option<HandleId>,
}

impl Locks {
    /// Raises a handle's lock from `held` towards `wanted`, and returns what it then holds: less than `wanted` if
    /// others are in the way. A failed attempt at EXCLUSIVE leaves PENDING.
    pub fn raise(&mut self, handle: HandleId, held: LockLevel, wanted: LockLevel) -> LockLevel {
        let others = |holder: Option<HandleId>| holder.is_some_and(|holder| holder != handle);
        if wanted <= held {
            return held;
        }
        let reached = match wanted {
            LockLevel::None => held,
            LockLevel::Shared => {
                if self.pending.is_some() || self.exclusive.is_some() {
                    return held;
                }
                self.shared += 1;
                LockLevel::Shared
            }
            LockLevel::Reserved => {
                if others(self.reserved) || others(self.pending) {
                    return held;
                }
                self.reserved = Some(handle);
                LockLevel::Reserved
            }
            LockLevel::Pending | LockLevel::Exclusive => {
                if others(self.pending) || others(self.reserved) {
                    return held;
                }
                self.pending = Some(handle);
                if self.shared > 1 {
                    return LockLevel::Pending;
                }
                self.exclusive = Some(handle);
                LockLevel::Exclusive
            }
        };
        self.assert_sound();
        reached
    }

    /// Lowers a handle's lock from `held` to SHARED or none.
    pub fn lower(&mut self, handle: HandleId, held: LockLevel, to: LockLevel) {
        for holder in [&mut self.reserved, &mut self.pending, &mut self.exclusive] {
            holder.take_if(|holder| *holder == handle);
        }
        if to == LockLevel::None && held >= LockLevel::Shared {
            self.shared -= 1;
        }
        self.assert_sound();
    }

    fn assert_sound(&self) {
        let holders = [self.reserved, self.pending, self.exclusive];
        let is_held = holders.iter().any(Option::is_some);
        assert!(self.shared > 0 || !is_held, "somebody holds more than SHARED, and nobody that: {self:?}");
        assert!(self.exclusive.is_none() || self.shared == 1, "EXCLUSIVE is not alone: {self:?}");
    }

    /// Whether any handle holds RESERVED or more.
    pub fn is_reserved(&self) -> bool {
        self.reserved.is_some() || self.pending.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::LockLevel::*;
    use super::*;

    const A: HandleId = HandleId(1);
    const B: HandleId = HandleId(2);

    #[test]
    fn many_read_and_one_of_them_intends_to_write() {
        let mut locks = Locks::default();
        assert_eq!(locks.raise(A, None, Shared), Shared);
        assert_eq!(locks.raise(B, None, Shared), Shared);
        assert!(!locks.is_reserved());
        assert_eq!(locks.raise(A, Shared, Reserved), Reserved);
        assert!(locks.is_reserved());
        assert_eq!(locks.raise(B, Shared, Reserved), Shared);
        assert_eq!(locks.raise(HandleId(3), None, Shared), Shared, "readers may come beside RESERVED");
    }

    #[test]
    fn a_waiting_writer_keeps_new_readers_out() {
        let mut locks = Locks::default();
        locks.raise(A, None, Shared);
        locks.raise(B, None, Shared);
        locks.raise(A, Shared, Reserved);
        assert_eq!(locks.raise(A, Reserved, Exclusive), Pending);
        assert_eq!(locks.raise(HandleId(3), None, Shared), None);
        locks.lower(B, Shared, None);
        assert_eq!(locks.raise(A, Pending, Exclusive), Exclusive);
        assert_eq!(locks.raise(B, None, Shared), None);
        locks.lower(A, Exclusive, Shared);
        assert_eq!(locks.raise(B, None, Shared), Shared);
    }

    #[test]
    fn two_that_want_to_roll_back_the_same_journal_do_not_both_wait() {
        let mut locks = Locks::default();
        locks.raise(A, None, Shared);
        locks.raise(B, None, Shared);
        assert_eq!(locks.raise(A, Shared, Exclusive), Pending);
        assert_eq!(locks.raise(B, Shared, Exclusive), Shared);
        locks.lower(B, Shared, None);
        assert_eq!(locks.raise(A, Pending, Exclusive), Exclusive);
    }

    #[test]
    fn lowering_to_none_frees_everything() {
        let mut locks = Locks::default();
        locks.raise(A, None, Shared);
        locks.raise(A, Shared, Exclusive);
        locks.lower(A, Exclusive, None);
        assert_eq!(locks.raise(B, None, Shared), Shared);
        assert_eq!(locks.raise(B, Shared, Exclusive), Exclusive);
    }
}
