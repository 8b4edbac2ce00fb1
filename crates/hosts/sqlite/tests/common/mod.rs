//! Drives for tests.

#![allow(dead_code, reason = "each test program uses some of it")]

use tantalum::{Device, Profile};
use tantalum_sqlite::{Mode, SharedVolume};
use tantalum_volume::Volume;

/// Host memory for a volume's page cache: small, so that pages are read back from the drive.
pub const CACHE_BYTES: u64 = 2 << 20;

/// A small drive in memory.
pub fn profile() -> Profile {
    let mut profile = Profile::load("tlc-nvme").expect("a built-in profile");
    profile.capacity_bytes = 256 << 20;
    profile
}

/// Seeds to run with: `default` many, or as many as the environment's `TANTALUM_TEST_SEEDS` says.
pub fn seeds(default: u64) -> std::ops::Range<u64> {
    let asked = std::env::var("TANTALUM_TEST_SEEDS").ok().and_then(|text| text.parse().ok());
    0..asked.unwrap_or(default)
}

/// An empty volume on a new drive.
pub fn volume() -> Volume {
    let device = Device::in_memory(&profile()).expect("a drive");
    Volume::format(device, CACHE_BYTES).expect("a volume")
}

/// A new drive.
pub fn drive(mode: Mode, seed: u64) -> SharedVolume {
    SharedVolume::new(volume(), mode, Some(seed))
}

/// Unmounts the drive's volume, shuts its device down as far as a drive in memory can, and mounts it again, in
/// another mode if that is wanted.
pub fn remount(drive: SharedVolume, mode: Mode) -> SharedVolume {
    let seed = drive.seed();
    let volume = drive.into_volume().map_err(|(_, error)| error).expect("nothing is open");
    let device = volume.unmount().expect("unmount");
    SharedVolume::new(Volume::mount(device, CACHE_BYTES).expect("mount"), mode, seed)
}
