//! The running FTL: its state, the write path, and what the other files of this crate build on.
//!
//! Each operation takes the earliest time at which it may start and returns when it is done. State changes at
//! once; the medium knows what was still on its way when power goes.

use std::collections::BTreeSet;

use tantalum_nand::{BlockId, Fetches, Geometry, Nand, Nanoseconds, Ppn, SpareEnds, UnitSpare};

use crate::collect::ValidUnit;
use crate::counters::Counters;
use crate::error::FtlError;
use crate::host_unit::HostUnit;
use crate::map::Map;
use crate::map::{HintError, Logs};
use crate::map::{Transactions, TxPage};
use crate::metadata::{MetadataLog, Record};
use crate::space::Blocks;
use crate::space::Streams;
use crate::space::{FtlConfig, Layout};
use crate::spare;
use crate::tenants::{TENANTS, Tenants};
use crate::types::{Generation, Hint, Lpn, Metadata, Seq, TxId};

/// Units that are brought into the processor's cache together: few enough to stay there, and enough that their misses
/// take little longer than one.
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

/// The flash translation layer.
#[derive(Debug)]
pub struct Ftl {
    pub(crate) nand: Nand,
    pub(crate) geometry: Geometry,
    pub(crate) config: FtlConfig,
    pub(crate) layout: Layout,
    pub(crate) map: Map,
    pub(crate) blocks: Blocks,
    pub(crate) streams: Streams,
    pub(crate) metadata: MetadataLog,
    pub(crate) logs: Logs,
    pub(crate) transactions: Transactions,
    pub(crate) tenants: Tenants,
    /// Erases at which wear is looked at next.
    pub(crate) next_wear_check: u64,
    pub(crate) seq: Seq,
    /// The newest version at which anything was unmapped.
    pub(crate) last_unmap: Seq,
    /// When the last atomic batch of several pages is on flash: its members are not copied without their mark before. One
    /// of a single page has none, and no copy of it starts before it can be read.
    pub(crate) batches_done_ns: Nanoseconds,
    /// Whether members of a batch are on flash and not yet mapped: garbage collection would take them for garbage.
    pub(crate) batch_under_way: bool,
    /// Atomic batches that were given up half way: they must never count as whole.
    pub(crate) abandoned: BTreeSet<Seq>,
    /// Whether recovery would find the drive shut down, and so give numbers away again that were given away since.
    pub(crate) shut_down: bool,
    /// Blocks that failed a program, or keep lost units, and are to be emptied and retired.
    pub(crate) failing: Vec<BlockId>,
    /// Blocks that are not retired.
    pub(crate) good_blocks: u32,
    pub(crate) counters: Counters,
    /// Whether the drive came to the end of its life because its last free blocks failed.
    pub(crate) exhausted: bool,
    pub(crate) scratch: Scratch,
}

/// Buffers that would otherwise be allocated again and again.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub spares: Vec<UnitSpare>,
    pub spare_ends: Vec<SpareEnds>,
    pub valid_units: Vec<ValidUnit>,
}

impl Ftl {
    /// The medium.
    pub fn nand(&self) -> &Nand {
        &self.nand
    }

    /// The medium, for faults and power.
    pub fn nand_mut(&mut self) -> &mut Nand {
        &mut self.nand
    }

    /// The medium back; everything in DRAM is lost.
    pub fn into_nand(self) -> Nand {
        self.nand
    }

    /// The map.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The plan of the flash.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The counters, for those of the controller.
    pub fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// The hinted logs.
    pub fn logs(&self) -> &Logs {
        &self.logs
    }

    /// The open transactions.
    pub fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    /// Starts a life of a hinted log, and tells when. Where too many are open the one that was used longest ago is
    /// forgotten, which takes a checkpoint; no page of a log waits in a cache then. None if all of them have living hints.
    pub fn begin_log(&mut self, at_ns: Nanoseconds) -> Result<Option<(Generation, Nanoseconds)>, FtlError> {
        if self.logs.is_full() {
            self.take_checkpoint(at_ns, false)?;
            if !self.logs.forget_idle() {
                return Ok(None);
            }
        }
        let done_ns = self.mark_power_on(at_ns)?;
        let generation = Generation(self.next_seq().0);
        self.logs.begin(generation);
        Ok(Some((generation, done_ns)))
    }

