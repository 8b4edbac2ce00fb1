//! Holes of full segments, which `lfs-nat` fills when free segments run short: what that writes, and that nothing is lost
//! when power fails at any flash operation meanwhile.

use crate::common;

use common::holes::{
    FILES, compare, every_cut_of_a_mount_that_needs_room, filled, holes_are_filled_until_power_goes, numbers,
    overwrite,
};
use common::{LARGE_CACHE, ROOT, crash, sound};
use tantalum_drive::Drive;
use tantalum_filesystem::Names;
use tantalum_lfs::{Cleaning, Indexing};

/// Units sent to the drive for each unit of contents, units that the cleaner moved, and units that heads put into
/// holes.
fn cost(percent: u64, cleaning: Cleaning, indexing: Indexing) -> (f64, u64, u64) {
    const AT_ONCE: u64 = 16;
    let (drive, mut fs, files, units) = filled(128, percent, cleaning, indexing);
    let host_units = |drive: &Drive| drive.lock().smart().counters.host_units_written;
    let before = host_units(&drive);
    let writes = FILES * units / AT_ONCE;
    let mut numbers = numbers(units / AT_ONCE);
    for write in 0..writes {
        let unit = numbers.next().expect("it is endless") * AT_ONCE;
        overwrite(&mut fs, files[(write % FILES) as usize], unit, AT_ONCE, write as u8).unwrap();
    }
    fs.sync_folder(ROOT).unwrap();
    let each = (host_units(&drive) - before) as f64 / (writes * AT_ONCE) as f64;
    let done = fs.cleaner();
    sound(&mut fs);
    (each, done.copied_units + done.remapped_units, done.filled_units)
}

#[test]
fn a_nearly_full_drive_is_written_into_its_holes_instead_of_cleaned() {
    for percent in [80, 90, 95] {
        for (cleaning, indexing) in [
            (Cleaning::Copy, Indexing::Conventional),
            (Cleaning::Copy, Indexing::Appended),
            (Cleaning::Remap, Indexing::Nvm),
        ] {
            let (each, moved, filled) = cost(percent, cleaning, indexing);
            println!(
                "{percent} % in use, {indexing:?}: {each:.3} units each, {moved} moved, {filled} filled in"
            );
            assert!(
                each < 1.25 && moved * 10 < filled,
                "{percent} %, {indexing:?}: {each} units, {moved}, {filled}"
            );
        }
    }
}

/// The cleaner finds the units in filled holes, even after a crash.
#[test]
fn a_filled_segment_can_be_cleaned() {
    let (_, mut fs, files, units) = filled(8, 90, Cleaning::Copy, Indexing::Appended);
    let mut contents = vec![vec![0; units as usize]; FILES as usize];
    let mut numbers = numbers(units);
    for round in 1..4 {
        for _ in 0..400 {
            let (file, unit) = (numbers.next().unwrap() % FILES, numbers.next().unwrap());
            overwrite(&mut fs, files[file as usize], unit, 1, round).unwrap();
            contents[file as usize][unit as usize] = round;
        }
        assert!(fs.cleaner().filled_units > 100, "{:?}", fs.cleaner());
        fs = crash(fs, LARGE_CACHE);
        sound(&mut fs);
        fs.clean_all().unwrap();
        sound(&mut fs);
        compare(&mut fs, &files, &contents, &[]);
    }
}

fn every_cut_while_holes_are_filled(cleaning: Cleaning, indexing: Indexing) {
    let is_cut = |operations: &u64| holes_are_filled_until_power_goes(cleaning, indexing, *operations);
    let cuts = (1..).take_while(is_cut).count();
    println!("{cuts} cuts");
    assert!(cuts > 10, "only {cuts} cuts happened");
}

#[test]
fn every_cut_while_holes_are_filled_leaves_what_was_synced() {
    every_cut_while_holes_are_filled(Cleaning::Copy, Indexing::Conventional);
}

#[test]
fn every_cut_while_holes_are_filled_leaves_what_was_synced_and_appended() {
    every_cut_while_holes_are_filled(Cleaning::Remap, Indexing::Appended);
}

#[test]
fn every_cut_while_holes_are_filled_leaves_what_was_synced_and_listed() {
    every_cut_while_holes_are_filled(Cleaning::Copy, Indexing::Nvm);
}

#[test]
fn every_cut_of_a_mount_that_needs_room_leaves_what_was_synced() {
    let cuts: u64 = (78..84).map(every_cut_of_a_mount_that_needs_room).sum();
    assert!(cuts > 20, "only {cuts} cuts happened");
}
