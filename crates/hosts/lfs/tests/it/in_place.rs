//! What `lfs-nat` writes in place, what it appends, and what a crash leaves of either.

use crate::common;

use common::{LARGE_CACHE, LISTS, ROOT, device, device_with_lists, new, profile_with, sound};
use tantalum::{Device, PowerLoss, UNIT_BYTES};
use tantalum_drive::Drive;
use tantalum_filesystem::{
    Attributes, Content, FileId, FileKind, FileSystem, MetadataChange, Names, Ranges, Timestamp,
};
use tantalum_lfs::{Cleaning, Indexing, LfsKind, LogFs};

const UNIT: u64 = UNIT_BYTES as u64;

/// A drive, its file system, and a file of `units` units of 1 that a checkpoint has.
fn made(indexing: Indexing, cleaning: Cleaning, units: usize) -> (Drive, LogFs, FileId) {
    let drive = Drive::new(device(32));
    let mut fs =
        LogFs::format_indexed(drive.client(), LfsKind::Nat, cleaning, indexing, LARGE_CACHE).unwrap();
    let file = fs.create_in(ROOT, b"file", &new(FileKind::File)).unwrap();
    fs.write_direct(file, 0, &vec![1; units * UNIT_BYTES], None).unwrap();
    fs.sync_folder(ROOT).unwrap();
    (drive, fs, file)
}

fn conventional(units: usize) -> (Drive, LogFs, FileId) {
    made(Indexing::Conventional, Cleaning::Copy, units)
}

fn written(fs: &LogFs) -> u64 {
    fs.client().device().smart().counters.host_units_written
}

fn in_place(fs: &LogFs) -> u64 {
    fs.syncs().units_in_place
}

fn write(fs: &mut LogFs, file: FileId, unit: u64, value: u8) {
    fs.write(file, unit * UNIT, &[value; UNIT_BYTES]).unwrap();
}

/// A unit, which is of one value.
fn read(fs: &mut LogFs, file: FileId, unit: u64) -> u8 {
    let mut data = [0xee; UNIT_BYTES];
    fs.read(file, unit * UNIT, &mut data, None).unwrap();
    assert!(data.iter().all(|byte| *byte == data[0]), "unit {unit} is torn");
    data[0]
}

/// Power fails now and comes back.
fn cut(drive: &Drive, fs: LogFs) -> LogFs {
    let now_ns = fs.client().now_ns();
    drop(fs);
    drive.lock().cut_power(now_ns);
    drive.lock().power_on(&mut PowerLoss::seeded(7)).unwrap();
    let mut fs = LogFs::mount(drive.client(), LARGE_CACHE).expect("it mounts");
    sound(&mut fs);
    fs
}

#[test]
fn an_overwrite_that_is_synced_writes_contents_alone() {
    // unit 800 is beyond the inode's pointers
    for (indexing, units) in [(Indexing::Conventional, 1), (Indexing::Appended, 2)] {
        for unit in [3, 800] {
            let (drive, mut fs, file) = made(indexing, Cleaning::Copy, 900);
            let before = written(&fs);
            write(&mut fs, file, unit, 2);
            fs.sync_data(file).unwrap();
            assert_eq!(written(&fs) - before, units, "{indexing:?}");
            assert_eq!(in_place(&fs), 2 - units, "{indexing:?}");
            let mut fs = cut(&drive, fs);
            assert_eq!([read(&mut fs, file, unit), read(&mut fs, file, unit + 1)], [2, 1]);
        }
    }
}

#[test]
fn times_cost_a_sync_of_all_an_inode_and_no_other_node() {
    let (drive, mut fs, file) = conventional(900);
    let now = Some(Timestamp { seconds: 9, nanoseconds: 0 });
    let before = written(&fs);
    write(&mut fs, file, 800, 2);
    fs.change_metadata(file, &MetadataChange { modified: now, ..Default::default() }).unwrap();
    fs.sync(file).unwrap();
    assert_eq!(written(&fs) - before, 2);
    let mut fs = cut(&drive, fs);
    assert_eq!((read(&mut fs, file, 800), fs.metadata(file).unwrap().modified.seconds), (2, 9));
}

