use std::collections::HashSet;

use tantalum_nand::{FailingStep, Faults, Geometry, Nand, Slot, StepFault, UNIT_BYTES};

use super::super::batch::pages_by_stream;
use super::super::*;
use crate::key::{Key, NamespaceAttributes};
use crate::placement::Handle;
use crate::space::FtlConfig;
use crate::test_support::{CONFIG, GEOMETRY, TIMING};
use crate::types::Hint;

fn stage(ftl: &mut Ftl) -> Vec<Slot> {
    (0..6).map(|_| ftl.nand_mut().stage(&[1; UNIT_BYTES]).unwrap()).collect()
}

/// Six units from `first` on.
fn units(ftl: &mut Ftl, first: u32) -> Vec<HostUnit> {
    let unit = |(lpn, slot)| HostUnit::plain(slot, Lpn(lpn), Seq(0));
    (first..).zip(stage(ftl)).map(unit).collect()
}

/// A drive that refused atomic writes for lack of blocks kept their buffers forever.
#[test]
fn a_refused_batch_keeps_no_buffer() {
    let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
    ftl.nand_mut().set_faults(Faults { program_failure_ppm: 1_000_000, ..Faults::default() });
    for _ in 0..3 {
        let units = units(&mut ftl, 0);
        let slots: Vec<Slot> = units.iter().map(|unit| unit.slot).collect();
        assert!(matches!(ftl.write_batch(&units, &[], 0), Err(FtlError::CapacityExceeded)));
        let again = stage(&mut ftl);
        assert_eq!(again.iter().collect::<HashSet<_>>(), slots.iter().collect());
        again.into_iter().for_each(|slot| ftl.nand_mut().release(slot));
    }
}

/// Counted separately, the pages of each kind seemed to fit in the open blocks.
#[test]
fn pages_of_one_stream_are_counted_together() {
    let own = Target::Logs(crate::key::NamespaceId(1));
    let record_pages = [(Target::Host, 0..2), (Target::Host, 2..3), (own, 3..4)];
    assert_eq!(pages_by_stream(Target::Host, 2, &record_pages), [(Target::Host, 4), (own, 1)]);
    assert_eq!(pages_by_stream(Target::Host, 0, &record_pages[2..]), [(own, 1)]);
    assert_eq!(pages_by_stream(Target::Host, 1, &[]), [(Target::Host, 1)]);
}

/// Members of several pages are counted by recovery. A single page needs no mark, unless a dump must know whether its
/// records were acknowledged.
#[test]
fn members_are_marked_if_they_are_on_several_pages_or_may_be_dumped() {
    let format = |config| Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), config).unwrap();
    let marks = |ftl: &mut Ftl, units, records, pages| {
        let (of_units, of_records) = ftl.marks(Seq(9), units, records, pages);
        assert_eq!(of_units.are_needed, of_records.are_needed);
        [of_units, of_records].map(|marks| marks.of(1).map(|mark| (mark.id.0, mark.index, mark.count)))
    };
    let mut ftl = format(CONFIG);
    assert_eq!(marks(&mut ftl, 2, 0, 1), [None, None]);
    assert_eq!(marks(&mut ftl, 0, 1, 1), [None, None]);
    assert_eq!(marks(&mut ftl, 3, 2, 3), [Some((9, 1, 5)), Some((9, 4, 5))]);
    let mut ftl = format(FtlConfig { dump_units: 16, protected_units: 8, ..CONFIG });
    assert_eq!(marks(&mut ftl, 2, 0, 1), [None, None]);
    assert_eq!(marks(&mut ftl, 0, 1, 1), [Some((9, 1, 1)), Some((9, 1, 1))]);
    assert_eq!(marks(&mut ftl, 3, 2, 3), [Some((9, 1, 5)), Some((9, 4, 5))]);
}

/// Before a block with members is erased, the journal must say that their batch was whole.
#[test]
fn blocks_with_members_of_several_pages_are_marked() {
    for (count, is_marked) in [(2, false), (6, true)] {
        let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
        let mut units = units(&mut ftl, 0);
        units.drain(count..).for_each(|unit| ftl.nand_mut().release(unit.slot));
        ftl.write_batch(&units, &[], 0).unwrap();
        for unit in &units {
            let block = GEOMETRY.block_of_unit(ftl.map().lookup(unit.lpn).unwrap());
            assert_eq!(ftl.space.is_marked(block), is_marked, "{count} members");
        }
    }
}

/// Counted separately, the units and the records of a batch each fit in what is left.
#[test]
fn units_and_records_of_a_batch_must_fit_together() {
    let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
    let namespace = ftl.create_namespace(NamespaceAttributes::default(), 0).unwrap();
    for first in (0..114).step_by(6) {
        let units = units(&mut ftl, first);
        ftl.write_batch(&units, &[], 0).unwrap();
    }
    let value = [1; 4000];
    let keys: Vec<Key> = (0..10_u32).map(|number| Key::new(&number.to_le_bytes()).unwrap()).collect();
    let record = |key: &Key| KvRecord { namespace, key: *key, value: Some(&value) };
    let records: Vec<KvRecord<'_>> = keys.iter().map(record).collect();
    // 14 units are left, less what the entries take
    let mut fits = |units: u32, records: &[KvRecord<'_>]| {
        ftl.budget = 0;
        ftl.admit_batch((114..114 + units).map(Lpn), records, 0, 0).is_ok()
    };
    assert!(fits(10, &records[..1]) && fits(1, &records));
    assert!(!fits(10, &records) && !fits(10, &records[..5]));
}

