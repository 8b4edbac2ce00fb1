//! What steps used of their room, for the test that compares it with what was reserved.

use std::cell::RefCell;

use super::{Purpose, Reservation};

/// What all steps of a purpose used of what they reserved: pages, records, owners.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReservationUse {
    /// What the room was for.
    pub purpose: Purpose,
    /// Rooms.
    pub rooms: u64,
    /// The most that one reserved.
    pub reserved: [u64; 3],
    /// The most that one used.
    pub used: [u64; 3],
    /// Rooms that were used up to the last page, record and owner.
    pub used_up: u64,
}

thread_local! {
    static USES: RefCell<Vec<ReservationUse>> = const { RefCell::new(Vec::new()) };
}

/// What was used on this thread since the last call.
pub fn take_reservation_uses() -> Vec<ReservationUse> {
    USES.take()
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let left = [self.pages.into(), self.records as u64, self.owners as u64];
        let (reserved, purpose) = (self.reserved, self.purpose);
        USES.with_borrow_mut(|uses| {
            let index = uses.iter().position(|of| of.purpose == purpose).unwrap_or_else(|| {
                uses.push(ReservationUse { purpose, rooms: 0, reserved: [0; 3], used: [0; 3], used_up: 0 });
                uses.len() - 1
            });
            let of = &mut uses[index];
            of.rooms += 1;
            of.used_up += u64::from(left == [0; 3]);
            for ((most, used), (reserved, left)) in
                of.reserved.iter_mut().zip(&mut of.used).zip(reserved.into_iter().zip(left))
            {
                *most = (*most).max(reserved);
                *used = (*used).max(reserved - left);
            }
        });
    }
}
