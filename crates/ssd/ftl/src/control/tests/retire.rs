use tantalum_nand::{FailingStep, Faults, Geometry, Nand, Ppn, StepFault, Timing};

use super::super::*;
use crate::host_unit::HostUnit;
use crate::key::{Key, NamespaceAttributes};
use crate::map::Owner;
use crate::metadata::Record;
use crate::placement::Handle;
use crate::space::{BlockUse, FtlConfig, Marked, PageSummary, Wear};
use crate::tenants::records::KvRecord;
use crate::test_support::CONFIG;
use crate::types::{Lpn, Seq};

fn ftl() -> Ftl {
    let geometry = Geometry {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 2,
        blocks_per_plane: 40,
        pages_per_block: 8,
        page_bytes: 4096,
    };
    let timing = Timing { read_ns: 1, program_ns: 1, erase_ns: 1, channel_bytes_per_second: 1_000_000_000 };
    let config = FtlConfig { logical_units: 256, wear_spread: 50, shared_owners: 16, ..CONFIG };
    Ftl::format(Nand::in_memory(geometry, timing).unwrap(), config).unwrap()
}

fn record(ftl: &mut Ftl) {
    let version = ftl.next_seq();
    let record = Record::Trim { lpn: Lpn(1), units: 1, version, step: version };
    ftl.append_reserved(record, 0).unwrap();
}

fn fail_programs(ftl: &mut Ftl, program_failure_ppm: u32) {
    ftl.nand_mut().set_faults(Faults { program_failure_ppm, ..Faults::default() });
}

/// Every program fails. The blocks that failed held nothing, so they were collected, opened and erased again within the
/// same write, which never ended. All programs failed in other tests too, of single pages or on drives with free blocks.
#[test]
fn no_block_that_failed_a_program_is_opened_again() {
    let mut ftl = ftl();
    for lpn in 0..100 {
        let slot = ftl.nand_mut().stage(&[1; tantalum_nand::UNIT_BYTES]).unwrap();
        let (version, metadata) = (ftl.next_seq(), [0; 24]);
        ftl.write_page(
            &[HostUnit { slot, lpn: Lpn(lpn % 8), version, metadata, hint: None, handle: Handle::DEFAULT }],
            0,
        )
        .unwrap();
    }
    fail_programs(&mut ftl, 1_000_000);
    let slot = ftl.nand_mut().stage(&[2; tantalum_nand::UNIT_BYTES]).unwrap();
    let version = ftl.next_seq();
    let unit = HostUnit::plain(slot, Lpn(1), version);
    assert!(matches!(ftl.write_page(&[unit], 0), Err(FtlError::CapacityExceeded)));
    let mut failed = ftl.space.failing().to_vec();
    assert_eq!(failed.len() as u64, ftl.counters().program_failures);
    failed.sort();
    failed.dedup();
    assert_eq!(failed.len() as u64, ftl.counters().program_failures, "each of them failed once");
    assert!(failed.iter().any(|block| ftl.space.block_use(*block) == BlockUse::Bad), "and some are empty");
    ftl.maintain(0).unwrap();
    assert!(ftl.wear().bad_blocks > 0, "those are retired");
    assert!(ftl.audit_maps().findings().next().is_none());
}

/// A checkpoint goes on in other blocks if a program fails, and the next checkpoint frees its blocks before the one that
/// failed is retired.
#[test]
fn a_block_of_a_checkpoint_that_failed_is_out_of_use_once_it_holds_nothing() {
    let mut ftl = ftl();
    ftl.nand_mut().fail_step(Some(StepFault { step: FailingStep::Program, after: 0, lasts: false }));
    ftl.take_checkpoint(0, false).unwrap();
    assert!(ftl.nand.step_has_failed());
    let [block] = ftl.space.failing()[..] else { panic!("one failed: {:?}", ftl.space.failing()) };
    ftl.maintain(0).unwrap();
    assert_eq!(ftl.space.block_use(block), BlockUse::Checkpoint);
    ftl.take_checkpoint(0, false).unwrap();
    assert_eq!(ftl.space.block_use(block), BlockUse::Bad);
    ftl.maintain(0).unwrap();
    assert_eq!((ftl.wear().bad_blocks, ftl.space.failing()), (1, &[][..]));
}

