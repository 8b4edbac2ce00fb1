//! Holes, preallocation, direct I/O, and ranges that are shared, committed and exchanged.

use crate::common;

use common::*;
use tantalum::{Outcome, PowerLoss};
use tantalum_volume::{FileId, RangeCommit, Volume, VolumeError};

const UNIT: u64 = 4096;

fn stamped(stamp: u8, units: u64) -> Vec<u8> {
    (0..units).flat_map(|unit| [stamp.wrapping_add(unit as u8); UNIT as usize]).collect()
}

fn stamped_file(volume: &mut Volume, name: &str, stamp: u8, units: u64) -> FileId {
    let file = create(volume, name, &stamped(stamp, units));
    volume.sync(file).unwrap();
    file
}

#[test]
fn a_hole_reads_as_zeros_and_its_units_are_free_once_it_is_durable() {
    let mut volume = volume(8, LARGE_CACHE);
    let file = stamped_file(&mut volume, "a", 1, 10);
    volume.set_size(file, 10 * UNIT - 7).unwrap();
    volume.sync(file).unwrap();
    let free = volume.free_units();
    let mut expected = stamped(1, 10);
    expected.truncate(10 * UNIT as usize - 7);
    volume.punch_hole(file, UNIT + 100, 3 * UNIT).unwrap();
    expected[UNIT as usize + 100..4 * UNIT as usize + 100].fill(0);
    // Behind the file's end all of the last unit is covered.
    volume.punch_hole(file, 8 * UNIT + 5, 2 * UNIT).unwrap();
    expected[8 * UNIT as usize + 5..].fill(0);
    volume.punch_hole(file, 5 * UNIT + 1, 2).unwrap();
    expected[5 * UNIT as usize + 1..][..2].fill(0);
    assert_eq!(content(&mut volume, file), expected);
    assert_eq!(volume.metadata(file).unwrap().units, 7);
    assert_eq!(volume.free_units(), free, "the durable inode still names the units");
    let mut crashed = crash(volume.try_clone().unwrap(), LARGE_CACHE);
    assert_eq!(content(&mut crashed, file)[UNIT as usize + 100..][..3996], [2; 3996]);
    volume.sync(file).unwrap();
    assert_eq!(volume.free_units(), free + 3);
    let mut volume = crash(volume, LARGE_CACHE);
    assert_eq!(content(&mut volume, file), expected);
}

#[test]
fn a_punched_unit_goes_to_another_file_only_when_the_hole_is_durable() {
    let mut volume = volume(1, LARGE_CACHE);
    let units = volume.free_units();
    let file = stamped_file(&mut volume, "a", 1, units);
    volume.punch_hole(file, 0, 4 * UNIT).unwrap();
    // Only room that was given up is left, so the write makes the hole durable first.
    let other = create(&mut volume, "b", &[9; 4096]);
    volume.sync(other).unwrap();
    let mut volume = crash(volume, LARGE_CACHE);
    assert_eq!(content(&mut volume, file)[..4 * UNIT as usize], [0; 4 * UNIT as usize]);
}

#[test]
fn preallocation_keeps_room_and_reads_as_zeros() {
    let mut volume = volume(1, LARGE_CACHE);
    let file = create(&mut volume, "a", &[1; 100]);
    volume.allocate(file, 0, 50 * UNIT, true).unwrap();
    assert_eq!((volume.size(file), volume.metadata(file).unwrap().units), (Ok(100), 50));
    volume.allocate(file, 10 * UNIT, 10 * UNIT, false).unwrap();
    assert_eq!(volume.size(file), Ok(20 * UNIT));
    volume.sync(file).unwrap();
    let mut volume = remount(volume, LARGE_CACHE);
    let (other, all) = (volume.create("b").unwrap(), volume.free_units());
    while volume.write(other, volume.size(other).unwrap(), &[2; 4096]).is_ok() {}
    assert_eq!(volume.size(other).unwrap() / UNIT, all);
    volume.write(file, 0, &[3; 50 * UNIT as usize]).unwrap();
    assert!(volume.allocate(file, 0, 51 * UNIT, true).is_err());
    let mut expected = vec![3; 50 * UNIT as usize];
    assert_eq!(content(&mut volume, file), expected);
    volume.zero_range(file, 100, 3 * UNIT, true).unwrap();
    expected[100..3 * UNIT as usize + 100].fill(0);
    assert_eq!(content(&mut volume, file), expected);
    assert_eq!(volume.metadata(file).unwrap().units, 50);
    volume.sync(file).unwrap();
    let mut volume = crash(volume, LARGE_CACHE);
    assert_eq!(content(&mut volume, file), expected);
}

