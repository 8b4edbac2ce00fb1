//! What `tantalum info` says of a drive's reclaim unit handles.

use serde::Serialize;
use tantalum::{Device, HandleState, Isolation, UNIT_BYTES};
use tantalum_report::table::{bytes, grouped};

/// The handles, of a drive that has some.
#[derive(Serialize)]
pub struct HandlesInfo {
    isolation: Isolation,
    /// Units of a whole reclaim unit.
    reclaim_unit_units: u64,
    each: Vec<HandleInfo>,
}

/// One of them.
#[derive(Serialize)]
struct HandleInfo {
    handle: u8,
    /// Units that still fit in its reclaim unit.
    writable_units: u64,
    host_units_written: u64,
    flash_host_units: u64,
    flash_copies: u64,
    /// Missing before anything was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    write_amplification: Option<f64>,
}

impl HandleInfo {
    fn of(state: &HandleState) -> HandleInfo {
        let counters = &state.counters;
        HandleInfo {
            handle: state.handle.0,
            writable_units: state.writable_units,
            host_units_written: counters.host_units_written,
            flash_host_units: counters.flash_host_units,
            flash_copies: counters.flash_copies,
            write_amplification: counters.write_amplification(),
        }
    }

    /// The line of a handle that was written with.
    fn line(&self) -> Option<String> {
        let name = format!("handle {}", self.handle);
        let (written, copies) = (grouped(self.host_units_written), grouped(self.flash_copies));
        let amplification = self.write_amplification?;
        Some(format!(
            "{name:<25}{written} units written, {copies} moved, write amplification {amplification:.2}\n"
        ))
    }
}

impl HandlesInfo {
    /// None for a drive without handles.
    pub fn of(device: &Device) -> Option<HandlesInfo> {
        let fdp = device.profile().fdp?;
        Some(HandlesInfo {
            isolation: fdp.isolation,
            reclaim_unit_units: device.reclaim_unit_units(),
            each: device.handles().iter().map(HandleInfo::of).collect(),
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
        [first].into_iter().chain(self.each.iter().filter_map(HandleInfo::line)).collect()
    }
}
