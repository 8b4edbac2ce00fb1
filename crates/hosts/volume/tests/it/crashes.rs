//! What is there after a host crash: the page cache is lost, the drive continues.

use crate::common;

use common::*;
use tantalum::{Command, Lpn, Outcome, PowerLoss};
use tantalum_volume::{FileId, Volume, VolumeError};

#[test]
fn what_was_synced_is_there_and_what_was_not_is_not() {
    let mut volume = volume(8, LARGE_CACHE);
    let a = create(&mut volume, "a", &[1; 10_000]);
    volume.sync(a).unwrap();
    volume.write(a, 10_000, &[2; 10_000]).unwrap();
    volume.write(a, 0, &[3; 10]).unwrap();
    create(&mut volume, "b", b"never synced");
    let mut volume = crash(volume, LARGE_CACHE);
    assert_eq!(volume.names().collect::<Vec<_>>(), ["a"]);
    let a = volume.find("a").unwrap();
    assert_eq!(content(&mut volume, a), [1; 10_000]);
}

#[test]
fn a_removal_is_durable_with_the_names() {
    let mut volume = volume(8, LARGE_CACHE);
    let journal = create(&mut volume, "journal", &[1; 10_000]);
    volume.sync(journal).unwrap();
    volume.remove("journal").unwrap();
    let back = crash(volume.try_clone().unwrap(), LARGE_CACHE);
    assert!(back.find("journal").is_some());
    volume.sync_names().unwrap();
    assert_eq!(crash(volume, LARGE_CACHE).find("journal"), None);
}

#[test]
fn a_rename_over_a_file_is_one_step() {
    let mut volume = volume(8, LARGE_CACHE);
    let old = create(&mut volume, "settings", b"old");
    volume.sync(old).unwrap();
    let new = create(&mut volume, "settings.new", b"new");
    volume.sync(new).unwrap();
    volume.rename("settings.new", "settings").unwrap();
    let mut before = crash(volume.try_clone().unwrap(), LARGE_CACHE);
    let file = before.find("settings").unwrap();
    assert_eq!(content(&mut before, file), b"old");
    volume.sync_names().unwrap();
    let mut after = crash(volume, LARGE_CACHE);
    let file = after.find("settings").unwrap();
    assert_eq!(content(&mut after, file), b"new");
    assert_eq!(after.names().count(), 1);
}

#[test]
fn a_name_that_is_removed_and_taken_again_is_there_once() {
    let mut volume = volume(8, LARGE_CACHE);
    for round in 0..10u8 {
        let journal = create(&mut volume, "journal", &[round; 5_000]);
        volume.sync(journal).unwrap();
        let mut copy = crash(volume.try_clone().unwrap(), LARGE_CACHE);
        let file = copy.find("journal").unwrap();
        assert_eq!(content(&mut copy, file), [round; 5_000]);
        volume.remove("journal").unwrap();
    }
}

#[test]
fn names_alone_do_not_bring_unsynced_content() {
    let mut volume = volume(8, LARGE_CACHE);
    create(&mut volume, "new", &[1; 9_000]);
    let old = create(&mut volume, "old", &[2; 9_000]);
    volume.sync(old).unwrap();
    volume.write(old, 9_000, &[3; 9_000]).unwrap();
    volume.rename("old", "renamed").unwrap();
    volume.sync_names().unwrap();
    let mut volume = crash(volume, LARGE_CACHE);
    assert_eq!(volume.names().collect::<Vec<_>>(), ["new", "renamed"]);
    let (new, renamed) = (volume.find("new").unwrap(), volume.find("renamed").unwrap());
    assert_eq!(content(&mut volume, new), b"");
    assert_eq!(content(&mut volume, renamed), [2; 9_000]);
}

#[test]
fn a_cut_that_was_not_synced_leaves_the_old_content() {
    let mut volume = volume(8, SMALL_CACHE);
    let file = create(&mut volume, "a", &[1; 40_960]);
    volume.sync(file).unwrap();
    volume.set_size(file, 0).unwrap();
    // What was given up must not be given to another file, nor to this one, before the cut is durable.
    let other = create(&mut volume, "b", &[2; 2 << 20]);
    volume.sync(other).unwrap();
    volume.write(file, 0, &[3; 40_960]).unwrap();
    let mut volume = crash(volume, SMALL_CACHE);
    let file = volume.find("a").unwrap();
    assert_eq!(content(&mut volume, file), [1; 40_960]);
}

#[test]
fn units_outside_files_are_unmapped_after_a_mount() {
    let mut volume = volume(8, SMALL_CACHE);
    // More than the cache holds: most of it is written back, and none of it is ever named.
    create(&mut volume, "lost", &[7; 3 << 20]);
    let kept = create(&mut volume, "kept", &[8; 1 << 20]);
    volume.sync(kept).unwrap();
    volume.write(kept, 1 << 20, &[9; 1 << 20]).unwrap();
    let mut volume = crash(volume, SMALL_CACHE);
    let kept = volume.find("kept").unwrap();
    let units: Vec<Lpn> = (0..256).map(|unit| volume.lpn(kept, unit).unwrap()).collect();
    let first_data = 33;
    let capacity = volume.device().limits().capacity_units as u32;
    for lpn in (first_data..capacity).map(Lpn) {
        assert_eq!(volume.device().is_mapped(lpn), units.contains(&lpn), "unit {lpn}");
    }
    let file = volume.create("all").unwrap();
    volume.reserve(file, volume.free_units() * 4096).unwrap();
    volume.set_size(file, 3 << 20).unwrap();
    assert!(content(&mut volume, file).iter().all(|&byte| byte == 0));
}

