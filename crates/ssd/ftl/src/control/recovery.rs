//! Recovery: the same fold of assertions that the running drive keeps up to date, over the newest whole checkpoint.
//!
//! 1. Read the first page's spare areas of every block: what the block is for, and since when.
//! 2. Load the newest whole checkpoint.
//! 3. Read the journal pages programmed since.
//! 4. Read the spare areas of the data pages programmed since.
//! 5. Fold: for each logical page the greatest version wins; among copies of one version, the latest step.
//! 6. Rebuild P2L, owners, valid counts and free blocks from L2P.
//! 7. Take a checkpoint.
//!
//! Nothing on flash changes before step 7, which is a checkpoint like any other. So a second cut at any point changes
//! nothing (D5).

use std::collections::BTreeSet;

use tantalum_canaries::guard;
use tantalum_nand::{BlockId, Nand, Nanoseconds};

use super::Ftl;
use super::allocate::Allocator;
use super::parts::Parts;
use crate::error::{Damage, FtlError, LayoutError};
use crate::file_lists::FileLists;
use crate::metadata::{MetadataLog, NvmPlan, dump_what_is_left};
use crate::reader::Reader;
use crate::report::RecoveryReport;
use crate::scan::{Found, Scan};
use crate::space::{BlockUse, FtlConfig, Layout, Marked, Space, bad_blocks};
use crate::tenants::filled_bytes;
use crate::types::{SEQ_LIMIT, Seq};
use crate::zones::ZonesFound;

/// Gap left after the numbers found on flash: far more than a drive issues from DRAM alone.
const DRAWN_UNSEEN: u64 = 1 << 32;

impl Ftl {
    /// A new drive on an empty medium.
    pub fn format(nand: Nand, config: FtlConfig) -> Result<Ftl, FormatError> {
        let layout = Layout::plan(nand.geometry(), &config, bad_blocks(&nand))?;
        let nvm = NvmPlan::plan(nand.geometry(), &config, &layout)?;
        let space = Space::new(&nand, layout, true);
        let mut ftl = Ftl::assemble(nand, config, space, nvm);
        ftl.shut_down = true;
        ftl.take_checkpoint(0, true)?;
        ftl.reserve_dump_blocks(0)?;
        ftl.protect_anew()?;
        Ok(ftl)
    }

    /// Recovers a drive from its flash. Power may fail again at any point. On failure the medium is returned with the
    /// error.
    pub fn recover(
        mut nand: Nand,
        config: FtlConfig,
        at_ns: Nanoseconds,
    ) -> Result<(Ftl, RecoveryReport), (Box<Nand>, FormatError)> {
        let planned = Layout::plan(nand.geometry(), &config, 0)
            .and_then(|layout| NvmPlan::plan(nand.geometry(), &config, &layout));
        let nvm = match planned {
            Ok(nvm) => nvm,
            Err(error) => return Err((Box::new(nand), error.into())),
        };
        // too few blocks for writes is no reason not to recover
        let good_blocks = nand.geometry().blocks() - bad_blocks(&nand);
        let layout = Layout::with_good_blocks(nand.geometry(), &config, good_blocks);
        let left = dump_what_is_left(&mut nand, layout.dump_blocks, &config, filled_bytes);
        let units_restored = match left {
            Ok(units) => units,
            Err(error) => return Err((Box::new(nand), error.into())),
        };
        let operations = nand.operations();
        let reader = Reader::new(nand, config.logical_units, at_ns);
        let mut scan = Scan::new(reader, config, nvm);
        let found = match scan.find() {
            Ok(found) => found,
            Err(error) => return Err((Box::new(scan.reader.nand), error.into())),
        };
        let (Reader { nand, done_ns, newest, .. }, mut report) = scan.into_parts(at_ns);
        assert_eq!(nand.operations(), operations, "recovery changed the flash while it read it");
        report.units_restored = units_restored;
        let space = Space::new(&nand, layout, false);
        let mut ftl = Ftl::assemble(nand, config, space, nvm);
        ftl.shut_down = found.clean;
        match ftl.draw_beyond(newest).and_then(|()| ftl.restore(found, report, done_ns)) {
            Ok(mut report) => {
                report.device_ns = ftl.nand.idle_ns().max(done_ns) - at_ns;
                Ok((ftl, report))
            }
            Err(error) => Err((Box::new(ftl.into_nand()), error.into())),
        }
    }

    fn assemble(nand: Nand, config: FtlConfig, space: Space, nvm: Option<NvmPlan>) -> Ftl {
        let log = MetadataLog::new(nand.geometry(), config.has_plp(), nvm);
        Ftl { allocator: Allocator { parts: Parts::new(nand, config, space, log) } }
    }

    /// Numbers are drawn beyond the newest that was found from now on.
    fn draw_beyond(&mut self, newest: Seq) -> Result<(), FtlError> {
        // transactions and logs may have used numbers that left no trace on flash
        let has_gap = guard!(NumbersDrawnTwice, !self.shut_down);
        let last = Seq(newest.0 + if has_gap { DRAWN_UNSEEN } else { 0 });
        if last >= SEQ_LIMIT {
            return Err(Damage::Numbers { newest }.into());
        }
        self.numbers.draw_beyond(last);
        Ok(())
    }