#[test]
fn more_than_eight_dirty_pages_are_appended_by_a_sync_with_times() {
    for (pages, with_times, expected) in [(8, true, 8), (9, true, 0), (9, false, 9), (300, false, 300)] {
        let (drive, mut fs, file) = conventional(600);
        (0..pages).for_each(|page| write(&mut fs, file, 2 * page, 2));
        if with_times {
            fs.sync(file).unwrap()
        } else {
            fs.sync_data(file).unwrap()
        }
        assert_eq!(in_place(&fs), expected, "{pages} pages, {with_times}");
        let mut fs = cut(&drive, fs);
        assert!((0..pages).all(|page| read(&mut fs, file, 2 * page) == 2));
        assert!((0..pages).all(|page| read(&mut fs, file, 2 * page + 1) == 1));
    }
}

#[test]
fn what_has_no_place_is_appended_and_the_rest_is_not() {
    let (drive, mut fs, file) = conventional(8);
    fs.punch_hole(file, UNIT, UNIT).unwrap();
    fs.zero_range(file, 3 * UNIT, UNIT, false).unwrap();
    for unit in [0, 1, 2, 3, 8] {
        write(&mut fs, file, unit, 5);
    }
    fs.sync_data(file).unwrap();
    assert_eq!(in_place(&fs), 2);
    let mut fs = cut(&drive, fs);
    assert_eq!(
        Vec::from_iter((0..9).map(|unit| read(&mut fs, file, unit))),
        [5, 5, 5, 5, 1, 1, 1, 1, 5],
        "holes, reserved space and what was appended"
    );
    assert_eq!(fs.metadata(file).unwrap().size, 9 * UNIT);
}

#[test]
fn writes_past_the_page_cache_stay_where_they_are_and_are_durable_with_the_sync() {
    let (drive, mut fs, file) = conventional(64);
    let before = written(&fs);
    fs.write_direct(file, 10 * UNIT, &vec![3; 20 * UNIT_BYTES], None).unwrap();
    assert_eq!((written(&fs) - before, in_place(&fs)), (20, 20));
    fs.sync_data(file).unwrap();
    assert_eq!(written(&fs) - before, 20);
    let mut fs = cut(&drive, fs);
    assert_eq!([9, 10, 29, 30].map(|unit| read(&mut fs, file, unit)), [1, 3, 3, 1]);
}

/// P1: the durable index still names the old place.
#[test]
fn a_unit_that_the_cleaner_has_moved_is_synced_with_its_node() {
    for cleaning in [Cleaning::Copy, Cleaning::Remap] {
        let (drive, mut fs, file) = made(Indexing::Conventional, cleaning, 600);
        // Others lie between, and are given up: segments have something to gain.
        let other = fs.create_in(ROOT, b"other", &new(FileKind::File)).unwrap();
        for unit in 0..600 {
            fs.write_direct(other, unit * UNIT, &[9; UNIT_BYTES], None).unwrap();
            fs.zero_range(file, unit * UNIT, UNIT, false).unwrap();
            fs.write_direct(file, unit * UNIT, &[1; UNIT_BYTES], None).unwrap();
        }
        fs.sync_folder(ROOT).unwrap();
        fs.unlink(ROOT, b"other", common::NOW).unwrap();
        // Until little is free, so that background cleaning starts.
        let ballast = fs.create_in(ROOT, b"ballast", &new(FileKind::File)).unwrap();
        for unit in 0..5000 {
            fs.write_direct(ballast, unit * UNIT, &[8; UNIT_BYTES], None).unwrap();
        }
        fs.sync_folder(ROOT).unwrap();
        let moved = |fs: &LogFs| fs.cleaner().copied_units + fs.cleaner().remapped_units;
        let (before, checkpoints) = (moved(&fs), fs.syncs().checkpoints);
        while moved(&fs) - before < 200 {
            assert!(fs.clean_slice().unwrap(), "there is something to clean");
        }
        for unit in 0..600 {
            write(&mut fs, file, unit, 2);
        }
        fs.sync_data(file).unwrap();
        assert_eq!((fs.syncs().checkpoints, in_place(&fs) >= 600), (checkpoints, true));
        let mut fs = cut(&drive, fs);
        assert!((0..600).all(|unit| read(&mut fs, file, unit) == 2));
    }
}

