//! Nearly full drives whose holes are filled.

use std::collections::BTreeMap;
use std::ops::Range;

use tantalum::PowerLoss;
use tantalum_drive::Drive;
use tantalum_filesystem::{Content, FileId, FileKind, FileSystem, Names, Outcome};
use tantalum_lfs::{Cleaning, Indexing, LfsKind, LogFs};

use super::model::UNIT;
use super::{LARGE_CACHE, ROOT, device, new, sound};

pub const FILES: u64 = 4;

/// A file system whose four files take this share of its space, and its files.
pub fn filled(
    capacity_mib: u64,
    percent: u64,
    cleaning: Cleaning,
    indexing: Indexing,
) -> (Drive, LogFs, Vec<FileId>, u64) {
    let drive = Drive::new(device(capacity_mib));
    let made = LogFs::format_indexed(drive.client(), LfsKind::Nat, cleaning, indexing, LARGE_CACHE);
    let mut fs = made.expect("the drive is large enough");
    let units = fs.statistics().free_units * percent / 100 / FILES;
    let mut files = Vec::new();
    for number in 0..FILES {
        let file = fs.create_in(ROOT, format!("{number}").as_bytes(), &new(FileKind::File)).unwrap();
        for unit in 0..units {
            fs.write(file, unit * UNIT as u64, &page(unit, 0)).unwrap();
        }
        files.push(file);
    }
    fs.sync_folder(ROOT).unwrap();
    files.iter().for_each(|file| fs.sync(*file).unwrap());
    (drive, fs, files, units)
}

/// A fixed, endless sequence of scattered numbers below `end`.
pub fn numbers(end: u64) -> impl Iterator<Item = u64> {
    (1u64..)
        .map(move |index| (index * index).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33)
        .map(move |number| number % end)
}

/// Contents of a unit, different from all others.
fn page(unit: u64, value: u8) -> [u8; UNIT] {
    let mut page = [value; UNIT];
    page[..8].copy_from_slice(&unit.to_le_bytes());
    page
}

fn pages(units: Range<u64>, value: u8) -> Vec<u8> {
    units.flat_map(|unit| page(unit, value)).collect()
}

/// Overwrites `at_once` units of a file and syncs them.
pub fn overwrite(fs: &mut LogFs, file: FileId, unit: u64, at_once: u64, value: u8) -> Outcome<()> {
    fs.write(file, unit * UNIT as u64, &pages(unit..unit + at_once, value))?;
    fs.sync(file)
}

/// What was written to a file since its last sync, by unit.
type Later = BTreeMap<u64, Vec<u8>>;

/// Each unit has the value that it had when it was synced, or one that was written since.
pub fn compare(fs: &mut LogFs, files: &[FileId], contents: &[Vec<u8>], later: &[Later]) {
    for (number, (file, units)) in files.iter().zip(contents).enumerate() {
        for (unit, value) in (0..).zip(units) {
            let mut data = [0xee; UNIT];
            fs.read(*file, unit * UNIT as u64, &mut data, None).unwrap();
            let mut may_be =
                later.get(number).and_then(|later| later.get(&unit)).into_iter().flatten().chain([value]);
            let found = u64::from_le_bytes(data[..8].try_into().expect("eight bytes"));
            let is_known = may_be.any(|value| data == page(unit, *value));
            assert!(
                is_known,
                "unit {unit} of file {number} has {} of unit {found} instead of {value}",
                data[8]
            );
        }
    }
}