/// A write grew a file over its preallocated units and got to the drive, its size did not: the bytes must not be seen
/// when the file grows again.
#[test]
fn preallocated_units_are_zeros_again_after_a_crash() {
    let mut volume = volume(8, SMALL_CACHE);
    let file = create(&mut volume, "a", &[1; 4096]);
    volume.allocate(file, 0, 20 * UNIT, true).unwrap();
    volume.sync(file).unwrap();
    volume.write_direct(file, UNIT, &stamped(2, 10)).unwrap();
    let mut volume = crash(volume, SMALL_CACHE);
    assert_eq!(volume.size(file), Ok(UNIT));
    volume.set_size(file, 20 * UNIT).unwrap();
    assert!(content(&mut volume, file)[UNIT as usize..].iter().all(|byte| *byte == 0));
}

#[test]
fn data_and_holes_are_found() {
    let mut volume = volume(8, LARGE_CACHE);
    let file = volume.create("a").unwrap();
    volume.write(file, 3 * UNIT + 5, &[1; 10]).unwrap();
    volume.allocate(file, 5 * UNIT, 2 * UNIT, false).unwrap();
    volume.write_direct(file, 6 * UNIT, &[2; 4096]).unwrap();
    volume.set_size(file, 9 * UNIT + 1).unwrap();
    for _ in 0..2 {
        let data: Vec<_> = (0..10).map(|unit| volume.seek_data(file, unit * UNIT + 1).unwrap()).collect();
        let next = |unit: u64| Some(unit * UNIT);
        let own = |unit: u64| Some(unit * UNIT + 1);
        let expected = [next(3), next(3), next(3), own(3), next(6), next(6), own(6), None, None, None];
        assert_eq!(data, expected);
        let holes: Vec<_> =
            [0, 3, 4, 6, 8].map(|unit| volume.seek_hole(file, unit * UNIT + 1).unwrap()).into();
        assert_eq!(holes, [own(0), next(4), own(4), next(7), own(8)]);
        assert_eq!(volume.seek_hole(file, 9 * UNIT + 1).unwrap(), None);
        volume = remount(volume, LARGE_CACHE);
    }
    let full = stamped_file(&mut volume, "full", 1, 3);
    assert_eq!(volume.seek_hole(full, 0), Ok(Some(3 * UNIT)));
}

#[test]
fn direct_and_cached_access_see_the_same() {
    let mut volume = volume(8, LARGE_CACHE);
    let file = create(&mut volume, "a", &[1; 10_000]);
    volume.write_direct(file, UNIT, &stamped(5, 4)).unwrap();
    let mut expected = [vec![1; 4096], stamped(5, 4)].concat();
    assert_eq!(content(&mut volume, file), expected);
    volume.write(file, 2 * UNIT + 5, &[9; 10]).unwrap();
    expected[2 * UNIT as usize + 5..][..10].fill(9);
    volume.set_size(file, 5 * UNIT - 100).unwrap();
    let mut data = vec![0xee; 8 * UNIT as usize];
    assert_eq!(volume.read_direct(file, 0, &mut data), Ok(5 * UNIT as usize - 100));
    assert_eq!(data[..5 * UNIT as usize - 100], expected[..5 * UNIT as usize - 100]);
    assert!(data[5 * UNIT as usize - 100..].iter().all(|byte| *byte == 0));
    assert_eq!(volume.read_direct(file, 8 * UNIT, &mut data), Ok(0));
    let unaligned = VolumeError::Unaligned { offset: 1, bytes: 4096 };
    assert_eq!(volume.read_direct(file, 1, &mut data[..4096]), Err(unaligned.clone()));
    assert_eq!(volume.write_direct(file, 1, &data[..4096]), Err(unaligned));
}

