//! The layout of the processors' memory: a bank for each, with its stripes of the drive.
//!
//! A bank begins with a word that says where start-gap has moved its lines. It stands for a register of the memory's
//! controller, so it does not move itself. After it come the places of the lines. The lines hold a redo log, so that a store of
//! several words is all or nothing, and then the stripes in order.

use tantalum::{BANK_OVERHEAD_BYTES, STRIPE_BYTES, SpuMemoryProfile, SpuProfile};

use super::start_gap::LINE_BYTES;

/// Bytes of a bank's redo log: the most that a handler may have stored and not committed (256 KiB), in the worst case of
/// one-word pieces with a gap after each, with the 16 bytes that describe each piece.
pub(super) const LOG_BYTES: u64 = 512 << 10;

/// Where a bank's lines begin in it: the word before them has a whole line.
pub(super) const LINES_AT: u64 = LINE_BYTES;

/// The line of the first word, the log, and start-gap's spare line.
const _: () = assert!(BANK_OVERHEAD_BYTES == LINES_AT + LOG_BYTES + LINE_BYTES);

/// The banks of a drive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Banks {
    pub memory: SpuMemoryProfile,
    pub count: u64,
    bank_bytes: u64,
}

impl Banks {
    /// The banks of these processors, if they have memory, in a drive of this capacity.
    pub fn of(spu: &SpuProfile, capacity_bytes: u64) -> Option<Banks> {
        let (count, bank_bytes) = (u64::from(spu.count), spu.bank_bytes(capacity_bytes));
        spu.memory.map(|memory| Banks { memory, count, bank_bytes })
    }

    /// Lines of a bank.
    pub fn lines(&self) -> u64 {
        (self.bank_bytes - LINES_AT) / LINE_BYTES - 1
    }

    /// Where a bank begins in the drive's memory.
    pub fn bank_at(&self, bank: usize) -> u64 {
        self.bank_bytes * bank as u64
    }

    /// The bank that has the byte at an address of the drive, and where among its lines' bytes it is.
    pub fn place(&self, address: u64) -> (usize, u64) {
        let stripe = address / STRIPE_BYTES;
        let at = LOG_BYTES + stripe / self.count * STRIPE_BYTES + address % STRIPE_BYTES;
        ((stripe % self.count) as usize, at)
    }
}