#[test]
fn what_lies_behind_the_end_after_a_crash_does_not_come_back() {
    let mut volume = volume(8, SMALL_CACHE);
    let file = create(&mut volume, "a", &[1; 100]);
    volume.sync(file).unwrap();
    volume.write(file, 100, &[2; 3_900]).unwrap();
    // Pushes the page with the unsynced bytes out to the drive.
    create(&mut volume, "b", &[3; 1 << 20]);
    let at = volume.lpn(file, 0).unwrap();
    volume.submit(Command::Flush).unwrap();
    let mut volume = crash(volume, SMALL_CACHE);
    let mut raw = [0; 4096];
    volume.submit(Command::Read { lpn: at, data: &mut raw }).unwrap();
    assert_eq!(raw[200], 2, "the test needs the bytes to be on the drive");
    let file = volume.find("a").unwrap();
    assert_eq!(content(&mut volume, file), [1; 100]);
    let mut other = volume.try_clone().unwrap();
    let mut expected = vec![1; 5_000];
    expected[100..].fill(0);
    volume.set_size(file, 5_000).unwrap();
    other.write_atomic(file, &[], Some(5_000)).unwrap();
    assert_eq!(content(&mut volume, file), expected);
    let mut other = power_cut(other, SMALL_CACHE);
    assert_eq!(content(&mut other, file), expected);
}

#[test]
fn an_atomic_write_is_durable_with_its_size() {
    let mut volume = volume(8, LARGE_CACHE);
    let file = volume.create("db").unwrap();
    let (one, two) = ([1; 4096], [2; 8192]);
    volume.write_atomic(file, &[(0, &one), (5, &two)], Some(7 * 4096)).unwrap();
    let mut expected = vec![0; 7 * 4096];
    expected[..4096].fill(1);
    expected[5 * 4096..].fill(2);
    assert_eq!(content(&mut volume, file), expected);
    let mut volume = crash(volume, LARGE_CACHE);
    let file = volume.find("db").unwrap();
    assert_eq!(content(&mut volume, file), expected);
    volume.write_atomic(file, &[(0, &two[..4096])], Some(4096)).unwrap();
    let mut volume = crash(volume, LARGE_CACHE);
    assert_eq!(content(&mut volume, file), [2; 4096]);
}

#[test]
fn an_atomic_write_does_not_show_a_size_without_its_data() {
    let mut volume = volume(8, LARGE_CACHE);
    let file = create(&mut volume, "db", &[1; 4096]);
    volume.sync(file).unwrap();
    volume.write(file, 4096, &[2; 8192]).unwrap();
    volume.write_atomic(file, &[(0, &[3; 4096])], None).unwrap();
    let cut = power_cut(volume.try_clone().unwrap(), LARGE_CACHE);
    for mut volume in [cut, crash(volume, LARGE_CACHE)] {
        let file = volume.find("db").unwrap();
        let data = content(&mut volume, file);
        assert_eq!(data[..4096], [3; 4096]);
        assert!(data[4096..].iter().all(|&byte| byte == 2));
    }
}

/// What grows a file, and then an atomic write that makes the new size durable: power must not take what is in the new
/// units. A deferred share and a write of zeros wait in the drive like data. Dirty pages were flushed for, and no test did
/// anything else before an atomic write; after direct writes the size was durable without them.
#[test]
fn an_atomic_write_does_not_show_a_size_without_what_came_before_it() {
    let zeroed = vec![0; 6 * 4096];
    let shared = [vec![1; 4 * 4096], vec![2; 8 * 4096]].concat();
    let direct = [vec![1; 4 * 4096], vec![3; 4096]].concat();
    type Grow = fn(&mut Volume, FileId, FileId);
    let cases: [(&str, Grow, Vec<u8>); 4] = [
        ("zeros", |volume, file, _| volume.zero_range(file, 0, 6 * 4096, false).unwrap(), zeroed),
        (
            "a deferred share",
            |volume, file, other| {
                assert_eq!(volume.copy_range(other, 0, file, 4 * 4096, 8 * 4096), Ok(8 * 4096));
            },
            shared.clone(),
        ),
        (
            "a direct write",
            |volume, file, _| volume.write_direct(file, 4 * 4096, &[3; 4096]).unwrap(),
            direct,
        ),
        (
            "pages that were written back",
            |volume, file, other| {
                // a copy from a file sends its pages, which stay clean
                volume.write(file, 4 * 4096, &[2; 8 * 4096]).unwrap();
                volume.copy_range(file, 0, other, 100 * 4096, 4096).unwrap();
            },
            shared,
        ),
    ];
    for (what, grow, expected) in cases {
        let mut volume = volume(8, LARGE_CACHE);
        let file = create(&mut volume, "file", &[1; 4 * 4096]);
        let other = create(&mut volume, "other", &[2; 8 * 4096]);
        volume.sync_all().unwrap();
        grow(&mut volume, file, other);
        volume.write_atomic(file, &[], None).unwrap();
        let mut volume = power_cut(volume, LARGE_CACHE);
        assert!(content(&mut volume, file) == expected, "{what}");
    }
}