#[test]
fn a_copy_of_a_large_file_writes_metadata_only() {
    let mut volume = volume(64, LARGE_CACHE);
    let from = stamped_file(&mut volume, "from", 1, 1000);
    volume.punch_hole(from, 100 * UNIT, 50 * UNIT).unwrap();
    volume.set_size(from, 1000 * UNIT - 50).unwrap();
    volume.sync(from).unwrap();
    let to = volume.create("to").unwrap();
    let written = units_written(&mut volume, |volume| {
        assert_eq!(volume.copy_range(from, 0, to, 0, u64::MAX), Ok(1000 * UNIT - 50));
        volume.sync(to).unwrap();
    });
    assert_eq!(written, 1, "the new file's inode");
    assert_eq!(volume.device().smart().counters.units_shared, 950);
    assert_eq!(volume.metadata(to).unwrap().units, 950);
    let mut volume = crash(volume, LARGE_CACHE);
    let expected = content(&mut volume, from);
    assert_eq!(content(&mut volume, to), expected);
    // They go their own ways from here.
    volume.write(from, 0, &[77; 9000]).unwrap();
    volume.sync(from).unwrap();
    let mut volume = power_cut(volume, LARGE_CACHE);
    assert_eq!(content(&mut volume, to), expected);
    volume.set_size(to, 1000 * UNIT).unwrap();
    assert_eq!(content(&mut volume, to)[1000 * UNIT as usize - 50..], [0; 50]);
    volume.remove("from").unwrap();
    volume.sync_names().unwrap();
    assert_eq!(content(&mut volume, to)[..expected.len()], expected);
}

#[test]
fn copies_lie_anywhere_and_overlap_nothing() {
    let mut volume = volume(8, SMALL_CACHE);
    let from = stamped_file(&mut volume, "from", 1, 20);
    let source = stamped(1, 20);
    for (from_offset, to_offset, bytes) in
        [(5, 5, 50_000), (5, 7, 50_000), (0, 4096, 40_000), (4096, 0, 77), (70_000, 70_000, 99_999)]
    {
        let to = create(&mut volume, "to", &[0xaa; 30_000]);
        let copied = volume.copy_range(from, from_offset, to, to_offset, bytes).unwrap() as usize;
        let (start, to_start) = (from_offset as usize, to_offset as usize);
        assert_eq!(copied, (bytes as usize).min(source.len() - start));
        let mut expected = vec![0xaa; 30_000];
        expected.resize(expected.len().max(to_start + copied), 0);
        expected[to_start..to_start + copied].copy_from_slice(&source[start..start + copied]);
        assert!(content(&mut volume, to) == expected, "{from_offset} {to_offset} {bytes}");
        volume.remove("to").unwrap();
    }
    assert_eq!(volume.copy_range(from, 100_000, from, 0, 10), Ok(0));
    assert!(matches!(volume.copy_range(from, 0, from, 4096, 8192), Err(VolumeError::BadRange { .. })));
    assert_eq!(volume.copy_range(from, 0, from, 8192, 8192), Ok(8192));
    assert_eq!(content(&mut volume, from)[8192..16384], source[..8192]);
}

/// What became of the source since it was cut is not in its last unit as far as anyone can see, and is not what the target
/// gets. No test committed the end of a file that had been longer.
#[test]
fn what_lies_behind_the_end_of_a_file_is_not_committed_with_its_last_unit() {
    let mut volume = volume(8, LARGE_CACHE);
    let from = stamped_file(&mut volume, "from", 1, 2);
    let to = stamped_file(&mut volume, "to", 50, 3);
    volume.set_size(from, UNIT + 100).unwrap();
    let range = RangeCommit { from, from_offset: UNIT, to, to_offset: 0, bytes: UNIT };
    volume.commit_ranges(&[range]).unwrap();
    let mut expected = stamped(50, 3);
    expected[..UNIT as usize].fill(0);
    expected[..100].fill(2);
    assert_eq!(content(&mut volume, to), expected);
    let mut volume = power_cut(volume, LARGE_CACHE);
    assert_eq!(content(&mut volume, to), expected);
}

