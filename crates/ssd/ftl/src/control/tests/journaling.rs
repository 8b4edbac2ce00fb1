use tantalum_nand::{
    FailingStep, Faults, Geometry, Nand, NandError, NvmShape, PlaneId, Scheduling, StepFault, UNIT_BYTES,
};

use super::super::allocate::SPARE_PAGES;
use super::super::*;
use crate::host_unit::HostUnit;
use crate::space::{BlockUse, FtlConfig, Marked, Wear};
use crate::test_support::{CONFIG, GEOMETRY, TIMING};
use crate::types::Lpn;

fn ftl(pages_per_block: u32) -> Ftl {
    let geometry = Geometry { pages_per_block, ..GEOMETRY };
    Ftl::format(Nand::in_memory(geometry, TIMING).unwrap(), CONFIG).unwrap()
}

fn flush_one(ftl: &mut Ftl) {
    let version = ftl.next_seq();
    ftl.append_reserved(Record::Trim { lpn: Lpn(1), units: 1, version, step: version }, 0).unwrap();
    ftl.flush_journal(0).unwrap();
}

/// The next block is erased while the open one still has pages, so nothing that waits for the journal waits for the
/// erase.
#[test]
fn the_next_journal_block_is_taken_once_the_open_one_is_half_full() {
    let mut ftl = ftl(8);
    let mut left = Vec::new();
    for _ in 0..12 {
        flush_one(&mut ftl);
        left.push(ftl.log.pages_left(&ftl.nand));
    }
    assert_eq!(left, [7, 6, 5, 8 + 4, 8 + 3, 8 + 2, 8 + 1, 8, 7, 6, 5, 8 + 4]);
}

/// Nothing is erased within a step, so the pages that it needs must be ready before it begins.
#[test]
fn a_step_has_its_pages_before_it_begins() {
    for used in 0..8 {
        for pages in 1..=3 {
            let mut ftl = ftl(8);
            (0..used).for_each(|_| flush_one(&mut ftl));
            let records = pages * ftl.records_per_page();
            ftl.make_journal_room(records, 0).unwrap();
            let (left, needed) = (ftl.log.pages_left(&ftl.nand), pages as u32 + 2 + SPARE_PAGES);
            assert!(left >= needed, "{used} pages used: {left} pages for {pages} of records");
            let blocks = ftl.log.journal_blocks();
            ftl.make_journal_room(records, 0).unwrap();
            assert_eq!(ftl.log.journal_blocks(), blocks, "there is room already");
        }
    }
}

/// Hundreds of steps without a command that would take a checkpoint: the log is emptied when it has no room for another
/// step.
#[test]
fn a_log_in_memory_has_room_for_a_step_or_a_checkpoint_makes_it() {
    let nvm_bytes = 1 << 20;
    let config = FtlConfig { nvm_log_bytes: Some(nvm_bytes), ..CONFIG };
    let shape = NvmShape { bytes: nvm_bytes, latency_ns: 100, bytes_per_second: 1_000_000_000 };
    let nand = Nand::in_memory(GEOMETRY, TIMING).unwrap().with_nvm(shape).unwrap();
    let mut ftl = Ftl::format(nand, config).unwrap();
    let (before, mut steps) = (ftl.counters().checkpoints, 0);
    while ftl.counters().checkpoints < before + 3 {
        ftl.make_journal_room(1, 0).unwrap_or_else(|error| panic!("step {steps}: {error}"));
        flush_one(&mut ftl);
        steps += 1;
    }
    assert!(steps > 1000, "{steps} steps of 56 bytes fill a quarter of 1 MiB twice");
    let room = ftl.make_journal_room(1_000_000, 0);
    assert!(matches!(room, Err(FtlError::CapacityExceeded)), "{room:?}");
}

/// The open journal block fails and no other is free, so the page cannot be programmed. Its record keeps waiting: the
/// trim was done, and counts as soon as there is a block. No test had a journal page without a block.
#[test]
fn records_without_a_block_wait_for_one() {
    let mut ftl = ftl(8);
    let slot = ftl.nand.stage(&[1; UNIT_BYTES]).unwrap();
    let version = ftl.next_seq();
    let unit = HostUnit::plain(slot, Lpn(1), version);
    ftl.write_page(&[unit], 0).unwrap();
    ftl.trim(Lpn(1), 1, 0).unwrap();
    let waiting: Vec<Record> = ftl.log.waiting().copied().collect();
    assert!(!waiting.is_empty());
    let mut taken = Vec::new();
    for plane in (0..ftl.geometry.planes()).map(PlaneId) {
        while let Some(block) = ftl.take_free(plane, BlockUse::Open, Marked::Ranked, Wear::Least) {
            taken.push((plane, block));
        }
    }
    ftl.nand.set_faults(Faults { program_failure_ppm: 1_000_000, ..Faults::default() });
    let flushed = ftl.flush_journal(0);
    assert!(matches!(flushed, Err(FtlError::CapacityExceeded)), "{flushed:?}");
    assert_eq!(ftl.log.waiting().copied().collect::<Vec<_>>(), waiting);
    ftl.nand.set_faults(Faults::default());
    for (plane, block) in taken {
        ftl.release_erased(plane, block);
    }
    ftl.flush_journal(0).unwrap();
    let (config, mut nand) = (ftl.config, ftl.into_nand());
    nand.power_fail(nand.programs_done_ns().max(nand.idle_ns()));
    nand.resolve(&mut |_| unreachable!("nothing is on its way"), &mut || 0).unwrap();
    nand.lose_dram();
    let at_ns = nand.idle_ns();
    let (ftl, _) = Ftl::recover(nand, config, at_ns).map_err(|(_, error)| error).unwrap();
    assert_eq!(ftl.map().lookup(Lpn(1)), None, "the trim is durable");
}

