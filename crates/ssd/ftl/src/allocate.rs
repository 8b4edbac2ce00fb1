//! Opens blocks: for the streams, the journal, checkpoints and the dump. What it has of them was promised before
//! ([`crate::reservation`]); it collects no garbage.

use std::ops::{Deref, DerefMut};

use tantalum_nand::{BlockId, Nanoseconds, PlaneId};

use crate::error::FtlError;
use crate::metadata::KeptBytes;
use crate::parts::Parts;
use crate::space::{BlockUse, Marked, Target};
use crate::tenants::Tenant;
use crate::tenants::records::Records;
use crate::tenants::units::{OWNER_BYTES, Units};

impl Parts {
    /// What a checkpoint would keep now, with this many more owners whose versions no spare area records, and index entries.
    pub(crate) fn kept(&self, owners: usize, entries: u64) -> KeptBytes {
        KeptBytes {
            units: Units.kept_bytes(self) + (owners * OWNER_BYTES) as u64,
            records: Records.unplanned_bytes(self, entries),
        }
    }

    /// Free blocks that the journal and checkpoints may still need.
    pub(crate) fn system_blocks(&self) -> u32 {
        self.system_blocks_with(0)
    }

    pub(crate) fn system_blocks_with(&self, owners: usize) -> u32 {
        self.metadata.system_blocks(self.space.layout(), self.kept(owners, 0))
    }

    /// Blocks that a checkpoint takes beyond those that the layout reserves for it, with this many more entries.
    pub(crate) fn unplanned_blocks(&self, more_entries: u64) -> u32 {
        self.metadata.unplanned_blocks(self.space.layout(), self.kept(0, more_entries))
    }

    /// Free blocks beyond those.
    pub(crate) fn spare_blocks(&self) -> u32 {
        self.space.free_blocks().saturating_sub(self.system_blocks())
    }

    /// Spare blocks that only garbage collection may use.
    pub(crate) fn collection_reserve(&self) -> u32 {
        self.space.collection_reserve()
    }

    /// When the blocks that the journal and checkpoints may still need are available even if power fails: until copies are on
    /// flash, the blocks that they empty are free in name only. Nothing that needs that room may become durable earlier.
    pub(crate) fn system_blocks_ready_ns(&self) -> Nanoseconds {
        self.space.ready_ns(self.system_blocks(), &self.nand)
    }

    /// An erased block was taken from the free ones.
    pub(crate) fn opened(&mut self, block: BlockId) {
        let ready_ns = self.system_blocks_ready_ns();
        self.space.opened(block, &mut self.nand, ready_ns);
    }

    /// Blocks that this many pages take beyond the open ones of their stream.
    pub(crate) fn missing_blocks(&self, target: Target, pages: u32) -> u32 {
        self.space.missing_blocks(target, pages, &self.nand)
    }

    pub(crate) fn take_free(
        &mut self,
        plane: PlaneId,
        block_use: BlockUse,
        marked: Marked,
    ) -> Option<BlockId> {
        self.space.take(plane, block_use, marked, &self.nand)
    }

    /// Nothing in a block is needed any more.
    pub(crate) fn release_block(&mut self, block: BlockId) {
        self.space.release(block, &self.nand);
    }

    /// A block takes no more pages: it may be collected from now on.
    pub(crate) fn close_block(&mut self, block: BlockId) {
        self.space.close(block, &mut self.map);
    }
}

/// The parts, and the right to open blocks for them: a block is erased when it is opened.
#[derive(Debug)]
pub struct Allocator {
    pub(crate) parts: Parts,
}

impl Deref for Allocator {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl DerefMut for Allocator {
    fn deref_mut(&mut self) -> &mut Parts {
        &mut self.parts
    }
}

impl Allocator {
    /// Opens a block for what the host writes, if the stream wants one and there is space beyond the reserve, or a part of that may
    /// be used. To keep its speed, a log leaves its dies if none of them has a free block.
    pub(crate) fn open_host_block(
        &mut self,
        target: Target,
        may_use_reserve: bool,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        if !self.space.wants_block(target) {
            return Ok(());
        }
        let is_needed = !self.space.has_open(target);
        let elsewhere = target != Target::Host;
        if (self.spare_blocks() > self.collection_reserve() || may_use_reserve && is_needed)
            && self.open_for(target, elsewhere, at_ns)?
        {
            return Ok(());
        }
        if self.space.has_open(target) { Ok(()) } else { Err(FtlError::CapacityExceeded) }
    }

