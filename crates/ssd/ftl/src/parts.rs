//! The parts of a drive and what a step may do to them: program pages into open blocks, append records, change the map.
//!
//! Nothing here erases a block, collects garbage or takes a checkpoint: whoever changes something has a
//! [`Reservation`](crate::reservation::Reservation) for it, which [`Ftl`](crate::Ftl) has made before. Three types say who may do what:
//!
//! | type | has | may in addition |
//! |---|---|---|
//! | [`Parts`] | the state | change it within the room that was reserved |
//! | [`Allocator`](crate::allocate::Allocator) | the parts | open blocks, and so erase them |
//! | [`Ftl`](crate::Ftl) | the allocator | make room: collect garbage, take checkpoints |

use tantalum_nand::{BlockId, Fetches, Geometry, Nand, Nanoseconds, Ppn, SpareEnds, UnitSpare};

use crate::batches::Batches;
use crate::counters::Counters;
use crate::error::FtlError;
use crate::file_lists::FileLists;
use crate::host_unit::HostUnit;
use crate::map::{HintError, Logs, Map, Transactions, TxPage, ValidUnit};
use crate::metadata::MetadataLog;
use crate::space::{FtlConfig, Layout, Space};
use crate::spare;
use crate::tenants::state::Tenants;
use crate::types::{Hint, Lpn, Metadata, SEQ_LIMIT, Seq, TxId};

/// Units prefetched into the processor's cache together: few enough to stay there, and enough for their misses to
/// overlap.
pub const PREFETCHED: usize = 16;

/// Erase counts of the good blocks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wear {
    /// The least-worn block's.
    pub min: u32,
    /// The most-worn block's.
    pub max: u32,
    /// The mean.
    pub mean: f64,
    /// Blocks retired.
    pub bad_blocks: u32,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Parts {
    pub(crate) nand: Nand,
    pub(crate) geometry: Geometry,
    pub(crate) config: FtlConfig,
    pub(crate) map: Map,
    pub(crate) space: Space,
    pub(crate) metadata: MetadataLog,
    pub(crate) tenants: Tenants,
    pub(crate) seq: Seq,
    pub(crate) batches: Batches,
    /// What `fs_write` wrote to each file, on a drive that keeps lists.
    pub(crate) file_lists: Option<FileLists>,
    /// Whether recovery would find the drive shut down, and so reuse numbers issued since.
    pub(crate) shut_down: bool,
    /// See `Ftl::stop`.
    pub(crate) is_stopped: bool,
    pub(crate) counters: Counters,
    pub(crate) scratch: Scratch,
}

/// Buffers for reuse.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub spares: Vec<UnitSpare>,
    pub spare_ends: Vec<SpareEnds>,
    pub valid_units: Vec<ValidUnit>,
}

impl Parts {
    /// The medium.
    pub fn nand(&self) -> &Nand {
        &self.nand
    }

    /// The medium, for faults and power.
    pub fn nand_mut(&mut self) -> &mut Nand {
        &mut self.nand
    }

