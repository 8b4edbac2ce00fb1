//! The limits of what flash may say. No drive writes a number beyond its limit: if accepted, it would index past a map,
//! or be drawn again.

use tantalum_nand::Ppn;

use crate::key::{NamespaceAttributes, NamespaceId};
use crate::map::{CHUNK_ENTRIES, Living};
use crate::metadata::Record;
use crate::spare::{BatchMark, Kind, Mark, Spare};
use crate::tenants::units::{KeptChunks, UnitsKept};
use crate::test_support::GEOMETRY;
use crate::types::{Generation, Hint, Lpn, SEQ_LIMIT, Seq};

const UNITS: u32 = 128;
const LAST: Seq = Seq(SEQ_LIMIT.0 - 1);

fn hint() -> Hint {
    Hint {
        generation: Generation(1),
        attempt: 0,
        start: 2,
        first: 3,
        slot: u32::MAX - 1,
        end: false,
        home: Some(Lpn(UNITS - 1)),
    }
}

/// Hints that each break one rule.
fn impossible_hints() -> [Hint; 5] {
    [
        Hint { start: 0, ..hint() },
        Hint { start: 4, ..hint() },
        Hint { first: 5, slot: 4, ..hint() },
        Hint { slot: u32::MAX, ..hint() },
        Hint { home: Some(Lpn(UNITS)), ..hint() },
    ]
}

fn is_possible(record: Record) -> bool {
    record.is_possible(UNITS, &GEOMETRY)
}

#[test]
fn a_record_names_what_the_drive_has() {
    let (lpn, ppn) = (Lpn(UNITS - 1), Ppn(GEOMETRY.units() - 1));
    for (lpn, ppn, version, step, possible) in [
        (lpn, ppn, LAST, LAST, true),
        (Lpn(UNITS), ppn, LAST, LAST, false),
        (lpn, Ppn(GEOMETRY.units()), LAST, LAST, false),
        (lpn, ppn, SEQ_LIMIT, LAST, false),
        (lpn, ppn, LAST, SEQ_LIMIT, false),
    ] {
        assert_eq!(is_possible(Record::Map { lpn, version, step, ppn }), possible);
        assert_eq!(is_possible(Record::MapInGroup { lpn, version, group: step, ppn }), possible);
    }
    for (home, version, step, possible) in [
        (lpn, LAST, LAST, true),
        (Lpn(UNITS), LAST, LAST, false),
        (lpn, SEQ_LIMIT, LAST, false),
        (lpn, LAST, SEQ_LIMIT, false),
    ] {
        assert_eq!(is_possible(Record::ClaimEnded { home, version, step }), possible);
        assert_eq!(is_possible(Record::ClaimEndedInGroup { home, version, group: step }), possible);
    }
    for (lpn, units, version, possible) in [
        (lpn, 1, LAST, true),
        (lpn, 2, LAST, false),
        (Lpn(UNITS + 1), 0, LAST, false),
        (lpn, 1, SEQ_LIMIT, false),
    ] {
        assert_eq!(is_possible(Record::Trim { lpn, units, version, step: LAST }), possible);
    }
    for (generation, last, possible) in
        [(LAST.0, u32::MAX - 1, true), (LAST.0, u32::MAX, false), (SEQ_LIMIT.0, 1, false)]
    {
        let generation = Generation(generation);
        assert_eq!(is_possible(Record::LogWhole { generation, attempt: 0, last }), possible);
    }
    for (seq, possible) in [(LAST, true), (SEQ_LIMIT, false)] {
        assert_eq!(is_possible(Record::BatchWhole { id: seq }), possible);
        assert_eq!(is_possible(Record::GroupWhole { group: seq }), possible);
        assert_eq!(is_possible(Record::PowerOn { step: seq }), possible);
    }
}

#[test]
fn a_namespace_is_one_that_the_drive_could_make() {
    let largest = NamespaceAttributes {
        logs: GEOMETRY.dies(),
        expected_records: u64::from(UNITS) * 64,
        load_factor_percent: 95,
        is_private: true,
    };
    for (namespace, attributes, step, possible) in [
        (1, largest, LAST, true),
        (0, largest, LAST, false),
        (1, NamespaceAttributes { logs: largest.logs + 1, ..largest }, LAST, false),
        (1, NamespaceAttributes { expected_records: largest.expected_records + 1, ..largest }, LAST, false),
        (1, NamespaceAttributes { load_factor_percent: 96, ..largest }, LAST, false),
        (1, NamespaceAttributes { load_factor_percent: 9, ..largest }, LAST, false),
        (1, largest, SEQ_LIMIT, false),
    ] {
        let namespace = NamespaceId(namespace);
        assert_eq!(is_possible(Record::NamespaceMade { namespace, attributes, step }), possible);
    }
    for (namespace, step, possible) in [(1, LAST, true), (0, LAST, false), (1, SEQ_LIMIT, false)] {
        let namespace = NamespaceId(namespace);
        assert_eq!(is_possible(Record::NamespaceDeleted { namespace, step }), possible);
    }
}

