//! Counts of the torture test.

use serde::Serialize;
use tantalum::Counters;

/// What the drives went through between cuts, to show that the test reached it. Work repeated on copies of a drive, and
/// recoveries, are not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Reached {
    /// Commands of the host.
    pub commands: u64,
    /// Blocks emptied by garbage collection and wear levelling.
    pub collections: u64,
    /// Checkpoints taken.
    pub checkpoints: u64,
    /// Batches of units and records.
    pub batches: u64,
    /// Journal pages programmed.
    pub journal_pages: u64,
    /// Blocks erased.
    pub blocks_erased: u64,
    /// Commands that the drive refused, which must not have changed anything.
    pub refused: u64,
    /// Indexes of key-value namespaces that were swapped out, and that were loaded again.
    pub indexes_swapped_out: u64,
    /// See `indexes_swapped_out`.
    pub indexes_swapped_in: u64,
    /// Writes of a size that is all or nothing.
    pub atomic_writes: u64,
    /// Larger ones, on the same drives, of which a cut left some units and not others.
    pub writes_in_part: u64,
    /// Reclaim units that the host has ended.
    pub reclaim_units_updated: u64,
}

impl Reached {
    /// The counts of a drive.
    pub(crate) fn of(counted: &Counters, units_per_page: u64) -> Reached {
        Reached {
            commands: 0,
            collections: counted.collections,
            checkpoints: counted.checkpoints,
            batches: counted.batches_with_records,
            journal_pages: counted.flash_units.journal / units_per_page,
            blocks_erased: counted.blocks_erased,
            refused: 0,
            indexes_swapped_out: counted.indexes_swapped_out,
            indexes_swapped_in: counted.indexes_swapped_in,
            atomic_writes: 0,
            writes_in_part: 0,
            reclaim_units_updated: 0,
        }
    }

    pub(crate) fn add(&mut self, other: &Reached) {
        self.commands += other.commands;
        self.collections += other.collections;
        self.checkpoints += other.checkpoints;
        self.batches += other.batches;
        self.journal_pages += other.journal_pages;
        self.blocks_erased += other.blocks_erased;
        self.refused += other.refused;
        self.indexes_swapped_out += other.indexes_swapped_out;
        self.indexes_swapped_in += other.indexes_swapped_in;
        self.atomic_writes += other.atomic_writes;
        self.writes_in_part += other.writes_in_part;
        self.reclaim_units_updated += other.reclaim_units_updated;
    }
}

/// Counts of one run and the copies made of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tally {
    pub cuts: u64,
    pub shutdown_cuts: u64,
    pub dirty_recoveries: u64,
    pub second_cuts: u64,
    pub torn_pages_seen: u64,
    pub promises_checked: u64,
    pub reached: Reached,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.cuts += other.cuts;
        self.shutdown_cuts += other.shutdown_cuts;
        self.dirty_recoveries += other.dirty_recoveries;
        self.second_cuts += other.second_cuts;
        self.torn_pages_seen += other.torn_pages_seen;
        self.promises_checked += other.promises_checked;
        self.reached.add(&other.reached);
    }
}
