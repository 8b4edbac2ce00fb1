//! The contents of a volume, and its free space.

use tantalum_filesystem::Statistics;

use crate::volume::Volume;

impl Volume {
    /// The contents of the volume, and its free space.
    pub fn statistics(&self) -> Statistics {
        let free_units = self.space.units();
        let table = u64::from(self.table.slots());
        let device = self.drive.device();
        let duplicates = device.duplicates();
        Statistics {
            units: device.limits().capacity_units.saturating_sub(1 + table),
            free_units,
            files: self.files.len() as u64,
            free_files: self.table.free_slots().len() as u64 + free_units,
            units_remapped: duplicates.remapped,
            units_without_duplicate: duplicates.without_duplicate,
            log: None,
        }
    }

    /// Whether writes that equal one recently made elsewhere become shares. Off in a new drive.
    pub fn set_remap_duplicates(&mut self, on: bool) {
        self.drive().set_remap_duplicates(on);
    }
}
