//! The starting point of experiments with a server or a store on a mount: the image of an aged drive, and copies of it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use tantalum::{Device, FirmwareProfile, FlashProfile, LinkProfile, Profile, UNIT_BYTES};
use tantalum_filesystem::{FileId, MetadataChange};
use tantalum_volume::Volume;
use tantalum_workloads::ageing::age_leaving;

use super::Run;
use crate::error::ExperimentError;

/// The page cache of the volume while it is aged.
const CACHE_BYTES: u64 = 16 << 20;

/// Bytes of an image that are copied between two checks for interruption.
const PIECE_BYTES: u64 = 64 << 20;

/// The profile with every latency multiplied, and every bandwidth divided, by `times`.
pub(super) fn slowed(profile: &Profile, times: u32) -> Profile {
    let (mut profile, times) = (profile.clone(), u64::from(times));
    let FlashProfile { read_ns, program_ns, erase_ns, channel_bytes_per_second, .. } = &mut profile.flash;
    let LinkProfile { bytes_per_second, command_ns } = &mut profile.link;
    let FirmwareProfile { flush_ns, range_ns, record_ns, insert_ns, .. } = &mut profile.firmware;
    for latency_ns in [read_ns, program_ns, erase_ns, command_ns, flush_ns, range_ns, record_ns, insert_ns] {
        *latency_ns *= times;
    }
    for rate in [channel_bytes_per_second, bytes_per_second] {
        *rate = (*rate / times).max(1);
    }
    profile.flash.suspend_ns = profile.flash.suspend_ns.map(|suspend_ns| suspend_ns * times);
    if let Some(nvm) = &mut profile.nvm {
        nvm.latency_ns *= times;
        nvm.bytes_per_second = (nvm.bytes_per_second / times).max(1);
    }
    profile
}

/// Creates a drive, as slow as the experiment requires, with a volume, fills it except for `room_bytes`, and overwrites
/// until garbage collection is steady.
pub(super) fn aged_image(
    run: &Run<'_>,
    profile: &Profile,
    image: &Path,
    room_bytes: u64,
) -> Result<(), ExperimentError> {
    let device = Device::create(image, &slowed(profile, run.slower))?;
    let mut volume = Volume::format(device, CACHE_BYTES)?;
    volume.change_metadata(FileId::ROOT, &MetadataChange::made_by_caller())?;
    age_leaving(&mut volume, room_bytes / UNIT_BYTES as u64, run.seed, run.monitor)?;
    let device = volume.unmount()?.into_device().expect("nobody shares the drive");
    let now_ns = device.time_ns();
    Ok(device.shutdown(now_ns)?)
}

/// Copies a file piece by piece, and stops in between if the experiment should.
pub(super) fn copy_image(run: &Run<'_>, from: &Path, to: &Path) -> io::Result<Result<(), ExperimentError>> {
    let (source, mut target) = (File::open(from)?, File::create(to)?);
    while io::copy(&mut (&source).take(PIECE_BYTES), &mut target)? > 0 {
        if let Err(interrupted) = run.monitor.check() {
            return Ok(Err(interrupted.into()));
        }
    }
    Ok(Ok(()))
}
