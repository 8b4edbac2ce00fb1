//! The layout of the storage processors' memory: a bank for each, with its stripes of the drive.
//!
//! A bank begins with a word that says where start-gap has moved its lines. It stands for a register of the memory's
//! controller, so it does not move itself. After it come the places of the lines. The lines hold a redo log, so that a store of
//! several words is all or nothing, and then the stripes in order.

use crate::profile::{Profile, STRIPE_BYTES, SpuMemoryProfile};
use crate::start_gap::LINE_BYTES;

/// Bytes of a bank's redo log: the most that a handler may have stored and not committed (256 KiB), in the worst case of
/// one-word pieces with a gap after each, with the 16 bytes that describe each piece.
pub(crate) const LOG_BYTES: u64 = 512 << 10;

/// Where a bank's lines begin in it: the word before them has a whole line.
pub(crate) const LINES_AT: u64 = LINE_BYTES;

/// The banks of a drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Banks {
    pub memory: SpuMemoryProfile,
    pub count: u64,
    capacity_bytes: u64,
}

impl Profile {
    /// The banks of its processors' memory, if they have any.
    pub(crate) fn spu_banks(&self) -> Option<Banks> {
        let (count, capacity_bytes) = (u64::from(self.spu.count), self.capacity_bytes);
        self.spu.memory.map(|memory| Banks { memory, count, capacity_bytes })
    }
}

impl Banks {
    /// Lines of a bank.
    pub fn lines(&self) -> u64 {
        let stripes = self.capacity_bytes.div_ceil(STRIPE_BYTES * self.count);
        (LOG_BYTES + stripes * STRIPE_BYTES) / LINE_BYTES
    }

    /// Bytes of a bank.
    pub fn bank_bytes(&self) -> u64 {
        LINES_AT + (self.lines() + 1) * LINE_BYTES
    }

    /// Bytes of all banks.
    pub fn bytes(&self) -> u64 {
        self.bank_bytes() * self.count
    }

    /// The bank that has the byte at an address of the drive, and where among its lines' bytes it is.
    pub fn place(&self, address: u64) -> (usize, u64) {
        let stripe = address / STRIPE_BYTES;
        let at = LOG_BYTES + stripe / self.count * STRIPE_BYTES + address % STRIPE_BYTES;
        ((stripe % self.count) as usize, at)
    }
}
