//! What an erase records, and what it leaves out because the journal has it (hazard 34); what waits for that, and what does
//! not.

use tantalum_nand::{BlockId, Scheduling};

use super::super::{Ftl, Parts};
use super::waits::{cut_idle, format, read, settle, unit, write};
use crate::host_unit::HostUnit;
use crate::metadata::Record;
use crate::space::{BlockUse, Target};
use crate::test_support::{GEOMETRY, TIMING};
use crate::types::{Generation, Hint, Lpn, Seq};

/// Units of the log: slot s is at the unit 2s.
const HOME: Lpn = Lpn(1);

/// A drive that puts hosts first, with a log.
fn with_log() -> (Ftl, Generation) {
    let mut ftl = format(GEOMETRY);
    ftl.nand_mut().set_scheduling(Scheduling::ReadFirst);
    write(&mut ftl, HOME.0, 1, 0);
    let (generation, _) = ftl.begin_log(0).unwrap().expect("no log is open");
    (ftl, generation)
}

/// Transactions of a page each, in these slots. All claim the same home.
fn log_pages(ftl: &mut Ftl, generation: Generation, slots: std::ops::RangeInclusive<u32>) -> Vec<BlockId> {
    let mut blocks = Vec::new();
    for slot in slots {
        let at_ns = settle(ftl);
        let hint = Hint { generation, attempt: 0, start: 1, first: slot, slot, end: true, home: Some(HOME) };
        let page = HostUnit { hint: Some(hint), ..unit(ftl, 2 * slot, 100 + slot as u8) };
        ftl.write_page(&[page], at_ns).unwrap();
        ftl.accept_hint(&hint);
        blocks.push(block_of(ftl, 2 * slot));
    }
    blocks
}

fn block_of(ftl: &Ftl, lpn: u32) -> BlockId {
    GEOMETRY.block_of_unit(ftl.map().lookup(Lpn(lpn)).unwrap())
}

/// Fills the open blocks, so that those before are closed.
fn fill(ftl: &mut Ftl) {
    let is_begun = |ftl: &Ftl| {
        let mut open = ftl.space.stream(Target::Host).blocks();
        open.any(|block| ftl.nand().next_page(block) > 0)
    };
    while is_begun(ftl) {
        let at_ns = settle(ftl);
        write(ftl, 127, 0, at_ns);
    }
}

/// The pages in these slots are garbage, and so are their blocks, which are returned.
fn drop_pages(ftl: &mut Ftl, slots: std::ops::RangeInclusive<u32>) -> Vec<BlockId> {
    let mut blocks: Vec<BlockId> = slots.clone().map(|slot| block_of(ftl, 2 * slot)).collect();
    fill(ftl);
    for slot in slots {
        let at_ns = settle(ftl);
        write(ftl, 2 * slot, 9, at_ns);
    }
    fill(ftl);
    ftl.flush_journal(0).unwrap();
    settle(ftl);
    blocks.sort_unstable();
    blocks.dedup();
    blocks
}

/// Frees a block without contents, and opens it at once.
fn erase(ftl: &mut Ftl, block: BlockId) {
    let at_ns = ftl.nand().now_ns();
    ftl.collect_block(block, at_ns).unwrap();
    ftl.space.blocks_mut().take_block(GEOMETRY.plane_of(block), block, BlockUse::Open);
    assert!(ftl.erase(block, at_ns).unwrap());
}

/// Pages of the journal so far.
fn journal_pages(ftl: &Ftl) -> u64 {
    ftl.counters().flash_units.journal / u64::from(GEOMETRY.units_per_page())
}

/// Erases a block, and returns how many pages of the journal that took.
fn pages_to_erase(ftl: &mut Ftl, block: BlockId) -> u64 {
    let before = journal_pages(ftl);
    erase(ftl, block);
    settle(ftl);
    journal_pages(ftl) - before
}

