//! A process killed between any two writes leaves each unit in its old or its new state.

use super::*;
use crate::metadata::left::Left;
use crate::metadata::protected_layout::protected_bytes;
use crate::tenants::filled_bytes;
use crate::tenants::records::{CHUNK_BYTES, UnitImage, record_spare};
use crate::test_support::{GEOMETRY, TIMING};

const CACHE_UNITS: u32 = 2;

fn medium() -> (tempfile::TempDir, Nand, Protected, Places) {
    let folder = tempfile::tempdir().unwrap();
    let bytes = protected_bytes(&GEOMETRY, 1, CACHE_UNITS);
    let path = folder.path().join("image");
    let mut nand = Nand::create(&path, GEOMETRY, TIMING, "", bytes).unwrap();
    let mut protected = Protected::new(&nand, 1, CACHE_UNITS).unwrap().unwrap();
    protected.restart(&mut nand, &[BlockId(0)]).unwrap();
    (folder, nand, protected, Places::new(&GEOMETRY, 1, CACHE_UNITS))
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
