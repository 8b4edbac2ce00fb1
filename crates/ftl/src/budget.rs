//! How much units and records may take together.
//!
//! A drive lays its flash out for its logical capacity, so block units alone always find room. Records share that capacity:
//! logical pages that are mapped, records as they are packed when they are moved, what waits in DRAM, and the indexes in
//! two checkpoints never take more than the drive has logical units. So garbage collection always gains something, and a
//! command that does not fit is refused before it has changed anything. Pages of open transactions are not counted: their
//! number is bounded, and they have room beside ([`crate::Layout::transaction_units_limit`]).

use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::key_value::UNIT_CHUNKS;
use crate::types::Lpn;

impl Ftl {
    /// Makes sure that these logical pages can be given data: those that are not mapped take more of the capacity.
    /// `waiting` units are in a cache, and may be new too.
    pub fn admit_units(&mut self, lpns: impl Iterator<Item = Lpn>, waiting: usize) -> Result<(), FtlError> {
        if self.key_value.namespaces.is_empty() && self.map.record_units() == 0 {
            return Ok(());
        }
        let new = lpns.filter(|lpn| self.map.lookup(*lpn).is_none()).count();
        self.admit(new as u64 * UNIT_CHUNKS as u64, 0, waiting)
    }

    /// Makes sure that records of this weight fit, and so many entries in indexes.
    pub(crate) fn admit_records(
        &mut self,
        chunks: u64,
        entries: u64,
        waiting: usize,
    ) -> Result<(), FtlError> {
        self.admit(chunks, entries, waiting)
    }

    fn admit(&mut self, chunks: u64, entries: u64, waiting: usize) -> Result<(), FtlError> {
        // an entry takes a quarter of a chunk in each of two checkpoints
        let chunks = chunks + entries.div_ceil(2);
        if self.key_value.budget_chunks < chunks {
            let waiting = (waiting + self.key_value.buffer.unit_count()) as u64;
            let held = u64::from(self.map.mapped_units()) + self.map.record_units() + waiting;
            let indexes =
                2 * u64::from(self.index_blocks(entries)) * u64::from(self.geometry.units_per_block());
            let free = u64::from(self.config.logical_units).saturating_sub(held + indexes);
            self.key_value.budget_chunks = free * UNIT_CHUNKS as u64;
        }
        match self.key_value.budget_chunks.checked_sub(chunks) {
            Some(left) => {
                self.key_value.budget_chunks = left;
                Ok(())
            }
            None => Err(FtlError::CapacityExceeded),
        }
    }
}