    /// Numbers that are given to hosts are never given again. After a cut a gap is left for those that flash does not tell
    /// of; so flash has to tell that the drive is not shut down any more. Returns when it does.
    fn mark_power_on(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let tells =
            self.metadata.checkpoint.pages_since > 0 && self.nand.programs_done_ns() <= self.nand.now_ns();
        if !self.shut_down || tells {
            self.shut_down = false;
            return Ok(at_ns);
        }
        let step = self.next_seq();
        self.append_journal(&[Record::PowerOn { step }], at_ns)?;
        let done_ns = if self.has_plp() { at_ns } else { self.flush_journal(at_ns)? };
        self.shut_down = false;
        Ok(done_ns)
    }

    /// Checks that a hinted page follows the one before it.
    pub fn check_hint(&self, hint: &Hint) -> Result<(), HintError> {
        self.logs.check(hint)
    }

    /// The drive has a hinted page: in its cache, or on flash.
    pub fn accept_hint(&mut self, hint: &Hint) {
        self.logs.accept(hint);
    }

    /// A unit waits in the cache, and another one for the same logical page no longer does. Of pages of hinted logs the
    /// claims to their homes begin and end with that.
    #[inline]
    pub fn waits(&mut self, unit: &HostUnit, replaced: Option<&HostUnit>) {
        if replaced.is_some_and(|replaced| replaced.hint.is_some()) {
            self.logs.no_longer_waits(&mut self.map, unit.lpn);
        }
        if let Some(hint) = unit.hint {
            self.logs.waits(&mut self.map, unit.lpn, hint, unit.version);
        }
    }

    /// A unit no longer waits in the cache: it is given up, for something newer took its place.
    pub fn no_longer_waits(&mut self, unit: &HostUnit) -> Result<(), FtlError> {
        if unit.hint.is_some() {
            self.logs.no_longer_waits(&mut self.map, unit.lpn);
        }
        self.nand.release(unit.slot);
        self.unprotect(unit.lpn)
    }

    /// Opens a transaction, and tells when.
    pub fn begin_transaction(&mut self, at_ns: Nanoseconds) -> Result<(TxId, Nanoseconds), FtlError> {
        let done_ns = self.mark_power_on(at_ns)?;
        let tx = TxId(self.next_seq().0);
        self.transactions.begin(tx);
        Ok((tx, done_ns))
    }

    /// Bytes of host memory for maps, beside data and spare areas.
    pub fn dram_bytes(&self) -> usize {
        self.map.dram_bytes() + self.nand.map_bytes()
    }

    /// How the blocks have worn.
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

    /// A copy of the whole drive, if its flash is in memory.
    pub fn try_clone(&self) -> Option<Ftl> {
        Some(Ftl {
            nand: self.nand.try_clone()?,
            geometry: self.geometry,
            config: self.config,
            layout: self.layout,
            map: self.map.clone(),
            blocks: self.blocks.clone(),
            streams: self.streams.clone(),
            metadata: self.metadata.clone(),
            logs: self.logs.clone(),
            transactions: self.transactions.clone(),
            tenants: self.tenants.clone(),
            next_wear_check: self.next_wear_check,
            seq: self.seq,
            last_unmap: self.last_unmap,
            batches_done_ns: self.batches_done_ns,
            batch_under_way: self.batch_under_way,
            abandoned: self.abandoned.clone(),
            shut_down: self.shut_down,
            failing: self.failing.clone(),
            good_blocks: self.good_blocks,
            counters: self.counters,
            exhausted: self.exhausted,
            scratch: Scratch::default(),
        })
    }

    /// Forgets where a unit is, as firmware would that gives old copies up early.
    #[cfg(feature = "canaries")]
    pub fn give_up(&mut self, lpn: Lpn) {
        self.map.unmap(lpn);
    }

