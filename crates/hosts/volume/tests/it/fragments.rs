//! Files with enough extents for their inodes to have continuations.

use crate::common;

use common::*;
use tantalum::PowerLoss;
use tantalum_volume::{SetMode, Volume, VolumeError};

/// Writes every other unit of `units`, falling, so that no extent touches another; `stamp` in each.
fn write_pieces(volume: &mut Volume, units: std::ops::Range<u64>, stamp: u64) -> Result<(), VolumeError> {
    let file = volume.find("pieces").expect("the file exists");
    for unit in units.rev() {
        volume.write(file, unit * 2 * 4096, &(unit + stamp).to_le_bytes())?;
    }
    Ok(())
}

fn check_pieces(volume: &mut Volume, units: std::ops::Range<u64>, stamp: u64) {
    let file = volume.find("pieces").expect("the file exists");
    for unit in units {
        let mut data = [0; 8];
        volume.read(file, unit * 2 * 4096, &mut data).unwrap();
        assert_eq!(u64::from_le_bytes(data), unit + stamp, "piece {unit}");
    }
}

fn fragmented(pieces: std::ops::Range<u64>, cache: u64) -> Volume {
    let mut volume = volume(64, cache);
    let file = volume.create("pieces").unwrap();
    write_pieces(&mut volume, pieces, 0).unwrap();
    volume.sync(file).unwrap();
    volume
}

#[test]
fn thousands_of_pieces_survive_crashes_and_cuts_of_the_file() {
    let mut volume = crash(fragmented(0..2000, SMALL_CACHE), SMALL_CACHE);
    check_pieces(&mut volume, 0..2000, 0);
    let file = volume.find("pieces").unwrap();
    volume.set_size(file, 700 * 2 * 4096).unwrap();
    volume.sync(file).unwrap();
    let mut volume = remount(volume, SMALL_CACHE);
    check_pieces(&mut volume, 0..700, 0);
}

#[test]
fn continuations_that_were_replaced_give_their_slots_back() {
    let mut volume = fragmented(600..1000, LARGE_CACHE);
    let file = volume.find("pieces").unwrap();
    // The table has 64 slots; each round replaces at least one continuation.
    for round in (0..120).rev() {
        write_pieces(&mut volume, round * 5..(round + 1) * 5, 0).unwrap();
        volume.sync(file).unwrap();
    }
    check_pieces(&mut crash(volume, LARGE_CACHE), 0..1000, 0);
}

/// New pieces at the front move all extents on, so that every continuation changes.
fn add_pieces(volume: &mut Volume, atomic: bool) -> Result<(), VolumeError> {
    let file = volume.find("pieces").expect("the file exists");
    if atomic {
        let mut pages = [[0; 4096]; 10];
        for (unit, page) in pages.iter_mut().enumerate() {
            page[0] = unit as u8;
        }
        let writes: Vec<(u64, &[u8])> = (0..).step_by(2).zip(pages.iter().map(|page| &page[..])).collect();
        return volume.write_atomic(file, &writes, None);
    }
    write_pieces(volume, 0..10, 0)?;
    volume.sync(file)
}

#[test]
fn a_power_cut_leaves_the_old_pieces_or_the_new_ones() {
    let old = fragmented(10..800, LARGE_CACHE);
    for atomic in [false, true] {
        let mut cuts = 0..;
        let mut outcomes = [0, 0];
        loop {
            let cut = cuts.next().expect("endless");
            let mut volume = old.try_clone().unwrap();
            volume.device().cut_after(Some(cut + 1));
            let done = add_pieces(&mut volume, atomic);
            // What was acknowledged must survive a power loss right after it.
            volume.device().cut_power(u64::MAX / 2);
            let mut device = volume.into_client_without_sync().into_device().unwrap();
            device.power_on(&mut PowerLoss::seeded(cut)).expect("the drive recovers");
            let mut volume = Volume::mount(device, LARGE_CACHE).expect("the volume mounts");
            check_pieces(&mut volume, 10..800, 0);
            let file = volume.find("pieces").unwrap();
            let is_new = volume.lpn(file, 0).is_some();
            outcomes[usize::from(is_new)] += 1;
            if is_new {
                check_pieces(&mut volume, 0..10, 0);
            }
            if done.is_ok() {
                assert!(is_new, "acknowledged, cut {cut}");
                break;
            }
        }
        assert!(outcomes[0] > 0 && outcomes[1] > 0, "cut points on one side only: {outcomes:?}");
    }
}

/// The holes split extents beyond the limit, and the inode was stored without its last continuations.
#[test]
fn holes_are_copied_as_zeros_into_a_file_with_the_most_extents() {
    const MOST: u64 = 111 * 340;
    const UNIT: u64 = 4096;
    let mut volume = volume(400, 1 << 20);
    let to = volume.create("to").unwrap();
    volume.allocate(to, 0, (2 * MOST + 700) * UNIT, false).unwrap();
    volume.write(to, 2 * MOST * UNIT, &[1; 700 * 4096]).unwrap();
    for piece in 0..MOST {
        volume.punch_hole(to, (2 * piece + 1) * UNIT, UNIT).unwrap();
    }
    for (index, value) in [65_000, 400].into_iter().enumerate() {
        let name = [b'a' + index as u8];
        volume.set_extended_attribute(to, &name, &vec![7; value], SetMode::Any).unwrap();
    }
    volume.sync(to).unwrap();
    let from = volume.create("from").unwrap();
    volume.set_size(from, 600 * UNIT).unwrap();
    for unit in 0..300 {
        volume.write(from, 2 * unit * UNIT, &[2; 4096]).unwrap();
    }
    assert_eq!(volume.copy_range(from, 0, to, 2 * MOST * UNIT, 600 * UNIT), Ok(600 * UNIT));
    volume.sync(to).unwrap();
    let mut expected = [[2; 4096], [0; 4096]].concat().repeat(300);
    expected.extend([1; 100 * 4096]);
    let mut volume = crash(volume, 1 << 20);
    let mut data = vec![9; 700 * 4096];
    assert_eq!(volume.read(to, 2 * MOST * UNIT, &mut data), Ok(data.len()));
    assert!(data == expected, "a unit of the copy differs");
}