/// Every erased block recorded the runs of all logs in it again, and the flush that needed the block waited for that.
#[test]
fn a_run_is_recorded_once_until_slots_behind_the_record_are_erased() {
    let (mut ftl, generation) = with_log();
    log_pages(&mut ftl, generation, 1..=16);
    let blocks = drop_pages(&mut ftl, 1..=16);
    assert!(blocks.len() >= 4);
    let pages: Vec<u64> = blocks.iter().map(|block| pages_to_erase(&mut ftl, *block)).collect();
    assert_eq!(pages.iter().sum::<u64>(), 1, "{pages:?}");
    log_pages(&mut ftl, generation, 17..=24);
    let blocks = drop_pages(&mut ftl, 17..=24);
    let pages: Vec<u64> = blocks.iter().map(|block| pages_to_erase(&mut ftl, *block)).collect();
    let grown = pages.iter().sum::<u64>();
    // only this page is left of the log, and it counts if all before it do
    log_pages(&mut ftl, generation, 25..=25);
    settle(&mut ftl);
    let mut ftl = cut_idle(ftl);
    assert_eq!([HOME.0, 50].map(|lpn| read(&mut ftl, lpn)), [125, 125], "the log is whole");
    assert_eq!(grown, 1, "{pages:?}");
}

/// A checkpoint replaces the records before it. The copy of a page is newer than the checkpoint.
#[test]
fn nothing_counts_as_recorded_that_a_checkpoint_covers() {
    let (mut ftl, generation) = with_log();
    log_pages(&mut ftl, generation, 1..=9);
    let blocks = drop_pages(&mut ftl, 1..=8);
    assert_eq!(pages_to_erase(&mut ftl, blocks[0]), 1);
    assert!(ftl.log.memberships().has_slot(generation, 0, 9));
    ftl.take_checkpoint(0, false).unwrap();
    assert!(!ftl.log.memberships().has_slot(generation, 0, 1));
    let (from, at_ns) = (block_of(&ftl, 18), settle(&mut ftl));
    ftl.collect_block(from, at_ns).unwrap();
    let copies = block_of(&ftl, 18);
    assert_ne!(copies, from);
    let Parts { space, map, .. } = &mut ftl.allocator.parts;
    space.close(copies, map);
    ftl.space.stream_mut(Target::Collect).close(GEOMETRY.plane_of(copies));
    let at_ns = settle(&mut ftl);
    write(&mut ftl, 18, 9, at_ns);
    // whatever else was copied there
    let units: Vec<u32> = (0..128).filter(|lpn| ftl.map().lookup(Lpn(*lpn)).is_some()).collect();
    for lpn in units.into_iter().filter(|lpn| block_of(&ftl, *lpn) == copies).collect::<Vec<_>>() {
        write(&mut ftl, lpn, 9, at_ns);
    }
    ftl.flush_journal(at_ns).unwrap();
    settle(&mut ftl);
    assert_eq!(pages_to_erase(&mut ftl, copies), 1);
}

/// Of a batch on three blocks two are erased; the members on the third one count.
#[test]
fn a_batch_is_recorded_once() {
    let mut ftl = format(GEOMETRY);
    fill(&mut ftl);
    let units: Vec<HostUnit> = (0..18).map(|lpn| unit(&mut ftl, lpn, 2)).collect();
    ftl.write_batch(&units, &[], 0).unwrap();
    let mut blocks: Vec<BlockId> = (0..16).map(|lpn| block_of(&ftl, lpn)).collect();
    fill(&mut ftl);
    for lpn in 0..16 {
        let at_ns = settle(&mut ftl);
        write(&mut ftl, lpn, 3, at_ns);
    }
    fill(&mut ftl);
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.len(), 2);
    let pages: Vec<u64> = blocks.iter().map(|block| pages_to_erase(&mut ftl, *block)).collect();
    assert_eq!(pages, [1, 0]);
    let mut ftl = cut_idle(ftl);
    assert_eq!([0, 15, 16, 17].map(|lpn| read(&mut ftl, lpn)), [3, 3, 2, 2]);
}

/// The page was written for another erase, and this one may rely on it. Its block was free before.
#[test]
fn an_erase_waits_for_what_an_earlier_one_recorded() {
    let (mut ftl, _) = with_log();
    let membership = |ftl: &mut Ftl, id| {
        let at_ns = ftl.nand().now_ns();
        ftl.append_reserved(Record::BatchWhole { id: Seq(id) }, at_ns).unwrap();
        ftl.flush_journal(at_ns).unwrap();
    };
    // the next block of the journal is there
    (1..=2).for_each(|id| membership(&mut ftl, id));
    settle(&mut ftl);
    let journal = GEOMETRY.plane_of(ftl.log.open_block().expect("the journal has an open block"));
    let is_elsewhere = |block: &BlockId| GEOMETRY.plane_of(*block) != journal;
    let block = ftl.space.blocks_with(BlockUse::Free).find(is_elsewhere).expect("a free block");
    ftl.space.blocks_mut().take_block(GEOMETRY.plane_of(block), block, BlockUse::Open);
    membership(&mut ftl, 3);
    let (now_ns, stored_ns) = (ftl.nand().now_ns(), ftl.log.stored_ns());
    assert!(stored_ns > now_ns && ftl.log.nothing_waits());
    assert!(ftl.erase(block, now_ns).unwrap());
    let done_ns = ftl.nand().plane_idle_ns(GEOMETRY.plane_of(block));
    assert_eq!(done_ns, stored_ns + TIMING.erase_ns, "after the journal");
}

