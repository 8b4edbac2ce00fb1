//! The drive in a program's hands, alone or below a volume.

use std::ops::Deref;

use tantalum::Device;
use tantalum_volume::Volume;

/// Whether a drive goes on with changes: it has power, and its host has not failed.
pub(crate) fn goes_on(device: &Device) -> bool {
    device.has_power() && device.refuses_changes().is_none()
}

/// The drive that a program works on.
pub(crate) trait DriveInUse {
    /// Flash operations so far.
    fn flash_operations(&self) -> u64;

    /// Whether there is power, and the host has not failed.
    fn has_power(&self) -> bool;

    /// Arms a cut after that many flash operations, or disarms it.
    fn cut_after(&self, operations: Option<u64>);
}

/// A place that is a volume.
pub(crate) trait VolumeInUse {
    /// The volume, while nobody else uses it.
    fn volume(&self) -> impl Deref<Target = Volume>;
}

impl<P: VolumeInUse> DriveInUse for P {
    fn flash_operations(&self) -> u64 {
        self.volume().device().flash_operations()
    }

    fn has_power(&self) -> bool {
        goes_on(&self.volume().device())
    }

    fn cut_after(&self, operations: Option<u64>) {
        self.volume().device().cut_after(operations);
    }
}
