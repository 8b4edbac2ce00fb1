//! A process killed between any two writes leaves each unit in its old or its new state.

use tantalum_nand::{Mapping, TestHost};

use super::*;
use crate::metadata::dump_what_is_left;
use crate::metadata::left::Left;
use crate::metadata::protected_layout::{damaged, protected_bytes};
use crate::metadata::record::records_per_page;
use crate::spare::Spare;
use crate::tenants::filled_bytes;
use crate::tenants::records::{CHUNK_BYTES, UnitImage, record_spare};
use crate::test_support::{GEOMETRY, TIMING};

const CONFIG: FtlConfig = FtlConfig { protected_units: 2, units_at_once: 1, ..crate::test_support::CONFIG };

fn medium() -> (tempfile::TempDir, Nand, Protected, Places) {
    medium_with(&[BlockId(0)])
}

fn medium_with(dump_blocks: &[BlockId]) -> (tempfile::TempDir, Nand, Protected, Places) {
    medium_on(&TestHost::new(Mapping::Allowed, 0), dump_blocks, &CONFIG)
}

fn medium_on(
    host: &TestHost,
    dump_blocks: &[BlockId],
    config: &FtlConfig,
) -> (tempfile::TempDir, Nand, Protected, Places) {
    let folder = tempfile::tempdir().unwrap();
    let count = dump_blocks.len() as u32;
    let bytes = protected_bytes(&GEOMETRY, count, config);
    let path = folder.path().join("image");
    let mut nand = Nand::create_with(&path, GEOMETRY, TIMING, "", bytes, None, Some(host)).unwrap();
    let mut protected = Protected::new(&nand, count, config).unwrap().unwrap();
    protected.restart(&mut nand, dump_blocks).unwrap();
    (folder, nand, protected, Places::new(&GEOMETRY, count, config))
}

/// A unit enters the cache.
fn cache(nand: &mut Nand, protected: &mut Protected, lpn: u32, version: u64) {
    let data = [lpn as u8; UNIT_BYTES];
    let (slot, version) = (nand.stage(&data).unwrap(), Seq(version));
    let unit = HostUnit::plain(slot, Lpn(lpn), version);
    protected.cached(nand, &[unit], &data).unwrap();
    nand.release(slot);
}

/// A drive whose cache takes in three units at once.
const AT_ONCE: FtlConfig = FtlConfig { protected_units: 4, units_at_once: 3, ..crate::test_support::CONFIG };

/// Units from `first` on enter the cache in one step, with a byte of data each.
fn units(nand: &mut Nand, first: u32, bytes: &[u8], version: u64) -> (Vec<HostUnit>, Vec<u8>) {
    let data: Vec<u8> = bytes.iter().flat_map(|byte| [*byte; UNIT_BYTES]).collect();
    let mut unit = |(lpn, data): (u32, &[u8])| {
        let (slot, version) = (nand.stage(data).unwrap(), Seq(version));
        HostUnit::plain(slot, Lpn(lpn), version)
    };
    let units = (first..).zip(data.chunks(UNIT_BYTES)).map(&mut unit).collect();
    (units, data)
}

/// The bytes of what is left, in the order of logical pages and versions.
fn bytes_left(nand: &Nand, places: &Places) -> Vec<(u32, u64, u8)> {
    let owner = |(spare, data): &(UnitSpare, Vec<u8>)| {
        let (lpn, version) = Spare::decode(spare).unwrap().owners()[0];
        (lpn.0, version.0, data[0])
    };
    let mut left: Vec<_> = left(nand, places).iter().map(owner).collect();
    left.sort_unstable();
    left
}

fn records(count: usize) -> Vec<Record> {
    (1..=count as u64).map(|group| Record::GroupWhole { group: Seq(group) }).collect()
}

fn is_damaged(read: Result<Option<Left>, FtlError>) -> bool {
    matches!(read, Err(FtlError::Damaged(_)))
}

/// A unit with records of this many chunks, its spare area, and its bytes in use.
fn unit(chunks: &[u8]) -> (UnitSpare, Vec<u8>, usize) {
    let mut image = UnitImage::new();
    for (number, chunks) in (1..).zip(chunks) {
        image.push(*chunks).1.fill(number);
    }
    let spare = record_spare(Seq(1), image.ends, None, false).encode();
    let filled = usize::from(image.used()) * CHUNK_BYTES;
    (spare, image.bytes, filled)
}

fn left(nand: &Nand, places: &Places) -> Vec<(UnitSpare, Vec<u8>)> {
    Left::read(nand, places, filled_bytes).unwrap().unwrap().units
}

