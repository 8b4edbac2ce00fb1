//! The cost of checkpoints and the time of recovery, for each checkpoint interval.

use tantalum::Profile;
use tantalum_report::{Bar, Monitor};
use tantalum_workloads::memory;
use tantalum_workloads::steady_state::{MOST_WINDOWS, SteadyState, WINDOWS_PER_CAPACITY};

use super::outcome::{Interval, Settings};
use super::writer::Writer;
use crate::error::ExperimentError;

/// Fixed intervals: the pages of the logical capacity over these.
const DIVISORS: [u64; 5] = [64, 16, 4, 2, 1];

/// How often the capacity is overwritten while measuring.
const MEASURED_CAPACITIES: u64 = 2;

/// How far on the way to the next checkpoint power is cut.
const CUT_AT: f64 = 0.95;

/// Measures each interval, and the default.
pub(super) fn measure(settings: &Settings, monitor: &Monitor) -> Result<Vec<Interval>, ExperimentError> {
    let profile = &settings.profile;
    let flash_bytes = profile.capacity_bytes as f64 * (1.0 + profile.over_provisioning_percent / 100.0);
    memory::require(flash_bytes as u64)?;
    let pages = profile.capacity_bytes / u64::from(profile.flash.page_bytes);
    let fixed = DIVISORS.iter().map(|divisor| Some((pages / divisor).max(1)));
    fixed.chain([None]).map(|interval_pages| one(settings, interval_pages, monitor)).collect()
}

fn one(
    settings: &Settings,
    interval_pages: Option<u64>,
    monitor: &Monitor,
) -> Result<Interval, ExperimentError> {
    let mut profile: Profile = settings.profile.clone();
    profile.ftl.checkpoint_interval_pages = interval_pages;
    let units = profile.capacity_units();
    let label = interval_pages.map_or("default".to_owned(), |pages| format!("{pages} pages"));
    let window = (units / WINDOWS_PER_CAPACITY).max(1);
    let bar = monitor.bar(label, units + MOST_WINDOWS * window + MEASURED_CAPACITIES * units);
    let mut writer = Writer::new(&profile, settings.seed)?;
    let steady = age(&mut writer, window, &bar)?;
    let before = writer.drive.lock().smart().counters;
    writer.overwrite(MEASURED_CAPACITIES * units, &bar)?;
    let counted = writer.drive.lock().smart().counters.since(&before);
    let (written, checkpoints) = (counted.host_units_written, counted.checkpoints);
    let host_units_per_checkpoint = written as f64 / checkpoints.max(1) as f64;
    run_up_to_the_next(&mut writer, host_units_per_checkpoint)?;
    let recovery = writer.cut_and_recover(1)?;
    let over_written = |units: u64| units as f64 / written as f64;
    Ok(Interval {
        interval_pages,
        write_amplification: over_written(counted.flash_units.total()),
        steady,
        checkpoints,
        host_units_per_checkpoint,
        checkpoint_share: over_written(counted.flash_units.checkpoint),
        recovery,
    })
}

/// Fills the drive and overwrites it until garbage collection is steady. Returns whether it is.
fn age(writer: &mut Writer, window: u64, bar: &Bar) -> Result<bool, ExperimentError> {
    writer.fill(1, bar)?;
    let mut state = SteadyState::new(writer.drive.lock().smart().counters);
    while !state.is_steady() && state.windows() < MOST_WINDOWS {
        writer.overwrite(window, bar)?;
        let amplification = state.end_window(writer.drive.lock().smart().counters);
        bar.say(format!("write amplification {amplification:.2}"));
    }
    Ok(state.is_steady())
}

/// Waits for a checkpoint and goes most of the way to the next. If none comes within twice the usual distance, the
/// drive takes none, and any moment will do.
fn run_up_to_the_next(writer: &mut Writer, host_units_per_checkpoint: f64) -> Result<(), ExperimentError> {
    let checkpoints = writer.drive.lock().smart().counters.checkpoints;
    let mut left = (2.0 * host_units_per_checkpoint) as u64;
    while left > 0 && writer.drive.lock().smart().counters.checkpoints == checkpoints {
        writer.overwrite_one()?;
        left -= 1;
    }
    for _ in 0..(CUT_AT * host_units_per_checkpoint) as u64 {
        writer.overwrite_one()?;
    }
    Ok(())
}