    /// Steps 6 and 7.
    fn restore(
        &mut self,
        found: Found,
        mut report: RecoveryReport,
        at_ns: Nanoseconds,
    ) -> Result<RecoveryReport, FtlError> {
        let at_ns = self.read_file_lists(at_ns)?;
        self.counters = found.facts.counters;
        if let Some(placement) = &mut self.placement {
            placement.recovered(found.facts.handles, at_ns);
        }
        let Parts { units, records, map, space, config, numbers, nand, .. } = &mut self.allocator.parts;
        units.last_unmapped_at(numbers.last());
        found.units.restore(units, map, found.clean);
        *records = found.records.restore(map, space, config, found.clean)?;
        space.found(found.uses, found.facts.exhausted, map);
        space.find_partial(nand, found.clean.then_some(&found.facts.open_blocks));
        self.restore_zones(found.zones)?;
        let Parts { space, .. } = &mut self.allocator.parts;
        let checkpoint: Vec<BlockId> = space.blocks_with(BlockUse::Checkpoint).collect();
        let journal = space.blocks_with(BlockUse::Journal).collect();
        report.clean = found.clean;
        if found.clean {
            self.log.found(found.step, journal, (Vec::new(), Vec::new()), found.nvm);
            self.retain_only((found.step, 0), checkpoint, found.checkpoint_pages);
        } else {
            self.log.found(found.step, journal, (checkpoint, found.checkpoint_pages), found.nvm);
            self.counters.unsafe_shutdowns += 1;
        }
        let before = self.counters.flash_units.checkpoint;
        let rebased = match found.clean {
            true => Ok(()),
            false => self.rebase(found.batches_dropped, &found.marked, at_ns),
        };
        report.checkpoint_units = self.counters.flash_units.checkpoint - before;
        let ready = rebased.and_then(|()| self.make_ready(at_ns));
        let Parts { records, counters, .. } = &mut self.allocator.parts;
        records.fit_recovered(counters);
        self.unless_at_its_end(ready).map(|()| report)
    }

    /// The zones go on where they were found to end.
    fn restore_zones(&mut self, found: Option<ZonesFound>) -> Result<(), FtlError> {
        let (Some(found), Some(mut zones)) = (found, self.zones.clone()) else { return Ok(()) };
        found.restore(&mut zones, |place, told| self.found_tail(place, told))?;
        self.zones = Some(zones);
        Ok(())
    }

    /// From now on the image mirrors what a capacitor protects.
    fn protect_anew(&mut self) -> Result<(), FtlError> {
        let Parts { log, nand, space, config, .. } = &mut self.allocator.parts;
        log.protect_anew(nand, space.layout().dump_blocks, config)
    }

    /// What `fs_write` wrote to each file; non-volatile memory has it unchanged.
    fn read_file_lists(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let Some(plan) = self.config.file_lists else { return Ok(at_ns) };
        let (lists, done_ns) = FileLists::read(&mut self.nand, plan, at_ns)?;
        self.file_lists = Some(lists);
        Ok(done_ns)
    }

    /// A drive at the end of its life that has no room for recovery's own writes can still be read; every recovery finds the
    /// same.
    fn unless_at_its_end(&mut self, ready: Result<(), FtlError>) -> Result<(), FtlError> {
        if matches!(ready, Err(FtlError::CapacityExceeded)) {
            self.note_exhaustion();
        }
        match ready {
            Err(FtlError::CapacityExceeded) if self.is_read_only() => Ok(()),
            ready => ready,
        }
    }

    /// Collects garbage and sets blocks aside for the dump, for coming writes.
    fn make_ready(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        // the checkpoint covers everything that the dump brought back
        self.protect_anew()?;
        if self.is_read_only() {
            return Ok(());
        }
        if self.spare_blocks() <= self.space.collection_reserve() + self.space.layout().dump_blocks {
            self.collect_garbage(at_ns)?;
        }
        self.reserve_dump_blocks(at_ns)?;
        let parts = &mut self.allocator.parts;
        parts.log.restart_protected(&mut parts.nand)?;
        if self.shut_down { Ok(()) } else { self.forget_stale_tails(at_ns) }
    }

    /// Step 7. Until the checkpoint stands, the erase rule needs to know what was found whole: the blocks that prove it
    /// may already be free, and a second cut must find them or a record of it (hazards 4 and 10).
    fn rebase(
        &mut self,
        batches_dropped: BTreeSet<Seq>,
        marked: &BTreeSet<BlockId>,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        guard!(RecoveryErases, {
            self.batches.found(batches_dropped);
            marked.iter().for_each(|block| self.space.mark(*block));
        });
        self.space.set_recovering(true);
        let taken = self.take_checkpoint(at_ns, false);
        self.space.set_recovering(false);
        taken?;
        self.units.forget_logs();
        self.batches.forget_abandoned();
        Ok(())
    }

    /// Sets blocks aside for the dump, erased.
    fn reserve_dump_blocks(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        while (self.log.dump_blocks().len() as u32) < self.space.layout().dump_blocks {
            let block = self.take_system_block(BlockUse::Dump, Marked::Ranked, at_ns)?;
            self.log.give_dump_block(block);
        }
        Ok(())
    }
}

/// Why a drive could not be created or recovered.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// It cannot be laid out.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The flash failed.
    #[error(transparent)]
    Ftl(#[from] FtlError),
}
