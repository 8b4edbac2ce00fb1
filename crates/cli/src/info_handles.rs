//! What `tantalum info` says of a drive's reclaim unit handles.

use serde::Serialize;
use tantalum::{Device, Isolation, UNIT_BYTES};
use tantalum_control::HandleReport;
use tantalum_report::table::{bytes, grouped};

/// The handles, of a drive that has some.
#[derive(Serialize)]
pub struct HandlesInfo {
    isolation: Isolation,
    /// Units of a whole reclaim unit.
    reclaim_unit_units: u64,
    each: Vec<HandleReport>,
}

/// The line of a handle that was written with.
fn line(handle: &HandleReport) -> Option<String> {
    let name = format!("handle {}", handle.handle);
    let (written, copies) = (grouped(handle.host_units_written), grouped(handle.flash_copies));
    let amplification = handle.write_amplification?;
    Some(format!(
        "{name:<25}{written} units written, {copies} moved, write amplification {amplification:.2}\n"
    ))
}

impl HandlesInfo {
    /// None for a drive without handles.
    pub fn of(device: &Device) -> Option<HandlesInfo> {
        let fdp = device.profile().fdp?;
        Some(HandlesInfo {
            isolation: fdp.isolation,
            reclaim_unit_units: device.reclaim_unit_units(),
            each: HandleReport::all(device),
        })
    }

    /// Lines for people: handles that nothing was written with are left out.
    pub fn text(&self) -> String {
        let isolated = match self.isolation {
            Isolation::Initially => "kept apart until garbage is collected",
            Isolation::Persistently => "always kept apart",
        };
        let size = bytes(self.reclaim_unit_units * UNIT_BYTES as u64);
        let name = "reclaim unit handles";
        let first = format!("{name:<25}{}, {isolated}; a reclaim unit has {size}\n", self.each.len());
        [first].into_iter().chain(self.each.iter().filter_map(line)).collect()
    }
}
