//! What a program works on: a volume, or a drive without one.

use tantalum::Device;
use tantalum_volume::Volume;

use super::broken::Broken;

/// A drive, or a volume on one, that nobody else uses.
pub(crate) trait Ground: Sized {
    /// Another one with the same contents.
    fn copy(&self) -> Self;

    /// The drive, as it is.
    fn into_device(self) -> Device;

    /// Made from a recovered drive.
    fn over(device: Device, cache_bytes: u64) -> Result<Self, Broken>;
}

impl Ground for Volume {
    fn copy(&self) -> Volume {
        self.try_clone().expect("a drive in memory can be copied")
    }

    fn into_device(self) -> Device {
        self.into_client_without_sync().into_device().expect("nobody shares the drive")
    }

    fn over(device: Device, cache_bytes: u64) -> Result<Volume, Broken> {
        Volume::mount(device, cache_bytes)
            .map_err(|error| Broken::new("the volume mounts", error.to_string()))
    }
}

impl Ground for Device {
    fn copy(&self) -> Device {
        self.try_clone().expect("a drive in memory can be copied")
    }

    fn into_device(self) -> Device {
        self
    }

    fn over(device: Device, _cache_bytes: u64) -> Result<Device, Broken> {
        Ok(device)
    }
}
