//! Ordering between programs. Power fails while two programs are in flight on different planes, and the medium does the
//! worst that it may (M4): the one that should have waited is there, and the one it should have waited for is not.
//!
//! In addition, what never happened must not count when a part of it is erased.

use std::collections::BTreeSet;

use tantalum_nand::{
    BlockId, FailingStep, Geometry, InFlight, Nand, Nanoseconds, Operation, Outcome, PageId, PageState,
    Scheduling, StepFault, UNIT_BYTES,
};

use super::super::{Ftl, Parts};
use crate::error::FtlError;
use crate::host_unit::HostUnit;
use crate::key::{Key, NamespaceAttributes, NamespaceId};
use crate::reads::Reads;
use crate::space::{BlockUse, FtlConfig, Target};
use crate::spare::{Mark, Spare};
use crate::tenants::records::{KeyValueError, KvRecord, Packing};
use crate::test_support::{CONFIG, GEOMETRY, TIMING};
use crate::types::{Hint, Lpn, ShareRange};

/// Enough planes for copies to overtake what a batch still programs.
const FOUR_PLANES: Geometry = Geometry { channels: 4, ..GEOMETRY };

/// Pages of a batch that fills the last two pages of a block on each of four planes, and needs one page more.
const BATCH_PAGES: u32 = 9;

/// The time at which programs that start after this many others on their plane are half done.
fn in_turn(start_ns: Nanoseconds, turn: u64) -> Nanoseconds {
    start_ns + turn * TIMING.program_ns + TIMING.program_ns / 2
}

pub(super) fn format(geometry: Geometry) -> Ftl {
    Ftl::format(Nand::in_memory(geometry, TIMING).unwrap(), CONFIG).unwrap()
}

/// Waits until everything is on flash; returns that time.
pub(super) fn settle(ftl: &mut Ftl) -> Nanoseconds {
    let now_ns = ftl.nand().idle_ns().max(ftl.nand().programs_done_ns());
    ftl.nand_mut().advance(now_ns);
    now_ns
}

pub(super) fn unit(ftl: &mut Ftl, lpn: u32, byte: u8) -> HostUnit {
    let slot = ftl.nand_mut().stage(&[byte; UNIT_BYTES]).unwrap();
    HostUnit::plain(slot, Lpn(lpn), ftl.next_seq())
}

pub(super) fn write(ftl: &mut Ftl, lpn: u32, byte: u8, at_ns: Nanoseconds) {
    let unit = unit(ftl, lpn, byte);
    ftl.write_page(&[unit], at_ns).unwrap();
}

pub(super) fn read(ftl: &mut Ftl, lpn: u32) -> u8 {
    let mut data = [9; UNIT_BYTES];
    let now_ns = ftl.nand().now_ns();
    ftl.read(Lpn(lpn), &mut data, now_ns).unwrap();
    data[0]
}

/// Power fails and comes back. Everything in flight is done except one page, which was not started.
fn cut(mut ftl: Ftl, at_ns: Nanoseconds, lost: PageId) -> Ftl {
    ftl.nand_mut().power_fail(at_ns);
    let mut nand = ftl.into_nand();
    let mut was_lost = false;
    let mut outcome = |in_flight: &InFlight| {
        let is_lost = in_flight.operation == Operation::Program(lost);
        was_lost |= is_lost;
        if is_lost { Outcome::NotStarted } else { Outcome::Completed }
    };
    let undone = nand.resolve(&mut outcome, &mut || 0).unwrap();
    assert!(was_lost, "page {lost} was on its way");
    undone.into_iter().flat_map(|program| program.units).for_each(|(slot, _)| nand.release(slot));
    recover(nand, CONFIG)
}

fn recover(mut nand: Nand, config: FtlConfig) -> Ftl {
    nand.lose_dram();
    let at_ns = nand.idle_ns().max(nand.programs_done_ns());
    Ftl::recover(nand, config, at_ns).map_err(|(_, error)| error).unwrap().0
}