/// A page of records fills several buffers. No test let one of them be missing.
#[test]
fn a_journal_page_without_a_buffer_gives_back_those_that_it_has() {
    let mut ftl = ftl(8);
    while ftl.log.has_room(1) {
        let version = ftl.next_seq();
        let trim = Record::Trim { lpn: Lpn(1), units: 1, version, step: version };
        ftl.append_reserved(trim, 0).unwrap();
    }
    let (waiting, before) = (ftl.log.waiting().len(), ftl.nand.slots_in_use());
    ftl.nand.fail_step(Some(StepFault { step: FailingStep::Buffer, after: 1, lasts: false }));
    let flushed = ftl.flush_journal(0);
    assert!(matches!(flushed, Err(FtlError::Nand(NandError::OutOfSlots { .. }))), "{flushed:?}");
    assert_eq!((ftl.log.waiting().len(), ftl.nand.slots_in_use()), (waiting, before));
    ftl.nand.fail_step(None);
    ftl.flush_journal(0).unwrap();
    assert!(ftl.log.nothing_waits());
}

/// Programs fail until the journal's open block is used up, and the next one. The page in hand has the record that made
/// a block free; it was erased for that page, and after a cut the unit read what it held long before. No test let so
/// many programs fail and some block be free only by what they were to store.
#[test]
fn no_block_is_erased_for_a_page_of_records_in_hand() {
    let mut ftl = ftl(8);
    let write = |ftl: &mut Ftl, lpn: u32, byte: u8| {
        let (slot, version) = (ftl.nand.stage(&[byte; UNIT_BYTES]).unwrap(), ftl.next_seq());
        let unit = HostUnit::plain(slot, Lpn(lpn), version);
        ftl.write_page(&[unit], 0).unwrap();
        ftl.geometry.block_of_unit(ftl.map.lookup(Lpn(lpn)).unwrap())
    };
    let second = loop {
        let block = write(&mut ftl, 1, 1);
        if ftl.space.block_use(block) == BlockUse::Closed {
            break block;
        }
    };
    // every free block has to be erased before it is used
    let mut used = Vec::new();
    for plane in (0..ftl.geometry.planes()).map(PlaneId) {
        while let Some(block) = ftl.take_free(plane, BlockUse::Open, Marked::Ranked, Wear::Least) {
            used.push(block);
        }
    }
    used.into_iter().for_each(|block| ftl.release_block(block));
    ftl.trim(Lpn(1), 1, 0).unwrap();
    ftl.collect_block(second, 0).unwrap();
    assert_eq!(ftl.space.block_use(second), BlockUse::Free);
    let erases = ftl.nand.erase_count(second);
    ftl.nand.fail_step(Some(StepFault { step: FailingStep::Program, after: 0, lasts: true }));
    let flushed = ftl.flush_journal(0);
    assert!(matches!(flushed, Err(FtlError::CapacityExceeded)), "{flushed:?}");
    assert_eq!(ftl.nand.erase_count(second), erases, "the record that made it free is not on flash");
    assert!(!ftl.log.nothing_waits());
}

/// Garbage collection may have programmed the place, and such programs are not waited for otherwise: a dump must leave
/// the record out if the place is not there.
#[test]
fn a_record_is_ready_when_the_place_that_it_names_is_on_flash() {
    let mut ftl = ftl(8);
    ftl.nand.set_scheduling(Scheduling::ReadFirst);
    let slot = ftl.nand.stage(&[1; UNIT_BYTES]).unwrap();
    let version = ftl.next_seq();
    let unit = HostUnit::plain(slot, Lpn(1), version);
    ftl.write_page(&[unit], 0).unwrap();
    let now_ns = ftl.nand.programs_done_ns();
    ftl.nand.advance(now_ns);
    let old = ftl.map.lookup(Lpn(1)).unwrap();
    ftl.collect_block(ftl.geometry.block_of_unit(old), now_ns).unwrap();
    let ppn = ftl.map.lookup(Lpn(1)).unwrap();
    let copied_ns = ftl.nand.programmed_ns(ftl.geometry.page_of(ppn));
    assert!(ppn != old && copied_ns > now_ns && ftl.nand.host_programs_done_ns() <= now_ns);
    let (lpn, group) = (Lpn(2), version);
    let in_group = Record::MapInGroup { lpn, version, group, ppn };
    for record in [Record::Map { lpn, version, step: version, ppn }, in_group] {
        assert_eq!(ftl.ready_ns(&[record]), copied_ns);
    }
}
