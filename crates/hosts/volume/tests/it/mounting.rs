//! Drives that hold a volume, none, another, or a damaged one.

use crate::common;

use common::*;
use tantalum::{Command, Device, Lpn, Status};
use tantalum_volume::{Damage, Volume, VolumeError};

/// Changes one byte of a unit.
fn flip(device: &mut Device, lpn: u32, byte: usize) {
    let mut data = [0; 4096];
    device.submit(Command::Read { lpn: Lpn(lpn), data: &mut data }, u64::MAX / 2).unwrap();
    data[byte] ^= 0x40;
    device
        .submit(Command::Write { lpn: Lpn(lpn), data: &data, fua: true, handle: None }, u64::MAX / 2)
        .unwrap();
}

fn mount_error(device: Device) -> VolumeError {
    Volume::mount(device, LARGE_CACHE).expect_err("it must not mount")
}

#[test]
fn a_blank_drive_is_no_volume() {
    let mut blank = device(8);
    assert_eq!(Volume::is_formatted(&mut blank), Ok(false));
    assert_eq!(mount_error(blank), VolumeError::NotAVolume);
    let mut formatted = volume(8, LARGE_CACHE).unmount().unwrap().into_device().unwrap();
    assert_eq!(Volume::is_formatted(&mut formatted), Ok(true));
}

#[test]
fn a_damaged_superblock_is_told() {
    let mut device = volume(8, LARGE_CACHE).unmount().unwrap().into_device().unwrap();
    flip(&mut device, 0, 4000);
    let error = mount_error(device);
    let is_right =
        |e: &VolumeError| matches!(e, VolumeError::Damaged { lpn: Lpn(0), damage: Damage::Checksum { .. } });
    assert!(is_right(&error), "{error}");
}

#[test]
fn a_damaged_inode_is_told_with_its_place() {
    let mut volume = volume(8, LARGE_CACHE);
    create(&mut volume, "a", b"x");
    create(&mut volume, "b", b"y");
    let mut device = volume.unmount().unwrap().into_device().unwrap();
    flip(&mut device, 3, 700);
    let error = mount_error(device);
    let is_right =
        |e: &VolumeError| matches!(e, VolumeError::Damaged { lpn: Lpn(3), damage: Damage::Checksum { .. } });
    assert!(is_right(&error), "{error}");
}

#[test]
fn an_inode_found_twice_is_told() {
    let mut volume = volume(8, LARGE_CACHE);
    create(&mut volume, "a", b"x");
    let mut device = volume.unmount().unwrap().into_device().unwrap();
    let mut data = [0; 4096];
    device.submit(Command::Read { lpn: Lpn(2), data: &mut data }, u64::MAX / 2).unwrap();
    device
        .submit(Command::Write { lpn: Lpn(5), data: &data, fua: true, handle: None }, u64::MAX / 2)
        .unwrap();
    assert_eq!(
        mount_error(device),
        VolumeError::Damaged { lpn: Lpn(5), damage: Damage::DuplicateNumber { number: 2 } }
    );
}

#[test]
fn a_missing_continuation_is_told() {
    let mut volume = volume(8, LARGE_CACHE);
    let file = volume.create("pieces").unwrap();
    for unit in (0..400u64).rev() {
        volume.write(file, unit * 8192, b"x").unwrap();
    }
    let mut device = volume.unmount().unwrap().into_device().unwrap();
    device.submit(Command::Trim { lpn: Lpn(3), units: 1 }, u64::MAX / 2).unwrap();
    let damage = Damage::Continuation { inode: 1 };
    assert_eq!(mount_error(device), VolumeError::Damaged { lpn: Lpn(2), damage });
}

#[test]
fn a_drive_that_cannot_carry_a_volume_is_refused() {
    let error = Volume::format(device_with_batches_of(7, 8), LARGE_CACHE).expect_err("it must not format");
    assert_eq!(error, VolumeError::AtomicLimit { units: 7, needed: 8 });
}