#[test]
fn a_record_is_not_on_flash_before_the_unit_that_it_names() {
    let mut ftl = format(GEOMETRY);
    let start_ns = settle(&mut ftl);
    write(&mut ftl, 1, 5, start_ns);
    let page = GEOMETRY.page_of(ftl.map().lookup(Lpn(1)).unwrap());
    ftl.share(&[ShareRange { dst: Lpn(2), src: Lpn(1), units: 1 }], start_ns).unwrap();
    ftl.flush_journal(start_ns).unwrap();
    let mut ftl = cut(ftl, in_turn(start_ns, 0), page);
    assert_eq!([1, 2].map(|lpn| read(&mut ftl, lpn)), [0, 0]);
}

#[test]
fn a_checkpoint_is_not_on_flash_before_the_units_that_it_names() {
    let mut ftl = format(GEOMETRY);
    write(&mut ftl, 1, 4, 0);
    let start_ns = settle(&mut ftl);
    write(&mut ftl, 1, 5, start_ns);
    let page = GEOMETRY.page_of(ftl.map().lookup(Lpn(1)).unwrap());
    ftl.take_checkpoint(start_ns, false).unwrap();
    let mut ftl = cut(ftl, in_turn(start_ns, 0), page);
    assert_eq!(read(&mut ftl, 1), 4);
}

/// The open block of a stream that has one page, the one programmed last.
fn last_page(ftl: &Ftl, target: Target) -> PageId {
    let mut begun = ftl.space.stream(target).blocks().filter(|block| ftl.nand().next_page(*block) == 1);
    let block = begun.next().expect("a page of the batch did not fit the blocks before");
    assert_eq!(begun.next(), None);
    FOUR_PLANES.page(block, 0)
}

/// Moves the contents of a block that members of a batch have filled, at once, on an otherwise idle plane.
fn collect_members(ftl: &mut Ftl, last: PageId, at_ns: Nanoseconds) {
    let busy = FOUR_PLANES.plane_of(FOUR_PLANES.block_of(last));
    let full = ftl.space.blocks_with(BlockUse::Closed).find(|block| FOUR_PLANES.plane_of(*block) != busy);
    let full = full.expect("the batch has filled blocks");
    let valid = ftl.map().valid(full);
    assert!(valid >= 2 * FOUR_PLANES.units_per_page(), "two pages of members are moved: {valid} units");
    ftl.collect_block(full, at_ns).unwrap();
}

#[test]
fn copies_of_members_wait_for_the_rest_of_the_batch() {
    let mut ftl = format(FOUR_PLANES);
    (0..8).for_each(|_| write(&mut ftl, 0, 1, 0));
    let start_ns = settle(&mut ftl);
    let units: Vec<HostUnit> = (0..2 * BATCH_PAGES).map(|lpn| unit(&mut ftl, lpn, 2)).collect();
    ftl.write_batch(&units, &[], start_ns).unwrap();
    let last = last_page(&ftl, Target::Host);
    collect_members(&mut ftl, last, start_ns);
    let mut ftl = cut(ftl, in_turn(start_ns, 2), last);
    let found: Vec<u8> = (0..2 * BATCH_PAGES).map(|lpn| read(&mut ftl, lpn)).collect();
    assert_eq!(found, [&[1][..], &[0; 2 * BATCH_PAGES as usize - 1]].concat());
}

/// The checkpoint takes over that the batch was whole, so no record says it, and the block waits for no program that made
/// it free. Checkpoints are programmed in the background: an erase issued later goes ahead of them. No test erased a block
/// while a checkpoint was on its way.
#[test]
fn a_member_is_not_erased_before_the_checkpoint_that_knows_its_batch_is_on_flash() {
    let mut ftl = format(FOUR_PLANES);
    ftl.nand_mut().set_scheduling(Scheduling::ReadFirst);
    let block_of = |ftl: &Ftl, lpn| FOUR_PLANES.block_of_unit(ftl.map().lookup(Lpn(lpn)).unwrap());
    let members = FOUR_PLANES.units_per_block() * FOUR_PLANES.planes();
    let now_ns = settle(&mut ftl);
    let units: Vec<HostUnit> = (0..members).map(|lpn| unit(&mut ftl, lpn, 2)).collect();
    ftl.write_batch(&units, &[], now_ns).unwrap();
    let now_ns = settle(&mut ftl);
    let block = block_of(&ftl, 0);
    let (erased, kept): (Vec<u32>, Vec<u32>) = (0..members).partition(|lpn| block_of(&ftl, *lpn) == block);
    erased.iter().for_each(|lpn| write(&mut ftl, *lpn, 3, now_ns));
    let start_ns = settle(&mut ftl);
    ftl.collect_block(block, start_ns).unwrap();
    assert!(ftl.space.is_marked(block) && ftl.space.block_use(block) == BlockUse::Free);
    ftl.space.blocks_mut().take_block(FOUR_PLANES.plane_of(block), block, BlockUse::Open);
    ftl.take_checkpoint(start_ns, false).unwrap();
    let checkpoint = ftl.log.checkpoint_pages()[0];
    assert!(ftl.erase(block, start_ns).unwrap());
    let mut ftl = cut(ftl, in_turn(start_ns, 0), checkpoint);
    assert!(erased.iter().all(|lpn| read(&mut ftl, *lpn) == 3));
    assert!(!kept.is_empty() && kept.iter().all(|lpn| read(&mut ftl, *lpn) == 2), "the batch counts");
}

