//! Nearly full drives whose holes are filled.

use std::ops::Range;

use tantalum::PowerLoss;
use tantalum_drive::Drive;
use tantalum_filesystem::{Content, FileId, FileKind, FileSystem, Names, Outcome};
use tantalum_lfs::{Cleaning, Indexing, Kind, LogFs};

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
    let made = LogFs::format_indexed(drive.client(), Kind::Nat, cleaning, indexing, LARGE_CACHE);
    let mut fs = made.expect("the drive is large enough");
    let units = fs.statistics().free_units * percent / 100 / FILES;
    let mut files = Vec::new();
    for number in 0..FILES {
        let file = fs.create_in(ROOT, format!("{number}").as_bytes(), &new(FileKind::File)).unwrap();
        for unit in 0..units {
            fs.write(file, unit * UNIT as u64, &[0; UNIT]).unwrap();
        }
        files.push(file);
    }
    fs.sync_folder(ROOT).unwrap();
    files.iter().for_each(|file| fs.sync(*file).unwrap());
    (drive, fs, files, units)
}

/// The same numbers in the same order each time, below `end`.
pub fn numbers(end: u64) -> impl Iterator<Item = u64> {
    (1u64..)
        .map(move |index| (index * index).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33)
        .map(move |number| number % end)
}

/// Overwrites `at_once` units of a file and syncs them.
pub fn overwrite(fs: &mut LogFs, file: FileId, unit: u64, at_once: u64, value: u8) -> Outcome<()> {
    fs.write(file, unit * UNIT as u64, &vec![value; at_once as usize * UNIT])?;
    fs.sync(file)
}

/// What was being written when power went: a file, units of it, and their value.
pub type Written = (usize, Range<u64>, u8);

/// Each unit has the value that it had when it was synced, or one that was written since.
pub fn compare(fs: &mut LogFs, files: &[FileId], contents: &[Vec<u8>], written: Option<&Written>) {
    for (number, (file, units)) in files.iter().zip(contents).enumerate() {
        for (unit, value) in units.iter().enumerate() {
            let mut data = [0xee; UNIT];
            fs.read(*file, (unit * UNIT) as u64, &mut data, None).unwrap();
            let may_be = written.filter(|written| written.0 == number && written.1.contains(&(unit as u64)));
            let is_right = |value: u8| data == [value; UNIT];
            let is_known = is_right(*value) || may_be.is_some_and(|written| is_right(written.2));
            assert!(is_known, "unit {unit} of file {number} has {} instead of {value}", data[0]);
        }
    }
}

/// Fills holes until power goes at the flash operation of that number; then mounts, and mounts again after a cut of that. False
/// if power did not go.
pub fn holes_are_filled_until_power_goes(cleaning: Cleaning, indexing: Indexing, operations: u64) -> bool {
    let (drive, mut fs, files, units) = filled(8, 93, cleaning, indexing);
    let mut contents = vec![vec![0; units as usize]; FILES as usize];
    let mut numbers = numbers(units - 12);
    let mut written = None;
    for write in 0..325 {
        let (file, unit) = ((numbers.next().unwrap() % FILES) as usize, numbers.next().unwrap());
        // A few units are overwritten in place, if anything is; many are appended.
        let at_once = if write % 3 == 0 { 12 } else { 1 };
        let value = (write % 251) as u8 + 1;
        if write == 300 {
            assert!(fs.cleaner().filled_units > 100, "{:?}", fs.cleaner());
            drive.lock().cut_after(Some(operations));
        }
        let range = unit..unit + at_once;
        written = Some((file, range.clone(), value));
        if overwrite(&mut fs, files[file], unit, at_once, value).is_err() {
            break;
        }
        contents[file][range.start as usize..range.end as usize].fill(value);
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
        compare(&mut fs, &files, &contents, written.as_ref());
    }
    true
}

/// A new file is synced again and again, and the host crashes; a mount gives it its name again, and power goes at the flash
/// operation of that number. False if power did not go.
pub fn a_mount_that_fills_holes_is_cut(operations: u64) -> bool {
    let (drive, mut fs, files, units) = filled(8, 93, Cleaning::Copy, Indexing::Appended);
    let mut numbers = numbers(units);
    while fs.cleaner().filled_units < 200 {
        let (file, unit) = ((numbers.next().unwrap() % FILES) as usize, numbers.next().unwrap());
        overwrite(&mut fs, files[file], unit, 1, 1).unwrap();
    }
    fs.sync_folder(ROOT).unwrap();
    let file = fs.create_in(ROOT, b"new", &new(FileKind::File)).unwrap();
    // What the chain has of them is older each time, and nothing but the chain needs it.
    for value in 1..30 {
        overwrite(&mut fs, file, 0, 1, value).unwrap();
        overwrite(&mut fs, files[0], 0, 1, value).unwrap();
    }
    drop(fs);
    drive.lock().cut_after(Some(operations));
    drop(LogFs::mount(drive.client(), LARGE_CACHE));
    if drive.lock().has_power() {
        return false;
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
            assert_eq!(data, [29; UNIT], "file {file}");
        }
    }
    true
}
