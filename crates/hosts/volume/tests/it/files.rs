//! Files as a program sees them that stays up: names, sizes, holes, limits.

use crate::common;

use common::*;
use tantalum_volume::{ATTRIBUTE_BYTES, VolumeError};

#[test]
fn a_file_reads_back_at_any_alignment() {
    let mut volume = volume(8, SMALL_CACHE);
    let data: Vec<u8> = (0..100_000u32).map(|i| (i * 7 / 3) as u8).collect();
    let file = create(&mut volume, "a", &data[..3]);
    for start in (3..data.len()).step_by(977) {
        volume.write(file, start as u64, &data[start..data.len().min(start + 977)]).unwrap();
    }
    assert_eq!(content(&mut volume, file), data);
    let mut part = [0; 5000];
    assert_eq!(volume.read(file, 97_000, &mut part), Ok(3000));
    assert_eq!(part[..3000], data[97_000..]);
    assert_eq!(volume.read(file, 100_000, &mut part), Ok(0));
    assert_eq!(volume.read(file, u64::MAX, &mut part), Ok(0));
}

#[test]
fn holes_read_as_zeros_and_take_no_space() {
    let mut volume = volume(8, LARGE_CACHE);
    let free = volume.free_units();
    let file = volume.create("sparse").unwrap();
    volume.set_size(file, 1 << 40).unwrap();
    volume.write(file, 1 << 39, b"x").unwrap();
    let mut data = [1; 3];
    assert_eq!(volume.read(file, (1 << 39) - 1, &mut data), Ok(3));
    assert_eq!(data, *b"\0x\0");
    assert!(free - volume.free_units() < 64);
    volume.sync(file).unwrap();
    let mut volume = remount(volume, LARGE_CACHE);
    assert_eq!(free - volume.free_units(), 1);
    let file = volume.find("sparse").unwrap();
    assert_eq!(volume.size(file), Ok(1 << 40));
    assert_eq!(volume.read(file, (1 << 39) - 1, &mut data), Ok(3));
    assert_eq!(data, *b"\0x\0");
}

#[test]
fn a_file_that_was_cut_grows_again_with_zeros() {
    for cache in [SMALL_CACHE, LARGE_CACHE] {
        let mut volume = volume(8, cache);
        let file = create(&mut volume, "a", &[7; 20_000]);
        volume.sync(file).unwrap();
        volume.set_size(file, 5_000).unwrap();
        volume.set_size(file, 6_000).unwrap();
        volume.write(file, 12_000, &[8; 10]).unwrap();
        let mut expected = vec![0; 12_010];
        expected[..5_000].fill(7);
        expected[12_000..].fill(8);
        assert_eq!(content(&mut volume, file), expected);
        volume = remount(volume, cache);
        let file = volume.find("a").unwrap();
        assert_eq!(content(&mut volume, file), expected);
    }
}

#[test]
fn names_are_checked() {
    let mut volume = volume(8, LARGE_CACHE);
    volume.create("a").unwrap();
    assert_eq!(volume.create("a"), Err(VolumeError::NameExists("a".into())));
    assert_eq!(volume.create(""), Err(VolumeError::BadName { bytes: 0, most: 255 }));
    assert_eq!(volume.create(&"x".repeat(256)), Err(VolumeError::BadName { bytes: 256, most: 255 }));
    assert_eq!(volume.create("a\0b"), Err(VolumeError::BadName { bytes: 3, most: 255 }));
    assert_eq!(volume.remove("b"), Err(VolumeError::NameNotFound("b".into())));
    assert_eq!(volume.rename("b", "c"), Err(VolumeError::NameNotFound("b".into())));
    let longest = "ü".repeat(127) + "x";
    volume.rename("a", &longest).unwrap();
    let volume = remount(volume, LARGE_CACHE);
    assert_eq!(volume.names().collect::<Vec<_>>(), [longest]);
}

#[test]
fn a_file_keeps_its_id_through_a_rename_and_loses_it_when_removed() {
    let mut volume = volume(8, LARGE_CACHE);
    let a = create(&mut volume, "a", b"one");
    let b = create(&mut volume, "b", b"two");
    volume.rename("a", "b").unwrap();
    assert_eq!(volume.find("b"), Some(a));
    assert_eq!(volume.find("a"), None);
    assert_eq!(content(&mut volume, a), b"one");
    assert_eq!(volume.size(b), Err(VolumeError::NoSuchFile(b)));
    assert_eq!(volume.write(b, 0, b"x"), Err(VolumeError::NoSuchFile(b)));
    volume.remove("b").unwrap();
    let again = volume.create("b").unwrap();
    assert_ne!(again, a);
    assert_eq!(volume.read(a, 0, &mut [0]), Err(VolumeError::NoSuchFile(a)));
}