const VALUE_BYTES: usize = 4000;

fn key(number: u32) -> Key {
    Key::new(&number.to_be_bytes()).unwrap()
}

/// Puts records of one unit each, with as many keys.
fn put(
    ftl: &mut Ftl,
    namespace: NamespaceId,
    keys: u32,
    byte: u8,
    at_ns: Nanoseconds,
) -> Result<Nanoseconds, FtlError> {
    let value = [byte; VALUE_BYTES];
    let record = |number| KvRecord { namespace, key: key(number), value: Some(&value) };
    let records: Vec<KvRecord<'_>> = (0..keys).map(record).collect();
    ftl.put(&records, 0, at_ns, &mut |_| None)
}

fn get(ftl: &mut Ftl, namespace: NamespaceId, number: u32) -> u8 {
    let (mut value, now_ns) = (Vec::new(), ftl.nand().now_ns());
    match ftl.get(namespace, &key(number), &mut value, now_ns) {
        Err(KeyValueError::NoSuchKey { .. }) => 0,
        got => got.map(|_| value[0]).unwrap(),
    }
}

fn with_namespace(geometry: Geometry, logs: u32) -> (Ftl, NamespaceId) {
    let mut ftl = format(geometry);
    let attributes = NamespaceAttributes { logs, ..NamespaceAttributes::default() };
    let namespace = ftl.create_namespace(attributes, 0).unwrap();
    ftl.flush_journal(0).unwrap();
    settle(&mut ftl);
    (ftl, namespace)
}

/// A put whose last page is lost while records of it are being moved. `logs` is the number of the namespace's own logs.
fn copies_wait_for_the_rest_of_their_put(logs: u32) {
    let (mut ftl, namespace) = with_namespace(FOUR_PLANES, logs);
    let (target, planes) = if logs > 0 { (Target::Logs(namespace), logs) } else { (Target::Host, 4) };
    let at_ns = ftl.nand().now_ns();
    for _ in 0..2 * planes {
        put(&mut ftl, namespace, 1, 1, at_ns).unwrap();
    }
    let start_ns = settle(&mut ftl);
    let records = 2 * (2 * planes + 1);
    put(&mut ftl, namespace, records, 2, start_ns).unwrap();
    let last = last_page(&ftl, target);
    collect_members(&mut ftl, last, start_ns);
    let mut ftl = cut(ftl, in_turn(start_ns, 2), last);
    let found: Vec<u8> = (0..records).map(|number| get(&mut ftl, namespace, number)).collect();
    assert_eq!(found, [&[1][..], &vec![0; records as usize - 1]].concat());
}

/// Writes units and puts records of one unit each, with as many keys, in one batch.
fn both(
    ftl: &mut Ftl,
    namespace: NamespaceId,
    lpns: std::ops::Range<u32>,
    keys: u32,
    at_ns: Nanoseconds,
) -> Result<Nanoseconds, FtlError> {
    let units: Vec<HostUnit> = lpns.map(|lpn| unit(ftl, lpn, 2)).collect();
    let value = [2; VALUE_BYTES];
    let record = |number| KvRecord { namespace, key: key(number), value: Some(&value) };
    let records: Vec<KvRecord<'_>> = (0..keys).map(record).collect();
    ftl.write_batch(&units, &records, at_ns)
}

