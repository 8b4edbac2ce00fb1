//! Recovery as capacity, and the amount written since the checkpoint, grow.

use tantalum::{Effective, Profile, UNIT_BYTES};
use tantalum_report::table::bytes;
use tantalum_report::{InvalidSetting, Monitor};
use tantalum_workloads::memory;

use super::outcome::{Growth, Settings};
use super::writer::Writer;
use crate::error::ExperimentError;

/// Units that one unit of a checkpoint maps: four bytes each.
const UNITS_PER_MAP_UNIT: u64 = UNIT_BYTES as u64 / 4;

/// An interval longer than any medium has pages, so that the checkpoint is the one of the last shutdown.
const NEVER_PAGES: u64 = 1 << 30;

/// Copies of a checkpoint that are in memory when recovery takes its own: two on flash, the old and the new one as bytes
/// and as entries, and the map.
const CHECKPOINTS_IN_MEMORY: u64 = 7;

impl Settings {
    /// The drives that grow, checked.
    pub fn drives(&self) -> Result<Vec<Profile>, ExperimentError> {
        let drive = |&capacity_bytes: &u64| {
            let mut profile = Profile { capacity_bytes, ..self.profile.clone() };
            profile.ftl.checkpoint_interval_pages = Some(NEVER_PAGES);
            profile
                .validate()
                .map_err(|invalid| InvalidSetting::new("--capacities", capacity_bytes, invalid.expected))?;
            Ok(profile)
        };
        self.capacities_bytes.iter().map(drive).collect()
    }
}

/// One recovery of a new drive.
pub(super) fn measure(
    profile: &Profile,
    written_bytes: u64,
    seed: u64,
    monitor: &Monitor,
) -> Result<Growth, ExperimentError> {
    let capacity_units = profile.capacity_units();
    let written_units = written_bytes / UNIT_BYTES as u64;
    let map_units = capacity_units.div_ceil(UNITS_PER_MAP_UNIT);
    let held_units = map_units + written_units.min(2 * capacity_units) + CHECKPOINTS_IN_MEMORY * map_units;
    memory::require(held_units * UNIT_BYTES as u64)?;
    let bar = monitor.bar(bytes(profile.capacity_bytes), map_units + written_units);
    let mut writer = Writer::new(profile, seed)?;
    writer.fill(UNITS_PER_MAP_UNIT as u32, &bar)?;
    writer.restart()?;
    writer.overwrite(written_units, &bar)?;
    let recovery = writer.cut_and_recover(UNITS_PER_MAP_UNIT as u32)?;
    let effective = Effective::of(profile);
    Ok(Growth {
        capacity_bytes: profile.capacity_bytes,
        effective,
        blocks: effective.geometry.blocks().into(),
        written_bytes: written_units * UNIT_BYTES as u64,
        recovery,
    })
}