/// Fills holes until power fails at the flash operation with that number; then mounts, and mounts again after a cut of that
/// mount. False if power did not fail.
pub fn holes_are_filled_until_power_goes(cleaning: Cleaning, indexing: Indexing, operations: u64) -> bool {
    let (drive, mut fs, files, units) = filled(8, 93, cleaning, indexing);
    let mut contents = vec![vec![0; units as usize]; FILES as usize];
    let mut later = vec![Later::new(); FILES as usize];
    let mut numbers = numbers(units - 12);
    for write in 0..325 {
        let (file, unit) = ((numbers.next().unwrap() % FILES) as usize, numbers.next().unwrap());
        let (other, early) = ((numbers.next().unwrap() % FILES) as usize, numbers.next().unwrap());
        // A few units are overwritten in place, if anything is; many are appended.
        let at_once = if write % 3 == 0 { 12 } else { 1 };
        let value = (write % 251) as u8 + 1;
        if write == 300 {
            assert!(fs.cleaner().filled_units > 100, "{:?}", fs.cleaner());
            drive.lock().cut_after(Some(operations));
        }
        // Gives up a place that the last checkpoint may name, without a sync that records the new one.
        later[other].entry(early).or_default().push(value);
        if fs.write_direct(files[other], early * UNIT as u64, &page(early, value), None).is_err() {
            break;
        }
        let range = unit..unit + at_once;
        range.clone().for_each(|unit| later[file].entry(unit).or_default().push(value));
        if overwrite(&mut fs, files[file], unit, at_once, value).is_err() {
            break;
        }
        for (unit, values) in std::mem::take(&mut later[file]) {
            contents[file][unit as usize] = *values.last().expect("something was written");
        }
    }
    if drive.lock().has_power() {
        return false;
    }
    drop(fs);
    for (seed, second) in [(1, None), (2, Some(1)), (3, Some(2)), (4, Some(5)), (5, Some(9))] {
        let drive = drive.try_clone().expect("a drive in memory can be copied");
        drive.lock().power_on(&mut PowerLoss::seeded(seed)).unwrap();
        drive.lock().cut_after(second);
        let mut mounted = LogFs::mount(drive.client(), LARGE_CACHE);
        if !drive.lock().has_power() {
            drop(mounted);
            drive.lock().power_on(&mut PowerLoss::seeded(seed + 100)).unwrap();
            mounted = LogFs::mount(drive.client(), LARGE_CACHE);
        }
        drive.lock().cut_after(None);
        let mut fs = mounted.expect("it mounts");
        sound(&mut fs);
        compare(&mut fs, &files, &contents, &later);
    }
    true
}

/// New files are synced again and again, and the host crashes; a mount gives them their names again, and power fails at each flash
/// operation of it. `shift` moves the chain in its first segment. Returns how many cuts there were.
pub fn every_cut_of_a_mount_that_needs_room(shift: u64) -> u64 {
    let (drive, mut fs, files, units) = filled(8, 93, Cleaning::Copy, Indexing::Appended);
    let mut numbers = numbers(units);
    while fs.cleaner().filled_units < 200 + shift {
        let (file, unit) = ((numbers.next().unwrap() % FILES) as usize, numbers.next().unwrap());
        overwrite(&mut fs, files[file], unit, 1, 1).unwrap();
    }
    fs.write_back().unwrap();
    let file = fs.create_in(ROOT, b"new", &new(FileKind::File)).unwrap();
    // What the chain has of them is older each time, and nothing but the chain needs it.
    for value in 1..30 {
        overwrite(&mut fs, file, 0, 1, value).unwrap();
        overwrite(&mut fs, files[0], 0, 1, value).unwrap();
    }
    drop(fs);
    for operations in 1.. {
        let drive = drive.try_clone().expect("a drive in memory can be copied");
        drive.lock().cut_after(Some(operations));
        drop(LogFs::mount(drive.client(), LARGE_CACHE));
        if drive.lock().has_power() {
            return operations - 1;
        }
        for seed in 0..4 {
            let drive = drive.try_clone().expect("a drive in memory can be copied");
            drive.lock().power_on(&mut PowerLoss::seeded(seed)).unwrap();
            let mut fs = LogFs::mount(drive.client(), LARGE_CACHE).expect("it mounts");
            sound(&mut fs);
            assert_eq!(fs.lookup(ROOT, b"new"), Ok(file));
            for file in [file, files[0]] {
                let mut data = [0xee; UNIT];
                fs.read(file, 0, &mut data, None).unwrap();
                assert_eq!(data, page(0, 29), "file {file}");
            }
        }
    }
    unreachable!("a mount ends")
}
