//! The checkpoint: the L2P as of a step, and what is still conditional at that step.
//!
//! It holds each tenant's contents, the blocks that were open (recovery reads on in them), and the counters. A
//! checkpoint counts only if all its pages are there. Its predecessor, and the journal that it covers, become free only
//! after it; by the erase rule they are erased after it has finished programming (hazard 10).

use tantalum_nand::{BlockId, Nanoseconds, PageId, Slot, UNIT_BYTES};

use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::metadata::{Attempt, CheckpointBytes, Facts, NewCheckpoint};
use crate::page_image::PageImage;
use crate::parts::Parts;
use crate::space::{BlockUse, Marked};
use crate::tenants::TENANTS;
use crate::types::Seq;

impl Parts {
    /// Whether a checkpoint is due.
    pub(crate) fn checkpoint_due(&mut self) -> bool {
        let units = &self.counters.flash_units;
        let (host_units, kept) = (units.host + units.key_value, self.kept(0, 0));
        self.metadata.checkpoint_is_due(&self.nand, &self.space, &self.config, host_units, || kept)
    }

    /// Whether a loss is to be recorded now: one is not recorded yet, and there may be room for it.
    pub fn has_loss_to_record(&self) -> bool {
        self.has_unrecorded_loss()
            && !self.is_stopped
            && self.metadata.checkpoint_may_have_room(&self.nand, &self.space, self.kept(0, 0))
    }

    /// Whether the next checkpoint has a place in memory, with this many more owners and entries of indexes. On flash it
    /// has blocks of its own.
    pub(crate) fn checkpoint_has_place(&self, owners: usize, entries: u64) -> bool {
        !self.metadata.is_in_memory()
            || self.metadata.has_checkpoint_place(self.space.layout(), self.kept(owners, entries))
    }

    /// The contents of a checkpoint now, and when everything that had to be read for it was there.
    fn checkpoint_bytes(
        &mut self,
        clean: bool,
        at_ns: Nanoseconds,
    ) -> Result<(CheckpointBytes, Nanoseconds), FtlError> {
        let facts = Facts {
            logical_units: self.config.logical_units,
            clean,
            seq: self.seq,
            exhausted: self.space.is_exhausted(),
            counters: self.counters,
            open_blocks: self.space.open_blocks(),
        };
        let mut bytes = CheckpointBytes::new(self.metadata.is_in_memory());
        facts.encode(&mut bytes);
        let mut read_ns = at_ns;
        for tenant in TENANTS {
            match tenant.write_checkpoint(self, &mut bytes, at_ns) {
                Ok(done_ns) => read_ns = read_ns.max(done_ns),
                Err(error) => {
                    bytes.give_up(&mut self.nand);
                    return Err(error);
                }
            }
        }
        Ok((bytes, read_ns))
    }

    /// The checkpoint at `step`, which will be there at `done_ns`, stands: anything older may go.
    pub(crate) fn retain_only(
        &mut self,
        blocks: Vec<BlockId>,
        pages: Vec<PageId>,
        step: Seq,
        done_ns: Nanoseconds,
    ) {
        let host_units = self.counters.flash_units.host + self.counters.flash_units.key_value;
        for block in self.metadata.stands((step, done_ns), blocks, pages, host_units) {
            self.release_block(block);
        }
        TENANTS.iter().for_each(|tenant| tenant.after_checkpoint(self));
        self.tenants.budget = 0;
        self.space.clear_all_marks();
    }

    /// Stores a checkpoint in memory.
    fn store_checkpoint(&mut self, bytes: &[u8], at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let step = self.next_seq();
        TENANTS.iter().try_for_each(|tenant| tenant.before_checkpoint(self))?;
        let done_ns = self.metadata.store_checkpoint(&mut self.nand, bytes, step, at_ns)?;
        self.retain_only(Vec::new(), Vec::new(), step, done_ns);
        Ok(done_ns)
    }
}

impl Ftl {
    /// Takes a checkpoint and frees what it makes obsolete.
    pub fn take_checkpoint(&mut self, at_ns: Nanoseconds, clean: bool) -> Result<Nanoseconds, FtlError> {
        let taken = self.new_checkpoint(at_ns, clean);
        if matches!(taken, Err(FtlError::CapacityExceeded)) {
            let kept = self.kept(0, 0);
            let parts = &mut self.allocator.parts;
            parts.metadata.checkpoint_found_no_room(&parts.nand, &parts.space, kept);
        }
        taken
    }