#[test]
fn formatting_again_leaves_nothing_of_the_old_volume() {
    let mut old = volume(8, LARGE_CACHE);
    create(&mut old, "a", &[7; 1 << 20]);
    let mut volume = Volume::format(old.unmount().unwrap().into_device().unwrap(), LARGE_CACHE).unwrap();
    assert_eq!(volume.names().count(), 0);
    let file = volume.create("b").unwrap();
    volume.reserve(file, volume.free_units() * 4096).unwrap();
    volume.set_size(file, 7 << 20).unwrap();
    assert!(content(&mut volume, file).iter().all(|&byte| byte == 0));
}

#[test]
fn errors_of_the_drive_pass_through_and_leave_the_volume_alive() {
    let mut volume = volume(8, LARGE_CACHE);
    let file = create(&mut volume, "a", b"x");
    let range = volume.submit(Command::Share { ranges: &[share(9, 8)], deferred: false });
    assert_eq!(range, Err(VolumeError::Device(Status::Unmapped { lpn: Lpn(2040) })));
    volume.sync(file).unwrap();
}

fn share(dst: u32, src: u32) -> tantalum::ShareRange {
    tantalum::ShareRange { dst: Lpn(dst + 2032), src: Lpn(src + 2032), units: 1 }
}

/// A mount after a crash trims what belongs to no file. Power may fail there again, at any operation: the next mount
/// finishes it, and finds every file as it was synced.
#[test]
fn power_may_go_at_any_operation_of_a_mount() {
    let folder = tempfile::tempdir().unwrap();
    let (crashed, image) = (folder.path().join("crashed.tant"), folder.path().join("drive.tant"));
    let mut profile = device(64).profile().clone();
    profile.capacity_bytes = 64 << 20;
    let mut volume = Volume::format(Device::create(&crashed, &profile).unwrap(), LARGE_CACHE).unwrap();
    for number in 0..40_u8 {
        let file = create(&mut volume, &format!("file{number}"), &vec![number; 50_000]);
        volume.sync(file).unwrap();
        // Bytes beyond the synced size are not part of the file.
        volume.write_direct(file, 16 * 4096, &vec![number; 30 * 4096]).unwrap();
    }
    volume.submit(Command::Flush).unwrap();
    drop(volume.into_client_without_sync().into_device().unwrap());
    for cut in 1.. {
        std::fs::copy(&crashed, &image).unwrap();
        let mut device = Device::open(&image).unwrap();
        device.cut_after(Some(cut));
        let mounted = Volume::mount(device, LARGE_CACHE);
        let is_past = mounted.is_ok();
        let mut volume = match mounted {
            Ok(volume) => volume,
            Err(VolumeError::Device(Status::PowerLost)) => {
                Volume::mount(Device::open(&image).unwrap(), LARGE_CACHE).unwrap()
            }
            Err(error) => panic!("cut {cut}: {error}"),
        };
        volume.device().cut_after(None);
        for number in 0..40_u8 {
            let file = volume.find(&format!("file{number}")).expect("a file that was synced");
            assert_eq!(content(&mut volume, file), vec![number; 50_000], "cut {cut}");
            volume.set_size(file, 46 * 4096).unwrap();
            assert!(content(&mut volume, file)[50_000..].iter().all(|&byte| byte == 0), "cut {cut}");
        }
        volume.device().audit();
        if is_past {
            assert!(cut > 2, "power went {} times only", cut - 1);
            break;
        }
    }
}

#[test]
fn what_stopped_the_drive_is_told_and_a_refusal_stops_nothing() {
    let mut volume = volume(8, LARGE_CACHE);
    let refused = Command::Read { lpn: Lpn(u32::MAX), data: &mut [0; 4096] };
    volume.submit(refused).expect_err("no drive has that many units");
    assert_eq!(volume.stopped(), None);
    let now_ns = volume.now_ns();
    volume.device().cut_power(now_ns);
    assert_eq!(volume.stopped(), Some(Status::PowerLost), "before any command met it");
    assert_eq!(volume.sync_all(), Err(VolumeError::Device(Status::PowerLost)));
    assert_eq!(volume.stopped(), Some(Status::PowerLost));
}
