//! The contents of a volume, and its free space.

use tantalum_filesystem::Statistics;

use crate::remap_duplicates::RecentWrites;
use crate::volume::Volume;

impl Volume {
    /// The contents of the volume, and its free space.
    pub fn statistics(&self) -> Statistics {
        let free_units = self.space.units();
        let table = u64::from(self.superblock.table_units());
        let recent = self.drive.recent.as_ref();
        Statistics {
            units: self.drive.device().limits().capacity_units.saturating_sub(1 + table),
            free_units,
            files: self.files.len() as u64,
            free_files: self.free_slots.len() as u64 + free_units,
            units_remapped: recent.map_or(0, |recent| recent.units_remapped),
            units_without_duplicate: recent.map_or(0, |recent| recent.units_without_duplicate),
        }
    }

    /// Whether writes that equal one recently made elsewhere become shares. Off in a new mount.
    pub fn set_remap_duplicates(&mut self, on: bool) {
        match on {
            true => drop(self.drive.recent.get_or_insert_with(RecentWrites::default)),
            false => self.drive.recent = None,
        }
    }
}