#[test]
fn a_unit_of_records_grows_when_its_head_says_so() {
    let (_folder, mut nand, mut protected, places) = medium();
    let (spare, bytes, filled) = unit(&[3, 2]);
    protected.records_wait(&mut nand, 0, spare, &bytes, 0..filled).unwrap();
    let index = protected.unit_of[&Stored::Records(0)];
    // the process is killed before the head is written
    let (longer_spare, longer, longer_filled) = unit(&[3, 2, 7]);
    nand.write_protected(places.unit(index) + filled as u64, &longer[filled..longer_filled]).unwrap();
    assert_eq!(left(&nand, &places), [(spare, bytes)]);
    // or it continues
    protected.records_wait(&mut nand, 0, longer_spare, &longer, filled..longer_filled).unwrap();
    assert_eq!(protected.unit_of[&Stored::Records(0)], index, "it stays where it is");
    assert_eq!(left(&nand, &places), [(longer_spare, longer)]);
    protected.records_programmed(&mut nand, 0).unwrap();
    assert_eq!(left(&nand, &places), []);
}

#[test]
fn a_place_that_is_used_again_shows_nothing_of_the_unit_before() {
    let (_folder, mut nand, mut protected, places) = medium();
    let (spare, bytes, filled) = unit(&[60]);
    protected.records_wait(&mut nand, 0, spare, &bytes, 0..filled).unwrap();
    let index = protected.unit_of[&Stored::Records(0)];
    protected.records_programmed(&mut nand, 0).unwrap();
    let (spare, bytes, filled) = unit(&[1]);
    protected.records_wait(&mut nand, 1, spare, &bytes, 0..filled).unwrap();
    assert_eq!(protected.unit_of[&Stored::Records(1)], index, "the same place");
    assert_eq!(left(&nand, &places), [(spare, bytes)]);
}

#[test]
fn damage_to_what_is_in_use_is_noticed() {
    let (_folder, mut nand, mut protected, places) = medium();
    let (spare, bytes, filled) = unit(&[3, 2]);
    protected.records_wait(&mut nand, 0, spare, &bytes, 0..filled).unwrap();
    let place = places.unit(protected.unit_of[&Stored::Records(0)]);
    nand.write_protected(place + filled as u64 - 1, &[9]).unwrap();
    assert!(matches!(Left::read(&nand, &places, filled_bytes), Err(FtlError::Damaged(_))));
}

#[test]
fn damage_to_a_head_is_noticed_at_each_byte() {
    let (_folder, mut nand, mut protected, places) = medium();
    cache(&mut nand, &mut protected, 5, 7);
    protected.recorded(&mut nand, records(2).iter()).unwrap();
    let unit = places.head(protected.unit_of[&Stored::Cached(Lpn(5))]);
    let heads =
        [(0, size_of::<Header>()), (places.journal, size_of::<JournalHead>()), (unit, size_of::<UnitHead>())];
    for at in heads.iter().flat_map(|&(at, bytes)| at..at + bytes as u64) {
        let mut byte = [0];
        nand.read_protected(at, &mut byte).unwrap();
        nand.write_protected(at, &[byte[0] ^ 4]).unwrap();
        assert!(is_damaged(Left::read(&nand, &places, filled_bytes)), "byte {at}");
        nand.write_protected(at, &byte).unwrap();
    }
    assert_eq!(left(&nand, &places).len(), 1);
}

/// Each write to the file is the last one of a process, in turn.
#[test]
fn units_that_enter_in_one_step_are_left_all_or_not_at_all() {
    let (mut kills, mut whole, mut none) = (0, 0_u64, 0);
    loop {
        let host = TestHost::new(Mapping::Allowed, 0);
        let (_folder, mut nand, mut protected, places) = medium_on(&host, &[BlockId(0)], &AT_ONCE);
        cache(&mut nand, &mut protected, 6, 5);
        let (first, data) = units(&mut nand, 5, &[1, 2, 3], 7);
        protected.cached(&mut nand, &first, &data).unwrap();
        assert_eq!(bytes_left(&nand, &places), [(5, 7, 1), (6, 7, 2), (7, 7, 3)]);
        let (second, data) = units(&mut nand, 6, &[8, 9], 9);
        host.life.end_after(Some(kills));
        let entered = protected.cached(&mut nand, &second, &data);
        let mut left = bytes_left(&nand, &places);
        // of a unit that is there twice the greater version counts
        left.dedup_by(|next, before| {
            before.0 == next.0 && {
                *before = *next;
                true
            }
        });
        let is_new = |left: &[(u32, u64, u8)]| left == [(5, 7, 1), (6, 9, 8), (7, 9, 9)];
        match left == [(5, 7, 1), (6, 7, 2), (7, 7, 3)] {
            true => none += 1,
            false => whole += u64::from(is_new(&left)),
        }
        assert_eq!(none + whole, kills + 1, "after {kills} writes: {left:?}");
        if entered.is_ok() {
            break;
        }
        kills += 1;
    }
    assert!(none > 3 && whole > 1, "{none} times none was there, {whole} times all");
}

