//! What file operations cost on the drive: the conventional modes of a comparison pay what they would pay on a
//! real file system, not more (design, hazard 13).

use crate::common;

use common::*;
use tantalum_volume::{FileId, Volume};

#[test]
fn unaligned_appends_are_gathered() {
    let mut volume = volume(64, LARGE_CACHE);
    let log = volume.create("log").unwrap();
    let frame = [7; 4120];
    let written = units_written(&mut volume, |volume| {
        for i in 0..100 {
            volume.write(log, 32 + i * 4120, &frame).unwrap();
        }
        volume.sync(log).unwrap();
    });
    let data = (32 + 100 * 4120u64).div_ceil(4096);
    assert_eq!(written, data + 1, "{data} units of data and one inode");
}

#[test]
fn one_append_and_sync_costs_the_units_it_touches_and_the_inode() {
    let mut volume = volume(64, LARGE_CACHE);
    let log = create(&mut volume, "log", &[0; 32]);
    volume.sync(log).unwrap();
    for i in 0..50u64 {
        let (start, end) = (32 + i * 4120, 32 + (i + 1) * 4120);
        let written = units_written(&mut volume, |volume| {
            volume.write(log, start, &[i as u8; 4120]).unwrap();
            volume.sync(log).unwrap();
        });
        assert_eq!(written, end.div_ceil(4096) - start / 4096 + 1);
    }
}

#[test]
fn overwriting_in_place_costs_no_metadata() {
    let mut volume = volume(64, LARGE_CACHE);
    let file = create(&mut volume, "a", &[1; 1 << 20]);
    volume.sync(file).unwrap();
    let flushes = volume.device().smart().counters.flushes;
    let written = units_written(&mut volume, |volume| {
        volume.write(file, 8192, &[2; 4096]).unwrap();
        volume.write(file, 8192, &[3; 4096]).unwrap();
        volume.sync(file).unwrap();
    });
    assert_eq!((written, volume.device().smart().counters.flushes - flushes), (1, 1));
}

/// A mount syncs everything every few seconds: files that nobody changed cost nothing.
#[test]
fn a_sync_of_all_costs_what_changed_whatever_else_there_is() {
    let mut volume = volume(64, LARGE_CACHE);
    let files: Vec<FileId> = (0..500).map(|i| create(&mut volume, &format!("file{i}"), &[1; 5000])).collect();
    volume.sync_all().unwrap();
    for (changed, most_flushes) in [(0, 1), (1, 2), (3, 2)] {
        let flushes = volume.device().smart().counters.flushes;
        let written = units_written(&mut volume, |volume| {
            for file in &files[..changed] {
                volume.write(*file, 5000, &[changed as u8; 10]).unwrap();
                volume.set_size(*file, 6000 + changed as u64).unwrap();
            }
            volume.sync_all().unwrap();
        });
        assert_eq!(written, 2 * changed as u64, "{changed} files have a unit of data and an inode each");
        let flushes = volume.device().smart().counters.flushes - flushes;
        assert!((1..=most_flushes).contains(&flushes), "{changed} files: {flushes} flushes");
    }
}

#[test]
fn a_sync_of_nothing_is_a_flush() {
    let mut volume = volume(64, LARGE_CACHE);
    let file = create(&mut volume, "a", &[1; 100]);
    volume.sync(file).unwrap();
    let flushes = volume.device().smart().counters.flushes;
    assert_eq!(units_written(&mut volume, |volume| volume.sync(file).unwrap()), 0);
    assert_eq!(volume.device().smart().counters.flushes - flushes, 1);
}

#[test]
fn a_file_that_was_never_synced_costs_nothing() {
    let mut volume = volume(64, LARGE_CACHE);
    let free = volume.free_units();
    let before = volume.now_ns();
    let written = units_written(&mut volume, |volume| {
        create(volume, "temporary", &[1; 100_000]);
        volume.remove("temporary").unwrap();
        volume.sync_names().unwrap();
    });
    assert_eq!((written, volume.free_units(), volume.now_ns()), (0, free, before));
}

#[test]
fn cached_pages_are_read_once() {
    let mut volume = volume(64, LARGE_CACHE);
    create(&mut volume, "a", &[1; 1 << 20]);
    let mut volume = remount(volume, LARGE_CACHE);
    let file = volume.find("a").unwrap();
    let read = |volume: &mut Volume| {
        let before = volume.device().smart().counters.host_units_read;
        for unit in 0..256 {
            volume.read(file, unit * 4096, &mut [0; 4096]).unwrap();
        }
        volume.device().smart().counters.host_units_read - before
    };
    read(&mut volume);
    let now = volume.now_ns();
    assert_eq!(read(&mut volume), 0);
    assert_eq!(volume.now_ns(), now);
}

#[test]
fn whole_units_are_written_without_reading_them() {
    let mut volume = volume(64, LARGE_CACHE);
    create(&mut volume, "a", &[1; 1 << 20]);
    let mut volume = remount(volume, LARGE_CACHE);
    let file = volume.find("a").unwrap();
    let now = volume.now_ns();
    volume.write(file, 4096, &[2; 8192]).unwrap();
    assert_eq!(volume.now_ns(), now);
    volume.write(file, 100, &[3; 10]).unwrap();
    assert!(volume.now_ns() > now, "the rest of the unit must come from the drive");
}

#[test]
fn a_file_larger_than_the_cache_is_written_once() {
    let mut volume = volume(64, SMALL_CACHE);
    let file = volume.create("a").unwrap();
    let written = units_written(&mut volume, |volume| {
        for unit in 0..4096u64 {
            volume.write(file, unit * 4096, &[unit as u8; 4096]).unwrap();
        }
        volume.sync(file).unwrap();
    });
    assert_eq!(written, 4096 + 1);
}

#[test]
fn an_atomic_write_costs_its_units_and_an_inode_only_if_it_changed() {
    let mut volume = volume(64, LARGE_CACHE);
    let file = create(&mut volume, "a", &[1; 1 << 20]);
    volume.sync(file).unwrap();
    let page = [2; 4096];
    let in_place = units_written(&mut volume, |volume| {
        volume.write_atomic(file, &[(3, &page), (77, &page)], Some(1 << 20)).unwrap();
    });
    let growing = units_written(&mut volume, |volume| {
        volume.write_atomic(file, &[(256, &page)], Some(257 * 4096)).unwrap();
    });
    assert_eq!((in_place, growing), (2, 2));
}