/// Units that wait in a buffer to be appended must not follow units that are written in place.
#[test]
fn what_was_just_appended_is_overwritten_behind_it() {
    let (drive, mut fs, file) = conventional(4);
    // The unit at the end is zeroed behind the end, and waits to be sent.
    let size = |bytes| MetadataChange { size: Some(bytes), ..Default::default() };
    fs.change_metadata(file, &size(3 * UNIT + 10)).unwrap();
    fs.change_metadata(file, &size(4 * UNIT)).unwrap();
    write(&mut fs, file, 3, 6);
    fs.sync_data(file).unwrap();
    assert_eq!((in_place(&fs), read(&mut fs, file, 3)), (1, 6));
    let mut fs = cut(&drive, fs);
    assert_eq!(read(&mut fs, file, 3), 6);
}

/// What was written in place behind the end was there after a crash that lost the end. When the file grew again, a checkpoint
/// had its new size before the new data.
#[test]
fn what_a_crash_cut_off_does_not_come_back() {
    let (drive, mut fs, file) = conventional(3);
    fs.change_metadata(file, &MetadataChange { size: Some(2 * UNIT + 100), ..Default::default() }).unwrap();
    fs.sync(file).unwrap();
    fs.write_direct(file, 2 * UNIT, &[7; UNIT_BYTES], None).unwrap();
    let other = written_other(&mut fs);
    fs.sync_data(other).unwrap();
    let mut fs = cut(&drive, fs);
    assert_eq!(fs.metadata(file).unwrap().size, 2 * UNIT + 100);
    fs.write(file, 2 * UNIT + 50, &[8; UNIT_BYTES]).unwrap();
    fs.sync_folder(ROOT).unwrap();
    let mut fs = cut(&drive, fs);
    let mut data = [0xee; UNIT_BYTES];
    let bytes = fs.read(file, 2 * UNIT, &mut data, None).unwrap();
    assert_eq!(data[100..bytes].iter().position(|byte| *byte == 7), None);
}

/// Another file, written: its sync flushes what others wrote.
fn written_other(fs: &mut LogFs) -> FileId {
    let other = fs.create_in(ROOT, b"other", &new(FileKind::File)).unwrap();
    write(fs, other, 0, 9);
    other
}

#[test]
fn a_cut_leaves_each_unit_old_or_new() {
    let (mut old, mut cuts) = (0, 0);
    for operations in 1..40 {
        let (drive, mut fs, file) = conventional(40);
        drive.lock().cut_after(Some(operations));
        let mut synced = [1; 40];
        let mut last = 0;
        for turn in 0..60 {
            let unit = turn * 7 % 40;
            last = unit;
            fs.write(file, unit * UNIT, &[2; UNIT_BYTES]).unwrap();
            if fs.sync_data(file).is_err() {
                break;
            }
            synced[unit as usize] = 2;
        }
        let has_power = drive.lock().has_power();
        drop(fs);
        if has_power {
            break;
        }
        cuts += 1;
        drive.lock().power_on(&mut PowerLoss::seeded(operations)).unwrap();
        let mut fs = LogFs::mount(drive.client(), LARGE_CACHE).expect("it mounts");
        sound(&mut fs);
        for unit in 0..40 {
            let found = read(&mut fs, file, unit);
            old += u32::from(found == 1 && unit == last);
            assert!(found == synced[unit as usize] || unit == last, "unit {unit} after {operations}");
        }
    }
    assert!(cuts > 10 && old > 0, "{cuts} cuts left {old} old units");
}

#[test]
fn what_appends_or_leaves_the_index_to_lists_writes_nothing_in_place() {
    for (kind, indexing) in [
        (LfsKind::Nat, Indexing::Appended),
        (LfsKind::Nat, Indexing::Nvm),
        (LfsKind::Tree, Indexing::Conventional),
        (LfsKind::Tree, Indexing::Appended),
    ] {
        let drive = Drive::new(device_with_lists(32, LISTS));
        let made = LogFs::format_indexed(drive.client(), kind, Cleaning::Copy, indexing, LARGE_CACHE);
        let mut fs = made.unwrap();
        let file = fs.create_in(ROOT, b"file", &new(FileKind::File)).unwrap();
        for value in 0..4 {
            write(&mut fs, file, 0, value);
            fs.sync_data(file).unwrap();
            fs.write_direct(file, UNIT, &[value; UNIT_BYTES], None).unwrap();
            fs.sync(file).unwrap();
        }
        assert_eq!(in_place(&fs), 0, "{kind:?}, {indexing:?}");
        let mut fs = cut(&drive, fs);
        assert_eq!([read(&mut fs, file, 0), read(&mut fs, file, 1)], [3, 3]);
    }
}

