//! Syncs that write only contents, and what prevents them.

use crate::common;

use common::cuts::lists_over_several_segments;
use common::{KINDS, LARGE_CACHE, LISTS, NOW, ROOT, crash, device, device_with_lists, new, sound};
use tantalum::{PowerLoss, UNIT_BYTES};
use tantalum_drive::Drive;
use tantalum_filesystem::{Attributes, Content, FileId, FileKind, FileSystem, MetadataChange, Names, Ranges};
use tantalum_lfs::{Cleaning, Indexing, LfsError, LfsKind, LogFs};

/// An empty file system with lists on a drive of 32 MiB.
fn listed(kind: LfsKind) -> (Drive, LogFs) {
    let drive = Drive::new(device(32));
    let fs = LogFs::format_indexed(drive.client(), kind, Cleaning::Copy, Indexing::Nvm, LARGE_CACHE);
    (drive, fs.expect("the drive keeps lists"))
}

/// A file with this number of units, durable with the checkpoint.
fn file(fs: &mut LogFs, name: &str, units: usize) -> FileId {
    let file = fs.create_in(ROOT, name.as_bytes(), &new(FileKind::File)).unwrap();
    fs.write(file, 0, &vec![1; units * UNIT_BYTES]).unwrap();
    fs.sync(file).unwrap();
    fs.sync_folder(ROOT).unwrap();
    file
}

fn host_units(drive: &Drive) -> u64 {
    drive.lock().smart().counters.host_units_written
}

fn read(fs: &mut LogFs, file: FileId, unit: u64) -> u8 {
    let mut data = [0xee; 1];
    fs.read(file, unit * UNIT_BYTES as u64, &mut data, None).unwrap();
    data[0]
}

#[test]
fn a_sync_writes_contents_alone_and_a_crash_finds_them() {
    KINDS.into_iter().for_each(write_contents_alone);
}

fn write_contents_alone(kind: LfsKind) {
    let (drive, mut fs) = listed(kind);
    let file = file(&mut fs, "file", 3000);
    for (unit, byte) in [(7, 2), (2999, 3), (7, 4), (3000, 5)] {
        let before = host_units(&drive);
        fs.write(file, unit * UNIT_BYTES as u64, &[byte; UNIT_BYTES]).unwrap();
        fs.sync_data(file).unwrap();
        assert_eq!(host_units(&drive) - before, 1, "unit {unit}");
    }
    fs.write_direct(file, 9 * UNIT_BYTES as u64, &[6; 2 * UNIT_BYTES], None).unwrap();
    let before = host_units(&drive);
    fs.sync(file).unwrap();
    assert_eq!((host_units(&drive) - before, fs.syncs().listed), (0, 5));
    let mut fs = crash(fs, LARGE_CACHE);
    assert_eq!(fs.metadata(file).unwrap().size, 3001 * UNIT_BYTES as u64);
    let found = [7, 2999, 3000, 9, 10, 11].map(|unit| read(&mut fs, file, unit));
    assert_eq!(found, [4, 3, 5, 6, 6, 1]);
    sound(&mut fs);
}

/// Syncs without lists.
fn by_index_or_checkpoint(fs: &LogFs) -> u64 {
    fs.syncs().indexed + fs.syncs().checkpoints
}

#[test]
fn what_a_list_cannot_tell_goes_to_the_index() {
    KINDS.into_iter().for_each(write_what_a_list_cannot_tell);
}

fn write_what_a_list_cannot_tell(kind: LfsKind) {
    let (_drive, mut fs) = listed(kind);
    let file = file(&mut fs, "file", 100);
    let unit = UNIT_BYTES as u64;
    let mut indexed = by_index_or_checkpoint(&fs);
    let mut by_index = |fs: &mut LogFs, what: &str| {
        fs.write(file, 0, &[2; UNIT_BYTES]).unwrap();
        fs.sync(file).unwrap();
        indexed += 1;
        assert_eq!((by_index_or_checkpoint(fs), fs.syncs().listed), (indexed, 0), "{kind:?}: {what}");
    };
    fs.write(file, 100 * unit, b"not a whole unit").unwrap();
    by_index(&mut fs, "a size within a unit");
    fs.punch_hole(file, 50 * unit, 3 * unit).unwrap();
    by_index(&mut fs, "a hole");
    fs.change_metadata(file, &MetadataChange { size: Some(90 * unit), ..Default::default() }).unwrap();
    by_index(&mut fs, "a smaller size");
    fs.change_metadata(file, &MetadataChange { permissions: Some(0o600), ..Default::default() }).unwrap();
    by_index(&mut fs, "permissions");
    fs.allocate(file, 95 * unit, unit, true).unwrap();
    by_index(&mut fs, "space");
    fs.write(file, unit, &[3; UNIT_BYTES]).unwrap();
    fs.sync(file).unwrap();
    assert_eq!(fs.syncs().listed, 1);
    let mut fs = crash(fs, LARGE_CACHE);
    let metadata = fs.metadata(file).unwrap();
    assert_eq!((metadata.size, metadata.permissions), (90 * unit, 0o600));
    assert_eq!([0, 1, 50, 53].map(|unit| read(&mut fs, file, unit)), [2, 3, 0, 1]);
    sound(&mut fs);
}