#[test]
fn attributes_travel_with_the_file() {
    let mut volume = volume(8, LARGE_CACHE);
    let file = volume.create("a").unwrap();
    assert_eq!(volume.attributes(file), Ok([0; ATTRIBUTE_BYTES]));
    volume.set_attributes(file, &[9; ATTRIBUTE_BYTES]).unwrap();
    volume.sync(file).unwrap();
    volume.set_attributes(file, &[5; ATTRIBUTE_BYTES]).unwrap();
    let volume = crash(volume, LARGE_CACHE);
    let file = volume.find("a").unwrap();
    assert_eq!(volume.attributes(file), Ok([9; ATTRIBUTE_BYTES]));
}

#[test]
fn a_full_volume_says_so_and_loses_nothing() {
    let mut volume = volume(1, LARGE_CACHE);
    let free = volume.free_units();
    let file = create(&mut volume, "a", &[1; 4096]);
    let other = create(&mut volume, "b", &[2; 4096]);
    let error = volume.write(file, 4096, &vec![3; free as usize * 4096]).unwrap_err();
    assert!(matches!(error, VolumeError::NoSpace { needed, free } if needed == free + 2), "{error}");
    assert_eq!(content(&mut volume, file), [1; 4096]);
    assert_eq!(content(&mut volume, other), [2; 4096]);
    let rest = vec![3; (free as usize - 2) * 4096];
    volume.write(file, 4096, &rest).unwrap();
    assert_eq!(volume.free_units(), 0);
    assert_eq!(volume.write(other, 4096, b"x"), Err(VolumeError::NoSpace { needed: 1, free: 0 }));
    volume.write(other, 0, b"x").unwrap();
    volume = remount(volume, LARGE_CACHE);
    let file = volume.find("a").unwrap();
    assert_eq!(content(&mut volume, file)[4096..], rest);
}

#[test]
fn space_that_was_given_up_is_had_again_when_it_is_needed() {
    let mut volume = volume(1, LARGE_CACHE);
    let all = volume.free_units() as usize * 4096;
    for round in 0..5 {
        let file = create(&mut volume, "a", &vec![round; all]);
        volume.sync(file).unwrap();
        volume.set_size(file, 4096).unwrap();
        volume.write(file, 4096, &vec![round; all - 4096]).unwrap();
        volume.sync(file).unwrap();
        assert_eq!(content(&mut volume, file), vec![round; all]);
        volume.remove("a").unwrap();
    }
    let volume = remount(volume, LARGE_CACHE);
    assert_eq!(volume.free_units() as usize * 4096, all);
}

#[test]
fn offsets_beyond_the_largest_file_are_refused() {
    let mut volume = volume(8, LARGE_CACHE);
    let file = volume.create("a").unwrap();
    let most = (u64::from(u32::MAX)) * 4096;
    for error in [
        volume.write(file, u64::MAX, b"xx"),
        volume.write(file, most, b"x"),
        volume.set_size(file, most + 1),
        volume.reserve(file, most + 1),
        volume.write_atomic(file, &[(1 << 40, &[0; 4096])], None),
    ] {
        assert!(matches!(error, Err(VolumeError::FileTooLarge { .. })), "{error:?}");
    }
    volume.set_size(file, most).unwrap();
    volume.write(file, most - 1, b"x").unwrap();
    volume.sync(file).unwrap();
    let mut volume = remount(volume, LARGE_CACHE);
    let file = volume.find("a").unwrap();
    let mut end = [0; 4];
    assert_eq!(volume.read(file, most - 3, &mut end), Ok(3));
    assert_eq!(end, *b"\0\0x\0");
}