#[test]
fn a_hint_is_one_that_the_drive_could_accept() {
    assert!(hint().is_possible(UNITS));
    assert!(Hint { start: 1, first: 1, slot: 1, home: None, ..hint() }.is_possible(UNITS));
    assert!(impossible_hints().iter().all(|hint| !hint.is_possible(UNITS)));
}

#[test]
fn a_spare_area_names_what_the_drive_has() {
    let marked = |mark| {
        let mut spare = Spare::with_owner(Kind::Data, LAST, Lpn(UNITS - 1), LAST);
        spare.mark = mark;
        spare
    };
    let batch = |id| Mark::Batch(BatchMark { id, index: 0, count: 1 });
    let (last_lpn, last) = (Lpn(UNITS - 1), Generation(LAST.0));
    for mark in [Mark::Plain, batch(LAST), Mark::Hint(Hint { generation: last, ..hint() }, last_lpn)] {
        assert!(marked(mark).is_possible(UNITS), "{mark:?}");
    }
    let beyond = Generation(SEQ_LIMIT.0);
    let mut impossible = vec![batch(SEQ_LIMIT), Mark::Hint(Hint { generation: beyond, ..hint() }, last_lpn)];
    impossible.push(Mark::Hint(hint(), Lpn(UNITS)));
    impossible.extend(impossible_hints().map(|hint| Mark::Hint(hint, last_lpn)));
    for mark in impossible {
        assert!(!marked(mark).is_possible(UNITS), "{mark:?}");
    }
    for (step, lpn, version) in
        [(SEQ_LIMIT, last_lpn, LAST), (LAST, Lpn(UNITS), LAST), (LAST, last_lpn, SEQ_LIMIT)]
    {
        assert!(!Spare::with_owner(Kind::Data, step, lpn, version).is_possible(UNITS));
    }
}

#[test]
fn a_checkpoint_names_what_the_drive_has() {
    const CAPACITY: u32 = CHUNK_ENTRIES as u32 + 3;
    let places = GEOMETRY.units();
    let is_possible = |kept: UnitsKept| kept.is_possible(CAPACITY, places);
    let living = Living { hint: hint(), version: LAST };
    let (last_lpn, last_place) = (Lpn(CAPACITY - 1), Some(Ppn(places - 1)));
    let with_hint =
        |lpn, living, place| UnitsKept { hints: vec![(lpn, living, place)], ..UnitsKept::default() };
    assert!(is_possible(with_hint(last_lpn, living, last_place)));
    assert!(is_possible(with_hint(last_lpn, living, None)));
    assert!(!is_possible(with_hint(Lpn(CAPACITY), living, last_place)));
    assert!(!is_possible(with_hint(last_lpn, Living { version: SEQ_LIMIT, ..living }, last_place)));
    assert!(!is_possible(with_hint(last_lpn, living, Some(Ppn(places)))));
    let homeless = Living { hint: Hint { home: Some(Lpn(CAPACITY)), ..hint() }, ..living };
    assert!(!is_possible(with_hint(last_lpn, homeless, last_place)));
    for (lpn, version, possible) in
        [(last_lpn, LAST, true), (Lpn(CAPACITY), LAST, false), (last_lpn, SEQ_LIMIT, false)]
    {
        assert_eq!(
            is_possible(UnitsKept { versions: vec![(lpn, version)], ..UnitsKept::default() }),
            possible
        );
    }
    for (last, possible) in [(u32::MAX - 1, true), (u32::MAX, false)] {
        let runs = vec![(Generation(1), 0, last)];
        assert_eq!(is_possible(UnitsKept { runs, ..UnitsKept::default() }), possible);
    }
    for (chunks, possible) in [
        (vec![(0, vec![places; CHUNK_ENTRIES]), (1, vec![0; 3])], true),
        (vec![(0, vec![places + 1])], false),
        (vec![(1, vec![0; 4])], false),
        (vec![(2, vec![])], false),
        (vec![(1, vec![0; 3]), (0, vec![0])], false),
        (vec![(0, vec![0]), (0, vec![0])], false),
    ] {
        let chunks = KeptChunks::of(&chunks);
        assert_eq!(is_possible(UnitsKept { chunks, ..UnitsKept::default() }), possible);
    }
}
