//! What experiments with a server start from: the image of a drive after long use.

use std::path::Path;

use tantalum::{Device, Profile, UNIT_BYTES};
use tantalum_volume::Volume;

use super::Run;
use crate::ageing::age_leaving;
use crate::error::LabError;

/// The page cache of the volume while it is aged.
const CACHE_BYTES: u64 = 16 << 20;

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
