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

use tantalum_nand::{BlockId, Nand, Nanoseconds};

use crate::batches::Batches;
use crate::canary::{self, Guard};
use crate::counters::Counters;
use crate::error::{Damage, FtlError, LayoutError};
use crate::file_lists::FileLists;
use crate::ftl::Ftl;
use crate::map::Logs;
use crate::map::Map;
use crate::metadata::{MetadataLog, NvmPlan, dump_what_is_left};
use crate::parts::{Parts, Scratch};
use crate::reader::Reader;
use crate::report::RecoveryReport;
use crate::scan::{Found, Scan};
use crate::space::{BlockUse, FtlConfig, Layout, Marked, Space, bad_blocks};
use crate::tenants::state::Tenants;
use crate::tenants::{TENANTS, filled_bytes};
use crate::types::{SEQ_LIMIT, Seq};

/// Gap left after the numbers found on flash: far more than a drive issues from DRAM alone.
const DRAWN_UNSEEN: u64 = 1 << 32;

impl Parts {
    /// Numbers are drawn beyond the newest that was found from now on.
    fn draw_beyond(&mut self, newest: Seq) -> Result<(), FtlError> {
        self.seq = newest;
        if !self.shut_down && !canary::out(Guard::NumbersDrawnTwice) {
            // transactions and logs may have used numbers that left no trace on flash
            self.seq.0 += DRAWN_UNSEEN;
        }
        if self.seq >= SEQ_LIMIT {
            return Err(Damage::Numbers { newest }.into());
        }
        Ok(())
    }

    /// From now on the image mirrors what a capacitor protects.
    fn protect_anew(&mut self) -> Result<(), FtlError> {
        let (dump_blocks, units) = (self.space.layout().dump_blocks, self.config.protected_units);
        self.metadata.protect_anew(&mut self.nand, dump_blocks, units)
    }