/// The last page has records only, and units of blocks are copied.
#[test]
fn copies_of_members_wait_for_the_records_of_their_batch() {
    let (mut ftl, namespace) = with_namespace(FOUR_PLANES, 0);
    let at_ns = ftl.nand().now_ns();
    (0..8).for_each(|_| write(&mut ftl, 0, 1, at_ns));
    let start_ns = settle(&mut ftl);
    let units = 2 * BATCH_PAGES - 2;
    both(&mut ftl, namespace, 0..units, 2, start_ns).unwrap();
    let last = last_page(&ftl, Target::Host);
    collect_members(&mut ftl, last, start_ns);
    let mut ftl = cut(ftl, in_turn(start_ns, 2), last);
    let found: Vec<u8> = (0..units).map(|lpn| read(&mut ftl, lpn)).collect();
    assert_eq!(found, [&[1][..], &vec![0; units as usize - 1]].concat());
    assert_eq!([0, 1].map(|number| get(&mut ftl, namespace, number)), [0, 0]);
}

#[test]
fn copies_of_records_wait_for_the_rest_of_their_put() {
    copies_wait_for_the_rest_of_their_put(0);
}

#[test]
fn copies_of_records_in_logs_of_their_own_wait_for_the_rest_of_their_put() {
    copies_wait_for_the_rest_of_their_put(2);
}

fn programmed_pages(ftl: &Ftl) -> BTreeSet<u32> {
    let is_programmed = |page: &u32| ftl.nand().page_state(PageId(*page)) == PageState::Programmed;
    (0..GEOMETRY.pages()).filter(is_programmed).collect()
}

/// Few blocks are free, and the journal needs none of them.
fn nearly_full(ftl: &mut Ftl) {
    for round in 0.. {
        let now_ns = settle(ftl);
        write(ftl, round % 60, 1, now_ns);
        if ftl.space.free_blocks() <= 12 {
            break;
        }
    }
    // its block is half full, so the next one is there
    for lpn in 0..GEOMETRY.pages_per_block / 2 {
        ftl.trim(Lpn(lpn), 1, 0).unwrap();
        ftl.flush_journal(0).unwrap();
    }
    // each open block has one page left
    let is_ready = |ftl: &Ftl| {
        let open: Vec<BlockId> = ftl.space.stream(Target::Host).blocks().collect();
        open.len() == 2 && open.iter().all(|block| ftl.nand.next_page(*block) + 1 == GEOMETRY.pages_per_block)
    };
    for round in 0.. {
        let now_ns = settle(ftl);
        if is_ready(ftl) {
            break;
        }
        write(ftl, round % 60, 1, now_ns);
    }
}

/// The result on a drive on which only the first two pages that `write` programs find a block, the last pages of two
/// blocks: these pages.
fn half_written(ftl: &Ftl, write: impl Fn(&mut Ftl) -> Result<Nanoseconds, FtlError>) -> (Ftl, [PageId; 2]) {
    for after in 0.. {
        let mut ftl = ftl.try_clone().expect("its flash is in memory");
        let before = programmed_pages(&ftl);
        ftl.nand_mut().fail_step(Some(StepFault { step: FailingStep::Reservation, after, lasts: true }));
        let written = write(&mut ftl);
        assert!(ftl.nand().step_has_failed(), "{written:?} after {after} steps");
        ftl.nand_mut().fail_step(None);
        let new: Vec<u32> = programmed_pages(&ftl).difference(&before).copied().collect();
        if let (&[one, other], Err(FtlError::CapacityExceeded)) = (&new[..], written) {
            return (ftl, [PageId(one), PageId(other)]);
        }
    }
    unreachable!("some step does that")
}

/// Others write until the block of one of the pages has been erased, while the block of the other is unchanged.
fn erase_one(ftl: &mut Ftl, pages: [PageId; 2]) {
    let erases = |ftl: &Ftl| pages.map(|page| ftl.nand().erase_count(GEOMETRY.block_of(page)));
    let before = erases(ftl);
    for round in 0.. {
        let now = erases(ftl);
        match [0, 1].map(|page| now[page] > before[page]) {
            [false, false] => {}
            [true, true] => panic!("both blocks were erased at once"),
            _ => break,
        }
        let now_ns = settle(ftl);
        write(ftl, round % 60, 1, now_ns);
    }
    settle(ftl);
}

