//! Zones as a host sees them: their shape and their states. `engine/zones.rs` has the commands.

use tantalum_ftl::{ZoneCosts, ZoneState};

use crate::controller::Device;

/// What all zones of a drive have in common. Units are 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneShape {
    /// Number of zones.
    pub count: u32,
    /// Units of a zone that can be written.
    pub capacity_units: u32,
    /// Units from the beginning of a zone to that of the next: the capacity, rounded up to a power of two.
    pub size_units: u32,
    /// Zones that may be open at once.
    pub max_open: u32,
    /// Zones that may be active at once: open, or closed with data.
    pub max_active: u32,
}

impl Device {
    /// The shape of the zones; none without power, and on a drive without zones.
    pub fn zone_shape(&self) -> Option<ZoneShape> {
        let ftl = self.ftl()?;
        let (zones, geometry) = (ftl.zones_config()?, ftl.nand().geometry());
        Some(ZoneShape {
            count: zones.count,
            capacity_units: zones.capacity_units(geometry),
            size_units: zones.size_units(geometry),
            max_open: zones.max_open,
            max_active: zones.max_active,
        })
    }

    /// The zones as they are now, in order (NVMe's Report Zones); none without power, and on a drive without zones. It is not a command:
    /// it takes no time and counts nowhere.
    pub fn zones(&self) -> Vec<ZoneState> {
        self.ftl().map_or_else(Vec::new, |ftl| ftl.zone_states().collect())
    }

    /// What zones have cost since power came on; none without power, and on a drive without zones.
    pub fn zone_costs(&self) -> Option<ZoneCosts> {
        self.ftl()?.zone_costs()
    }
}