    /// Draws the next number.
    #[inline]
    pub fn next_seq(&mut self) -> Seq {
        self.seq.0 += 1;
        self.seq
    }

    // -- what a capacitor protects ------------------------------------------------------------------------------

    /// A unit is about to wait in the cache: fills its buffer. From now on it outlives the process, if a capacitor
    /// protects it. On an error the buffer is still the caller's.
    ///
    /// Never inlined: the processor is busy with the stores of the copy for a while, and whatever it must read back that
    /// was stored after them waits. So the unit is to be in memory before the copy begins.
    #[inline(never)]
    pub fn keep(&mut self, unit: &HostUnit, data: &[u8]) -> Result<(), FtlError> {
        self.nand.fill(unit.slot, data)?;
        self.protect(unit, data)
    }

    /// As [`Ftl::keep`], for a unit whose buffer was filled with `data` already.
    #[inline]
    pub fn protect(&mut self, unit: &HostUnit, data: &[u8]) -> Result<(), FtlError> {
        match self.metadata.protected() {
            Some(protected) => protected.cached(&mut self.nand, unit, data),
            None => Ok(()),
        }
    }

    /// A unit no longer waits in the cache.
    #[inline]
    pub fn unprotect(&mut self, lpn: Lpn) -> Result<(), FtlError> {
        match self.metadata.protected() {
            Some(protected) => protected.uncached(&mut self.nand, lpn),
            None => Ok(()),
        }
    }

    /// Reads a unit; zeros if it is not mapped.
    pub fn read(&mut self, lpn: Lpn, data: &mut [u8], at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let Some(ppn) = self.map.lookup(lpn) else {
            data.fill(0);
            return Ok(at_ns);
        };
        self.read_place(ppn, data, at_ns)?.ok_or(FtlError::Unreadable { lpn, ppn })
    }

    /// As [`Ftl::read`], but the bytes of a unit that has any are to be fetched.
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
        self.unless_lost(ppn, read, at_ns)?.ok_or(FtlError::Unreadable { lpn, ppn })
    }

    /// Brings what reads of these logical pages will look at into the processor's cache: several misses at once take
    /// as long as one. At most [`PREFETCHED`] are looked at.
    pub fn prefetch(&self, lpns: impl Iterator<Item = Lpn>) {
        let mut places = [Ppn(0); PREFETCHED];
        let mapped = lpns.take(PREFETCHED).filter_map(|lpn| self.map.lookup(lpn));
        let count = places.iter_mut().zip(mapped).map(|(place, ppn)| *place = ppn).count();
        self.nand.prefetch(&places[..count]);
    }

    /// Reads a page of an open transaction.
    pub fn read_transaction(
        &mut self,
        tx: TxId,
        lpn: Lpn,
        data: &mut [u8],
        at_ns: Nanoseconds,
    ) -> Result<Option<Nanoseconds>, FtlError> {
        let Some(TxPage { ppn, .. }) = self.transactions.page(tx, lpn) else { return Ok(None) };
        self.read_place(ppn, data, at_ns)?.map(Some).ok_or(FtlError::Unreadable { lpn, ppn })
    }

    /// The metadata stored with a unit; zeros if it is not mapped.
    pub fn metadata(&self, lpn: Lpn) -> Result<Metadata, FtlError> {
        match self.map.lookup(lpn) {
            Some(ppn) => Ok(spare::metadata(&self.nand.spare(ppn)?)),
            None => Ok(Metadata::default()),
        }
    }

    /// What is due between commands: failing blocks are emptied, a checkpoint is taken, wear is levelled, and
    /// indexes that DRAM has no room for are swapped out.
    pub fn maintain(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        self.nand.advance(at_ns);
        if !self.failing.is_empty() {
            self.retire_failing(at_ns)?;
        }
        if self.checkpoint_due() {
            self.take_checkpoint(at_ns, false)?;
        }
        if self.counters.blocks_erased >= self.next_wear_check {
            self.level_wear(at_ns)?;
        }
        TENANTS.iter().try_for_each(|tenant| tenant.maintain(self, at_ns))
    }
}
