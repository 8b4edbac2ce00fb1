//! The check and the repair of an image, with progress.

use std::ops::ControlFlow;
use std::path::Path;

use tantalum::DeviceError;
use tantalum::check::{self, Check, Repair, Watch};
use tantalum_report::{Bar, Monitor};

/// Checks an image and changes nothing in it. Its findings are not errors.
pub fn check(path: &Path, monitor: &Monitor) -> Result<Check, DeviceError> {
    watched(monitor, |watch| check::check(path, watch))
}

/// Repairs an image as far as that is sound.
pub fn repair(path: &Path, monitor: &Monitor) -> Result<Repair, DeviceError> {
    watched(monitor, |watch| check::repair(path, watch))
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