    fn new_checkpoint(&mut self, at_ns: Nanoseconds, clean: bool) -> Result<Nanoseconds, FtlError> {
        self.flush_before_checkpoint(at_ns)?;
        debug_assert!(
            self.metadata.nothing_waits() || self.metadata.is_in_memory(),
            "records wait for a page while a checkpoint is taken"
        );
        self.counters.checkpoints += 1;
        let (bytes, read_ns) = self.checkpoint_bytes(clean, at_ns)?;
        if self.metadata.is_in_memory() {
            return self.store_checkpoint(&bytes.into_bytes(), at_ns.max(read_ns));
        }
        let units = bytes.into_units(&mut self.nand)?;
        if canary::out(Guard::CheckpointInPlace) {
            for block in self.metadata.give_up_checkpoint() {
                self.nand.erase(block, at_ns)?;
                self.release_block(block);
            }
        }
        let (mut units, mut blocks) = (units.into_iter(), Vec::new());
        let programmed = self.program_checkpoint(&mut units, &mut blocks, at_ns.max(read_ns));
        units.for_each(|slot| self.nand.release(slot));
        match programmed {
            Ok((step, pages, done_ns)) => {
                self.retain_only(blocks, pages, step, done_ns);
                Ok(done_ns)
            }
            Err(error) => {
                for block in blocks {
                    self.release_block(block);
                }
                Err(error)
            }
        }
    }

    /// Makes what waits durable. If the memory of the log is full, the checkpoint covers it.
    fn flush_before_checkpoint(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        match self.flush_journal(at_ns) {
            Err(FtlError::CapacityExceeded) if self.metadata.is_in_memory() => Ok(()),
            flushed => flushed.map(drop),
        }
    }

    /// Opens `blocks` for the units and programs them. Returns the step, the pages, and when it is done. Whatever units are
    /// left belong to the caller.
    fn program_checkpoint(
        &mut self,
        units: &mut std::vec::IntoIter<Slot>,
        blocks: &mut Vec<BlockId>,
        at_ns: Nanoseconds,
    ) -> Result<(Seq, Vec<PageId>, Nanoseconds), FtlError> {
        let bytes = units.len() * UNIT_BYTES;
        for _ in 0..NewCheckpoint::blocks_for(bytes, &self.geometry) {
            blocks.push(self.take_system_block(BlockUse::Checkpoint, Marked::Ranked, at_ns)?);
        }
        // Only now: this way the checkpoint covers what is recorded when blocks are erased for it, and is the last
        // thing that a clean shutdown writes.
        let step = self.next_seq();
        let parts: &mut Parts = self;
        parts.metadata.announce_checkpoint(&mut parts.nand, step)?;
        TENANTS.iter().try_for_each(|tenant| tenant.before_checkpoint(self))?;
        let mut new = NewCheckpoint::new(std::mem::take(blocks), bytes, step, &self.geometry);
        let programmed = self.program_checkpoint_pages(&mut new, units, at_ns);
        *blocks = new.blocks;
        Ok((step, new.pages, programmed?))
    }

    /// Programs the pages side by side on the blocks. Returns when all are done.
    fn program_checkpoint_pages(
        &mut self,
        new: &mut NewCheckpoint,
        units: &mut std::vec::IntoIter<Slot>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let earliest_ns = at_ns.max(self.nand.programs_done_ns());
        let mut done_ns = earliest_ns;
        while units.len() > 0 {
            let image = new.image(units.by_ref().take(self.geometry.units_per_page() as usize));
            done_ns = done_ns.max(self.program_checkpoint_page(new, &image, earliest_ns)?);
            self.counters.flash_units.checkpoint += u64::from(self.geometry.units_per_page());
        }
        debug_assert!(new.is_complete(), "a checkpoint ends after {} pages", new.pages.len());
        Ok(done_ns)
    }

