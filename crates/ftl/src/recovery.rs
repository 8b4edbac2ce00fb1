//! Recovery: the same fold of assertions that the running drive keeps up, over the newest whole checkpoint.
//!
//! 1. Read the first page's spare areas of every block: what it is for, and since when.
//! 2. Load the newest checkpoint that is whole.
//! 3. Read the journal pages programmed since.
//! 4. Read the spare areas of the data pages programmed since.
//! 5. Fold: for each logical page the greatest version wins; among copies of one version, the latest step.
//! 6. Rebuild P2L, owners, valid counts and free blocks from L2P.
//! 7. Take a checkpoint.
//!
//! Nothing is changed on flash before step 7, and that is a checkpoint like any other, so a second cut at any
//! point changes nothing (D5).

use std::collections::BTreeSet;

use tantalum_nand::{BlockId, Nand, Nanoseconds};

use crate::canary::{self, Guard};
use crate::counters::Counters;
use crate::error::{Damage, FtlError, LayoutError};
use crate::ftl::{Ftl, Scratch};
use crate::map::Logs;
use crate::map::Map;
use crate::map::Transactions;
use crate::metadata::{MetadataLog, Protected, dump_what_is_left};
use crate::reader::Reader;
use crate::report::RecoveryReport;
use crate::scan::{Found, Scan};
use crate::space::Streams;
use crate::space::{BlockUse, Blocks};
use crate::space::{FtlConfig, Layout};
use crate::tenants::{TENANTS, Tenants, filled_bytes};
use crate::types::{SEQ_LIMIT, Seq};

/// Numbers that may be drawn between two that flash tells of: far more than a drive hands out in DRAM alone.
const DRAWN_UNSEEN: u64 = 1 << 32;

impl Ftl {
    /// A new drive on an empty medium.
    pub fn format(nand: Nand, config: FtlConfig) -> Result<Ftl, FormatError> {
        let layout = Layout::plan(nand.geometry(), &config, bad_blocks(&nand))?;
        let blocks = Blocks::new(nand.geometry(), &nand, true);
        let mut ftl = Ftl::assemble(nand, config, layout, blocks);
        ftl.shut_down = true;
        ftl.take_checkpoint(0, true)?;
        ftl.reserve_dump_blocks(0)?;
        ftl.protect_anew()?;
        Ok(ftl)
    }

    /// Brings a drive back from its flash. Power may go again at any point of it. On failure the medium comes back
    /// with the error.
    pub fn recover(
        mut nand: Nand,
        config: FtlConfig,
        at_ns: Nanoseconds,
    ) -> Result<(Ftl, RecoveryReport), (Box<Nand>, FormatError)> {
        if let Err(error) = Layout::plan(nand.geometry(), &config, 0) {
            return Err((Box::new(nand), error.into()));
        }
        // too few for writes is no reason not to recover
        let good_blocks = nand.geometry().blocks() - bad_blocks(&nand);
        let layout = Layout::with_good_blocks(nand.geometry(), &config, good_blocks);
        let left = dump_what_is_left(&mut nand, layout.dump_blocks, config.protected_units, filled_bytes);
        let units_restored = match left {
            Ok(units) => units,
            Err(error) => return Err((Box::new(nand), error.into())),
        };
        let reader = Reader::new(nand, config.logical_units, at_ns);
        let mut scan = Scan::new(reader, config);
        let found = match scan.find() {
            Ok(found) => found,
            Err(error) => return Err((Box::new(scan.reader.nand), error.into())),
        };
        let Scan { reader: Reader { nand, done_ns, newest, counts, .. }, mut report, .. } = scan;
        report.units_restored = units_restored;
        report.read_ns = done_ns - at_ns;
        (report.pages_scanned, report.pages_read) = (counts.pages_scanned, counts.pages_read);
        report.torn_pages = counts.torn_pages;
        let blocks = Blocks::new(nand.geometry(), &nand, false);
        let mut ftl = Ftl::assemble(nand, config, layout, blocks);
        ftl.seq = newest;
        ftl.shut_down = found.clean;
        if !found.clean && !canary::out(Guard::NumbersDrawnTwice) {
            // numbers may have been drawn, for transactions and logs, that nothing on flash tells of
            ftl.seq.0 += DRAWN_UNSEEN;
        }
        if ftl.seq >= SEQ_LIMIT {
            let error = FtlError::from(Damage::Numbers { newest });
            return Err((Box::new(ftl.nand), error.into()));
        }
        match ftl.restore(found, report, done_ns) {
            Ok(mut report) => {
                report.device_ns = ftl.nand.idle_ns().max(done_ns) - at_ns;
                Ok((ftl, report))
            }
            Err(error) => Err((Box::new(ftl.nand), error.into())),
        }
    }

