//! What `tantalum info` and `tantalum stat` say of a drive's zones.

use tantalum::UNIT_BYTES;
use tantalum_control::ZonesReport;
use tantalum_report::table::{bytes, grouped};

/// Lines for people: name and value.
pub fn lines(zones: &ZonesReport) -> [(&'static str, String); 2] {
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
    [("zones", shape), ("zones' states", format!("{zones}; {} written", size(zones.written_units)))]
}