pub(super) fn cut_idle(ftl: Ftl) -> Ftl {
    let config = ftl.config;
    let mut nand = ftl.into_nand();
    nand.power_fail(nand.idle_ns());
    let undone = nand.resolve(&mut |_| unreachable!("nothing is on its way"), &mut || 0).unwrap();
    assert!(undone.is_empty());
    recover(nand, config)
}

/// The block is erased only when it is recorded that its members' batch was whole. This one never was.
#[test]
fn a_batch_that_failed_half_way_stays_nothing_when_a_part_of_it_is_erased() {
    let mut ftl = format(GEOMETRY);
    nearly_full(&mut ftl);
    let (mut ftl, pages) = half_written(&ftl, |ftl| {
        let units: Vec<HostUnit> = (100..106).map(|lpn| unit(ftl, lpn, 2)).collect();
        let now_ns = ftl.nand().now_ns();
        ftl.write_batch(&units, &[], now_ns)
    });
    erase_one(&mut ftl, pages);
    let mut ftl = cut_idle(ftl);
    let found: Vec<u8> = (100..106).map(|lpn| read(&mut ftl, lpn)).collect();
    assert_eq!(found, [0; 6]);
}

/// A buffer returned while flash still uses it would be given to the next unit as well.
#[test]
fn a_batch_that_failed_half_way_keeps_the_buffers_of_its_programmed_pages() {
    let mut ftl = format(GEOMETRY);
    nearly_full(&mut ftl);
    let buffers = std::cell::RefCell::default();
    let (mut ftl, _) = half_written(&ftl, |ftl| {
        let units: Vec<HostUnit> = (100..106).map(|lpn| unit(ftl, lpn, 2)).collect();
        *buffers.borrow_mut() = units.iter().map(|unit| unit.slot).collect::<Vec<_>>();
        let now_ns = ftl.nand().now_ns();
        ftl.write_batch(&units, &[], now_ns)
    });
    let buffers = buffers.into_inner();
    let (programmed, refused) = buffers.split_at(4);
    let next: Vec<_> = (0..6).map(|lpn| unit(&mut ftl, lpn, 3).slot).collect();
    assert!(programmed.iter().all(|slot| !next.contains(slot)), "{programmed:?} are in use: {next:?}");
    assert!(refused.iter().all(|slot| next.contains(slot)), "{refused:?} are free: {next:?}");
}

/// The first page has units, the second one records.
#[test]
fn a_batch_of_both_that_failed_half_way_stays_nothing_when_a_part_of_it_is_erased() {
    let (mut ftl, namespace) = with_namespace(GEOMETRY, 0);
    nearly_full(&mut ftl);
    let (mut ftl, pages) = half_written(&ftl, |ftl| {
        let now_ns = ftl.nand().now_ns();
        both(ftl, namespace, 100..102, 4, now_ns)
    });
    erase_one(&mut ftl, pages);
    let mut ftl = cut_idle(ftl);
    let found = ([100, 101].map(|lpn| read(&mut ftl, lpn)), [0, 1].map(|key| get(&mut ftl, namespace, key)));
    assert_eq!(found, ([0, 0], [0, 0]));
}

#[test]
fn a_put_that_failed_half_way_stays_nothing_when_a_part_of_it_is_erased() {
    let (mut ftl, namespace) = with_namespace(GEOMETRY, 0);
    nearly_full(&mut ftl);
    let (mut ftl, pages) = half_written(&ftl, |ftl| {
        let now_ns = ftl.nand().now_ns();
        put(ftl, namespace, 6, 2, now_ns)
    });
    erase_one(&mut ftl, pages);
    let mut ftl = cut_idle(ftl);
    let found: Vec<u8> = (0..6).map(|number| get(&mut ftl, namespace, number)).collect();
    assert_eq!(found, [0; 6]);
}

/// A drive with room for a transaction whose records take two pages of the journal.
fn large() -> Ftl {
    let geometry = Geometry { blocks_per_plane: 64, ..FOUR_PLANES };
    let config = FtlConfig { logical_units: 512, ..CONFIG };
    Ftl::format(Nand::in_memory(geometry, TIMING).unwrap(), config).unwrap()
}

