//! Small drives and volumes for the tests.
#![allow(dead_code)] // Each test takes what it needs.

pub mod model;
pub mod tree_model;

use tantalum::{Device, Outcome, PowerLoss, Profile};
use tantalum_volume::{FileId, Volume};

/// A page cache of the smallest size: pages not touched for a while are written back or evicted.
pub const SMALL_CACHE: u64 = 0;

/// A page cache that holds everything.
pub const LARGE_CACHE: u64 = 16 << 20;

pub fn device(capacity_mib: u64) -> Device {
    let text = include_str!("../../../../../ssd/device/profiles/tlc-nvme.toml");
    let mut profile: Profile = toml::from_str(text).expect("the profile is valid");
    profile.capacity_bytes = capacity_mib << 20;
    Device::in_memory(&profile).expect("the profile is valid")
}

/// A drive whose atomic batches hold `units`.
pub fn device_with_batches_of(units: u32, capacity_mib: u64) -> Device {
    let mut profile = device(capacity_mib).profile().clone();
    profile.limits.atomic_units = units;
    Device::in_memory(&profile).expect("the profile is valid")
}

pub fn volume(capacity_mib: u64, cache_bytes: u64) -> Volume {
    Volume::format(device(capacity_mib), cache_bytes).expect("the drive is large enough")
}

/// The host crashes and starts again.
pub fn crash(volume: Volume, cache_bytes: u64) -> Volume {
    Volume::mount(volume.into_client_without_sync().into_device().unwrap(), cache_bytes)
        .expect("a crashed volume mounts")
}

/// Power fails when everything issued is done, the drive's volatile cache and the page cache are lost, and power comes
/// back.
pub fn power_cut(volume: Volume, cache_bytes: u64) -> Volume {
    power_cut_at(volume, u64::MAX / 2, PowerLoss::all(Outcome::NotStarted), cache_bytes)
}

/// Power fails now, whatever is in flight, and comes back.
pub fn power_cut_now(volume: Volume, loss: PowerLoss, cache_bytes: u64) -> Volume {
    let now_ns = volume.now_ns();
    power_cut_at(volume, now_ns, loss, cache_bytes)
}

pub fn power_cut_at(volume: Volume, at_ns: u64, mut loss: PowerLoss, cache_bytes: u64) -> Volume {
    volume.device().cut_power(at_ns);
    let mut device = volume.into_client_without_sync().into_device().unwrap();
    device.power_on(&mut loss).expect("the drive recovers");
    Volume::mount(device, cache_bytes).expect("a volume mounts after a power cut")
}

/// The host shuts down and starts again.
pub fn remount(volume: Volume, cache_bytes: u64) -> Volume {
    let device = volume.unmount().expect("a volume unmounts").into_device().unwrap();
    Volume::mount(device, cache_bytes).expect("an unmounted volume mounts")
}

pub fn content(volume: &mut Volume, file: FileId) -> Vec<u8> {
    let size = volume.size(file).expect("the file exists") as usize;
    let mut data = vec![0xee; size + 100];
    let bytes = volume.read(file, 0, &mut data).expect("the file is readable");
    assert_eq!(bytes, size, "a read ends at the file's end");
    data.truncate(bytes);
    data
}

/// A file with this content, not synced.
pub fn create(volume: &mut Volume, name: &str, data: &[u8]) -> FileId {
    let file = volume.create(name).expect("the name is free");
    volume.write(file, 0, data).expect("there is space");
    file
}

/// Host units written by `work`.
pub fn units_written(volume: &mut Volume, work: impl FnOnce(&mut Volume)) -> u64 {
    let before = volume.device().smart().counters.host_units_written;
    work(volume);
    volume.device().smart().counters.host_units_written - before
}
