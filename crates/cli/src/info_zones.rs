//! What `tantalum info` and `tantalum stat` say of a drive's zones.

use tantalum::UNIT_BYTES;
use tantalum_control::ZonesReport;
use tantalum_report::table::{bytes, grouped};

/// Lines for people: name and value.
pub fn lines(zones: &ZonesReport) -> Vec<(&'static str, String)> {
    let size = |units: u64| bytes(units * UNIT_BYTES as u64);
    let (capacity, zone) = (size(zones.capacity_units.into()), size(zones.size_units.into()));
    let each = match zones.capacity_units == zones.size_units {
        true => format!("of {zone}"),
        false => format!("of {zone}, {capacity} of which can be written"),
    };
    let shape = format!(
        "{} {each}; at most {} open and {} active",
        grouped(zones.count.into()),
        grouped(zones.max_open.into()),
        grouped(zones.max_active.into())
    );
    let states = format!("{zones}; {} written", size(zones.written_units));
    let costs = zones.write_amplification().map(|amplification| {
        let (written, programmed) = (grouped(zones.host_units_written), grouped(zones.flash_units));
        let costs = format!(
            "{written} units written, {programmed} programmed, write amplification {amplification:.2} since power came on"
        );
        ("zones' writes", costs)
    });
    [("zones", shape), ("zones' states", states)].into_iter().chain(costs).collect()
}
