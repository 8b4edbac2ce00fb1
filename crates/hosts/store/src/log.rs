//! ARIES's log: appended to in memory, written in groups. Commits that arrive while a write is in flight wait for the next
//! one together (group commit).
//!
//! Invariants: positions only grow, and a position's place is the position modulo the ring's size; what recovery may need is
//! never overwritten; a partly filled block is rewritten with everything it had.

use std::cell::{Cell, RefCell};

use crate::error::StoreError;
use crate::record::{Lsn, Record};
use crate::tables::LOG_AT;
use crate::world::{Host, Path};

/// The log is written in blocks of this size, as a block device requires.
pub(crate) const BLOCK_BYTES: u64 = 512;

/// The position of the first record.
pub(crate) const FIRST: Lsn = BLOCK_BYTES;

/// Maximum size of one write of the log: recovery clears this much after the log's end.
pub(crate) fn most_at_once(ring_bytes: u64) -> u64 {
    ring_bytes / 8
}

/// The log.
pub(crate) struct Log {
    host: Host,
    ring_bytes: u64,
    /// Starts with the block that contains `durable`.
    buffer: RefCell<Vec<u8>>,
    end: Cell<Lsn>,
    durable: Cell<Lsn>,
    /// Somebody waits until this much is durable.
    wanted: Cell<Lsn>,
    /// Recovery needs nothing before this position.
    low: Cell<Lsn>,
    pub writes: Cell<u64>,
}

impl Log {
    /// A log that continues at `end`, in a block that begins with `begun`.
    pub fn new(host: Host, ring_bytes: u64, low: Lsn, end: Lsn, begun: Vec<u8>) -> Log {
        assert!(ring_bytes.is_multiple_of(BLOCK_BYTES), "a ring of {ring_bytes} bytes is not whole blocks");
        assert!(low <= end, "the log ends at {end}, before {low}, which recovery needs");
        assert_eq!(begun.len() as u64, end % BLOCK_BYTES, "what the last block holds");
        Log {
            host,
            ring_bytes,
            buffer: RefCell::new(begun),
            end: Cell::new(end),
            durable: Cell::new(end),
            wanted: Cell::new(end),
            low: Cell::new(low),
            writes: Cell::new(0),
        }
    }

    pub fn end(&self) -> Lsn {
        self.end.get()
    }

    /// Whether the record at a position is durable.
    pub fn is_durable(&self, lsn: Lsn) -> bool {
        lsn < self.durable.get()
    }

    /// Recovery no longer needs anything before `low`, according to a durable checkpoint.
    pub fn give_up_before(&self, low: Lsn) {
        let before = self.low.replace(low);
        assert!(before <= low, "the log had given up what is before {before}, and {low} is needed");
        assert!(self.is_durable(low), "{low} is needed, and the log is durable up to {}", self.durable.get());
    }

    /// Appends a record; returns its position.
    pub fn append(&self, record: &Record) -> Lsn {
        let lsn = self.end.get();
        let bytes = record.encode(lsn);
        self.end.set(lsn + bytes.len() as u64);
        assert!(self.end.get() - self.low.get() < self.ring_bytes, "the log overwrote what recovery needs");
        self.buffer.borrow_mut().extend(bytes);
        lsn
    }

    /// Waits until a new transaction has room.
    pub async fn wait_for_room(&self) {
        let has_room = || self.end.get() - self.low.get() < self.ring_bytes / 4 * 3;
        self.host.until(|| has_room().then_some(())).await;
    }

    /// Waits until everything appended so far is durable.
    pub async fn force(&self) {
        let end = self.end.get();
        self.wanted.set(self.wanted.get().max(end));
        self.host.until(|| (self.durable.get() >= end).then_some(())).await;
    }

    /// Waits until the record at a position is durable.
    pub async fn wait_beyond(&self, lsn: Lsn) {
        if !self.is_durable(lsn) {
            self.force().await;
        }
    }

    /// A task that writes the log whenever somebody waits for it.
    pub async fn write_in_background(&self, path: Path) -> Result<(), StoreError> {
        loop {
            self.host.until(|| (self.wanted.get() > self.durable.get()).then_some(())).await;
            let (from, to) = (self.durable.get(), self.end.get());
            assert!(to - from <= most_at_once(self.ring_bytes), "{} bytes at once", to - from);
            let first = from - from % BLOCK_BYTES;
            let mut bytes = self.buffer.borrow()[..(to - first) as usize].to_vec();
            bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES as usize), 0);
            let at = first % self.ring_bytes;
            let before_end = ((self.ring_bytes - at) as usize).min(bytes.len());
            self.host.write(path, LOG_AT + at, &bytes[..before_end]).await?;
            if before_end < bytes.len() {
                self.host.write(path, LOG_AT, &bytes[before_end..]).await?;
            }
            self.writes.set(self.writes.get() + 1);
            self.buffer.borrow_mut().drain(..(to - to % BLOCK_BYTES - first) as usize);
            self.durable.set(to);
        }
    }
}