/// Erasing a block for the journal while records are in flight could hit one that only they make invalid.
#[test]
fn a_failed_journal_page_goes_to_the_rest_of_its_block() {
    let mut ftl = ftl();
    record(&mut ftl);
    let (open, erased) = (ftl.log.open_block(), ftl.counters().blocks_erased);
    // some of the first pages fail, and not all
    ftl.nand_mut().set_faults(Faults { seed: 3, program_failure_ppm: 500_000, ..Faults::default() });
    while ftl.counters().program_failures == 0 {
        record(&mut ftl);
        ftl.flush_journal(0).unwrap();
    }
    fail_programs(&mut ftl, 0);
    let next_page = ftl.nand.next_page(open.unwrap());
    assert!(next_page <= 4, "page {next_page}: the next block is prepared by then");
    assert_eq!((ftl.log.open_block(), ftl.counters().blocks_erased), (open, erased));
    assert_eq!(ftl.space.failing().first(), open.as_ref());
}

#[test]
fn records_that_find_no_room_wait_on() {
    let mut ftl = ftl();
    record(&mut ftl);
    fail_programs(&mut ftl, 1_000_000);
    assert!(matches!(ftl.flush_journal(0), Err(FtlError::CapacityExceeded)));
    assert_eq!(ftl.log.waiting().len(), 1);
    ftl.note_exhaustion();
    assert!(!ftl.is_read_only(), "no block is bad yet");
}

#[test]
fn streams_become_narrower_as_blocks_go_bad_until_the_drive_is_read_only() {
    let mut ftl = ftl();
    let spare = ftl.spare_good_blocks();
    assert_eq!((spare.available, spare.total), (80 - ftl.space.layout().least_blocks, spare.available));
    let width = ftl.space.layout().host_width;
    for left in (0..spare.total).rev() {
        let block = ftl
            .take_free(tantalum_nand::PlaneId(left % 2), BlockUse::Bad, Marked::Ranked, Wear::Least)
            .unwrap();
        ftl.retire(block).unwrap();
        assert_eq!((ftl.spare_good_blocks().available, ftl.is_read_only()), (left, false));
    }
    assert!(ftl.space.layout().host_width <= width && ftl.space.layout().host_width == 1);
    let block = ftl.take_free(tantalum_nand::PlaneId(0), BlockUse::Bad, Marked::Ranked, Wear::Least).unwrap();
    ftl.retire(block).unwrap();
    assert!(ftl.is_read_only());
}

#[test]
fn a_loss_asks_for_a_checkpoint_only_if_none_covers_the_block() {
    let mut ftl = ftl();
    let block =
        ftl.take_free(tantalum_nand::PlaneId(0), BlockUse::Closed, Marked::Ranked, Wear::Least).unwrap();
    let step = ftl.log.checkpoint_step();
    let programmed = |step| PageSummary { step, marked: false, plain: false };
    ftl.space.blocks_mut().programmed(block, programmed(step));
    ftl.space.note_loss_in(block);
    assert!(!ftl.has_unrecorded_loss());
    ftl.space.blocks_mut().programmed(block, programmed(Seq(step.0 + 1)));
    ftl.space.note_loss_in(block);
    assert!(ftl.checkpoint_is_due());
}

/// A read took the checkpoint itself, wherever a command was at that moment.
#[test]
fn a_read_that_meets_a_loss_leaves_the_checkpoint_to_whoever_gave_the_command() {
    let mut ftl = ftl();
    let slot = ftl.nand_mut().stage(&[1; tantalum_nand::UNIT_BYTES]).unwrap();
    let (version, metadata) = (ftl.next_seq(), [0; 24]);
    ftl.write_page(
        &[HostUnit { slot, lpn: Lpn(1), version, metadata, hint: None, handle: Handle::DEFAULT }],
        0,
    )
    .unwrap();
    let page = ftl.geometry.page_of(ftl.map.lookup(Lpn(1)).unwrap());
    ftl.nand_mut().mark_uncorrectable(page).unwrap();
    let taken = ftl.counters().checkpoints;
    let read = ftl.read(Lpn(1), &mut [0; tantalum_nand::UNIT_BYTES], 0);
    assert!(matches!(read, Err(FtlError::Unreadable { lpn: Lpn(1), .. })), "{read:?}");
    assert_eq!(ftl.counters().checkpoints, taken);
    assert!(ftl.has_loss_to_record());
    ftl.take_checkpoint(0, false).unwrap();
    assert!(!ftl.has_unrecorded_loss());
}

