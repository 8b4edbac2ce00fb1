use tantalum_nand::{FailingStep, Geometry, Nand, StepFault, UNIT_BYTES};

use super::super::*;
use crate::host_unit::HostUnit;
use crate::space::FtlConfig;
use crate::tenants::units::ShareRefusal;
use crate::test_support::{CONFIG, GEOMETRY, TIMING};
use crate::types::Hint;

const LPN: Lpn = Lpn(3);

fn unit(ftl: &mut Ftl, lpn: Lpn) -> HostUnit {
    let slot = ftl.nand_mut().stage(&[1; UNIT_BYTES]).unwrap();
    HostUnit::plain(slot, lpn, ftl.next_seq())
}

fn write(ftl: &mut Ftl) {
    let unit = unit(ftl, LPN);
    ftl.write_page(&[unit], 0).unwrap();
}

/// A drive with a unit, and a transaction that has rewritten it.
fn with_transaction() -> (Ftl, TxId) {
    let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
    write(&mut ftl);
    let (tx, _) = ftl.begin_transaction(0).unwrap();
    let slot = ftl.nand_mut().stage(&[2; UNIT_BYTES]).unwrap();
    ftl.write_transaction_page(&[(tx, LPN, slot)], 0).unwrap();
    (ftl, tx)
}

fn is_newest(ftl: &Ftl, tx: TxId) -> bool {
    ftl.units.is_newest(&ftl.map, &ftl.nand, LPN, &ftl.transactions().page(tx, LPN).unwrap())
}

#[test]
fn a_transactions_page_is_newest_while_nothing_happened_to_its_unit() {
    let (mut ftl, tx) = with_transaction();
    assert!(is_newest(&ftl, tx));
    ftl.share(&[ShareRange { dst: Lpn(9), src: LPN, units: 1 }], 0).unwrap();
    assert!(is_newest(&ftl, tx), "it has another owner, and is where it was");
    write(&mut ftl);
    assert!(!is_newest(&ftl, tx));
}

#[test]
fn a_unit_that_was_copied_or_shared_over_is_not_known_to_be_older() {
    let (mut ftl, tx) = with_transaction();
    let block = ftl.geometry.block_of_unit(ftl.map.lookup(LPN).unwrap());
    ftl.collect_block(block, 0).unwrap();
    assert!(!is_newest(&ftl, tx));
    let (mut ftl, tx) = with_transaction();
    ftl.remap(LPN, Lpn(9), 1, 0).unwrap();
    assert!(!is_newest(&ftl, tx), "it was unmapped");
    ftl.share(&[ShareRange { dst: LPN, src: Lpn(9), units: 1 }], 0).unwrap();
    assert!(!is_newest(&ftl, tx), "it is where it was, at another version");
}

/// The unit was written elsewhere, its block erased, and the unit written to the same place again.
#[test]
fn the_same_place_after_an_erase_is_another() {
    let (mut ftl, tx) = with_transaction();
    let mut page = ftl.transactions().page(tx, LPN).unwrap();
    let (ppn, erases) = page.over.unwrap();
    assert_eq!(ftl.map.lookup(LPN), Some(ppn));
    page.over = Some((ppn, erases + 1));
    assert!(!ftl.units.is_newest(&ftl.map, &ftl.nand, LPN, &page));
    ftl.abort(tx);
}

/// Pages of a log, each of which claims a home.
fn write_log(ftl: &mut Ftl, pages: u32) {
    let (generation, _) = ftl.begin_log(0).unwrap().expect("no log is open");
    for slot in 1..=pages {
        let home = Some(Lpn(1000));
        let hint = Hint { generation, attempt: 0, start: 1, first: 1, slot, end: false, home };
        let unit = HostUnit { hint: Some(hint), ..unit(ftl, Lpn(slot)) };
        ftl.write_page(&[unit], 0).unwrap();
        ftl.accept_hint(&hint);
    }
}

/// A trim takes several steps if ending claims may take more than a journal page. The last one ends where the trim does.
#[test]
fn a_trim_in_several_steps_ends_where_it_was_told() {
    let geometry = Geometry { blocks_per_plane: 256, page_bytes: 4096, ..GEOMETRY };
    let config = FtlConfig { logical_units: 1024, ..CONFIG };
    let mut ftl = Ftl::format(Nand::in_memory(geometry, TIMING).unwrap(), config).unwrap();
    let most = ftl.records_per_page() as u32;
    write_log(&mut ftl, most);
    let (first, units) = (Lpn(400), most + 10);
    let beyond = Lpn(first.0 + units);
    for lpn in [Lpn(first.0 - 1), first, Lpn(beyond.0 - 1), beyond] {
        let unit = unit(&mut ftl, lpn);
        ftl.write_page(&[unit], 0).unwrap();
    }
    ftl.trim(first, units, 0).unwrap();
    let mapped = [first.0 - 1, first.0, beyond.0 - 1, beyond.0].map(|lpn| ftl.map.lookup(Lpn(lpn)).is_some());
    assert_eq!(mapped, [true, false, false, true]);
}

