use tantalum_nand::{Access, Geometry, Nand, NvmShape, UNIT_BYTES};

use crate::control::Ftl;
use crate::error::FtlError;
use crate::host_unit::HostUnit;
use crate::key::{Key, NamespaceAttributes};
use crate::metadata::Record;
use crate::space::{BlockUse, FtlConfig, Marked};
use crate::tenants::records::KvRecord;
use crate::test_support::{CONFIG, GEOMETRY, TIMING};
use crate::types::Lpn;

fn ftl() -> Ftl {
    let geometry = Geometry { blocks_per_plane: 1536, ..GEOMETRY };
    let config = FtlConfig { logical_units: 12_288, ..CONFIG };
    Ftl::format(Nand::in_memory(geometry, TIMING).unwrap(), config).unwrap()
}

fn write(ftl: &mut Ftl, lpn: u32) {
    let slot = ftl.nand_mut().stage(&[1; UNIT_BYTES]).unwrap();
    let (lpn, version) = (Lpn(lpn), ftl.next_seq());
    ftl.write_page(&[HostUnit::plain(slot, lpn, version)], 0).unwrap();
}

/// Units that the next checkpoint takes, as calculated and in fact.
fn next_checkpoint(ftl: &mut Ftl) -> (u64, u64) {
    let (reckoned, before) =
        (ftl.log.checkpoint_units(ftl.kept(0, 0)), ftl.counters().flash_units.checkpoint);
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
    let owners = ftl.log.checkpoint_units(ftl.kept(1000, 0)) - ftl.log.checkpoint_units(ftl.kept(0, 0));
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
    let limit = ftl.log.checkpoint_limit();
    let records = ftl.records.kept_bytes(0);
    assert!((200 * 16..200 * 16 + 100).contains(&records), "{records}");
    let owners = ((limit - records - 4096 - 64 * 1024) / 16) as usize;
    assert!(16 * owners as u64 > ftl.space.layout().checkpoint_bytes);
    assert!(ftl.checkpoint_has_place(owners, 0) && !ftl.checkpoint_has_place(owners + 1, 0));
    ftl.make_owner_room(owners, 0).unwrap();
    assert!(matches!(ftl.make_owner_room(owners + 1, 0), Err(FtlError::CapacityExceeded)));
    let planned = ftl.space.layout().checkpoint_bytes.max(4096 + 64 * 1024);
    let entries = (limit - planned - records) / 16;
    assert!(ftl.checkpoint_has_place(0, entries) && !ftl.checkpoint_has_place(0, entries + 1));
    // it was told that there was room, which puts then did not find
    assert!(ftl.free_at_last(entries, 0) > 0 && ftl.free_at_last(entries + 1, 0) == 0);
    assert!(ftl.free_without(entries + 1, 0, std::iter::empty()) == [0]);
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
    let limit = ftl.log.checkpoint_limit() as usize;
    let stored = ftl.store_checkpoint(&vec![1; limit + 1], 0);
    assert!(matches!(stored, Err(FtlError::CapacityExceeded)), "{stored:?}");
    ftl.store_checkpoint(&vec![1; limit], 0).unwrap();
}