#[test]
fn files_that_the_drive_refuses_to_list_are_synced_by_the_index() {
    KINDS.into_iter().for_each(write_more_files_than_are_listed);
}

fn write_more_files_than_are_listed(kind: LfsKind) {
    let (_drive, mut fs) = listed(kind);
    let files: Vec<FileId> = (0..LISTS + 3).map(|number| file(&mut fs, &number.to_string(), 4)).collect();
    for (number, file) in files.iter().enumerate() {
        for unit in 0..2 {
            fs.write(*file, unit * UNIT_BYTES as u64, &[10 + number as u8; UNIT_BYTES]).unwrap();
            fs.sync(*file).unwrap();
        }
    }
    let syncs = fs.syncs();
    assert_eq!((syncs.listed, syncs.refused), (2 * u64::from(LISTS), 3), "{syncs:?}");
    let mut fs = crash(fs, LARGE_CACHE);
    for (number, file) in files.iter().enumerate() {
        let expected = 10 + number as u8;
        assert_eq!([0, 1, 2].map(|unit| read(&mut fs, *file, unit)), [expected, expected, 1]);
    }
    // The checkpoint cleared all lists, so that there is room again.
    fs.write(files[LISTS as usize + 2], 0, &[99; UNIT_BYTES]).unwrap();
    fs.sync(files[LISTS as usize + 2]).unwrap();
    assert_eq!(fs.syncs().listed, 1);
    sound(&mut fs);
}

#[test]
fn a_drive_without_lists_is_refused_before_anything_is_lost() {
    let drive = Drive::new(device_with_lists(32, 0));
    let mut fs = LogFs::format(drive.client(), LfsKind::Nat, Cleaning::Copy, LARGE_CACHE).unwrap();
    fs.create_in(ROOT, b"file", &new(FileKind::File)).unwrap();
    drop(fs.unmount().map_err(|failed| failed.1).unwrap());
    let made =
        LogFs::format_indexed(drive.client(), LfsKind::Nat, Cleaning::Copy, Indexing::Nvm, LARGE_CACHE);
    assert_eq!(made.unwrap_err(), LfsError::NoLists);
    let mut fs = LogFs::mount(drive.client(), LARGE_CACHE).unwrap();
    fs.lookup(ROOT, b"file").unwrap();
}

/// A checkpoint kept the smaller size and lost the zeros behind it; the next one had a larger size and still no zeros.
#[test]
fn a_file_that_shrank_and_grows_shows_nothing_of_before_after_a_crash() {
    let mut fs = common::fs(LfsKind::Nat, 32, Cleaning::Copy, LARGE_CACHE);
    let file = file(&mut fs, "file", 4);
    let size = |size| MetadataChange { size: Some(size), ..Default::default() };
    fs.change_metadata(file, &size(3 * UNIT_BYTES as u64 + 10)).unwrap();
    fs.change_metadata(file, &size(8 * UNIT_BYTES as u64)).unwrap();
    fs.sync_folder(ROOT).unwrap();
    let mut fs = crash(fs, LARGE_CACHE);
    let mut data = [0xee; UNIT_BYTES];
    fs.read(file, 3 * UNIT_BYTES as u64, &mut data, None).unwrap();
    assert_eq!((data[9], data.iter().skip(10).position(|byte| *byte != 0)), (1, None));
}

