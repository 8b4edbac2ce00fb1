use tantalum_nand::{
    BlockId, Geometry, Nand, NvmShape, PlaneId, Scheduling, Source, UNIT_BYTES, UNIT_SPARE_BYTES,
};

use super::super::*;
use crate::host_unit::HostUnit;
use crate::key::{Key, NamespaceAttributes};
use crate::space::{BlockUse, FtlConfig, Marked, Wear};
use crate::tenants::records::KvRecord;
use crate::test_support::{CONFIG, GEOMETRY, TIMING};
use crate::types::Lpn;

/// A checkpoint takes some blocks of eight units.
fn ftl() -> Ftl {
    let geometry = Geometry { blocks_per_plane: 256, ..GEOMETRY };
    let config = FtlConfig { logical_units: 1024, ..CONFIG };
    Ftl::format(Nand::in_memory(geometry, TIMING).unwrap(), config).unwrap()
}

fn write(ftl: &mut Ftl, lpn: u32) -> Result<Nanoseconds, FtlError> {
    let slot = ftl.nand_mut().stage(&[1; UNIT_BYTES]).unwrap();
    let (lpn, version) = (Lpn(lpn), ftl.next_seq());
    ftl.write_page(&[HostUnit::plain(slot, lpn, version)], 0)
}

/// Takes blocks out of use until only this many are free.
fn leave(ftl: &mut Ftl, free: u32) {
    while ftl.space.free_blocks() > free {
        let plane = PlaneId((0..2).max_by_key(|plane| ftl.space.blocks().free_in(PlaneId(*plane))).unwrap());
        ftl.take_free(plane, BlockUse::Bad, Marked::Ranked, Wear::Least).unwrap();
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
    let [one, other] =
        planes.map(|plane| ftl.take_free(plane, BlockUse::Open, Marked::Ranked, Wear::Least).unwrap());
    let late = ftl.take_free(planes[0], BlockUse::Open, Marked::Ranked, Wear::Least).unwrap();
    for (plane, block) in [(planes[0], one), (planes[1], other)] {
        while ftl.take_free(plane, BlockUse::Bad, Marked::Ranked, Wear::Least).is_some() {}
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
        let taken = ftl.take_free(PlaneId(0), BlockUse::Open, Marked::Ranked, Wear::Least).unwrap();
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
    let (planned, used) = (ftl.space.layout().checkpoint_blocks, ftl.log.checkpoint_blocks().len() as u32);
    assert_eq!((planned, used, ftl.log.journal_blocks()), (3, 1, 0));
    assert_eq!(ftl.system_blocks(0), 2 + (2 * 3 - 1));
    // 10,000 owners of 16 bytes take 20 pages, four to a block, and a block more may be begun
    assert_eq!(ftl.system_blocks(10_000), 2 + 5 + 1);
}

#[test]
fn owners_have_room_in_the_next_checkpoint_or_are_refused() {
    let mut ftl = ftl();
    let needed = ftl.system_blocks(10_000);
    leave(&mut ftl, needed);
    ftl.make_owner_room(10_000, 0).unwrap();
    leave(&mut ftl, needed - 1);
    assert!(matches!(ftl.make_owner_room(10_000, 0), Err(FtlError::CapacityExceeded)));
    ftl.make_owner_room(0, 0).unwrap();
}

#[test]
fn what_the_host_writes_leaves_garbage_collection_its_blocks() {
    let mut ftl = ftl();
    assert_eq!(ftl.space.collection_reserve(), ftl.space.layout().collect_width + 1);
    let logs = NamespaceAttributes { logs: 1, ..NamespaceAttributes::default() };
    for _ in 0..2 {
        ftl.create_namespace(logs, 0).unwrap();
    }
    assert_eq!(ftl.space.collection_reserve(), ftl.space.layout().collect_width + 3);
    let kept = ftl.system_blocks(0) + ftl.space.collection_reserve();
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
    let kept = ftl.system_blocks(0) + ftl.space.collection_reserve();
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
    assert_eq!(ftl.log.unplanned_blocks(ftl.layout(), ftl.kept(0, 0)), 0);
    let (planned, block) = (ftl.space.layout().checkpoint_bytes, 8 * UNIT_BYTES as u64);
    let namespace = ftl.create_namespace(NamespaceAttributes::default(), 0).unwrap();
    let before = ftl.system_blocks(0);
    let kept = ftl.records.kept_bytes(0);
    for entries in [0, 1, 1000, 10_000] {
        let blocks = (planned + kept + 16 * entries).div_ceil(block) as u32;
        assert_eq!(
            ftl.log.unplanned_blocks(ftl.layout(), ftl.kept(0, entries)),
            blocks - ftl.space.layout().checkpoint_blocks
        );
    }
    let keys: Vec<Key> = (0..6000_u32).map(|number| Key::new(&number.to_le_bytes()).unwrap()).collect();
    for keys in keys.chunks(60) {
        let record = |key: &Key| KvRecord { namespace, key: *key, value: Some(&[1]) };
        let records: Vec<KvRecord<'_>> = keys.iter().map(record).collect();
        ftl.put(&records, 0, 0, &mut |_| None).unwrap();
    }
    let more = ftl.log.unplanned_blocks(ftl.layout(), ftl.kept(0, 0));
    assert!((2..=3).contains(&more), "6,000 entries of 16 bytes take three blocks of 32 KiB, not {more}");
    assert_eq!(ftl.system_blocks(0), before + 2 * more);
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
    assert_eq!((ftl.log.unplanned_blocks(ftl.layout(), ftl.kept(0, 10_000)), ftl.system_blocks(0)), (0, 0));
}