    /// The map.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The plan of the flash.
    pub fn layout(&self) -> &Layout {
        self.space.layout()
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The counters, to add the controller's.
    pub fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// The hinted logs.
    pub fn logs(&self) -> &Logs {
        &self.tenants.units.logs
    }

    /// The open transactions.
    pub fn transactions(&self) -> &Transactions {
        &self.tenants.units.transactions
    }

    /// A command has failed in the middle, and nothing may be built on its effect: from now on there are only reads, and none
    /// takes a checkpoint, neither for a loss nor to have room for an index.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Checks that a hinted page follows the previous one.
    pub fn check_hint(&self, hint: &Hint) -> Result<(), HintError> {
        self.tenants.units.logs.check(hint)
    }

    /// The drive has accepted a hinted page, into its cache or on flash.
    pub fn accept_hint(&mut self, hint: &Hint) {
        self.tenants.units.logs.accept(hint);
    }

    /// A unit now waits in the cache, and an earlier one for the same logical page no longer does. Pages of hinted logs
    /// thereby begin and end their claims to homes.
    #[inline]
    pub fn unit_cached(&mut self, unit: &HostUnit, replaced: Option<&HostUnit>) {
        if replaced.is_some_and(|replaced| replaced.hint.is_some()) {
            self.tenants.units.logs.unit_dropped(&mut self.map, unit.lpn);
        }
        if let Some(hint) = unit.hint {
            self.tenants.units.logs.unit_cached(&mut self.map, unit.lpn, hint, unit.version);
        }
    }

    /// A unit no longer waits in the cache: it is dropped because something newer replaced it.
    pub fn unit_dropped(&mut self, unit: &HostUnit) -> Result<(), FtlError> {
        if unit.hint.is_some() {
            self.tenants.units.logs.unit_dropped(&mut self.map, unit.lpn);
        }
        self.nand.release(unit.slot);
        self.unprotect(unit.lpn)
    }

    /// Bytes of host memory for maps, without data and spare areas.
    pub fn dram_bytes(&self) -> usize {
        self.map.dram_bytes() + self.nand.map_bytes()
    }

    /// The wear of the blocks.
    pub fn wear(&self) -> Wear {
        let blocks = || (0..self.geometry.blocks()).map(BlockId);
        let counts =
            || blocks().filter(|block| !self.nand.is_bad(*block)).map(|block| self.nand.erase_count(block));
        let good = counts().count();
        Wear {
            min: counts().min().unwrap_or(0),
            max: counts().max().unwrap_or(0),
            mean: counts().map(f64::from).sum::<f64>() / good.max(1) as f64,
            bad_blocks: self.geometry.blocks() - good as u32,
        }
    }

    /// Forgets where a unit is, like firmware that drops old copies early.
    #[cfg(feature = "canaries")]
    pub fn give_up(&mut self, lpn: Lpn) {
        self.map.unmap(lpn);
    }

    /// Draws the next number.
    #[inline]
    pub fn next_seq(&mut self) -> Seq {
        self.seq.0 += 1;
        debug_assert!(self.seq < SEQ_LIMIT, "recovery would refuse the number {}", self.seq);
        self.seq
    }

    // -- what a capacitor protects ------------------------------------------------------------------------------

    /// A unit is about to wait in the cache: fills its buffer. From then on it outlives the process, if a capacitor
    /// protects it. On an error the buffer still belongs to the caller.
    ///
    /// Never inlined: the copy's stores occupy the processor for a while, and a load of anything stored after them
    /// waits. So the unit must be in memory before the copy begins.
    #[inline(never)]
    pub fn keep(&mut self, unit: &HostUnit, data: &[u8]) -> Result<(), FtlError> {
        self.nand.fill(unit.slot, data)?;
        self.protect(unit, data)
    }

    /// As `Ftl::keep`, for a unit whose buffer already holds `data`.
    #[inline]
    pub fn protect(&mut self, unit: &HostUnit, data: &[u8]) -> Result<(), FtlError> {
        self.metadata.unit_waits(&mut self.nand, unit, data)
    }

    /// A unit no longer waits in the cache.
    #[inline]
    pub fn unprotect(&mut self, lpn: Lpn) -> Result<(), FtlError> {
        self.metadata.unit_left(&mut self.nand, lpn)
    }

    /// Reads a unit; zeros if it is not mapped.
    pub fn read(&mut self, lpn: Lpn, data: &mut [u8], at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let Some(ppn) = self.map.lookup(lpn) else {
            data.fill(0);
            return Ok(at_ns);
        };
        self.read_place(ppn, data, at_ns)?.ok_or(FtlError::Unreadable { lpn, ppn })
    }

    /// As `Ftl::read`, but the unit's bytes, if it has any, are left for the host to fetch.
    pub fn read_later(
        &mut self,
        lpn: Lpn,
        data: &mut [u8],
        fetches: &mut Fetches,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let Some(ppn) = self.map.lookup(lpn) else {
            data.fill(0);
            fetches.skip();
            return Ok(at_ns);
        };
        let read = self.nand.read_later(ppn, data, fetches, at_ns);
        self.unless_lost(ppn, read)?.ok_or(FtlError::Unreadable { lpn, ppn })
    }

    /// Prefetches what reads of these logical pages will access into the processor's cache, so that the misses overlap.
    /// At most [`PREFETCHED`] pages are used.
    pub fn prefetch(&self, lpns: impl Iterator<Item = Lpn>) {
        let mut places = [Ppn(0); PREFETCHED];
        let mapped = lpns.take(PREFETCHED).filter_map(|lpn| self.map.lookup(lpn));
        let count = places.iter_mut().zip(mapped).map(|(place, ppn)| *place = ppn).count();
        self.nand.prefetch(&places[..count]);
    }

    /// Prefetches the data of the logical page that is read next: [`Nand::prefetch_data`].
    #[inline]
    pub fn prefetch_data(&self, lpn: Lpn) {
        if let Some(ppn) = self.map.lookup(lpn) {
            self.nand.prefetch_data(ppn);
        }
    }

    /// Reads a page of an open transaction.
    pub fn read_transaction(
        &mut self,
        tx: TxId,
        lpn: Lpn,
        data: &mut [u8],
        at_ns: Nanoseconds,
    ) -> Result<Option<Nanoseconds>, FtlError> {
        let Some(TxPage { ppn, .. }) = self.tenants.units.transactions.page(tx, lpn) else { return Ok(None) };
        self.read_place(ppn, data, at_ns)?.map(Some).ok_or(FtlError::Unreadable { lpn, ppn })
    }

    /// The metadata stored with a unit; zeros if it is not mapped.
    pub fn metadata(&self, lpn: Lpn) -> Result<Metadata, FtlError> {
        match self.map.lookup(lpn) {
            Some(ppn) => Ok(spare::metadata(&self.nand.spare(ppn)?)),
            None => Ok(Metadata::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tantalum_nand::UNIT_BYTES;

    use super::*;
    use crate::ftl::Ftl;
    use crate::test_support::{CONFIG, GEOMETRY, TIMING};

    #[test]
    fn metadata_are_those_that_the_unit_was_written_with() {
        let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
        let slot = ftl.nand.stage(&[1; UNIT_BYTES]).unwrap();
        let (lpn, version, metadata) = (Lpn(1), ftl.next_seq(), [7; 24]);
        ftl.write_page(&[HostUnit { slot, lpn, version, metadata, hint: None }], 0).unwrap();
        assert_eq!([1, 2].map(|lpn| ftl.metadata(Lpn(lpn)).unwrap()), [[7; 24], [0; 24]]);
    }
}
