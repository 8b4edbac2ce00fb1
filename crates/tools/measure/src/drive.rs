//! New drives with an empty volume: fresh, or aged.

use std::path::PathBuf;

use tantalum::{CacheMode, Device, Plp, Profile};
use tantalum_drive::Client;
use tantalum_filesystem::{FileId, MetadataChange};
use tantalum_report::Monitor;
use tantalum_volume::Volume;
use tantalum_workloads::ageing::{Ageing, age};

use crate::error::MeasureError;

/// Bytes of the volume's page cache: as much as `tantalum mount` has, so that the same writes go to the drive.
pub(crate) const CACHE_BYTES: u64 = 256 << 20;

/// A drive to create.
#[derive(Clone, Debug)]
pub struct DriveSetup {
    /// The drive's profile.
    pub profile: Profile,
    /// The seed for ageing it; `None` for a fresh drive.
    pub aged: Option<u64>,
    /// The path of its new image, which must not exist; `None` for a drive in memory.
    pub image: Option<PathBuf>,
}

/// Creates the drive and a volume on it.
pub(crate) fn new_volume(
    drive: &DriveSetup,
    client: impl FnOnce(Device) -> Client,
    monitor: &Monitor,
) -> Result<(Volume, Option<Ageing>), MeasureError> {
    let device = match &drive.image {
        Some(path) => Device::create(path, &drive.profile),
        None => Device::in_memory(&drive.profile),
    };
    let device = device.map_err(|error| MeasureError::Device { image: drive.image.clone(), error })?;
    let mut volume = Volume::format(client(device), CACHE_BYTES)?;
    volume.change_metadata(FileId::ROOT, &MetadataChange::made_by_caller())?;
    volume.sync_all()?;
    let ageing = drive.aged.map(|seed| age(&mut volume, seed, monitor)).transpose()?;
    Ok((volume, ageing))
}

/// The profile with a capacitor that saves its cache. `None` if it already has one.
pub(crate) fn with_capacitor(profile: &Profile) -> Option<Profile> {
    if profile.power.plp == Plp::Capacitor {
        return None;
    }
    let mut profile = profile.clone();
    profile.name.push_str(", with a capacitor");
    profile.nvm = None;
    profile.power.plp = Plp::Capacitor;
    if profile.cache.mode != CacheMode::Off {
        profile.cache.mode = CacheMode::Durable;
    }
    // as the built-in profiles with a capacitor: twice the cache
    profile.power.dump_bytes = 2 * profile.cache.bytes.max(8 << 20);
    Some(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capacitor_makes_the_cache_durable() {
        let profile = Profile::load("tlc-nvme").unwrap();
        let protected = with_capacitor(&profile).unwrap();
        assert_eq!((protected.cache.mode, protected.power.plp), (CacheMode::Durable, Plp::Capacitor));
        let shipped = Profile::load("tlc-nvme-plp").unwrap();
        assert_eq!((&protected.power, &protected.cache), (&shipped.power, &shipped.cache));
        assert!(with_capacitor(&shipped).is_none());
    }

    #[test]
    fn every_profile_without_a_capacitor_can_have_one() {
        for (name, _) in tantalum::builtin() {
            let Some(mut profile) = with_capacitor(&Profile::load(name).unwrap()) else { continue };
            profile.capacity_bytes = 1 << 30;
            profile.validate().unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}
