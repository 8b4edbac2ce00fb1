//! How a drive divides its non-volatile memory.

use tantalum_ftl::{Layout, NvmPlan, map_bytes};
use tantalum_nand::GeometryError;

use crate::profile::{Plp, Profile};

/// Bytes of the memory by use. The rest is free, or spare room of the log and the checkpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NvmParts {
    /// The size of the memory.
    pub bytes: u64,
    /// The map from logical to physical addresses, once.
    pub map: u64,
    /// What the metadata log takes at least besides the map: what the largest checkpoint has besides it, a second place
    /// for a checkpoint, and the smallest log.
    pub log: u64,
    /// The lists of files.
    pub lists: u64,
}

impl Profile {
    /// How a drive of this profile divides its memory; `None` if it has none. The memory may be too small.
    ///
    /// # Errors
    /// If no flash can have this capacity.
    pub fn nvm_parts(&self) -> Result<Option<NvmParts>, GeometryError> {
        let Some(nvm) = &self.nvm else { return Ok(None) };
        let (geometry, config) = (self.geometry()?, self.ftl_config());
        let lists = self.file_list_bytes();
        if self.power.plp != Plp::Nvm {
            return Ok(Some(NvmParts { bytes: nvm.bytes, map: 0, log: 0, lists }));
        }
        let map = map_bytes(config.logical_units);
        let layout = Layout::with_good_blocks(&geometry, &config, geometry.blocks());
        let least = NvmPlan::least_bytes(&geometry, &layout);
        assert!(map <= least, "the map takes {map} bytes, but everything takes {least}");
        Ok(Some(NvmParts { bytes: nvm.bytes, map, log: least - map, lists }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pebblessd_s_memory_holds_all_parts_and_a_log() {
        let profile = Profile::load("pebblessd").unwrap();
        let NvmParts { bytes, map, log, lists } = profile.nvm_parts().unwrap().unwrap();
        assert_eq!(map, profile.capacity_units().div_ceil(1024) * (4096 + 4));
        assert_eq!(lists, (1 + (1 << 20) + profile.capacity_units()) * 8);
        assert!(map + log + lists < bytes, "{map} + {log} + {lists} of {bytes}");
        let (geometry, config) = (profile.geometry().unwrap(), profile.ftl_config());
        let layout = Layout::with_good_blocks(&geometry, &config, geometry.blocks());
        let planned = NvmPlan::plan(&geometry, &config, &layout).unwrap().unwrap();
        assert!(planned.log_bytes > 10 << 20, "{planned:?}");
    }

    #[test]
    fn a_drive_without_such_memory_divides_none() {
        assert_eq!(Profile::load("tlc-nvme").unwrap().nvm_parts().unwrap(), None);
    }
}
