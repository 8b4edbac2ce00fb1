//! How much units and records may take together.
//!
//! A drive lays its flash out for its logical capacity, so block units alone always find room. Records share that capacity:
//! logical pages that are mapped, homes that a cut would map, records as they are packed when they are moved, what waits in
//! DRAM, and the indexes in two checkpoints never take more than the drive has logical units. So garbage collection always
//! gains something, and a command that does not fit is refused before it has changed anything. Pages of open transactions
//! are not counted: their number is bounded, and they have room beside ([`crate::Layout::transaction_units_limit`]).

use tantalum_nand::Nanoseconds;

use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::metadata::Record;
use crate::tenants::records::UNIT_CHUNKS;
use crate::types::Lpn;

impl Ftl {
    /// Makes sure that these logical pages can be given data: those that are not mapped take more of the capacity.
    /// `waiting` units are in a cache, and may be new too. Returns when the room is there for good.
    pub fn admit_units(
        &mut self,
        lpns: impl Iterator<Item = Lpn>,
        waiting: usize,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        if self.tenants.records.namespaces.is_empty() && self.map.packed_units() == 0 {
            return Ok(at_ns);
        }
        let new = lpns.filter(|lpn| self.map.lookup(*lpn).is_none()).count();
        self.admit_records(new as u64 * UNIT_CHUNKS as u64, 0, waiting, at_ns)
    }

    /// Makes sure that records of this weight fit, and so many entries in indexes. Returns when the room is there for good.
    pub(crate) fn admit_records(
        &mut self,
        chunks: u64,
        entries: u64,
        waiting: usize,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        // an entry takes a quarter of a chunk in each of two checkpoints
        let chunks = chunks + entries.div_ceil(2);
        let mut ready_ns = at_ns;
        if self.tenants.records.budget_chunks < chunks {
            ready_ns = self.settle_unmapped(at_ns)?;
            self.tenants.records.budget_chunks = self.free_units(entries, waiting) * UNIT_CHUNKS as u64;
        }
        match self.tenants.records.budget_chunks.checked_sub(chunks) {
            Some(left) => {
                self.tenants.records.budget_chunks = left;
                Ok(ready_ns)
            }
            None => Err(FtlError::CapacityExceeded),
        }
    }

    /// Room that was freed is room once no cut brings back what was there. Returns when that is so.
    fn settle_unmapped(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let unmaps =
            |record: &Record| matches!(record, Record::Trim { .. } | Record::NamespaceDeleted { .. });
        if self.has_plp() {
            return Ok(at_ns);
        }
        if self.metadata.waiting().any(unmaps) {
            return self.flush_journal(at_ns);
        }
        Ok(at_ns.max(self.metadata.steps_done_ns()))
    }

    /// Units that are not taken, with room for so many entries more in indexes.
    fn free_units(&self, entries: u64, waiting: usize) -> u64 {
        let waiting = (waiting + self.tenants.records.buffer.unit_count()) as u64;
        // a cut may bring each of them home
        let homes = self.logs.claimed_homes().filter(|home| self.map.lookup(*home).is_none()).count() as u64;
        let held = u64::from(self.map.mapped_units()) + self.map.packed_units() + waiting + homes;
        let indexes = 2 * u64::from(self.index_blocks(entries)) * u64::from(self.geometry.units_per_block());
        u64::from(self.config.logical_units).saturating_sub(held + indexes)
    }
}