/// Commits such a transaction, whose units, starting at 0, hold 2, and waits until it is on flash, or only until the
/// first page of its records is. Returns the number of its units.
fn commit_large(ftl: &mut Ftl, both: bool) -> u32 {
    let units = ftl.records_per_page() as u32 + 2;
    let (tx, _) = ftl.begin_transaction(0).unwrap();
    for lpn in (0..units).step_by(2) {
        let now_ns = settle(ftl);
        let page = [lpn, lpn + 1].map(|lpn| {
            let slot = ftl.nand_mut().stage(&[2; UNIT_BYTES]).unwrap();
            (tx, Lpn(lpn), slot)
        });
        ftl.write_transaction_page(&page, now_ns).unwrap();
    }
    let now_ns = settle(ftl);
    // records that fill a page are flushed so that the rest can follow
    ftl.commit(tx, now_ns).unwrap();
    if both {
        ftl.flush_journal(now_ns).unwrap();
    }
    settle(ftl);
    units
}

/// No other test, nor the torture test, commits a transaction this large.
#[test]
fn a_commit_whose_records_take_two_pages_is_nothing_until_both_are_on_flash() {
    for both in [false, true] {
        let mut ftl = large();
        write(&mut ftl, 0, 1, 0);
        let units = commit_large(&mut ftl, both);
        let mut ftl = cut_idle(ftl);
        let found: Vec<u8> = (0..units).map(|lpn| read(&mut ftl, lpn)).collect();
        let expected =
            if both { vec![2; units as usize] } else { [&[1][..], &vec![0; units as usize - 1]].concat() };
        assert_eq!(found, expected);
    }
}

/// No test folded those records of such a commit that end claims: a log page that it overwrites claims its home until the
/// commit counts, and no longer.
#[test]
fn a_commit_whose_records_take_two_pages_ends_claims_when_both_are_on_flash() {
    for both in [false, true] {
        let mut ftl = large();
        write(&mut ftl, 500, 1, 0);
        let (generation, _) = ftl.begin_log(0).unwrap().expect("no log is open");
        let home = Some(Lpn(500));
        let hint = Hint { generation, attempt: 0, start: 1, first: 1, slot: 1, end: true, home };
        let page = HostUnit { hint: Some(hint), ..unit(&mut ftl, 0, 3) };
        ftl.write_page(&[page], 0).unwrap();
        ftl.accept_hint(&hint);
        commit_large(&mut ftl, both);
        let mut ftl = cut_idle(ftl);
        let found = [0, 500].map(|lpn| read(&mut ftl, lpn));
        assert_eq!(found, if both { [2, 1] } else { [3, 3] });
    }
}

/// A drive with a page of a log, unit 100, that is whole and claims its home.
fn with_log_page() -> Ftl {
    let mut ftl = format(GEOMETRY);
    write(&mut ftl, 50, 1, 0);
    let (generation, _) = ftl.begin_log(0).unwrap().expect("no log is open");
    let hint = Hint { generation, attempt: 0, start: 1, first: 1, slot: 1, end: true, home: Some(Lpn(50)) };
    let page = HostUnit { hint: Some(hint), ..unit(&mut ftl, 100, 3) };
    ftl.write_page(&[page], 0).unwrap();
    ftl.accept_hint(&hint);
    ftl
}

/// Moves what is in the block of a unit, and returns its new block.
fn move_block_of(ftl: &mut Ftl, lpn: u32) -> BlockId {
    let block_of = |ftl: &Ftl| GEOMETRY.block_of_unit(ftl.map().lookup(Lpn(lpn)).unwrap());
    let (from, now_ns) = (block_of(ftl), settle(ftl));
    ftl.collect_block(from, now_ns).unwrap();
    assert_ne!(block_of(ftl), from);
    block_of(ftl)
}

/// Before it is erased, the journal must say how far the run was whole.
#[test]
fn a_block_with_a_copy_of_a_page_of_a_log_is_marked() {
    let mut ftl = with_log_page();
    let block = move_block_of(&mut ftl, 100);
    assert!(ftl.space.is_marked(block));
}

/// A spare area names four owners. The log page must be one of them, or its hint would say nothing.
#[test]
fn a_copy_of_a_page_of_a_log_names_the_page_before_its_other_owners() {
    let mut ftl = with_log_page();
    for dst in 1..=5 {
        ftl.share(&[ShareRange { dst: Lpn(dst), src: Lpn(100), units: 1 }], 0).unwrap();
    }
    ftl.flush_journal(0).unwrap();
    move_block_of(&mut ftl, 100);
    let spare = ftl.nand().spare(ftl.map().lookup(Lpn(100)).unwrap()).unwrap();
    let spare = Spare::decode(&spare).unwrap();
    assert!(
        matches!(spare.mark, Mark::Hint(_, Lpn(100))) && spare.version_of(Lpn(100)).is_some(),
        "{spare:?}"
    );
}

