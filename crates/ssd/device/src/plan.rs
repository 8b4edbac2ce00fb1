//! From a profile to a geometry: the number of blocks for capacity and over-provisioning.

use tantalum_ftl::{CheckpointInterval, FtlConfig, ListsPlan, PlacementConfig, ZonesConfig};
use tantalum_nand::{Geometry, GeometryError, MAX_UNITS, NvmShape, Scheduling, Timing, UNIT_BYTES};

use crate::profile::{FdpProfile, FlashScheduling, Plp, Profile, SpuMemoryProfile, ZonesProfile};

/// Blocks are never smaller than this.
const LEAST_PAGES_PER_BLOCK: u32 = 8;

/// The open blocks of host and collection streams, and a reserve of the same size, take at most this share of the
/// over-provisioned flash: 1/12. A drive smaller than its model keeps its dies and has smaller blocks.
const OPEN_SHARE: u64 = 12;

impl Profile {
    /// Logical capacity in units of 4 KiB.
    pub fn capacity_units(&self) -> u64 {
        self.capacity_bytes / UNIT_BYTES as u64
    }

    /// The flash that the profile describes.
    pub fn geometry(&self) -> Result<Geometry, GeometryError> {
        let flash = &self.flash;
        let logical = self.capacity_units() + self.zone_tail_units();
        let physical = (logical as f64 * (1.0 + self.over_provisioning_percent / 100.0)).ceil() as u64;
        if physical >= MAX_UNITS {
            return Err(GeometryError::TooLarge { units: physical, limit: MAX_UNITS - 1 });
        }
        let planes =
            u64::from(flash.channels) * u64::from(flash.dies_per_channel) * u64::from(flash.planes_per_die);
        let units_per_page = u64::from(flash.page_bytes) / UNIT_BYTES as u64;
        let open_limit = (physical - logical) / OPEN_SHARE;
        let mut pages_per_block = flash.pages_per_block;
        // the size of zones is the profile's
        while self.zones.is_none()
            && pages_per_block / 2 >= LEAST_PAGES_PER_BLOCK
            && 3 * planes * u64::from(pages_per_block) * units_per_page > open_limit
        {
            pages_per_block /= 2;
        }
        let units_per_plane = physical.div_ceil(planes);
        let units_per_block = u64::from(pages_per_block) * units_per_page;
        let zone_blocks = self.zone_blocks().div_ceil(planes);
        let blocks_per_plane = units_per_plane.div_ceil(units_per_block) + zone_blocks;
        if blocks_per_plane * units_per_block * planes >= MAX_UNITS {
            let units = blocks_per_plane * units_per_block * planes;
            return Err(GeometryError::TooLarge { units, limit: MAX_UNITS - 1 });
        }
        Ok(Geometry {
            channels: flash.channels,
            dies_per_channel: flash.dies_per_channel,
            planes_per_die: flash.planes_per_die,
            blocks_per_plane: blocks_per_plane as u32,
            pages_per_block,
            page_bytes: flash.page_bytes,
        })
    }

    /// Zones as the FTL has them.
    fn zones_config(&self) -> Option<ZonesConfig> {
        self.zones.map(|ZonesProfile { count, planes, max_open, max_active }| ZonesConfig {
            count,
            planes,
            max_open,
            max_active,
        })
    }

    /// Blocks kept for zones.
    pub(crate) fn zone_blocks(&self) -> u64 {
        self.zones_config().map_or(0, |zones| u64::from(zones.count) * u64::from(zones.planes) + 1)
    }

    /// Units of the map for pages of zones that are not full yet; no host sees them.
    fn zone_tail_units(&self) -> u64 {
        let units_per_page = u64::from(self.flash.page_bytes) / UNIT_BYTES as u64;
        self.zones.map_or(0, |zones| u64::from(zones.count) * units_per_page)
    }

    /// The flash's timing.
    pub fn timing(&self) -> Timing {
        Timing {
            read_ns: self.flash.read_ns,
            program_ns: self.flash.program_ns,
            erase_ns: self.flash.erase_ns,
            channel_bytes_per_second: self.flash.channel_bytes_per_second,
        }
    }