/// The drive keeps 256 further owners of shared units at this capacity.
#[test]
fn what_the_drive_does_not_share_is_copied() {
    let mut volume = volume(8, LARGE_CACHE);
    let from = stamped_file(&mut volume, "from", 1, 600);
    let to = volume.create("to").unwrap();
    volume.copy_range(from, 0, to, 0, 600 * UNIT).unwrap();
    volume.sync(to).unwrap();
    let shared = volume.device().smart().counters.units_shared;
    assert!((1..=256).contains(&shared), "{shared} units shared");
    let mut volume = crash(volume, LARGE_CACHE);
    assert_eq!(content(&mut volume, to), stamped(1, 600));
}

fn committed(volume: &Volume) -> [RangeCommit; 2] {
    let [a, b, c] = ["a", "b", "c"].map(|name| volume.find(name).unwrap());
    [
        RangeCommit { from: a, from_offset: 0, to: b, to_offset: 4 * UNIT, bytes: 3 * UNIT },
        RangeCommit { from: b, from_offset: 0, to: c, to_offset: UNIT, bytes: UNIT },
    ]
}

/// Does `work` with power going at each flash operation, and returns what was left of the files, each time.
fn with_cuts(old: &Volume, work: impl Fn(&mut Volume) -> Result<(), VolumeError>) -> Vec<Vec<Vec<u8>>> {
    let mut seen = Vec::new();
    for (operation, outcome) in
        (1..).flat_map(|o| [Outcome::NotStarted, Outcome::Completed].map(|out| (o, out)))
    {
        let mut volume = old.try_clone().unwrap();
        volume.device().cut_after(Some(operation));
        let done = work(&mut volume);
        let mut volume = power_cut_now(volume, PowerLoss::all(outcome), LARGE_CACHE);
        let files: Vec<FileId> = ["a", "b", "c"].map(|name| volume.find(name).unwrap()).into();
        seen.push(files.into_iter().map(|file| content(&mut volume, file)).collect());
        if done.is_ok() {
            break;
        }
    }
    seen
}

fn three_files() -> Volume {
    let mut volume = volume(8, LARGE_CACHE);
    for (name, stamp) in [("a", 10), ("b", 20), ("c", 30)] {
        stamped_file(&mut volume, name, stamp, 8);
    }
    volume
}

fn check_one_step(seen: &[Vec<Vec<u8>>], old: &[Vec<u8>], new: &[Vec<u8>]) {
    let is_new: Vec<bool> = seen.iter().map(|files| files == new).collect();
    let known = seen.iter().all(|files| files == old || files == new);
    assert!(known, "neither the old state nor the new one");
    assert!(is_new.last() == Some(&true), "what returned is durable");
    assert!(is_new.contains(&false), "no cut came before the step");
}

#[test]
fn ranges_are_committed_all_or_nothing() {
    let mut volume = three_files();
    let old: Vec<Vec<u8>> = [10, 20, 30].map(|stamp| stamped(stamp, 8)).into();
    let mut new = old.clone();
    new[1][4 * UNIT as usize..7 * UNIT as usize].copy_from_slice(&old[0][..3 * UNIT as usize]);
    new[2][UNIT as usize..2 * UNIT as usize].copy_from_slice(&old[1][..UNIT as usize]);
    check_one_step(&with_cuts(&volume, |v| v.commit_ranges(&committed(v))), &old, &new);
    volume.commit_ranges(&committed(&volume)).unwrap();
    let c = volume.find("c").unwrap();
    assert_eq!(content(&mut volume, c), new[2]);
    let mut ranges = committed(&volume);
    ranges[1].to = ranges[0].to;
    ranges[1].to_offset = 6 * UNIT;
    assert!(matches!(volume.commit_ranges(&ranges), Err(VolumeError::BadRange { .. })));
    ranges[1].to_offset = 8 * UNIT;
    assert!(matches!(volume.commit_ranges(&ranges), Err(VolumeError::BadRange { .. })));
    ranges[1] = RangeCommit { bytes: 100, ..ranges[0] };
    assert!(matches!(volume.commit_ranges(&ranges), Err(VolumeError::BadRange { .. })));
}

