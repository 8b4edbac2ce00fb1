//! The volume in a program's hands.

use std::ops::Deref;

use tantalum_volume::Volume;

/// The volume that a program works on.
pub(crate) trait Place {
    /// The volume, while nobody else uses it.
    fn volume(&self) -> impl Deref<Target = Volume>;

    /// Flash operations so far.
    fn flash_operations(&self) -> u64 {
        self.volume().device().flash_operations()
    }

    /// Whether there is power.
    fn has_power(&self) -> bool {
        self.volume().device().has_power()
    }

    /// Arms a cut after that many flash operations, or disarms it.
    fn cut_after(&self, operations: Option<u64>) {
        self.volume().device().cut_after(operations);
    }
}
