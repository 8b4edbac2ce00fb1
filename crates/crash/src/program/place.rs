//! The drive in a program's hands, alone or below a volume.

use std::ops::Deref;

use tantalum_volume::Volume;

/// The drive that a program works on.
pub(crate) trait Place {
    /// Flash operations so far.
    fn flash_operations(&self) -> u64;

    /// Whether there is power.
    fn has_power(&self) -> bool;

    /// Arms a cut after that many flash operations, or disarms it.
    fn cut_after(&self, operations: Option<u64>);
}

/// A place that is a volume.
pub(crate) trait VolumePlace {
    /// The volume, while nobody else uses it.
    fn volume(&self) -> impl Deref<Target = Volume>;
}

impl<P: VolumePlace> Place for P {
    fn flash_operations(&self) -> u64 {
        self.volume().device().flash_operations()
    }

    fn has_power(&self) -> bool {
        self.volume().device().has_power()
    }

    fn cut_after(&self, operations: Option<u64>) {
        self.volume().device().cut_after(operations);
    }
}
