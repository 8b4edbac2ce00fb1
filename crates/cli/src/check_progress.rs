//! The check and the repair of an image, with progress.

use std::ops::ControlFlow;
use std::path::Path;

use tantalum::check::{self, Check, Repair, Watch};
use tantalum::{Device, DeviceError};
use tantalum_report::{Bar, Monitor};

/// Checks an image and changes nothing in it. Its findings are not errors. Returns the drive too, if it recovered.
pub fn check(path: &Path, monitor: &Monitor) -> Result<(Check, Option<Device>), DeviceError> {
    watched(monitor, |watch| check::check_and_open(path, watch))
}

/// Repairs an image as far as that is sound. Returns the drive too, if it recovered.
pub fn repair(path: &Path, monitor: &Monitor) -> Result<(Repair, Option<Device>), DeviceError> {
    watched(monitor, |watch| check::repair_and_open(path, watch))
}

fn watched<T>(
    monitor: &Monitor,
    work: impl FnOnce(Watch<'_>) -> Result<T, DeviceError>,
) -> Result<T, DeviceError> {
    let mut progress: Option<(Bar, u64)> = None;
    let mut watch = |done: u64, total: u64| {
        // a repair checks twice: the second count starts over
        if progress.as_ref().is_none_or(|(_, before)| *before > done) {
            progress = Some((monitor.bar("check", total), 0));
        }
        let (bar, before) = progress.as_mut().expect("it was just put there");
        let advanced = bar.advance(done - *before);
        *before = done;
        if advanced.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    work(&mut watch)
}