/// Otherwise the host would be told that nothing has changed, and the drive would go on. No test let a later step fail.
#[test]
fn a_trim_whose_second_step_fails_is_unfinished() {
    let geometry = Geometry { blocks_per_plane: 256, page_bytes: 4096, ..GEOMETRY };
    let config = FtlConfig { logical_units: 1024, ..CONFIG };
    let mut ftl = Ftl::format(Nand::in_memory(geometry, TIMING).unwrap(), config).unwrap();
    let most = ftl.records_per_page() as u32;
    write_log(&mut ftl, most);
    let (first, units) = (Lpn(400), most + 10);
    let unit = unit(&mut ftl, first);
    ftl.write_page(&[unit], 0).unwrap();
    let (mut refused, mut unfinished) = (0, 0);
    for after in 0.. {
        let mut ftl = ftl.try_clone().unwrap();
        ftl.nand.fail_step(Some(StepFault { step: FailingStep::Reservation, after, lasts: true }));
        let Err(error) = ftl.trim(first, units, 0) else { break };
        let is_mapped = ftl.map.lookup(first).is_some();
        assert_eq!(error.changed_nothing(), is_mapped, "step {after}: {error}");
        (refused, unfinished) = (refused + u32::from(is_mapped), unfinished + u32::from(!is_mapped));
    }
    assert!(refused > 0 && unfinished > 0, "{refused} were refused, {unfinished} unfinished");
}

#[test]
fn the_table_of_shared_units_takes_as_many_owners_as_are_planned() {
    let geometry = Geometry { blocks_per_plane: 256, ..GEOMETRY };
    let config = FtlConfig { logical_units: 1024, ..CONFIG };
    let ftl = Ftl::format(Nand::in_memory(geometry, TIMING).unwrap(), config).unwrap();
    let limit = ftl.layout().extra_owners_limit;
    let check = |units| ftl.check_share(&[ShareRange { dst: Lpn(500), src: LPN, units }]);
    assert_eq!(check(limit), Err(ShareRefusal::Unmapped(LPN)), "that many fit");
    let (owners, limit) = (u64::from(limit) + 1, limit.into());
    assert_eq!(check(owners as u32), Err(ShareRefusal::TableFull { owners, limit }));
    let (units, limit) = (u64::from(ftl.share_limit()) + 1, ftl.share_limit().into());
    assert_eq!(check(units as u32), Err(ShareRefusal::TooMany { units, limit }));
}

/// A remap unmapped the unit and is still in flight with what it names: a cut loses all of it, and the unit comes back.
/// So a trim of the unit that is durable at once must be recorded, although it finds nothing.
#[test]
fn a_trim_of_what_a_step_under_way_has_unmapped_is_recorded() {
    let config = FtlConfig { dump_units: 16, ..CONFIG };
    let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), config).unwrap();
    let now_ns = ftl.nand.programs_done_ns();
    ftl.nand.advance(now_ns);
    let trims = |ftl: &mut Ftl| {
        ftl.trim(LPN, 1, now_ns).unwrap();
        ftl.log.waiting().len()
    };
    assert_eq!(trims(&mut ftl), 0, "nothing is under way");
    let unit = unit(&mut ftl, LPN);
    ftl.write_page(&[unit], now_ns).unwrap();
    ftl.remap(LPN, Lpn(9), 1, now_ns).unwrap();
    assert_eq!(trims(&mut ftl), 2 + 1, "the remap waits");
    let done_ns = ftl.flush_journal(now_ns).unwrap();
    assert!(done_ns > now_ns);
    assert_eq!(trims(&mut ftl), 1, "its records are on their way");
    let done_ns = ftl.flush_journal(now_ns).unwrap();
    ftl.nand.advance(done_ns);
    assert_eq!(trims(&mut ftl), 0, "it is on flash");
}

/// One for each unit, and one for each claim that a log page may lose through it.
#[test]
fn a_share_takes_a_record_for_each_unit_and_for_each_page_of_a_log_that_it_may_replace() {
    let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
    let records = |ftl: &Ftl| Need::share(5, ftl.units.claims_of(5)).records;
    assert_eq!(records(&ftl), 5);
    let (generation, _) = ftl.begin_log(0).unwrap().expect("no log is open");
    for slot in 1..=7 {
        let home = Some(Lpn(20));
        let hint = Hint { generation, attempt: 0, start: 1, first: 1, slot, end: false, home };
        let unit = HostUnit { hint: Some(hint), ..unit(&mut ftl, Lpn(100 + slot)) };
        ftl.write_page(&[unit], 0).unwrap();
        ftl.accept_hint(&hint);
        assert_eq!(records(&ftl), 5 + slot.min(5) as usize);
    }
}
