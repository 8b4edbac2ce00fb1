//! What recovery tells of itself.

use tantalum_nand::Nanoseconds;

/// What recovery did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecoveryReport {
    /// Whether the drive had been shut down.
    pub clean: bool,
    /// Pages whose spare areas were read.
    pub pages_scanned: u64,
    /// Pages of checkpoint and journal that were read.
    pub pages_read: u64,
    /// Pages that were uncorrectable.
    pub torn_pages: u64,
    /// Journal records found behind the checkpoint.
    pub journal_records: u64,
    /// Assertions folded over the checkpoint.
    pub assertions: u64,
    /// Atomic batches that were whole, and that were not and were dropped.
    pub batches_whole: u64,
    /// See `batches_whole`.
    pub batches_dropped: u64,
    /// Log pages whose homes were asserted by hints.
    pub hints_whole: u64,
    /// Log pages behind the whole run, whose homes were not.
    pub hints_dropped: u64,
    /// Transactions whose commit the journal tells since the checkpoint.
    pub transactions_completed: u64,
    /// Units written since the checkpoint in transactions that were not committed, and dropped.
    pub transaction_units_dropped: u64,
    /// Units that had been acknowledged, waited in protected DRAM, and were brought back by the dump.
    pub units_restored: u64,
    /// Units of the checkpoint that ended it; 0 after a clean shutdown.
    pub checkpoint_units: u64,
    /// Device time that reading took.
    pub read_ns: Nanoseconds,
    /// Device time that recovery took: reading, the new checkpoint, and erases for it and for the dump.
    pub device_ns: Nanoseconds,
}
