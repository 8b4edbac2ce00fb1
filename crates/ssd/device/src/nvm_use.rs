//! How a drive uses its non-volatile memory, as Jin's thesis computes it for PebbleSSD (section 4.4.5).

use tantalum_ftl::{Layout, NvmPlan, map_bytes};
use tantalum_nand::{Geometry, GeometryError};

use crate::profile::{Plp, Profile};

/// Bytes of the memory by use. The rest is free, or spare room of the log and the checkpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NvmUse {
    /// The size of the memory.
    pub bytes: u64,
    /// The map from logical to physical addresses, once.
    pub map: u64,
    /// Everything else that makes `remap` program no flash: what the largest checkpoint has besides the map, a second
    /// place for a checkpoint, and the smallest log.
    pub remap: u64,
    /// The lists of `fs_write`.
    pub lists: u64,
}

/// The drive of the thesis's computation: "512 GB for simpler calculation".
const THESIS_CAPACITY_BYTES: u64 = 512 << 30;

/// Percentages of the memory in use in the thesis: of a conventional drive, with `remap`, and with `fs_write` but without
/// the second map that `remap` needs.
pub const THESIS_PERCENT: [f64; 3] = [35.0, 60.0, 80.0];

impl NvmUse {
    /// Bytes in use: by the map alone, with `remap`, with `fs_write`, and with both.
    pub fn sums(&self) -> [u64; 4] {
        let (map, remap, lists) = (self.map, self.remap, self.lists);
        [map, map + remap, map + lists, map + remap + lists]
    }

    /// Percentages of the memory in use: by the map alone, with `remap`, with `fs_write`, and with both.
    pub fn percent(&self) -> [f64; 4] {
        self.sums().map(|used| used as f64 * 100.0 / self.bytes as f64)
    }
}

impl Profile {
    /// How a drive of this profile uses its memory; `None` if it has none.
    ///
    /// # Errors
    /// If no flash can have this capacity.
    pub fn nvm_use(&self) -> Result<Option<NvmUse>, GeometryError> {
        let Some(nvm) = &self.nvm else { return Ok(None) };
        let (geometry, config) = (self.geometry()?, self.ftl_config());
        let lists = self.file_list_bytes();
        if self.power.plp != Plp::Nvm {
            return Ok(Some(NvmUse { bytes: nvm.bytes, map: 0, remap: 0, lists }));
        }
        let map = map_bytes(config.logical_units);
        let least = NvmPlan::least_bytes(&geometry, &layout(self, &geometry));
        assert!(map <= least, "the map takes {map} bytes, but everything takes {least}");
        Ok(Some(NvmUse { bytes: nvm.bytes, map, remap: least - map, lists }))
    }

    /// How this drive would use its memory at the capacity of the thesis's computation, 512 GiB. The memory may be too small.
    ///
    /// # Errors
    /// As [`Profile::nvm_use`].
    pub fn nvm_use_in_thesis(&self) -> Result<Option<NvmUse>, GeometryError> {
        Profile { capacity_bytes: THESIS_CAPACITY_BYTES, ..self.clone() }.nvm_use()
    }
}

fn layout(profile: &Profile, geometry: &Geometry) -> Layout {
    Layout::with_good_blocks(geometry, &profile.ftl_config(), geometry.blocks())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pebblessd_has_room_for_everything_at_full_size() {
        let profile = Profile::load("pebblessd").unwrap();
        let used = profile.nvm_use().unwrap().unwrap();
        assert_eq!(used.map, profile.capacity_units().div_ceil(1024) * (4096 + 4));
        assert_eq!(used.lists, (1 + (1 << 20) + profile.capacity_units()) * 8);
        let [map, remap, lists, both] = used.percent();
        assert!(17.0 < map && map < remap && remap < lists && lists < both && both < 100.0, "{used:?}");
        let (geometry, config) = (profile.geometry().unwrap(), profile.ftl_config());
        let planned = NvmPlan::plan(&geometry, &config, &layout(&profile, &geometry)).unwrap().unwrap();
        assert!(planned.log_bytes > 10 << 20, "{planned:?}");
    }

    #[test]
    fn the_thesis_s_capacity_is_computed_whatever_the_image_has() {
        let profile = Profile { capacity_bytes: 1 << 30, ..Profile::load("pebblessd").unwrap() };
        let [map, remap, lists, _] = profile.nvm_use_in_thesis().unwrap().unwrap().percent();
        assert!((25.0..25.1).contains(&map), "2^27 entries of 4 bytes in 2 GiB: {map}");
        let [.., with_remap, with_lists] = THESIS_PERCENT;
        assert!((50.0..with_remap).contains(&remap), "{remap}");
        assert!((70.0..with_lists).contains(&lists), "{lists}");
        assert_eq!(Profile::load("tlc-nvme").unwrap().nvm_use().unwrap(), None);
    }
}