/// A refused write of several pages left its first units in buffers that belonged to flash.
#[test]
fn units_whose_batch_was_abandoned_have_buffers_of_their_own_again() {
    for failing_programs in [0, 1, 2] {
        let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
        let mut units = units(&mut ftl, 0);
        for unit in &mut units {
            unit.version = ftl.next_seq();
        }
        let before: Vec<Slot> = units.iter().map(|unit| unit.slot).collect();
        // the first programs succeed, and then none does
        let step = StepFault { step: FailingStep::Program, after: failing_programs, lasts: true };
        ftl.nand_mut().fail_step(Some(step));
        assert!(matches!(ftl.write_whole(&mut units, 0), Err(FtlError::CapacityExceeded)));
        ftl.nand_mut().fail_step(None);
        assert!((0..6).all(|lpn| ftl.map().lookup(Lpn(lpn)).is_none()), "none is mapped");
        let moved = units.iter().zip(before).filter(|(unit, before)| unit.slot != *before).count();
        assert_eq!(moved as u64, 2 * failing_programs, "two units a page");
        for unit in &units {
            assert!(ftl.nand().slot_holds(unit.slot, &[1; UNIT_BYTES]));
            ftl.nand_mut().release(unit.slot);
        }
    }
}

/// A newer version than the one that its host knows would win over what claims the unit.
#[test]
fn units_that_are_written_whole_keep_their_versions() {
    let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
    let mut units = units(&mut ftl, 0);
    let versions: Vec<Seq> = units.iter().map(|_| ftl.next_seq()).collect();
    units.iter_mut().zip(&versions).for_each(|(unit, version)| unit.version = *version);
    ftl.write_whole(&mut units, 0).unwrap();
    let is_there = |(lpn, version)| ftl.is_on_flash(Lpn(lpn), version, None);
    assert!((0..).zip(versions).all(is_there));
}

/// Units of several blocks, whose batch ends the claims of pages of a log. Returns their versions, and how it went.
fn write_over_claims(ftl: &mut Ftl) -> (Vec<Seq>, Result<Nanoseconds, FtlError>) {
    let mut units: Vec<HostUnit> = (0..48).step_by(6).flat_map(|first| units(ftl, first)).collect();
    let versions: Vec<Seq> = units.iter().map(|_| ftl.next_seq()).collect();
    units.iter_mut().zip(&versions).for_each(|(unit, version)| unit.version = *version);
    let written = ftl.write_batch(&units, &[], 0);
    (versions, written)
}

/// A page of a log for each of the six units.
fn claim_units(ftl: &mut Ftl) {
    let Some((generation, _)) = ftl.begin_log(0).unwrap() else { return };
    for slot in 1..=6 {
        let home = Some(Lpn(slot - 1));
        let hint = Hint { generation, attempt: 0, start: 1, first: 1, slot, end: false, home };
        let staged = ftl.nand_mut().stage(&[2; UNIT_BYTES]).unwrap();
        let version = ftl.next_seq();
        let unit = HostUnit {
            slot: staged,
            lpn: Lpn(20 + slot),
            version,
            metadata: [0; 24],
            hint: Some(hint),
            handle: Handle::DEFAULT,
        };
        ftl.write_page(&[unit], 0).unwrap();
        ftl.accept_hint(&hint);
    }
}

/// All its members were on flash when no block was found for the journal. The batch was refused, and was there after a cut.
#[test]
fn a_batch_that_was_refused_is_not_there_after_a_cut() {
    let geometry = Geometry { blocks_per_plane: 64, ..GEOMETRY };
    let mut ftl = Ftl::format(Nand::in_memory(geometry, TIMING).unwrap(), CONFIG).unwrap();
    let (mut refused, mut unfinished) = (0, 0);
    for round in 0..80 {
        claim_units(&mut ftl);
        for after in 0.. {
            let mut ftl = ftl.try_clone().unwrap();
            ftl.nand.fail_step(Some(StepFault { step: FailingStep::Reservation, after, lasts: true }));
            let (versions, written) = write_over_claims(&mut ftl);
            let Err(error) = written else { break };
            let mut nand = ftl.into_nand();
            nand.fail_step(None);
            let at_ns = nand.programs_done_ns().max(nand.idle_ns());
            nand.advance(at_ns);
            nand.lose_dram();
            let (ftl, _) = Ftl::recover(nand, CONFIG, at_ns).map_err(|(_, error)| error).unwrap();
            let there = (0..)
                .zip(versions)
                .filter(|(lpn, version)| ftl.is_on_flash(Lpn(*lpn), *version, None))
                .count();
            assert!(there == 0 || there == 48, "round {round}, step {after}: {there} of a batch");
            assert!(
                there == 0 || !error.changed_nothing(),
                "round {round}, step {after}: refused ({error}), and there"
            );
            (refused, unfinished) = (refused + u32::from(there == 0), unfinished + u32::from(there == 48));
        }
        write_over_claims(&mut ftl).1.unwrap();
        // so that the journal is about to end in all ways
        ftl.trim(Lpn(round % 100), 1, 0).unwrap();
        if round % 3 == 0 {
            ftl.flush_journal(0).unwrap();
        }
    }
    assert!(refused > 0 && unfinished > 0, "{refused} were refused, {unfinished} unfinished");
}