    /// Takes a free block of a plane and erases it if necessary. Nothing is programmed there until recovery has room without
    /// it.
    pub(crate) fn open_block(
        &mut self,
        plane: PlaneId,
        block_use: BlockUse,
        marked: Marked,
        at_ns: Nanoseconds,
    ) -> Result<Option<BlockId>, FtlError> {
        while let Some(block) = self.take_free(plane, block_use, marked) {
            let erased = if self.space.is_erased(block) { Ok(true) } else { self.erase(block, at_ns) };
            match erased {
                Ok(true) => {
                    self.opened(block);
                    return Ok(Some(block));
                }
                Ok(false) => {}
                Err(error) => {
                    self.release_block(block);
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    /// Opens a block for a stream if one of its planes has a free one, or, with `elsewhere`, if any plane has.
    fn open_for(&mut self, target: Target, elsewhere: bool, at_ns: Nanoseconds) -> Result<bool, FtlError> {
        if self.finds_no_room() {
            return Ok(false);
        }
        loop {
            let plane = self.space.plane_to_open(target, elsewhere, &self.nand, at_ns);
            let Some(plane) = plane else { return Ok(false) };
            // a plane whose free blocks all failed has none left: the next one is tried
            if let Some(block) = self.open_block(plane, BlockUse::Open, Marked::Ranked, at_ns)? {
                self.space.give(target, block);
                return Ok(true);
            }
        }
    }

    /// Opens a block for what garbage collection moves, if the stream wants one. Copies of records go to their
    /// namespace's logs, if those have an open block or one can be opened on their dies from their part of the reserve;
    /// otherwise to the stream that is returned.
    pub(crate) fn ensure_copy_block(
        &mut self,
        target: Target,
        at_ns: Nanoseconds,
    ) -> Result<Target, FtlError> {
        if target != Target::Collect {
            let has_block = self.space.has_open(target)
                || self.spare_blocks() > self.space.layout().collect_width + 1
                    && self.open_for(target, false, at_ns)?;
            if has_block {
                return Ok(target);
            }
        }
        let has_open = self.space.has_open(Target::Collect);
        if !self.space.wants_block(Target::Collect) || self.spare_blocks() == 0 && has_open {
            return Ok(Target::Collect);
        }
        if self.open_for(Target::Collect, false, at_ns)? || self.space.has_open(Target::Collect) {
            return Ok(Target::Collect);
        }
        let parts = &mut self.parts;
        match parts.space.reopen_for_copies(&mut parts.map, &parts.nand) {
            true => Ok(Target::Collect),
            false => Err(FtlError::CapacityExceeded),
        }
    }
}

#[cfg(test)]
mod tests {
    use tantalum_nand::{
        Geometry, Nand, NvmShape, PlaneId, Scheduling, Source, UNIT_BYTES, UNIT_SPARE_BYTES,
    };

    use super::*;
    use crate::ftl::Ftl;
    use crate::host_unit::HostUnit;
    use crate::key::{Key, NamespaceAttributes};
    use crate::space::FtlConfig;
    use crate::tenants::records::KvRecord;
    use crate::test_support::{CONFIG, GEOMETRY, TIMING};
    use crate::types::{Lpn, METADATA_BYTES};

    /// A checkpoint takes some blocks of eight units.
    fn ftl() -> Ftl {
        let geometry = Geometry { blocks_per_plane: 256, ..GEOMETRY };
        let config = FtlConfig { logical_units: 1024, ..CONFIG };
        Ftl::format(Nand::in_memory(geometry, TIMING).unwrap(), config).unwrap()
    }

    fn write(ftl: &mut Ftl, lpn: u32) -> Result<Nanoseconds, FtlError> {
        let slot = ftl.nand_mut().stage(&[1; UNIT_BYTES]).unwrap();
        let (lpn, version) = (Lpn(lpn), ftl.next_seq());
        ftl.write_page(&[HostUnit { slot, lpn, version, metadata: [0; METADATA_BYTES], hint: None }], 0)
    }

    /// Takes blocks out of use until only this many are free.
    fn leave(ftl: &mut Ftl, free: u32) {
        while ftl.space.free_blocks() > free {
            let plane =
                PlaneId((0..2).max_by_key(|plane| ftl.space.blocks().free_in(PlaneId(*plane))).unwrap());
            ftl.take_free(plane, BlockUse::Bad, Marked::Ranked).unwrap();
        }
    }

    /// A drive with a page in flight. Its plane 0 has two free blocks, the second of them freed after that page was issued;
    /// neither is erased. Plane 1 has one that was freed before.
    fn with_freed_blocks(scheduling: Scheduling) -> (Ftl, [BlockId; 2]) {
        let mut ftl = ftl();
        ftl.nand.set_scheduling(scheduling);
        let now_ns = ftl.nand.programs_done_ns();
        ftl.nand.advance(now_ns);
        let planes = [PlaneId(0), PlaneId(1)];
        let [one, other] = planes.map(|plane| ftl.take_free(plane, BlockUse::Open, Marked::Ranked).unwrap());
        let late = ftl.take_free(planes[0], BlockUse::Open, Marked::Ranked).unwrap();
        for (plane, block) in [(planes[0], one), (planes[1], other)] {
            while ftl.take_free(plane, BlockUse::Bad, Marked::Ranked).is_some() {}
            ftl.release_block(block);
        }
        let slot = ftl.nand_mut().stage(&[1; UNIT_BYTES]).unwrap();
        let sources = [Source::Staged(slot), Source::Padding];
        let page = ftl.geometry.page(BlockId(ftl.geometry.blocks() - 1), 0);
        ftl.nand.program_in_background(page, &sources, &[[0; UNIT_SPARE_BYTES]; 2], now_ns).unwrap();
        ftl.release_block(late);
        (ftl, [one, late])
    }

    #[test]
    fn a_block_that_need_not_wait_for_garbage_collection_is_opened_first() {
        let take = |scheduling| {
            let (mut ftl, blocks) = with_freed_blocks(scheduling);
            let taken = ftl.take_free(PlaneId(0), BlockUse::Open, Marked::Ranked).unwrap();
            blocks.iter().position(|block| *block == taken)
        };
        assert_eq!([Scheduling::ReadFirst, Scheduling::Fifo].map(take), [Some(0), Some(1)]);
    }

    #[test]
    fn a_plane_with_such_a_block_comes_before_others() {
        let open = |scheduling| {
            let (mut ftl, [one, _]) = with_freed_blocks(scheduling);
            ftl.space.blocks_mut().take_block(PlaneId(0), one, BlockUse::Bad);
            let now_ns = ftl.nand.now_ns();
            assert!(ftl.open_for(Target::Host, false, now_ns).unwrap());
            ftl.space
                .stream(Target::Host)
                .blocks()
                .map(|block| ftl.geometry.plane_of(block).0)
                .collect::<Vec<_>>()
        };
        assert_eq!([Scheduling::ReadFirst, Scheduling::Fifo].map(open), [[1], [0]]);
    }

    #[test]
    fn blocks_for_the_journal_and_two_checkpoints_are_kept() {
        let ftl = ftl();
        // the map's chunk, 256 owners, 256 hints, 256 logs, and so on, in blocks of 32 KiB
        let (planned, used) =
            (ftl.space.layout().checkpoint_blocks, ftl.metadata.checkpoint_blocks().len() as u32);
        assert_eq!((planned, used, ftl.metadata.journal_blocks()), (3, 1, 0));
        assert_eq!(ftl.system_blocks(), 2 + (2 * 3 - 1));
        // 10,000 owners of 16 bytes take 20 pages, four to a block, and a block more may be begun
        assert_eq!(ftl.system_blocks_with(10_000), 2 + 5 + 1);
    }

    #[test]
    fn owners_have_room_in_the_next_checkpoint_or_are_refused() {
        let mut ftl = ftl();
        let needed = ftl.system_blocks_with(10_000);
        leave(&mut ftl, needed);
        ftl.make_owner_room(10_000, 0).unwrap();
        leave(&mut ftl, needed - 1);
        assert!(matches!(ftl.make_owner_room(10_000, 0), Err(FtlError::CapacityExceeded)));
        ftl.make_owner_room(0, 0).unwrap();
    }

    #[test]
    fn what_the_host_writes_leaves_garbage_collection_its_blocks() {
        let mut ftl = ftl();
        assert_eq!(ftl.collection_reserve(), ftl.space.layout().collect_width + 1);
        let logs = NamespaceAttributes { logs: 1, ..NamespaceAttributes::default() };
        for _ in 0..2 {
            ftl.create_namespace(logs, 0).unwrap();
        }
        assert_eq!(ftl.collection_reserve(), ftl.space.layout().collect_width + 3);
        let kept = ftl.system_blocks() + ftl.collection_reserve();
        leave(&mut ftl, kept);
        assert!(matches!(ftl.make_page_room(Target::Host, 0), Err(FtlError::CapacityExceeded)));
    }

    /// The same block is written again and again: its old copies are garbage, and collecting them makes room.
    #[test]
    fn garbage_is_collected_before_a_stream_runs_out() {
        let mut ftl = ftl();
        for lpn in 0..64 {
            write(&mut ftl, lpn).unwrap();
        }
        let kept = ftl.system_blocks() + ftl.collection_reserve();
        leave(&mut ftl, kept + 4);
        for round in 0..2000 {
            write(&mut ftl, round % 64).unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
        assert!(ftl.counters().blocks_erased > 100);
    }

    /// Indexes of key-value namespaces take blocks that the layout does not plan for; both checkpoints have them.
    #[test]
    fn indexes_take_blocks_beyond_those_that_are_planned_twice() {
        let mut ftl = ftl();
        assert_eq!(ftl.unplanned_blocks(0), 0);
        let (planned, block) = (ftl.space.layout().checkpoint_bytes, 8 * UNIT_BYTES as u64);
        let namespace = ftl.create_namespace(NamespaceAttributes::default(), 0).unwrap();
        let before = ftl.system_blocks();
        let kept = ftl.tenants.records.checkpoint_bytes();
        for entries in [0, 1, 1000, 10_000] {
            let blocks = (planned + kept + 16 * entries).div_ceil(block) as u32;
            assert_eq!(ftl.unplanned_blocks(entries), blocks - ftl.space.layout().checkpoint_blocks);
        }
        let keys: Vec<Key> = (0..6000_u32).map(|number| Key::new(&number.to_le_bytes()).unwrap()).collect();
        for keys in keys.chunks(60) {
            let record = |key: &Key| KvRecord { namespace, key: *key, value: Some(&[1]) };
            let records: Vec<KvRecord<'_>> = keys.iter().map(record).collect();
            ftl.put(&records, 0, 0, &mut |_| None).unwrap();
        }
        let more = ftl.unplanned_blocks(0);
        assert!((2..=3).contains(&more), "6,000 entries of 16 bytes take three blocks of 32 KiB, not {more}");
        assert_eq!(ftl.system_blocks(), before + 2 * more);
    }

    /// In memory, a checkpoint takes no blocks.
    #[test]
    fn a_drive_with_its_log_in_memory_keeps_no_blocks_for_it() {
        let geometry = Geometry { blocks_per_plane: 256, ..GEOMETRY };
        let config = FtlConfig { logical_units: 1024, nvm_log_bytes: Some(1 << 20), ..CONFIG };
        let shape = NvmShape { bytes: 1 << 20, latency_ns: 100, bytes_per_second: 1_000_000_000 };
        let mut ftl =
            Ftl::format(Nand::in_memory(geometry, TIMING).unwrap().with_nvm(shape).unwrap(), config).unwrap();
        ftl.create_namespace(NamespaceAttributes::default(), 0).unwrap();
        assert_eq!((ftl.unplanned_blocks(10_000), ftl.system_blocks()), (0, 0));
    }
}
