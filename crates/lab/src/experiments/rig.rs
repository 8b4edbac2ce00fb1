//! What experiments with a server start from: the image of a drive after long use.

use std::path::Path;

use tantalum::{Device, Profile, UNIT_BYTES};
use tantalum_volume::Volume;

use super::Run;
use crate::ageing::age_leaving;
use crate::error::LabError;

/// The page cache of the volume while it is aged.
const CACHE_BYTES: u64 = 16 << 20;

/// SHARE's drive at scale 1.
const CAPACITY_BYTES: u64 = 4 << 30;

/// SHARE's drive, scaled, but not so far that `room_bytes` would be more than two thirds of it.
pub(super) fn drive_with_room(run: &Run<'_>, room_bytes: u64) -> Result<Profile, LabError> {
    let mut profile = Profile::load("openssd-barefoot")?;
    let capacity_bytes = run.scaled(CAPACITY_BYTES, 0).max(room_bytes * 3 / 2);
    profile.capacity_bytes = capacity_bytes.next_multiple_of(1 << 20);
    profile.validate()?;
    Ok(profile)
}

/// Makes a drive with a volume, fills it but for `room_bytes`, and overwrites until garbage collection is steady.
pub(super) fn aged_image(
    run: &Run<'_>,
    profile: &Profile,
    image: &Path,
    room_bytes: u64,
) -> Result<(), LabError> {
    let device = Device::create(image, profile)?;
    let mut volume = Volume::format(device, CACHE_BYTES)?;
    age_leaving(&mut volume, room_bytes / UNIT_BYTES as u64, run.seed, run.monitor)?;
    let device = volume.unmount()?;
    let now_ns = device.time_ns();
    Ok(device.shutdown(now_ns)?)
}