#[test]
fn an_atomic_write_above_the_limit_changes_nothing() {
    let mut volume = Volume::format(device_with_batches_of(16, 8), LARGE_CACHE).unwrap();
    let file = create(&mut volume, "db", &[1; 16 * 4096]);
    volume.sync(file).unwrap();
    let limit = volume.atomic_units_limit() as usize;
    let data = vec![2; (limit + 1) * 4096];
    let result = volume.write_atomic(file, &[(0, &data)], Some(100 * 4096));
    assert!(matches!(result, Err(VolumeError::Device(_))), "{result:?}");
    assert_eq!(content(&mut volume, file), [1; 16 * 4096]);
    volume.write_atomic(file, &[(0, &data[..limit * 4096])], Some(17 * 4096)).unwrap();
    volume = crash(volume, LARGE_CACHE);
    assert_eq!(content(&mut volume, file)[..limit * 4096], data[..limit * 4096]);
}

#[test]
fn data_that_are_not_whole_units_are_refused_where_only_units_go() {
    let mut volume = volume(8, LARGE_CACHE);
    let file = volume.create("db").unwrap();
    let tx = volume.tx_begin().unwrap();
    let error = |offset, bytes| Err(VolumeError::Unaligned { offset, bytes });
    assert_eq!(volume.write_atomic(file, &[(0, &[0; 100])], None), error(0, 100));
    assert_eq!(volume.write_atomic(file, &[(0, &[])], None), error(0, 0));
    assert_eq!(volume.tx_write(tx, file, 100, &[0; 4096]), error(100, 4096));
}

#[test]
fn more_names_than_a_batch_holds_become_durable_in_order() {
    let mut volume = Volume::format(device_with_batches_of(8, 8), LARGE_CACHE).unwrap();
    for i in 0..20 {
        create(&mut volume, &format!("file {i}"), format!("content {i}").as_bytes());
    }
    volume.sync_all().unwrap();
    for i in 0..20 {
        volume.rename(&format!("file {i}"), &format!("file {}", i + 20)).unwrap();
    }
    volume.sync_names().unwrap();
    let mut volume = crash(volume, LARGE_CACHE);
    assert_eq!(volume.names().count(), 20);
    for i in 0..20 {
        let file = volume.find(&format!("file {}", i + 20)).unwrap();
        assert_eq!(content(&mut volume, file), format!("content {i}").as_bytes());
    }
}

#[test]
fn units_written_past_the_volume_are_seen_when_it_is_told() {
    let mut volume = volume(8, LARGE_CACHE);
    let file = create(&mut volume, "db", &[1; 8192]);
    volume.sync(file).unwrap();
    let lpn = volume.lpn(file, 0).unwrap();
    volume.submit(Command::Write { lpn, data: &[2; 4096], fua: false, handle: None }).unwrap();
    volume.cache_put_clean(file, 0, &[2; 4096]);
    assert_eq!(content(&mut volume, file)[..4096], [2; 4096]);
    volume.submit(Command::Write { lpn, data: &[3; 4096], fua: false, handle: None }).unwrap();
    volume.cache_drop(file, 0);
    assert_eq!(content(&mut volume, file)[..4096], [3; 4096]);
    volume.write(file, 0, &[4; 4096]).unwrap();
    volume.cache_drop(file, 0);
    assert_eq!(content(&mut volume, file)[..4096], [3; 4096]);
}

/// Trims that nobody waited for, and the word that the volume is closed: power fails at each operation between them. A
/// closed volume is not trimmed when it is mounted, so what was given up must not come back in it.
#[test]
fn a_volume_is_not_closed_before_its_last_trims_are_durable() {
    for outcome in [Outcome::Completed, Outcome::NotStarted] {
        for operation in 1.. {
            let mut volume = volume(64, LARGE_CACHE);
            let file = create(&mut volume, "old", &[7; 20 * 4096]);
            volume.sync(file).unwrap();
            volume.remove("old").unwrap();
            volume.sync_names().unwrap();
            volume.device().cut_after(Some(operation));
            let Err(error) = volume.unmount() else { break };
            let mut device = error.volume.into_client_without_sync().into_device().unwrap();
            device.power_on(&mut PowerLoss::all(outcome)).unwrap();
            let mut volume = Volume::mount(device, LARGE_CACHE).unwrap();
            let new = volume.create("new").unwrap();
            volume.set_size(new, 200 * 4096).unwrap();
            for unit in 0..200 {
                volume.write(new, unit * 4096 + 1, &[1]).unwrap();
            }
            let content = content(&mut volume, new);
            assert!(content.iter().all(|byte| *byte < 2), "operation {operation}: an old file is seen again");
        }
    }
}