/// A host's record that an erase has sent to flash is one that a flush waits for.
#[test]
fn a_flush_waits_for_a_record_of_a_host_beside_memberships() {
    for with_record in [false, true] {
        let (mut ftl, generation) = with_log();
        log_pages(&mut ftl, generation, 1..=16);
        let blocks = drop_pages(&mut ftl, 1..=16);
        let start_ns = settle(&mut ftl);
        if with_record {
            ftl.trim(Lpn(127), 1, start_ns).unwrap();
        }
        let before = journal_pages(&ftl);
        erase(&mut ftl, blocks[0]);
        assert_eq!(journal_pages(&ftl), before + 1);
        let stored_ns = ftl.log.stored_ns();
        assert!(stored_ns > start_ns + TIMING.program_ns);
        let flushed_ns = ftl.flush_journal(start_ns).unwrap();
        assert_eq!(flushed_ns, if with_record { stored_ns } else { start_ns });
        let steps_ns = ftl.log.steps_done_ns();
        assert_eq!(steps_ns > start_ns, with_record, "nor does a command that waits for steps");
    }
}

/// A page of data that waits for a new block would wait for two programs in turn.
#[test]
fn an_erase_does_not_wait_for_programs_issued_after_its_block_was_freed() {
    let (mut ftl, _) = with_log();
    let block = block_of(&ftl, HOME.0);
    fill(&mut ftl);
    let at_ns = settle(&mut ftl);
    write(&mut ftl, HOME.0, 2, at_ns);
    fill(&mut ftl);
    ftl.flush_journal(0).unwrap();
    let start_ns = settle(&mut ftl);
    ftl.collect_block(block, start_ns).unwrap();
    ftl.space.blocks_mut().take_block(GEOMETRY.plane_of(block), block, BlockUse::Open);
    // on the other plane
    loop {
        let now_ns = ftl.nand().now_ns();
        write(&mut ftl, 60, 2, now_ns);
        if GEOMETRY.plane_of(block_of(&ftl, 60)) != GEOMETRY.plane_of(block) {
            break;
        }
        settle(&mut ftl);
    }
    let now_ns = ftl.nand().now_ns();
    assert!(ftl.nand().host_programs_done_ns() > now_ns);
    assert!(ftl.erase(block, now_ns).unwrap());
    assert_eq!(ftl.nand().plane_idle_ns(GEOMETRY.plane_of(block)), now_ns + TIMING.erase_ns);
}

/// While a page waits for a block, that block may have to be erased, and nothing is on its way yet that says what it proves.
#[test]
fn a_membership_counts_once_its_page_is_issued() {
    let mut ftl = format(GEOMETRY);
    let whole = Record::BatchWhole { id: Seq(7) };
    ftl.append_reserved(whole, 0).unwrap();
    let has = |ftl: &Ftl| ftl.log.memberships().has_batch(Seq(7));
    assert!(!has(&ftl), "it waits");
    let page = ftl.take_journal_page(Seq(9));
    assert!(!has(&ftl), "it is taken");
    ftl.log.put_back(page);
    assert!(!has(&ftl));
    ftl.flush_journal(0).unwrap();
    assert!(has(&ftl));
}

/// The torture test reaches the first of these guards; it did not reach the second one within 100 seeds.
#[cfg(feature = "canaries")]
mod without {
    use tantalum_canaries::take_out;

    use crate::canaries;

    #[test]
    #[should_panic(expected = "the log is whole")]
    fn a_run_counts_as_recorded_although_it_has_grown() {
        let _out = take_out(&canaries::RunGrownSinceRecord);
        super::a_run_is_recorded_once_until_slots_behind_the_record_are_erased();
    }

    #[test]
    #[should_panic(expected = "after the journal")]
    fn an_erase_does_not_wait_for_a_page_in_flight() {
        let _out = take_out(&canaries::RecordInFlight);
        super::an_erase_waits_for_what_an_earlier_one_recorded();
    }
}