    fn program_checkpoint_page(
        &mut self,
        new: &mut NewCheckpoint,
        page: &PageImage,
        earliest_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        loop {
            let parts: &mut Parts = self;
            let attempt = new.program(&mut parts.nand, page, parts.space.failing(), earliest_ns);
            match attempt.inspect_err(|error| self.release_page(page, error))? {
                Attempt::Issued(done_ns) => return Ok(done_ns),
                Attempt::Failed(block) => self.program_failed(block),
                Attempt::NoBlock => {
                    // program failures used up what was planned
                    let opened = self.take_system_block(BlockUse::Checkpoint, Marked::Ranked, earliest_ns);
                    new.blocks.push(opened.inspect_err(|_| self.give_up_page(page))?);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tantalum_nand::{Access, Geometry, Nand, NvmShape, UNIT_BYTES};

    use crate::error::FtlError;
    use crate::ftl::Ftl;
    use crate::host_unit::HostUnit;
    use crate::key::{Key, NamespaceAttributes};
    use crate::metadata::Record;
    use crate::space::{BlockUse, FtlConfig, Marked};
    use crate::tenants::records::KvRecord;
    use crate::test_support::{CONFIG, GEOMETRY, TIMING};
    use crate::types::{Lpn, METADATA_BYTES};

    fn ftl() -> Ftl {
        let geometry = Geometry { blocks_per_plane: 1536, ..GEOMETRY };
        let config = FtlConfig { logical_units: 12_288, ..CONFIG };
        Ftl::format(Nand::in_memory(geometry, TIMING).unwrap(), config).unwrap()
    }

    fn write(ftl: &mut Ftl, lpn: u32) {
        let slot = ftl.nand_mut().stage(&[1; UNIT_BYTES]).unwrap();
        let (lpn, version) = (Lpn(lpn), ftl.next_seq());
        ftl.write_page(&[HostUnit { slot, lpn, version, metadata: [0; METADATA_BYTES], hint: None }], 0)
            .unwrap();
    }

    /// Units that the next checkpoint takes, as calculated and in fact.
    fn next_checkpoint(ftl: &mut Ftl) -> (u64, u64) {
        let (reckoned, before) =
            (ftl.metadata.checkpoint_units(ftl.kept(0, 0)), ftl.counters().flash_units.checkpoint);
        ftl.take_checkpoint(0, false).unwrap();
        (reckoned, ftl.counters().flash_units.checkpoint - before)
    }

    /// The room reserved for the next checkpoint is what it takes, to within a page of two units.
    #[test]
    fn a_checkpoint_is_as_long_as_is_reckoned() {
        let mut ftl = ftl();
        (0..12).for_each(|chunk| write(&mut ftl, chunk * 1024));
        let (reckoned, taken) = next_checkpoint(&mut ftl);
        assert!(taken > 12 && taken.abs_diff(reckoned) <= 2, "the map: {taken} units, reckoned {reckoned}");
        let namespace = ftl.create_namespace(NamespaceAttributes::default(), 0).unwrap();
        for number in 0..2000_u32 {
            let (key, value) = (Key::new(&number.to_le_bytes()).unwrap(), [1; 100]);
            ftl.put(&[KvRecord { namespace, key, value: Some(&value) }], 0, 0, &mut |_| None).unwrap();
        }
        let (reckoned, more) = next_checkpoint(&mut ftl);
        assert!(
            more >= taken + 6 && more.abs_diff(reckoned) <= 2,
            "and records: {more} units, reckoned {reckoned}"
        );
        let owners =
            ftl.metadata.checkpoint_units(ftl.kept(1000, 0)) - ftl.metadata.checkpoint_units(ftl.kept(0, 0));
        assert!((4..=6).contains(&owners), "1,000 owners of 16 bytes take two pages, not {owners} units");
    }

    /// Its units are in buffers before it has blocks.
    #[test]
    fn a_checkpoint_that_finds_no_block_leaves_no_buffer() {
        let mut ftl = ftl();
        (0..12).for_each(|chunk| write(&mut ftl, chunk * 1024));
        ftl.take_checkpoint(0, false).unwrap();
        while ftl.take_system_block(BlockUse::Checkpoint, Marked::Ranked, 0).is_ok() {}
        let before = ftl.nand.slots_in_use();
        assert!(matches!(ftl.take_checkpoint(0, false), Err(FtlError::CapacityExceeded)));
        assert_eq!(ftl.nand.slots_in_use(), before);
    }

    /// A group of an image that outlives its machine counts only if each buffer has what was written to it, once. The units of
    /// the larger checkpoint move on before its end.
    #[test]
    fn a_checkpoint_that_was_synced_is_there_after_the_machine_was_lost() {
        for chunks in [1, 40] {
            let folder = tempfile::tempdir().unwrap();
            let (path, copy) = (folder.path().join("image"), folder.path().join("copy"));
            let geometry = Geometry { blocks_per_plane: 32 + 128 * chunks, ..GEOMETRY };
            let config = FtlConfig { logical_units: 1024 * chunks, ..CONFIG };
            let nand = Nand::create(&path, geometry, TIMING, "", 0).unwrap();
            drop(Ftl::format(nand, config).unwrap().into_nand());
            let nand = Nand::open_as(&path, Access::Ordered).unwrap();
            let (mut ftl, _) = Ftl::recover(nand, config, 0).map_err(|(_, error)| error).unwrap();
            (0..chunks).for_each(|chunk| write(&mut ftl, 1024 * chunk + 1));
            let done_ns = ftl.take_checkpoint(0, true).unwrap();
            ftl.nand.advance(done_ns);
            ftl.nand.sync_begin().unwrap().expect("there is something to sync").run().unwrap();
            ftl.nand.sync_end().unwrap();
            std::fs::copy(&path, &copy).unwrap();
            let recovered = Ftl::recover(Nand::open(&copy).unwrap(), config, 0);
            let (ftl, report) = recovered.map_err(|(_, error)| error).unwrap();
            assert!(report.clean && ftl.map.mapped_units() == chunks, "{chunks} chunks: {report:?}");
            assert!(ftl.map.lookup(Lpn(1)).is_some());
        }
    }

    /// A drive whose metadata log is in this much memory.
    fn in_memory(nvm_bytes: u64) -> Ftl {
        let geometry = Geometry { blocks_per_plane: 1536, ..GEOMETRY };
        let config = FtlConfig { logical_units: 12_288, nvm_log_bytes: Some(nvm_bytes), ..CONFIG };
        let shape = NvmShape { bytes: nvm_bytes, latency_ns: 100, bytes_per_second: 1_000_000_000 };
        Ftl::format(Nand::in_memory(geometry, TIMING).unwrap().with_nvm(shape).unwrap(), config).unwrap()
    }

    /// The map's chunk, owners of 16 bytes, 64 KiB for the rest; and 40 bytes for a namespace and 16 for an entry.
    #[test]
    fn owners_and_entries_have_a_place_in_memory_up_to_its_last_byte() {
        let mut ftl = in_memory(4 << 20);
        write(&mut ftl, 0);
        let namespace = ftl.create_namespace(NamespaceAttributes::default(), 0).unwrap();
        for number in 0..200_u32 {
            let (key, value) = (Key::new(&number.to_le_bytes()).unwrap(), [1; 100]);
            ftl.put(&[KvRecord { namespace, key, value: Some(&value) }], 0, 0, &mut |_| None).unwrap();
        }
        let limit = ftl.metadata.checkpoint_limit();
        let records = ftl.tenants.records.checkpoint_bytes();
        assert!((200 * 16..200 * 16 + 100).contains(&records), "{records}");
        let owners = ((limit - records - 4096 - 64 * 1024) / 16) as usize;
        assert!(16 * owners as u64 > ftl.space.layout().checkpoint_bytes);
        assert!(ftl.checkpoint_has_place(owners, 0) && !ftl.checkpoint_has_place(owners + 1, 0));
        ftl.make_owner_room(owners, 0).unwrap();
        assert!(matches!(ftl.make_owner_room(owners + 1, 0), Err(FtlError::CapacityExceeded)));
        let planned = ftl.space.layout().checkpoint_bytes.max(4096 + 64 * 1024);
        let entries = (limit - planned - records) / 16;
        assert!(ftl.checkpoint_has_place(0, entries) && !ftl.checkpoint_has_place(0, entries + 1));
        // what maps nothing needs no place
        ftl.space.layout_mut().checkpoint_bytes = limit + 1;
        assert!(!ftl.checkpoint_has_place(0, 0));
        ftl.make_owner_room(0, 0).unwrap();
        assert!(matches!(ftl.make_owner_room(1, 0), Err(FtlError::CapacityExceeded)));
    }

    /// No command leaves a log this full, but a drive that could not take this checkpoint would never write again.
    #[test]
    fn a_checkpoint_covers_records_for_which_a_log_in_memory_has_no_room() {
        let mut ftl = in_memory(1 << 20);
        let trim = |ftl: &mut Ftl| {
            let version = ftl.next_seq();
            let trim = Record::Trim { lpn: Lpn(1), units: 1, version, step: version };
            ftl.append_without_room(trim).unwrap();
        };
        loop {
            trim(&mut ftl);
            match ftl.flush_journal(0) {
                Ok(_) => {}
                Err(FtlError::CapacityExceeded) => break,
                Err(error) => panic!("{error}"),
            }
        }
        // the unit has newer contents by the time the waiting trim is stored
        write(&mut ftl, 1);
        let taken = ftl.counters().checkpoints;
        ftl.take_checkpoint(0, false).unwrap();
        assert_eq!(ftl.counters().checkpoints, taken + 1);
        ftl.flush_journal(0).unwrap();
        let (config, mut nand) = (ftl.config, ftl.into_nand());
        nand.advance(u64::MAX);
        let (ftl, report) = Ftl::recover(nand, config, 0).map_err(|(_, error)| error).unwrap();
        assert_eq!((report.journal_records > 0, ftl.map().lookup(Lpn(1)).is_some()), (true, true));
    }

    /// If it were longer, it would overwrite what lies behind its place.
    #[test]
    fn a_checkpoint_in_memory_is_as_long_as_its_place_at_most() {
        let mut ftl = in_memory(1 << 20);
        let limit = ftl.metadata.checkpoint_limit() as usize;
        let stored = ftl.store_checkpoint(&vec![1; limit + 1], 0);
        assert!(matches!(stored, Err(FtlError::CapacityExceeded)), "{stored:?}");
        ftl.store_checkpoint(&vec![1; limit], 0).unwrap();
    }
}
