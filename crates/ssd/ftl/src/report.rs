//! The report of a recovery.

use serde::{Deserialize, Serialize};
use tantalum_nand::Nanoseconds;

/// What recovery did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RecoveryReport {
    /// Whether flash ended with the checkpoint of a shutdown, so that there was nothing to recover. What was only in DRAM when
    /// power went leaves no trace.
    pub clean: bool,
    /// Pages whose spare areas were read.
    pub pages_scanned: u64,
    /// Pages of checkpoint and journal that were read.
    pub pages_read: u64,
    /// Bytes of checkpoint and journal that were loaded from non-volatile memory.
    pub nvm_bytes_read: u64,
    /// Pages that were uncorrectable.
    pub torn_pages: u64,
    /// Journal records found after the checkpoint.
    pub journal_records: u64,
    /// Assertions folded over the checkpoint.
    pub assertions: u64,
    /// Atomic batches that were whole; `batches_dropped` counts the others.
    pub batches_whole: u64,
    /// See `batches_whole`.
    pub batches_dropped: u64,
    /// Log pages whose homes were asserted by hints.
    pub hints_whole: u64,
    /// Log pages after the whole run, whose homes were not.
    pub hints_dropped: u64,
    /// Transactions committed in the journal since the checkpoint, with pages written since.
    pub transactions_completed: u64,
    /// Units written since the checkpoint in uncommitted transactions, and dropped.
    pub transaction_units_dropped: u64,
    /// Units that had been acknowledged, waited in protected DRAM, and were brought back by the dump.
    pub units_restored: u64,
    /// Units of the checkpoint taken at the end of recovery; 0 after a clean shutdown.
    pub checkpoint_units: u64,
    /// Device time of reading.
    pub read_ns: Nanoseconds,
    /// Device time of the whole recovery: reading, the new checkpoint, and erases for it and for the dump.
    pub device_ns: Nanoseconds,
}