#[test]
fn files_can_be_made_while_there_is_free_space() {
    let mut volume = volume(1, LARGE_CACHE);
    let mut files = 0;
    let error = loop {
        match volume.create(&format!("file {files}")) {
            Ok(_) => files += 1,
            Err(error) => break error,
        }
    };
    // All units but the superblock are slots now, of which eight are kept for continuations, and one is the root.
    assert_eq!((files, error), (246, VolumeError::TableFull { slots: 255 }));
    volume = remount(volume, LARGE_CACHE);
    assert_eq!(volume.names().count(), 246);
    for i in 0..246 {
        volume.remove(&format!("file {i}")).unwrap();
        volume.create(&format!("other {i}")).unwrap();
    }
    assert_eq!(remount(volume, LARGE_CACHE).names().count(), 246);
}

#[test]
fn a_reservation_gives_places_without_changing_the_size() {
    let mut volume = volume(64, LARGE_CACHE);
    let file = volume.create("log").unwrap();
    assert_eq!(volume.lpn(file, 0), None);
    volume.reserve(file, 10_000).unwrap();
    assert_eq!(volume.size(file), Ok(0));
    let first = volume.lpn(file, 0).unwrap();
    volume.sync(file).unwrap();
    let mut volume = crash(volume, LARGE_CACHE);
    let file = volume.find("log").unwrap();
    assert_eq!(volume.lpn(file, 0), Some(first));
    assert!(volume.lpn(file, 2).is_some());
    volume.write(file, 0, &[1; 5]).unwrap();
    volume.set_size(file, 4).unwrap();
    assert_eq!(volume.lpn(file, 1), None, "a cut gives the reservation up");
}

#[test]
fn reservations_grow_in_steps() {
    let mut volume = volume(256, LARGE_CACHE);
    let file = volume.create("log").unwrap();
    let mut changes = 0;
    for unit in 0..20_000u64 {
        changes += u64::from(volume.lpn(file, unit).is_none());
        volume.reserve(file, (unit + 1) * 4096).unwrap();
    }
    assert!(changes < 60, "{changes} growths for 20,000 units");
}

#[test]
fn a_copy_goes_its_own_way() {
    let mut volume = volume(8, LARGE_CACHE);
    let file = create(&mut volume, "a", b"both");
    let mut copy = volume.try_clone().unwrap();
    volume.write(file, 0, b"mine").unwrap();
    copy.write(file, 0, b"copy").unwrap();
    assert_eq!(content(&mut volume, file), b"mine");
    assert_eq!(content(&mut remount(copy, LARGE_CACHE), file), b"copy");
    assert_eq!(content(&mut volume, file), b"mine");
}

/// Offsets beyond 32 bits, on a drive with room for all of the file.
#[test]
fn a_file_of_64_gib_reads_back_wherever_it_is_written() {
    const GIB: u64 = 1 << 30;
    let mut volume = volume(66 << 10, LARGE_CACHE);
    let file = volume.create("large").unwrap();
    volume.allocate(file, 0, 64 * GIB, false).unwrap();
    let sparse = volume.create("sparse").unwrap();
    volume.set_size(sparse, 64 * GIB).unwrap();
    let offsets: Vec<u64> = (0..64).map(|part| part * GIB + part * 4096 * 1000).collect();
    let page = |offset: u64| [(offset >> 30) as u8 + 1; 2 * 4096];
    for &offset in &offsets {
        volume.write_direct(file, offset, &page(offset)).unwrap();
        volume.write(sparse, offset + 100, &page(offset)).unwrap();
    }
    volume.sync(file).unwrap();
    volume.sync(sparse).unwrap();
    let mut volume = power_cut(volume, LARGE_CACHE);
    for name in ["large", "sparse"] {
        let file = volume.find(name).unwrap();
        let shift = if name == "sparse" { 100 } else { 0 };
        assert_eq!(volume.size(file), Ok(64 * GIB));
        for &offset in &offsets {
            let mut data = [9; 4 * 4096];
            volume.read(file, offset + shift, &mut data).unwrap();
            assert_eq!(data[..2 * 4096], page(offset), "{name} at {offset}");
            assert!(data[2 * 4096..].iter().all(|&byte| byte == 0), "{name} behind {offset}");
        }
        assert_eq!(volume.seek_data(file, 10 * GIB), Ok(Some(offsets[10])));
    }
    volume.punch_hole(volume.find("large").unwrap(), GIB, 62 * GIB).unwrap();
    volume.sync_all().unwrap();
    assert!(volume.free_units() > 62 * GIB / 4096, "{} units are free", volume.free_units());
}
