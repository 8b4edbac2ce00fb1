//! How many bytes of data commands hold: those of one connection, and those of all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of data that commands of all connections may hold together, in addition to one command of each.
const MOST_OF_ALL_BYTES: usize = 256 << 20;

/// Bytes of data that the commands of a connection may hold together; one command is always admitted.
pub const BUDGET_BYTES: usize = 4 << 20;

/// What commands of all connections hold.
#[derive(Debug, Default)]
pub struct SharedBudget(AtomicUsize);

/// What commands of one connection hold. The rest is released when it is dropped.
#[derive(Debug)]
pub struct Budget {
    of_all: Arc<SharedBudget>,
    held: usize,
}

impl SharedBudget {
    /// Bytes that commands hold.
    pub fn held(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Budget {
    /// That of a new connection.
    pub fn new(of_all: &Arc<SharedBudget>) -> Budget {
        Budget { of_all: Arc::clone(of_all), held: 0 }
    }

    /// Bytes in use.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Whether a command may hold this many bytes. A connection that holds none may always hold those of one command;
    /// otherwise it could wait forever.
    pub fn may_hold(&self, bytes: usize) -> bool {
        self.held == 0 || self.held + bytes <= BUDGET_BYTES && self.of_all.held() + bytes <= MOST_OF_ALL_BYTES
    }

    /// A command holds this many more bytes.
    pub fn hold(&mut self, bytes: usize) {
        self.held += bytes;
        self.of_all.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// This many bytes are free again.
    pub fn release(&mut self, bytes: usize) {
        assert!(bytes <= self.held, "a connection releases {bytes} bytes, but holds {}", self.held);
        self.held -= bytes;
        let held = self.of_all.0.fetch_sub(bytes, Ordering::Relaxed);
        assert!(bytes <= held, "commands release {bytes} bytes, but all connections hold {held}");
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        self.release(self.held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_always_fits_and_what_is_left_goes_back() {
        let of_all = Arc::new(SharedBudget::default());
        let (mut one, mut other) = (Budget::new(&of_all), Budget::new(&of_all));
        assert!(one.may_hold(2 * BUDGET_BYTES));
        one.hold(BUDGET_BYTES - 1);
        assert!(one.may_hold(1) && !one.may_hold(2));
        other.hold(MOST_OF_ALL_BYTES - BUDGET_BYTES);
        assert!(one.may_hold(1) && !other.may_hold(2));
        other.release(MOST_OF_ALL_BYTES - BUDGET_BYTES);
        assert!(other.may_hold(2));
        other.hold(7);
        drop(one);
        assert_eq!((of_all.held(), other.held()), (7, 7));
    }
}