    fn assemble(nand: Nand, config: FtlConfig, layout: Layout, blocks: Blocks) -> Ftl {
        let geometry = *nand.geometry();
        let good_blocks = geometry.blocks() - bad_blocks(&nand);
        Ftl {
            map: Map::new(&geometry, config.logical_units),
            streams: Streams::new(&geometry, &layout),
            nand,
            geometry,
            config,
            layout,
            good_blocks,
            blocks,
            metadata: MetadataLog::new(&geometry, config.dump_units > 0),
            logs: Logs::default(),
            transactions: Transactions::default(),
            tenants: Tenants::default(),
            next_wear_check: 0,
            seq: Seq(0),
            last_unmap: Seq(0),
            batches_done_ns: 0,
            batch_under_way: false,
            abandoned: BTreeSet::new(),
            shut_down: false,
            failing: Vec::new(),
            counters: Counters::default(),
            exhausted: false,
            scratch: Scratch::default(),
        }
    }

    /// Steps 6 and 7.
    fn restore(
        &mut self,
        found: Found,
        mut report: RecoveryReport,
        at_ns: Nanoseconds,
    ) -> Result<RecoveryReport, FtlError> {
        self.counters = found.facts.counters;
        self.exhausted = found.facts.exhausted;
        // an unmapping may have been lost that a transaction's version must not pass: all of them are over anyway
        self.last_unmap = self.seq;
        for tenant in found.tenants {
            tenant.restore(self, found.clean)?;
        }
        for (block, block_use) in found.uses {
            if self.blocks.block_use(block) == BlockUse::Free {
                self.blocks.take_block(self.geometry.plane_of(block), block, block_use);
            }
        }
        for block in (0..self.geometry.blocks()).map(BlockId) {
            if self.map.valid(block) > 0 && self.blocks.block_use(block) == BlockUse::Free {
                self.blocks.take_block(self.geometry.plane_of(block), block, BlockUse::Open);
                self.close_block(block);
            }
        }
        let checkpoint: Vec<BlockId> = self.blocks.with_use(BlockUse::Checkpoint).collect();
        let journal = self.blocks.with_use(BlockUse::Journal).collect();
        report.clean = found.clean;
        if found.clean {
            self.metadata.found(found.step, journal, Vec::new(), Vec::new());
            self.retain_only(checkpoint, found.checkpoint_pages, found.step);
        } else {
            self.metadata.found(found.step, journal, checkpoint, found.checkpoint_pages);
            self.counters.unsafe_shutdowns += 1;
        }
        let before = self.counters.flash_units.checkpoint;
        let rebased = match found.clean {
            true => Ok(()),
            false => self.rebase(found.batches_dropped, &found.marked, at_ns),
        };
        report.checkpoint_units = self.counters.flash_units.checkpoint - before;
        let ready = rebased.and_then(|()| self.make_ready(at_ns));
        TENANTS.iter().for_each(|tenant| tenant.recovered(self));
        if matches!(ready, Err(FtlError::CapacityExceeded)) {
            self.note_exhaustion();
        }
        match ready {
            // it can still be read, and every recovery finds the same
            Err(FtlError::CapacityExceeded) if self.is_read_only() => Ok(report),
            ready => ready.map(|()| report),
        }
    }

    /// Garbage is collected and blocks are set aside for the dump, for writes to come.
    fn make_ready(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        // the checkpoint tells all that the dump brought back
        self.protect_anew()?;
        if self.is_read_only() {
            return Ok(());
        }
        if self.spare_blocks() <= self.collection_reserve() + self.layout.dump_blocks {
            self.collect_garbage(at_ns)?;
        }
        self.reserve_dump_blocks(at_ns)?;
        self.metadata.restart_protected(&mut self.nand)
    }

    /// Step 7. Until the checkpoint stands, the erase rule needs to know what was found whole: the blocks that prove it
    /// may be free already, and a second cut must find them or a record of it (hazards 4 and 10).
    fn rebase(
        &mut self,
        batches_dropped: BTreeSet<Seq>,
        marked: &BTreeSet<BlockId>,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        if !canary::out(Guard::RecoveryErases) {
            self.abandoned = batches_dropped;
            marked.iter().for_each(|block| self.blocks.mark(*block));
        }
        self.blocks.recovering = true;
        let taken = self.take_checkpoint(at_ns, false);
        self.blocks.recovering = false;
        taken?;
        self.logs = Logs::default();
        self.abandoned.clear();
        Ok(())
    }

    /// From now on the image mirrors what a capacitor protects, if it outlives the process. What it had is void.
    fn protect_anew(&mut self) -> Result<(), FtlError> {
        let protected = Protected::new(&self.nand, self.layout.dump_blocks, self.config.protected_units)?;
        self.metadata.set_protected(protected);
        self.metadata.restart_protected(&mut self.nand)
    }

    /// Sets blocks aside for the dump, erased.
    fn reserve_dump_blocks(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        while (self.metadata.dump_blocks().len() as u32) < self.layout.dump_blocks {
            let block = self.take_system_block(BlockUse::Dump, at_ns)?;
            self.metadata.give_dump_block(block);
        }
        Ok(())
    }
}

/// Blocks that are retired.
fn bad_blocks(nand: &Nand) -> u32 {
    (0..nand.geometry().blocks()).filter(|block| nand.is_bad(BlockId(*block))).count() as u32
}

/// Why a drive could not be made or brought back.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// It cannot be laid out.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The flash.
    #[error(transparent)]
    Ftl(#[from] FtlError),
}