    /// What `fs_write` wrote to each file; non-volatile memory has it unchanged.
    fn read_file_lists(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let Some(plan) = self.config.file_lists else { return Ok(at_ns) };
        let (lists, done_ns) = FileLists::read(&mut self.nand, plan, at_ns)?;
        self.file_lists = Some(lists);
        Ok(done_ns)
    }
}

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
        let left = dump_what_is_left(&mut nand, layout.dump_blocks, config.protected_units, filled_bytes);
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
        let geometry = *nand.geometry();
        Ftl::of(Parts {
            map: Map::new(&geometry, config.logical_units),
            nand,
            geometry,
            config,
            space,
            metadata: MetadataLog::new(&geometry, config.dump_units > 0, nvm),
            tenants: Tenants::default(),
            batches: Batches::default(),
            file_lists: config.file_lists.map(FileLists::empty),
            seq: Seq(0),
            shut_down: false,
            is_stopped: false,
            counters: Counters::default(),
            scratch: Scratch::default(),
        })
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
        // an unmapping may have been lost that a transaction's version must not pass; all transactions are over anyway
        self.tenants.units.last_unmap = self.seq;
        for tenant in found.tenants {
            tenant.restore(self, found.clean)?;
        }
        let parts = &mut self.allocator.parts;
        parts.space.found(found.uses, found.facts.exhausted, &mut parts.map);
        let parts = &mut self.allocator.parts;
        parts.space.find_partial(&parts.nand, found.clean.then_some(&found.facts.open_blocks));
        let checkpoint: Vec<BlockId> = self.space.blocks_with(BlockUse::Checkpoint).collect();
        let journal = self.space.blocks_with(BlockUse::Journal).collect();
        report.clean = found.clean;
        if found.clean {
            self.metadata.found(found.step, journal, (Vec::new(), Vec::new()), found.nvm);
            self.retain_only(checkpoint, found.checkpoint_pages, found.step, 0);
        } else {
            self.metadata.found(found.step, journal, (checkpoint, found.checkpoint_pages), found.nvm);
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
        self.unless_at_its_end(ready).map(|()| report)
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
        if self.spare_blocks() <= self.collection_reserve() + self.space.layout().dump_blocks {
            self.collect_garbage(at_ns)?;
        }
        self.reserve_dump_blocks(at_ns)?;
        let parts = &mut self.allocator.parts;
        parts.metadata.restart_protected(&mut parts.nand)
    }

    /// Step 7. Until the checkpoint stands, the erase rule needs to know what was found whole: the blocks that prove it
    /// may already be free, and a second cut must find them or a record of it (hazards 4 and 10).
    fn rebase(
        &mut self,
        batches_dropped: BTreeSet<Seq>,
        marked: &BTreeSet<BlockId>,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        if !canary::out(Guard::RecoveryErases) {
            self.batches.found(batches_dropped);
            marked.iter().for_each(|block| self.space.mark(*block));
        }
        self.space.set_recovering(true);
        let taken = self.take_checkpoint(at_ns, false);
        self.space.set_recovering(false);
        taken?;
        self.tenants.units.logs = Logs::default();
        self.batches.forget_abandoned();
        Ok(())
    }

    /// Sets blocks aside for the dump, erased.
    fn reserve_dump_blocks(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        while (self.metadata.dump_blocks().len() as u32) < self.space.layout().dump_blocks {
            let block = self.take_system_block(BlockUse::Dump, Marked::Ranked, at_ns)?;
            self.metadata.give_dump_block(block);
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

#[cfg(test)]
mod tests {
    use tantalum_nand::UNIT_BYTES;

    use super::*;
    use crate::host_unit::HostUnit;
    use crate::key::{Key, NamespaceAttributes};
    use crate::metadata::{Record, protected_bytes};
    use crate::tenants::records::KvRecord;
    use crate::test_support::{CONFIG, GEOMETRY, TIMING};
    use crate::types::Lpn;

    fn recover(mut nand: Nand) -> (Ftl, RecoveryReport) {
        let at_ns = nand.programs_done_ns().max(nand.idle_ns());
        nand.advance(at_ns);
        nand.lose_dram();
        Ftl::recover(nand, CONFIG, at_ns).map_err(|(_, error)| error).unwrap()
    }

    /// A single page of data is enough to show it: a drive that is wrongly taken for clean reissues numbers and forgets
    /// what was found.
    #[test]
    fn a_drive_with_a_page_written_since_its_shutdown_was_not_shut_down() {
        let ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
        let (mut ftl, report) = recover(ftl.into_nand());
        assert!(report.clean);
        let slot = ftl.nand_mut().stage(&[1; UNIT_BYTES]).unwrap();
        let unit = HostUnit { slot, lpn: Lpn(1), version: ftl.next_seq(), metadata: [0; 24], hint: None };
        ftl.write_page(&[unit], ftl.nand.now_ns()).unwrap();
        let written = ftl.seq;
        let (ftl, report) = recover(ftl.into_nand());
        assert!(!report.clean && report.assertions == 1, "{report:?}");
        assert!(ftl.seq.0 > written.0 + (1 << 32), "{} after {written}", ftl.seq);
        assert_eq!(ftl.counters().unsafe_shutdowns, 1);
    }

    /// Since the shutdown only a number was issued, perhaps with a page that is still in flight.
    #[test]
    fn a_number_given_after_a_shutdown_is_not_given_again() {
        for write in [false, true] {
            let ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
            let (mut ftl, _) = recover(ftl.into_nand());
            let now_ns = ftl.nand.now_ns();
            if write {
                let slot = ftl.nand_mut().stage(&[1; UNIT_BYTES]).unwrap();
                let (version, metadata) = (ftl.next_seq(), [0; 24]);
                ftl.write_page(&[HostUnit { slot, lpn: Lpn(1), version, metadata, hint: None }], now_ns)
                    .unwrap();
            }
            let (tx, done_ns) = ftl.begin_transaction(now_ns).unwrap();
            assert!(done_ns >= ftl.nand.programs_done_ns() && done_ns > now_ns, "the flash tells it by then");
            let (mut ftl, _) = recover(ftl.into_nand());
            let now_ns = ftl.nand.now_ns();
            assert!(ftl.begin_transaction(now_ns).unwrap().0.0 > tx.0);
        }
    }

    /// A single record, and one of two units, whose members are counted.
    #[test]
    fn a_drive_with_records_put_since_its_shutdown_was_not_shut_down() {
        for bytes in [100, 9000] {
            let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
            let namespace = ftl.create_namespace(NamespaceAttributes::default(), 0).unwrap();
            ftl.take_checkpoint(0, true).unwrap();
            let (mut ftl, report) = recover(ftl.into_nand());
            assert!(report.clean);
            let (now_ns, value) = (ftl.nand.now_ns(), vec![1; bytes]);
            let record = KvRecord { namespace, key: Key::new(b"key").unwrap(), value: Some(&value) };
            ftl.put(&[record], 0, now_ns, &mut |_| None).unwrap();
            let (ftl, report) = recover(ftl.into_nand());
            assert!(!report.clean && report.assertions > 0, "{report:?}");
            assert_eq!(ftl.counters().unsafe_shutdowns, 1);
        }
    }

    /// A dump includes the records whose page was in flight.
    #[test]
    fn records_under_way_are_kept_for_a_dump_if_there_is_a_capacitor() {
        for (dump_units, kept) in [(0, 0), (16, 1)] {
            let config = FtlConfig { dump_units, ..CONFIG };
            let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), config).unwrap();
            let step = ftl.next_seq();
            ftl.append_reserved(Record::PowerOn { step }, 0).unwrap();
            let now_ns = ftl.nand.now_ns();
            assert!(ftl.flush_journal(now_ns).unwrap() > now_ns);
            assert_eq!(ftl.metadata.take_ready(now_ns).len(), kept);
        }
    }

    /// The unit waited in protected DRAM while a checkpoint was taken without it, and then the process was killed: what is
    /// dumped when the image is opened must be newer than the checkpoint.
    #[test]
    fn what_waited_while_a_checkpoint_was_taken_outlives_the_process() {
        let config = FtlConfig { dump_units: 16, protected_units: 4, ..CONFIG };
        let dump_blocks = Layout::plan(&GEOMETRY, &config, 0).unwrap().dump_blocks;
        let bytes = protected_bytes(&GEOMETRY, dump_blocks, config.protected_units);
        for checkpoint in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("image");
            let nand = Nand::create(&path, GEOMETRY, TIMING, "", bytes).unwrap();
            let mut ftl = Ftl::format(nand, config).unwrap();
            let (data, slot) = ([7; UNIT_BYTES], ftl.nand.stage(&[7; UNIT_BYTES]).unwrap());
            let (lpn, version, metadata) = (Lpn(1), ftl.next_seq(), [0; 24]);
            ftl.protect(&HostUnit { slot, lpn, version, metadata, hint: None }, &data).unwrap();
            if checkpoint {
                let taken_ns = ftl.take_checkpoint(0, false).unwrap();
                ftl.nand.advance(taken_ns);
            }
            drop(ftl.into_nand());
            let recovered = Ftl::recover(Nand::open(&path).unwrap(), config, 0);
            let (mut ftl, report) = recovered.map_err(|(_, error)| error).unwrap();
            assert_eq!(report.units_restored, 1);
            let (mut found, now_ns) = ([0; UNIT_BYTES], ftl.nand.now_ns());
            ftl.read(lpn, &mut found, now_ns).unwrap();
            assert!(found == data, "with a checkpoint: {checkpoint}");
        }
    }

    /// Blocks fail until none is left for recovery's checkpoint: the drive's contents can still be read, at every power-on.
    #[test]
    fn a_drive_at_the_end_of_its_life_comes_back_to_be_read() {
        let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
        let slot = ftl.nand.stage(&[7; UNIT_BYTES]).unwrap();
        let (lpn, version) = (Lpn(1), ftl.next_seq());
        ftl.write_page(&[HostUnit { slot, lpn, version, metadata: [0; 24], hint: None }], 0).unwrap();
        let free: Vec<BlockId> = ftl.space.blocks_with(BlockUse::Free).collect();
        let mut nand = ftl.into_nand();
        nand.advance(u64::MAX);
        free.into_iter().for_each(|block| nand.retire(block).unwrap());
        for _ in 0..2 {
            let (mut ftl, _) = Ftl::recover(nand, CONFIG, 0).map_err(|(_, error)| error).unwrap();
            assert!(ftl.is_read_only());
            let mut data = [0; UNIT_BYTES];
            ftl.read(lpn, &mut data, 0).unwrap();
            assert_eq!(data, [7; UNIT_BYTES]);
            nand = ftl.into_nand();
        }
    }

    /// A drive that started although its checkpoint failed would continue without what it had found.
    #[test]
    fn a_recovery_that_fails_says_so() {
        let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
        let slot = ftl.nand.stage(&[7; UNIT_BYTES]).unwrap();
        let (lpn, version) = (Lpn(1), ftl.next_seq());
        ftl.write_page(&[HostUnit { slot, lpn, version, metadata: [0; 24], hint: None }], 0).unwrap();
        let mut nand = ftl.into_nand();
        nand.advance(u64::MAX);
        nand.cut_after(Some(1));
        let recovered = Ftl::recover(nand, CONFIG, 0).map_err(|(_, error)| error);
        assert!(matches!(recovered, Err(FormatError::Ftl(FtlError::Nand(_)))));
    }
}
