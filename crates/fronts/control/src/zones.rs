//! The zones of a drive, by their states.

use std::fmt;

use serde::{Deserialize, Serialize};
use tantalum::{Device, ZoneCondition};

/// The zones of a drive, and how many are in each state. Units are of 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ZonesReport {
    /// Number of zones.
    pub count: u32,
    /// Units of a zone that can be written.
    pub capacity_units: u32,
    /// Units from the beginning of a zone to that of the next.
    pub size_units: u32,
    /// Zones that may be open at once.
    pub max_open: u32,
    /// Zones that may be active at once.
    pub max_active: u32,
    /// Zones with nothing in them.
    pub empty: u32,
    /// Zones that a write has opened.
    pub implicitly_open: u32,
    /// Zones that a host has opened.
    pub explicitly_open: u32,
    /// Zones that are neither empty nor full, and not open.
    pub closed: u32,
    /// Zones that take no more.
    pub full: u32,
    /// Zones of a drive that takes no more writes.
    pub read_only: u32,
    /// Units that were written since each zone's last reset.
    pub written_units: u64,
    /// Units that the host has written since power came on.
    #[serde(default)]
    pub host_units_written: u64,
    /// Units that were programmed for that.
    #[serde(default)]
    pub flash_units: u64,
}

impl ZonesReport {
    /// Those of a device; none without power, and on a drive without.
    pub fn of(device: &Device) -> Option<ZonesReport> {
        let shape = device.zone_shape()?;
        let costs = device.zone_costs().unwrap_or_default();
        let mut report = ZonesReport {
            host_units_written: costs.written,
            flash_units: costs.programmed,
            count: shape.count,
            capacity_units: shape.capacity_units,
            size_units: shape.size_units,
            max_open: shape.max_open,
            max_active: shape.max_active,
            ..ZonesReport::default()
        };
        for zone in device.zones() {
            *report.in_state(zone.condition) += 1;
            report.written_units += u64::from(zone.written);
        }
        Some(report)
    }

    fn in_state(&mut self, condition: ZoneCondition) -> &mut u32 {
        match condition {
            ZoneCondition::Empty => &mut self.empty,
            ZoneCondition::ImplicitlyOpen => &mut self.implicitly_open,
            ZoneCondition::ExplicitlyOpen => &mut self.explicitly_open,
            ZoneCondition::Closed => &mut self.closed,
            ZoneCondition::Full => &mut self.full,
            ZoneCondition::ReadOnly => &mut self.read_only,
        }
    }

    /// Units programmed for zones over units that the host wrote to them, since power came on; none before the first.
    pub fn write_amplification(&self) -> Option<f64> {
        (self.host_units_written > 0).then(|| self.flash_units as f64 / self.host_units_written as f64)
    }

    /// How many zones are in each state, as a report of zones names these.
    pub fn by_state(&self) -> [(ZoneCondition, u32); 6] {
        [
            (ZoneCondition::Empty, self.empty),
            (ZoneCondition::ImplicitlyOpen, self.implicitly_open),
            (ZoneCondition::ExplicitlyOpen, self.explicitly_open),
            (ZoneCondition::Closed, self.closed),
            (ZoneCondition::Full, self.full),
            (ZoneCondition::ReadOnly, self.read_only),
        ]
    }
}

/// The states in which there are zones: "20 empty, 1 implicitly open, 3 full".
impl fmt::Display for ZonesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let there = self.by_state().into_iter().filter(|(_, zones)| *zones > 0);
        let states: Vec<String> = there.map(|(state, zones)| format!("{zones} {state}")).collect();
        f.write_str(&states.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use tantalum::{Command, Profile, UNIT_BYTES, ZoneAction, ZoneId};

    use super::*;

    #[test]
    fn zones_are_counted_by_their_states() {
        let mut device = Device::in_memory(&Profile::load("zns").unwrap()).unwrap();
        let mut submit = |command: Command<'_>| {
            let at_ns = device.time_ns();
            device.submit(command, at_ns).unwrap();
        };
        let data = vec![1; 5 * UNIT_BYTES];
        for zone in [2, 7].map(ZoneId) {
            submit(Command::ZoneWrite { zone, offset: 0, data: &data, fua: false });
        }
        for (zone, action) in [(7, ZoneAction::Finish), (3, ZoneAction::Open)] {
            submit(Command::ZoneManage { zone: Some(ZoneId(zone)), action });
        }
        let zones = ZonesReport::of(&device).unwrap();
        assert_eq!(zones.to_string(), "21 empty, 1 implicitly open, 1 explicitly open, 1 full");
        assert_eq!((zones.count, zones.written_units, zones.size_units), (24, 10, 8192));
        // a page of each zone, and one for the units that had to be on flash when a zone was finished
        assert_eq!((zones.host_units_written, zones.flash_units), (10, 12));
        assert_eq!(zones.write_amplification(), Some(1.2));
        // four units with FUA, of a page that has four: three tails and the whole page
        for offset in 0..4 {
            let write = Command::ZoneWrite { zone: ZoneId(9), offset, data: &data[..UNIT_BYTES], fua: true };
            let at_ns = device.time_ns();
            device.submit(write, at_ns).unwrap();
        }
        let later = ZonesReport::of(&device).unwrap();
        assert_eq!((later.host_units_written - 10, later.flash_units - zones.flash_units), (4, 4 * 4));
        let without = Device::in_memory(&Profile { zones: None, ..Profile::load("zns").unwrap() }).unwrap();
        assert_eq!(ZonesReport::of(&without), None);
    }
}