/// Moves what is in the block of a unit, and erases the block.
fn move_and_erase_block_of(ftl: &mut Ftl, lpn: u32) {
    let block = GEOMETRY.block_of_unit(ftl.map().lookup(Lpn(lpn)).unwrap());
    move_block_of(ftl, lpn);
    let now_ns = settle(ftl);
    ftl.space.blocks_mut().take_block(GEOMETRY.plane_of(block), block, BlockUse::Open);
    assert!(ftl.erase(block, now_ns).unwrap());
    settle(ftl);
}

/// Its spare area says that it is a page of a transaction, which is nobody's without the commit's record: that of the copy must not.
#[test]
fn a_copy_of_a_page_of_a_committed_transaction_is_a_unit() {
    let mut ftl = format(GEOMETRY);
    let (tx, _) = ftl.begin_transaction(0).unwrap();
    let slot = ftl.nand_mut().stage(&[3; UNIT_BYTES]).unwrap();
    ftl.write_transaction_page(&[(tx, Lpn(1), slot)], 0).unwrap();
    ftl.commit(tx, 0).unwrap();
    ftl.flush_journal(0).unwrap();
    move_and_erase_block_of(&mut ftl, 1);
    let mut ftl = cut_idle(ftl);
    assert_eq!(read(&mut ftl, 1), 3);
}

/// Only the copy is left of the unit's second version, and the first one is still on flash.
#[test]
fn a_copy_of_a_shared_unit_has_its_owners_versions() {
    let mut ftl = format(GEOMETRY);
    write(&mut ftl, 1, 1, 0);
    (10..18).for_each(|lpn| write(&mut ftl, lpn, 1, 0));
    write(&mut ftl, 1, 2, 0);
    ftl.share(&[ShareRange { dst: Lpn(2), src: Lpn(1), units: 1 }], 0).unwrap();
    ftl.flush_journal(0).unwrap();
    move_and_erase_block_of(&mut ftl, 1);
    let mut ftl = cut_idle(ftl);
    assert_eq!([1, 2].map(|lpn| read(&mut ftl, lpn)), [2, 2]);
}

/// A spare area names four owners; the journal has the others.
#[test]
fn a_copy_of_a_unit_with_many_owners_keeps_them_all() {
    let mut ftl = format(GEOMETRY);
    write(&mut ftl, 1, 3, 0);
    for dst in 2..=7 {
        ftl.share(&[ShareRange { dst: Lpn(dst), src: Lpn(1), units: 1 }], 0).unwrap();
    }
    ftl.flush_journal(0).unwrap();
    move_and_erase_block_of(&mut ftl, 1);
    ftl.flush_journal(0).unwrap();
    settle(&mut ftl);
    let mut ftl = cut_idle(ftl);
    assert_eq!([1, 2, 3, 4, 5, 6, 7, 8].map(|lpn| read(&mut ftl, lpn)), [3, 3, 3, 3, 3, 3, 3, 0]);
}

/// Its copy records the version that the journal had recorded; nothing else keeps it.
#[test]
fn a_unit_that_was_shared_and_has_one_owner_left_is_plain_once_it_is_copied() {
    let mut ftl = format(GEOMETRY);
    write(&mut ftl, 1, 3, 0);
    ftl.share(&[ShareRange { dst: Lpn(2), src: Lpn(1), units: 1 }], 0).unwrap();
    ftl.trim(Lpn(1), 1, 0).unwrap();
    ftl.flush_journal(0).unwrap();
    assert_eq!(ftl.map().claims().len(), 1);
    move_block_of(&mut ftl, 2);
    assert_eq!(ftl.map().claims().len(), 0);
    assert_eq!([1, 2].map(|lpn| read(&mut ftl, lpn)), [0, 3]);
}