#[test]
fn damage_to_what_entered_in_one_step_is_noticed_at_each_byte() {
    let (_folder, mut nand, mut protected, places) =
        medium_on(&TestHost::new(Mapping::Allowed, 0), &[BlockId(0)], &AT_ONCE);
    let (entering, data) = units(&mut nand, 5, &[1, 2], 7);
    protected.cached(&mut nand, &entering, &data).unwrap();
    let unit = places.head(protected.unit_of[&Stored::Cached(Lpn(5))]);
    for at in [(0, size_of::<Header>()), (unit, size_of::<UnitHead>())]
        .iter()
        .flat_map(|&(at, bytes)| at..at + bytes as u64)
    {
        let mut byte = [0];
        nand.read_protected(at, &mut byte).unwrap();
        nand.write_protected(at, &[byte[0] ^ 1]).unwrap();
        assert!(is_damaged(Left::read(&nand, &places, filled_bytes)), "byte {at}");
        nand.write_protected(at, &byte).unwrap();
    }
    assert_eq!(left(&nand, &places).len(), 2);
}

#[test]
fn a_full_page_of_records_is_left_and_nothing_of_the_page_before() {
    let (_folder, mut nand, mut protected, places) = medium();
    let most = records_per_page(GEOMETRY.units_per_page());
    let left = |nand: &Nand| Left::read(nand, &places, filled_bytes).unwrap().unwrap().records;
    for count in [3, most, 1] {
        protected.recorded(&mut nand, records(count).iter()).unwrap();
        assert_eq!(left(&nand), records(count));
        protected.journaled(&mut nand).unwrap();
        assert_eq!(left(&nand), []);
    }
}

#[test]
fn there_are_no_more_dump_blocks_than_the_list_has_room_for() {
    let (_folder, mut nand, mut protected, places) = medium_with(&[BlockId(0); 1024]);
    assert_eq!(places.list_bytes, 4 * 1024);
    assert_eq!(left(&nand, &places), []);
    protected.header.dump_blocks = 1025.into();
    protected.write_header(&mut nand).unwrap();
    let error = Left::read(&nand, &places, filled_bytes).err().unwrap();
    assert_eq!(error.to_string(), damaged("the number of dump blocks").to_string());
}

/// The process is killed before the header names the new list.
#[test]
fn a_new_list_of_dump_blocks_is_not_stored_over_the_old_one() {
    let (_folder, mut nand, mut protected, places) = medium();
    for _ in 0..3 {
        protected.restart(&mut nand, &[BlockId(1)]).unwrap();
        cache(&mut nand, &mut protected, 5, 7);
        let next = places.list(protected.header.epoch.get() + 1);
        nand.write_protected(next, &[9; 4]).unwrap();
        assert_eq!(left(&nand, &places).len(), 1);
    }
}

/// Recovery ignores whatever is not newer than the checkpoint. Units that were waiting when it was taken are newer.
#[test]
fn what_is_dumped_is_newer_than_the_checkpoint() {
    let (_folder, mut nand, mut protected, places) = medium();
    cache(&mut nand, &mut protected, 5, 7);
    let next_step = |nand: &Nand| Left::read(nand, &places, filled_bytes).unwrap().unwrap().next_step();
    assert_eq!(next_step(&nand), Seq(8));
    protected.checkpoint(&mut nand, Seq(50)).unwrap();
    assert_eq!(next_step(&nand), Seq(51));
    protected.recorded(&mut nand, [Record::GroupWhole { group: Seq(60) }].iter()).unwrap();
    assert_eq!(next_step(&nand), Seq(61));
}

/// The process is killed again while the image is opened.
#[test]
fn what_was_dumped_already_is_not_dumped_again_and_the_rest_is() {
    let (_folder, mut nand, mut protected, _) = medium_with(&[BlockId(0), BlockId(1)]);
    let dump = |nand: &mut Nand| dump_what_is_left(nand, 2, &CONFIG, filled_bytes).unwrap();
    let pages = |nand: &Nand| [0, 1].map(|block| nand.next_page(BlockId(block)));
    cache(&mut nand, &mut protected, 5, 7);
    assert_eq!((dump(&mut nand), pages(&nand)), (1, [1, 0]));
    protected.recorded(&mut nand, records(2).iter()).unwrap();
    cache(&mut nand, &mut protected, 6, 8);
    assert_eq!((dump(&mut nand), pages(&nand)), (2, [2, 1]), "the other unit, and the records");
    assert_eq!((dump(&mut nand), pages(&nand)), (2, [2, 1]), "there would be no block for the records");
}

/// Its header, two lists, the journal's head and its page, and for each of five units a head and the unit.
#[test]
fn protected_dram_is_as_long_as_what_it_holds() {
    assert_eq!(protected_bytes(&GEOMETRY, 1, &CONFIG), 4096 * (1 + 2 + 1 + 2 + 1 + 5));
}
