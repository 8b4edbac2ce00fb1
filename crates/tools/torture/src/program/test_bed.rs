//! What a program works on: a volume, or a drive without one.

use tantalum::Device;
use tantalum_volume::Volume;

use super::run_end::Broken;

/// A drive, or a volume on one, that nobody else uses.
pub(crate) trait TestBed: Sized {
    /// A copy with the same contents. The drive must be in memory.
    fn copy(&self) -> Self;

    /// The drive, without a sync of the volume on it.
    fn into_device(self) -> Device;

    /// A test bed on a recovered drive; mounts the volume, if it is one.
    fn from_device(device: Device, cache_bytes: u64) -> Result<Self, Broken>;
}

impl TestBed for Volume {
    fn copy(&self) -> Volume {
        self.try_clone().expect("a drive in memory can be copied")
    }

    fn into_device(self) -> Device {
        self.into_client_without_sync().into_device().expect("nobody shares the drive")
    }

    fn from_device(device: Device, cache_bytes: u64) -> Result<Volume, Broken> {
        Volume::mount(device, cache_bytes)
            .map_err(|error| Broken::new("the volume mounts", error.to_string()))
    }
}

impl TestBed for Device {
    fn copy(&self) -> Device {
        self.try_clone().expect("a drive in memory can be copied")
    }

    fn into_device(self) -> Device {
        self
    }

    fn from_device(device: Device, _cache_bytes: u64) -> Result<Device, Broken> {
        Ok(device)
    }
}
