use tantalum_nand::{BlockId, UNIT_BYTES};

use super::super::*;
use crate::host_unit::HostUnit;
use crate::key::{Key, NamespaceAttributes};
use crate::metadata::{Record, protected_bytes};
use crate::placement::Handle;
use crate::report::RecoveryReport;
use crate::space::{BlockUse, FtlConfig, Layout};
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
    let unit = HostUnit::plain(slot, Lpn(1), ftl.next_seq());
    ftl.write_page(&[unit], ftl.nand.now_ns()).unwrap();
    let written = ftl.numbers.last();
    let (ftl, report) = recover(ftl.into_nand());
    assert!(!report.clean && report.assertions == 1, "{report:?}");
    assert!(ftl.numbers.last().0 > written.0 + (1 << 32), "{} after {written}", ftl.numbers.last());
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
            ftl.write_page(
                &[HostUnit { slot, lpn: Lpn(1), version, metadata, hint: None, handle: Handle::DEFAULT }],
                now_ns,
            )
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
        assert_eq!(ftl.log.take_ready(now_ns).len(), kept);
    }
}

/// The unit waited in protected DRAM while a checkpoint was taken without it, and then the process was killed: what is
/// dumped when the image is opened must be newer than the checkpoint.
#[test]
fn what_waited_while_a_checkpoint_was_taken_outlives_the_process() {
    let config = FtlConfig { dump_units: 16, protected_units: 4, ..CONFIG };
    let dump_blocks = Layout::plan(&GEOMETRY, &config, 0).unwrap().dump_blocks;
    let bytes = protected_bytes(&GEOMETRY, dump_blocks, &config);
    for checkpoint in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let nand = Nand::create(&path, GEOMETRY, TIMING, "", bytes).unwrap();
        let mut ftl = Ftl::format(nand, config).unwrap();
        let (data, slot) = ([7; UNIT_BYTES], ftl.nand.stage(&[7; UNIT_BYTES]).unwrap());
        let (lpn, version, metadata) = (Lpn(1), ftl.next_seq(), [0; 24]);
        ftl.protect(&[HostUnit { slot, lpn, version, metadata, hint: None, handle: Handle::DEFAULT }], &data)
            .unwrap();
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
    ftl.write_page(&[HostUnit::plain(slot, lpn, version)], 0).unwrap();
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
    ftl.write_page(&[HostUnit::plain(slot, lpn, version)], 0).unwrap();
    let mut nand = ftl.into_nand();
    nand.advance(u64::MAX);
    nand.cut_after(Some(1));
    let recovered = Ftl::recover(nand, CONFIG, 0).map_err(|(_, error)| error);
    assert!(matches!(recovered, Err(FormatError::Ftl(FtlError::Nand(_)))));
}