/// Only a host's read asked for a checkpoint: a record that garbage collection or the search for a key had found lost was
/// missing after a cut, or an older one was there, instead of reading as an error.
#[test]
fn a_record_that_firmware_finds_lost_asks_for_a_checkpoint_too() {
    for by_collection in [false, true] {
        let mut ftl = ftl();
        let namespace = ftl.create_namespace(NamespaceAttributes::default(), 0).unwrap();
        // long enough that its page is read to find it
        let key = Key::new(b"a key of 16 byte").unwrap();
        ftl.put(&[KvRecord { namespace, key, value: Some(b"value") }], 0, 0, &mut |_| None).unwrap();
        let ppn =
            (0..ftl.geometry.units()).map(Ppn).find(|ppn| matches!(ftl.map.owner(*ppn), Owner::Packed(_)));
        let block = ftl.geometry.block_of_unit(ppn.unwrap());
        let page = ftl.geometry.page_of(ppn.unwrap());
        ftl.nand_mut().mark_uncorrectable(page).unwrap();
        assert!(!ftl.has_unrecorded_loss());
        if by_collection {
            ftl.collect_block(block, 0).unwrap();
        } else {
            ftl.exists(namespace, &key, 0).unwrap();
        }
        assert!(ftl.has_unrecorded_loss(), "by collection: {by_collection}");
    }
}

/// The buffer that the next unit would get.
fn next_buffer(ftl: &mut Ftl) -> tantalum_nand::Slot {
    let slot = ftl.nand_mut().stage(&[1; tantalum_nand::UNIT_BYTES]).unwrap();
    ftl.nand_mut().release(slot);
    slot
}

/// A page that cannot be programmed is retried again and again; if each attempt kept a buffer, buffers would run
/// out.
#[test]
fn pages_that_find_no_room_keep_no_buffer() {
    let mut ftl = ftl();
    let namespace = ftl.create_namespace(NamespaceAttributes::default(), 0).unwrap();
    ftl.flush_journal(0).unwrap();
    let before = next_buffer(&mut ftl);
    record(&mut ftl);
    fail_programs(&mut ftl, 1_000_000);
    let key = Key::new(b"key").unwrap();
    for _ in 0..3 {
        assert!(matches!(ftl.flush_journal(0), Err(FtlError::CapacityExceeded)));
        assert_eq!(next_buffer(&mut ftl), before, "after a page of the journal");
        let put = ftl.put(&[KvRecord { namespace, key, value: Some(b"value") }], 0, 0, &mut |_| None);
        assert!(matches!(put, Err(FtlError::CapacityExceeded)), "{put:?}");
        assert_eq!(next_buffer(&mut ftl), before, "after a page of records");
        assert!(matches!(ftl.take_checkpoint(0, false), Err(FtlError::CapacityExceeded)));
        assert_eq!(next_buffer(&mut ftl), before, "after a page of a checkpoint");
    }
}

#[test]
fn a_block_that_could_not_be_emptied_for_lack_of_room_stays_in_use() {
    let mut ftl = ftl();
    let slot = ftl.nand_mut().stage(&[1; tantalum_nand::UNIT_BYTES]).unwrap();
    let (version, metadata) = (ftl.next_seq(), [0; 24]);
    ftl.write_page(
        &[HostUnit { slot, lpn: Lpn(1), version, metadata, hint: None, handle: Handle::DEFAULT }],
        0,
    )
    .unwrap();
    let block = ftl.geometry.block_of_unit(ftl.map.lookup(Lpn(1)).unwrap());
    fail_programs(&mut ftl, 1_000_000);
    assert!(matches!(ftl.collect_block(block, 0), Err(FtlError::CapacityExceeded)));
    assert_eq!(ftl.space.block_use(block), BlockUse::Closed, "its unit can be read");
}