#[test]
fn what_is_committed_may_be_unsynced_sparse_or_end_within_a_unit() {
    let mut volume = volume(8, LARGE_CACHE);
    let from = create(&mut volume, "from", &[1; 10]);
    volume.write(from, 2 * UNIT, &[3; 100]).unwrap();
    let to = volume.create("to").unwrap();
    volume.set_size(to, 3 * UNIT).unwrap();
    volume.write(to, 0, &[9; 5000]).unwrap();
    let range = RangeCommit { from, from_offset: 0, to, to_offset: 0, bytes: 3 * UNIT };
    volume.commit_ranges(&[range]).unwrap();
    let mut expected = vec![0; 3 * UNIT as usize];
    expected[..10].fill(1);
    expected[2 * UNIT as usize..][..100].fill(3);
    assert_eq!(content(&mut volume, to), expected);
    let mut volume = power_cut(volume, LARGE_CACHE);
    assert_eq!(content(&mut volume, to), expected);
}

#[test]
fn ranges_are_exchanged_in_one_step() {
    let mut volume = three_files();
    let a = volume.find("a").unwrap();
    let b = volume.find("b").unwrap();
    volume.punch_hole(a, 2 * UNIT, UNIT).unwrap();
    volume.sync(a).unwrap();
    let mut old: Vec<Vec<u8>> = [10, 20, 30].map(|stamp| stamped(stamp, 8)).into();
    old[0][2 * UNIT as usize..3 * UNIT as usize].fill(0);
    let mut new = old.clone();
    let units = 4 * UNIT as usize;
    new[0][UNIT as usize..][..units].copy_from_slice(&old[1][3 * UNIT as usize..][..units]);
    new[1][3 * UNIT as usize..][..units].copy_from_slice(&old[0][UNIT as usize..][..units]);
    let exchange = |volume: &mut Volume| volume.exchange_ranges(a, UNIT, b, 3 * UNIT, 4 * UNIT);
    check_one_step(&with_cuts(&volume, exchange), &old, &new);
    let overlap = volume.exchange_ranges(a, 0, a, UNIT, 2 * UNIT);
    assert!(matches!(overlap, Err(VolumeError::BadRange { .. })));
    volume.exchange_ranges(a, 0, a, 4 * UNIT, 2 * UNIT).unwrap();
    let now = content(&mut volume, a);
    assert_eq!(now[..2 * UNIT as usize], old[0][4 * UNIT as usize..6 * UNIT as usize]);
}

/// More units than an inode can name pieces: they get places in runs.
#[test]
fn a_sparse_file_written_at_random_does_not_run_out_of_pieces() {
    let mut volume = volume(8 << 10, SMALL_CACHE);
    let file = volume.create("sparse").unwrap();
    volume.set_size(file, 4 << 30).unwrap();
    let mut at = 1_u64;
    let mut last = std::collections::BTreeMap::new();
    for stamp in 1..45_000_u64 {
        at = at.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let unit = (at >> 33) % (4 << 18);
        volume.write(file, unit * UNIT, &stamp.to_le_bytes()).unwrap();
        last.insert(unit, stamp);
    }
    volume.sync(file).unwrap();
    let mut volume = remount(volume, LARGE_CACHE);
    for (unit, stamp) in last.iter().step_by(97) {
        let mut data = [0; 8];
        volume.read(file, unit * UNIT, &mut data).unwrap();
        assert_eq!(u64::from_le_bytes(data), *stamp);
    }
}