/// Recovery gave a node that it rebuilt the number of a file that came later in the chain.
#[test]
fn a_node_that_recovery_makes_anew_takes_no_number_of_a_file() {
    let mut fs = common::fs(LfsKind::Nat, 32, Cleaning::Copy, LARGE_CACHE);
    let grows = file(&mut fs, "grows", 1);
    let later = fs.create_in(ROOT, b"later", &new(FileKind::File)).unwrap();
    fs.write(grows, 2000 * UNIT_BYTES as u64, &[7; UNIT_BYTES]).unwrap();
    fs.sync(grows).unwrap();
    fs.write(later, 0, &[8; UNIT_BYTES]).unwrap();
    fs.sync(later).unwrap();
    let mut fs = crash(fs, LARGE_CACHE);
    let later = fs.lookup(ROOT, b"later").unwrap();
    assert_eq!((read(&mut fs, later, 0), read(&mut fs, grows, 2000)), (8, 7));
    sound(&mut fs);
    fs.unlink(ROOT, b"later", NOW).unwrap();
}

/// Lists name units that no summary names, and a mount gives these numbers; an interrupted mount gave them different
/// ones.
#[test]
fn the_cleaner_finds_what_only_lists_told_a_mount_that_was_cut() {
    for operations in 1.. {
        let (drive, mut fs) = listed(LfsKind::Tree);
        let file = file(&mut fs, "file", 300);
        for unit in [3, 299, 300, 4] {
            fs.write(file, unit * UNIT_BYTES as u64, &[unit as u8; UNIT_BYTES]).unwrap();
            fs.sync_data(file).unwrap();
        }
        assert_eq!(fs.syncs().listed, 4);
        drop(fs);
        drive.lock().cut_after(Some(operations));
        let mounted = LogFs::mount(drive.client(), LARGE_CACHE);
        let is_cut = !drive.lock().has_power();
        drop(mounted);
        for seed in 0..4 {
            let drive = drive.try_clone().expect("a drive in memory can be copied");
            if is_cut {
                drive.lock().power_on(&mut PowerLoss::seeded(seed)).unwrap();
            }
            drive.lock().cut_after(None);
            let mut fs = LogFs::mount(drive.client(), LARGE_CACHE).expect("it mounts");
            fs.clean_all().unwrap();
            let mut fs = crash(fs, 0);
            let found = [3, 4, 5, 299, 300].map(|unit| read(&mut fs, file, unit));
            assert_eq!(found, [3, 4, 1, 299_u64 as u8, 300_u64 as u8], "{operations} operations");
            sound(&mut fs);
        }
        if !is_cut {
            assert!(operations > 2, "the mount was cut");
            return;
        }
    }
}

#[test]
fn lists_over_several_segments_survive_a_crash_and_a_cut() {
    KINDS.into_iter().for_each(lists_over_several_segments);
}

/// A mount made a checkpoint durable after summaries that a crash of the host had left in the drive's cache, and cleared
/// the lists. Power failed, those summaries were lost, and so was the checkpoint.
#[test]
fn what_a_mount_finds_in_the_drives_cache_is_durable_with_its_checkpoint() {
    for (kind, indexing) in KINDS.map(|kind| [(kind, Indexing::Conventional), (kind, Indexing::Nvm)]).concat()
    {
        for units in (10..120).step_by(10) {
            let drive = Drive::new(device(32));
            let made = LogFs::format_indexed(drive.client(), kind, Cleaning::Copy, indexing, LARGE_CACHE);
            let mut fs = made.expect("the drive keeps lists");
            let synced = file(&mut fs, "synced", 4);
            let other = fs.create_in(ROOT, b"other", &new(FileKind::File)).unwrap();
            fs.write(synced, 0, &[5; UNIT_BYTES]).unwrap();
            fs.sync_data(synced).unwrap();
            fs.write_direct(other, 0, &vec![9; units * UNIT_BYTES], None).unwrap();
            let mut fs = crash(fs, LARGE_CACHE);
            fs.write(synced, UNIT_BYTES as u64, &[6; UNIT_BYTES]).unwrap();
            fs.sync_data(synced).unwrap();
            let now_ns = fs.client().now_ns();
            drop(fs);
            drive.lock().cut_power(now_ns);
            drive.lock().power_on(&mut PowerLoss::seeded(1)).unwrap();
            let mut fs = LogFs::mount(drive.client(), LARGE_CACHE).expect("it mounts");
            let found = [0, 1, 2].map(|unit| read(&mut fs, synced, unit));
            assert_eq!(found, [5, 6, 1], "{kind:?}, {indexing:?}, {units} units in the drive's cache");
            sound(&mut fs);
        }
    }
}