/// Buffers that a mount filled are written, in place or appended; the drive lists only what it copies.
#[test]
fn filled_buffers_go_to_the_units_that_they_hold() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        (LfsKind::Nat, Indexing::Conventional, true),
        (LfsKind::Nat, Indexing::Appended, true),
        (LfsKind::Nat, Indexing::Nvm, false),
        (LfsKind::Tree, Indexing::Conventional, true),
        (LfsKind::Tree, Indexing::Nvm, false),
    ];
    for (number, (kind, indexing, is_used)) in cases.into_iter().enumerate() {
        let image = folder.path().join(format!("{number}"));
        let drive = Drive::new(Device::create(&image, &profile_with(32, LISTS, None)).unwrap());
        let mut fs =
            LogFs::format_indexed(drive.client(), kind, Cleaning::Copy, indexing, LARGE_CACHE).unwrap();
        let file = fs.create_in(ROOT, b"file", &new(FileKind::File)).unwrap();
        // Units 10 to 19 and from 30 on have no place; what is dirty in memory is void.
        for first in [0, 20] {
            fs.write_direct(file, first * UNIT, &[1; 10 * UNIT_BYTES], None).unwrap();
        }
        fs.sync_folder(ROOT).unwrap();
        write(&mut fs, file, 5, 7);
        let units =
            |first: u8| -> Vec<u8> { (first..first + 40).flat_map(|value| [value; UNIT_BYTES]).collect() };
        let before = in_place(&fs);
        let mut fills = fs.client().device().fills(40).unwrap().expect("the drive is in a file");
        // Those that are used hold something else here, so that one sees that they are.
        let first = if is_used { 102 } else { 2 };
        fills.fill(&units(first)).unwrap();
        fs.write_direct(file, 0, &units(2), Some(&mut fills)).unwrap();
        assert!(fills.checksum(0).is_none(), "{kind:?}, {indexing:?}: buffers are left");
        let overwrites = (kind, indexing) == (LfsKind::Nat, Indexing::Conventional);
        assert_eq!(in_place(&fs) - before, if overwrites { 20 } else { 0 });
        fs.sync_data(file).unwrap();
        let mut fs = cut(&drive, fs);
        for unit in 0..40 {
            assert_eq!(
                u64::from(read(&mut fs, file, unit)),
                unit + u64::from(first),
                "{kind:?}, {indexing:?}"
            );
        }
    }
}

/// A large write that goes over the ends of segments and of partial segments, and whose summaries are checked by a mount.
#[test]
fn a_large_write_past_the_cache_survives_a_cut() {
    for (kind, indexing) in [
        (LfsKind::Nat, Indexing::Appended),
        (LfsKind::Nat, Indexing::Nvm),
        (LfsKind::Tree, Indexing::Conventional),
        (LfsKind::Tree, Indexing::Nvm),
    ] {
        let drive = Drive::new(device(64));
        let mut fs =
            LogFs::format_indexed(drive.client(), kind, Cleaning::Copy, indexing, LARGE_CACHE).unwrap();
        let file = fs.create_in(ROOT, b"file", &new(FileKind::File)).unwrap();
        write(&mut fs, file, 700, 1);
        fs.sync_folder(ROOT).unwrap();
        let units: Vec<u8> = (0..700_u32).flat_map(|unit| [(unit % 251) as u8; UNIT_BYTES]).collect();
        for data in [&units[..], &units[UNIT_BYTES..]] {
            fs.write_direct(file, 0, data, None).unwrap();
            fs.sync_data(file).unwrap();
        }
        let mut fs = cut(&drive, fs);
        for unit in 0..699 {
            assert_eq!(u64::from(read(&mut fs, file, unit)), (unit + 1) % 251, "{kind:?}, {indexing:?}");
        }
        assert_eq!([read(&mut fs, file, 699), read(&mut fs, file, 700)], [(699 % 251) as u8, 1]);
    }
}
