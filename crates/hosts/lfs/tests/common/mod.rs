//! Small drives and file systems for the tests.
#![allow(dead_code)] // Each test takes what it needs.

pub mod cuts;
pub mod holes;
pub mod model;
pub mod run;

use tantalum::{Device, Faults, NvmProfile, Profile};
use tantalum_drive::Drive;
use tantalum_filesystem::{FileId, FileKind, NewFile, Timestamp};
use tantalum_lfs::{Cleaning, LfsKind, LogFs};

/// A page cache of the smallest size: pages not touched for a while are written back or evicted.
pub const SMALL_CACHE: u64 = 0;

/// A page cache that holds everything.
pub const LARGE_CACHE: u64 = 64 << 20;

pub const ROOT: FileId = FileId::ROOT;

pub const NOW: Timestamp = Timestamp { seconds: 1, nanoseconds: 2 };

/// Files of which the drives keep lists: few, so that some are refused.
pub const LISTS: u32 = 2;

pub fn device(capacity_mib: u64) -> Device {
    device_with_lists(capacity_mib, LISTS)
}

/// Flash that never fails.
pub const SOUND: Faults = Faults {
    seed: 0,
    program_failure_ppm: 0,
    erase_failure_ppm: 0,
    read_failure_ppm: 0,
    endurance_cycles: None,
};

/// A drive with spare blocks for those that fail.
pub fn device_that_wears(capacity_mib: u64) -> Device {
    device_with(capacity_mib, LISTS, Some(100.0))
}

/// A drive with memory for lists of this number of files; 0 for one without.
pub fn device_with_lists(capacity_mib: u64, files: u32) -> Device {
    device_with(capacity_mib, files, None)
}

fn device_with(capacity_mib: u64, files: u32, over_provisioning_percent: Option<f64>) -> Device {
    Device::in_memory(&profile_with(capacity_mib, files, over_provisioning_percent))
        .expect("the profile is valid")
}

/// The profile of such a drive.
pub fn profile_with(capacity_mib: u64, files: u32, over_provisioning_percent: Option<f64>) -> Profile {
    let text = include_str!("../../../../ssd/device/profiles/tlc-nvme.toml");
    let mut profile: Profile = toml::from_str(text).expect("the profile is valid");
    profile.capacity_bytes = capacity_mib << 20;
    profile.over_provisioning_percent =
        over_provisioning_percent.unwrap_or(profile.over_provisioning_percent);
    profile.nvm = (files > 0).then_some(NvmProfile {
        bytes: (4 << 20) + 3 * (capacity_mib << 20) / 1024,
        latency_ns: 500,
        bytes_per_second: 3_000_000_000,
        files,
    });
    profile
}

/// Ways of indexing.
pub const KINDS: [LfsKind; 2] = [LfsKind::Nat, LfsKind::Tree];

pub fn fs(kind: LfsKind, capacity_mib: u64, cleaning: Cleaning, cache_bytes: u64) -> LogFs {
    let drive = Drive::new(device(capacity_mib));
    LogFs::format(drive.client(), kind, cleaning, cache_bytes).expect("the drive is large enough")
}

/// Units that an empty file system takes: the root folder's inode, and the root of the tree of files.
pub fn units_when_empty(kind: LfsKind) -> u64 {
    match kind {
        LfsKind::Nat => 1,
        LfsKind::Tree => 2,
    }
}

/// The properties of a new file.
pub fn new(kind: FileKind) -> NewFile {
    NewFile { kind, permissions: 0o644, now: NOW, ..NewFile::default() }
}

pub fn sound(fs: &mut LogFs) {
    let findings: Vec<String> = fs.check().expect("a check reads").iter().map(|f| f.to_string()).collect();
    assert!(findings.is_empty(), "the check finds:\n{}", findings.join("\n"));
}

/// The host crashes and starts again.
pub fn crash(fs: LogFs, cache_bytes: u64) -> LogFs {
    LogFs::mount(fs.into_client_without_sync(), cache_bytes).expect("a crashed file system mounts")
}

/// The host shuts down and starts again.
pub fn remount(fs: LogFs, cache_bytes: u64) -> LogFs {
    let client = fs.unmount().map_err(|failed| failed.1).expect("a file system unmounts");
    LogFs::mount(client, cache_bytes).expect("an unmounted file system mounts")
}