    /// How the flash's operations follow each other.
    pub fn scheduling(&self) -> Scheduling {
        match self.flash.scheduling {
            FlashScheduling::Fifo => Scheduling::Fifo,
            FlashScheduling::ReadFirst => Scheduling::ReadFirst,
            FlashScheduling::Suspend => Scheduling::Suspend {
                cost_ns: self.flash.suspend_ns.unwrap_or(0),
                times: self.flash.suspensions.unwrap_or(0),
            },
        }
    }

    /// The memory beside the flash: the controller's, or that of the processors.
    pub fn nvm_shape(&self) -> Option<NvmShape> {
        if let Some((memory, bytes)) = self.spu_memory() {
            return Some(NvmShape {
                bytes,
                latency_ns: memory.load_ns,
                bytes_per_second: memory.bytes_per_second,
            });
        }
        self.nvm.as_ref().map(|nvm| NvmShape {
            bytes: nvm.bytes,
            latency_ns: nvm.latency_ns,
            bytes_per_second: nvm.bytes_per_second,
        })
    }

    /// The processors' memory and its bytes, if they have any.
    pub(crate) fn spu_memory(&self) -> Option<(SpuMemoryProfile, u64)> {
        let bytes = || u64::from(self.spu.count) * self.spu.bank_bytes(self.capacity_bytes);
        self.spu.memory.map(|memory| (memory, bytes()))
    }

    /// Bytes at the end of that memory for lists of files.
    pub(crate) fn file_list_bytes(&self) -> u64 {
        let files = self.nvm.as_ref().map_or(0, |nvm| nvm.files);
        if files == 0 { 0 } else { ListsPlan::bytes(files, self.capacity_units() as u32) }
    }

    /// The FTL's configuration.
    pub(crate) fn ftl_config(&self) -> FtlConfig {
        FtlConfig {
            logical_units: (self.capacity_units() + self.zone_tail_units()) as u32,
            victim_policy: self.ftl.victim_policy,
            wear_spread: self.ftl.wear_spread,
            dump_units: match self.power.plp {
                Plp::None | Plp::Nvm => 0,
                Plp::Capacitor => (self.power.dump_bytes / UNIT_BYTES as u64) as u32,
            },
            protected_units: match self.power.plp {
                Plp::None | Plp::Nvm => 0,
                Plp::Capacitor => self.cache_units() as u32,
            },
            units_at_once: self.limits.atomic_write_units,
            nvm_log_bytes: match (self.power.plp, &self.nvm) {
                (Plp::Nvm, Some(nvm)) => Some(nvm.bytes - self.file_list_bytes()),
                _ => None,
            },
            file_lists: self.nvm.as_ref().filter(|nvm| nvm.files > 0).map(|nvm| ListsPlan {
                at: nvm.bytes - self.file_list_bytes(),
                files: nvm.files,
                units: self.capacity_units() as u32,
            }),
            shared_owners: self.limits.shared_owners,
            index_dram_bytes: self.limits.index_dram_bytes,
            placement: self
                .fdp
                .map(|FdpProfile { handles, isolation }| PlacementConfig { handles, isolation }),
            zones: self.zones_config(),
            checkpoint_interval: self
                .ftl
                .checkpoint_interval_pages
                .map_or(CheckpointInterval::DEFAULT, CheckpointInterval::Pages),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_files_lie_behind_the_metadata_log() {
        let profile = Profile::load("pebblessd").unwrap();
        let nvm = profile.nvm.as_ref().expect("it has memory");
        let config = profile.ftl_config();
        let (log_bytes, lists) = (config.nvm_log_bytes.unwrap(), config.file_lists.unwrap());
        assert_eq!(lists.at, log_bytes);
        assert_eq!(log_bytes + ListsPlan::bytes(nvm.files, profile.capacity_units() as u32), nvm.bytes);
    }
}
