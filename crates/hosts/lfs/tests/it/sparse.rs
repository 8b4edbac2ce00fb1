//! Large sparse files compared with a model: trees of several levels, in any order.

use crate::common;

use std::collections::BTreeMap;

use common::{KINDS, LARGE_CACHE, ROOT, crash, fs, new, remount, sound};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum_filesystem::{Attributes, Content, FileId, FileKind, Names, Ranges};
use tantalum_lfs::{Cleaning, LfsKind, LogFs};

const UNIT: u64 = 4096;

/// Units, and the first byte of each that was written.
type Units = BTreeMap<u64, u8>;

fn compare(fs: &mut LogFs, file: FileId, model: &Units) {
    for (unit, byte) in model {
        let mut data = [0; 1];
        fs.read(file, unit * UNIT, &mut data, None).unwrap();
        assert_eq!(data[0], *byte, "unit {unit}");
    }
    let mut from = 0;
    let mut found = Vec::new();
    while let Some(at) = fs.seek_data(file, from).unwrap() {
        found.push(at / UNIT);
        from = (at / UNIT + 1) * UNIT;
    }
    assert_eq!(found, model.keys().copied().collect::<Vec<_>>());
    assert_eq!(fs.metadata(file).unwrap().units, model.len() as u64);
}

/// Writes units in random order, forwards, backwards and anywhere, and punches ranges.
fn step(fs: &mut LogFs, file: FileId, model: &mut Units, rng: &mut Xoshiro256PlusPlus) {
    let start = if rng.random_bool(0.5) { rng.random_range(0..2000) } else { rng.random_range(0..1 << 32) };
    if rng.random_bool(0.1) {
        let units = if rng.random_bool(0.1) { 1 << 31 } else { rng.random_range(1..300) };
        let end = (start + units).min(1 << 32);
        fs.punch_hole(file, start * UNIT, (end - start) * UNIT).unwrap();
        model.retain(|unit, _| !(start..end).contains(unit));
        return;
    }
    let units = rng.random_range(1..40);
    let is_backwards = rng.random_bool(0.5);
    for index in 0..units {
        let unit = (start + if is_backwards { units - index } else { index }).min((1 << 32) - 1);
        let byte = rng.random_range(1..=255);
        fs.write(file, unit * UNIT, &[byte; 10]).unwrap();
        model.insert(unit, byte);
    }
}

#[test]
fn sparse_files_have_what_was_written_and_nothing_else() {
    for (seed, kind) in (0..4).flat_map(|seed| KINDS.map(|kind| (seed, kind))) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut fs = fs(kind, 64, Cleaning::Copy, LARGE_CACHE);
        let file = fs.create_in(ROOT, b"file", &new(FileKind::File)).unwrap();
        let mut model = Units::new();
        for round in 0..8 {
            (0..40).for_each(|_| step(&mut fs, file, &mut model, &mut rng));
            compare(&mut fs, file, &model);
            if kind == LfsKind::Tree && round % 3 == 1 {
                fs.create_snapshot(common::NOW).unwrap();
            }
            fs.sync(file).unwrap();
            sound(&mut fs);
            fs = if round % 2 == 0 { crash(fs, LARGE_CACHE) } else { remount(fs, LARGE_CACHE) };
            compare(&mut fs, file, &model);
            sound(&mut fs);
        }
        fs.unlink(ROOT, b"file", common::NOW).unwrap();
        for snapshot in fs.snapshots() {
            fs.delete_snapshot(snapshot.number).unwrap();
        }
        sound(&mut fs);
    }
}