/// A put of two records in one page in flight. When packed, they may go to different pages, one of which may reach
/// flash before the original page.
#[test]
fn packed_records_are_ready_when_the_page_that_they_come_from_is_on_flash() {
    let (mut ftl, namespace) = with_namespace(GEOMETRY, 0);
    let start_ns = ftl.nand().now_ns();
    put(&mut ftl, namespace, 2, 1, start_ns).unwrap();
    let done_ns = ftl.nand().programs_done_ns();
    let block = ftl.space.stream(Target::Host).blocks().find(|block| ftl.nand().next_page(*block) == 1);
    let place = GEOMETRY.unit(GEOMETRY.page(block.unwrap(), 0), 0);
    let mut packing = Packing::default();
    let Parts { records, log, nand, space, counters, .. } = &mut ftl.allocator.parts;
    let mut reads = Reads { nand, space, counters };
    let mut packed = records.pack(place, &mut packing, log, &mut reads, start_ns).unwrap();
    packed.extend(packing.take_open());
    assert_eq!(packed.len(), 1);
    assert!(done_ns > start_ns && packed[0].ready_ns() >= done_ns, "{} of {done_ns}", packed[0].ready_ns());
}

/// A drive to which only metadata are written must take checkpoints too, or its journal would take every block.
#[test]
fn a_journal_as_long_as_is_planned_asks_for_a_checkpoint() {
    let mut ftl = format(GEOMETRY);
    write(&mut ftl, 1, 1, 0);
    let (limit, mut longest) = (ftl.layout().journal_blocks, 0);
    for round in 0..40 * limit * GEOMETRY.pages_per_block {
        let dst = Lpn(2 + round % 50);
        ftl.trim(dst, 1, 0).unwrap();
        ftl.share(&[ShareRange { dst, src: Lpn(1), units: 1 }], 0).unwrap();
        ftl.flush_journal(0).unwrap();
        longest = longest.max(ftl.log.journal_blocks());
        ftl.maintain(0).unwrap();
        assert!(ftl.log.journal_blocks() <= limit, "round {round}");
    }
    assert_eq!(longest, limit + 1, "it is as long as it may be");
}

/// The records of a remap take several pages if it ends claims. What unmaps the sources counts with the last of them; here it
/// would be the last record that fits on a page before that.
#[test]
fn a_remap_whose_records_take_several_pages_is_nothing_until_all_are_on_flash() {
    let geometry = Geometry { blocks_per_plane: 192, ..FOUR_PLANES };
    let config = FtlConfig { logical_units: 1024, ..CONFIG };
    for all in [false, true] {
        let mut ftl = Ftl::format(Nand::in_memory(geometry, TIMING).unwrap(), config).unwrap();
        let (units, dst) = (ftl.share_limit(), 500);
        for lpn in 0..units {
            write(&mut ftl, lpn, 2, 0);
        }
        // pages of a log on all destinations and on the first source
        let (generation, _) = ftl.begin_log(0).unwrap().expect("no log is open");
        for slot in 1..=units + 1 {
            let (lpn, end) = if slot > units { (0, true) } else { (dst + slot - 1, false) };
            let home = Some(Lpn(1000));
            let hint = Hint { generation, attempt: 0, start: 1, first: 1, slot, end, home };
            let page = HostUnit { hint: Some(hint), ..unit(&mut ftl, lpn, 3) };
            ftl.write_page(&[page], 0).unwrap();
            ftl.accept_hint(&hint);
        }
        ftl.flush_journal(0).unwrap();
        let now_ns = settle(&mut ftl);
        assert_eq!(2 * units + 2, 2 * ftl.records_per_page() as u32, "mappings, claims, and the sources");
        ftl.remap(Lpn(0), Lpn(dst), units, now_ns).unwrap();
        if all {
            ftl.flush_journal(now_ns).unwrap();
        }
        settle(&mut ftl);
        let mut ftl = cut_idle(ftl);
        let found = [0, units - 1, dst, dst + 1, dst + units - 1].map(|lpn| read(&mut ftl, lpn));
        assert_eq!(found, if all { [0, 0, 3, 2, 2] } else { [3, 2, 3, 3, 3] });
    }
}

#[cfg(feature = "canaries")]
mod without {
    use tantalum_canaries::take_out;

    use crate::canaries;

    #[test]
    #[should_panic(expected = "has another spare area")]
    fn a_block_of_marked_units_is_not_recorded_as_such() {
        let _out = take_out(&canaries::MarkedUnitTakenForPlain);
        super::a_copy_of_a_page_of_a_committed_transaction_is_a_unit();
    }
}
