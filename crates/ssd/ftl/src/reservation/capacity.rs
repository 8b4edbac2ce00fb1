//! How much space units and records may take together.
//!
//! A drive lays its flash out for its logical capacity, so block units alone always find room. Records share that
//! capacity. Mapped logical pages, homes that a cut would map, records (as they are packed when moved), what waits in
//! DRAM, and the indexes in two checkpoints together never exceed the drive's logical units. So garbage collection
//! always gains something, and a command that does not fit is refused before it has changed anything. Pages of open
//! transactions are not counted: their number is bounded, and they have separate room
//! ([`crate::Layout::transaction_units_limit`]).

use tantalum_nand::Nanoseconds;

use crate::allocate::Allocator;
use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::map::UNIT_WEIGHT;
use crate::metadata::Record;
use crate::parts::Parts;
use crate::tenants::TENANTS;
use crate::types::Lpn;

impl Parts {
    /// Chunks needed for those of these logical pages that have no data yet.
    pub(crate) fn chunks_of_new(&self, lpns: impl Iterator<Item = Lpn>) -> u64 {
        let new = lpns.filter(|lpn| self.map.lookup(*lpn).is_none()).count();
        new as u64 * u64::from(UNIT_WEIGHT)
    }

    /// Free units, after reserving room for this many more index entries.
    pub(crate) fn free_units(&self, entries: u64, waiting: usize) -> u64 {
        if !self.checkpoint_has_place(0, entries) {
            return 0;
        }
        u64::from(self.config.logical_units).saturating_sub(self.held_units(entries, waiting))
    }

    /// Units that are not free.
    pub(crate) fn held_units(&self, entries: u64, waiting: usize) -> u64 {
        let held: u64 = TENANTS.iter().map(|tenant| tenant.reserved_units(self)).sum();
        let blocks = 2 * u64::from(self.unplanned_blocks(entries));
        held + waiting as u64 + blocks * u64::from(self.geometry.units_per_block())
    }
}

impl Allocator {
    /// Freed room is usable once no cut can bring back what was there. Returns that time.
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
}

impl Ftl {
    /// Ensures that these logical pages can take data: unmapped ones take more of the capacity. `waiting` units are in
    /// a cache, and may be new too. Returns when the room is guaranteed.
    pub fn admit_units(
        &mut self,
        lpns: impl Iterator<Item = Lpn>,
        waiting: usize,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        if self.tenants.records.namespaces.is_empty() && self.map.packed_units() == 0 {
            return Ok(at_ns);
        }
        self.admit_records(self.chunks_of_new(lpns), 0, waiting, at_ns)
    }

    /// Ensures room for records of this weight and this many index entries. Returns when the room is guaranteed.
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
        if self.tenants.budget < chunks {
            ready_ns = self.settle_unmapped(at_ns)?;
            self.tenants.budget = self.free_units(entries, waiting) * u64::from(UNIT_WEIGHT);
        }
        let missing = self.finds_no_room();
        match self.tenants.budget.checked_sub(chunks).filter(|_| !missing) {
            Some(left) => {
                self.tenants.budget = left;
                Ok(ready_ns)
            }
            None => Err(FtlError::CapacityExceeded),
        }
    }
}

#[cfg(test)]
mod tests {
    use tantalum_nand::{Nand, UNIT_BYTES};

    use super::*;
    use crate::host_unit::HostUnit;
    use crate::key::NamespaceAttributes;
    use crate::tenants::records::Room;
    use crate::test_support::{CONFIG, GEOMETRY, TIMING};

    fn write(ftl: &mut Ftl, lpn: Lpn) {
        let slot = ftl.nand_mut().stage(&[1; UNIT_BYTES]).unwrap();
        let version = ftl.next_seq();
        ftl.write_page(&[HostUnit { slot, lpn, version, metadata: [0; 24], hint: None }], 0).unwrap();
    }

    /// Until the page of a trim's record is on flash, a cut brings back what was trimmed, and with the records that took its
    /// room the drive would hold more than it has room for. No test looked at the time of such an admission.
    #[test]
    fn what_a_trim_freed_is_there_when_the_trim_is_on_flash() {
        for is_issued in [false, true] {
            let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
            ftl.create_namespace(NamespaceAttributes::default(), 0).unwrap();
            write(&mut ftl, Lpn(0));
            ftl.flush_journal(0).unwrap();
            let now_ns = ftl.nand().programs_done_ns();
            ftl.nand_mut().advance(now_ns);
            ftl.trim(Lpn(0), 1, now_ns).unwrap();
            if is_issued {
                ftl.flush_journal(now_ns).unwrap();
            }
            ftl.tenants.budget = 0;
            let ready_ns = ftl.admit_records(1, 0, 0, now_ns).unwrap();
            assert_eq!(ready_ns, ftl.nand().programs_done_ns(), "issued before: {is_issued}");
            assert!(ready_ns >= now_ns + TIMING.program_ns);
        }
    }

    /// Of 128 units 20 are mapped and 3 wait. Two entries take a chunk in two checkpoints; thousands take blocks of eight
    /// units beyond those that are planned, in both.
    #[test]
    fn records_are_admitted_up_to_the_last_chunk_of_the_capacity() {
        let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
        ftl.create_namespace(NamespaceAttributes::default(), 0).unwrap();
        (0..20).for_each(|lpn| write(&mut ftl, Lpn(lpn)));
        let mut blocks = Vec::new();
        for entries in [2, 3000, 5000] {
            blocks.push(ftl.unplanned_blocks(entries));
            let free = 128 - 20 - 3 - 2 * 8 * u64::from(ftl.unplanned_blocks(entries));
            let most = free * 64 - entries / 2;
            for (chunks, fits) in [(most, true), (most + 1, false)] {
                ftl.tenants.budget = 0;
                let admitted = ftl.admit_records(chunks, entries, 3, 0);
                assert_eq!(admitted.is_ok(), fits, "{chunks} chunks, {entries} entries: {admitted:?}");
            }
        }
        assert!(blocks[0] < blocks[1] && blocks[1] < blocks[2], "{blocks:?}");
        // 105 units are free; each of these takes one, and its entry half a chunk
        let room = |count| Room::of(4000) * count;
        assert!(ftl.has_room(room(104), 3) && !ftl.has_room(room(105), 3));
        assert!(!ftl.has_room(room(104), 4), "one more waits");
    }
}
