//! A life of a program: it works until power is lost, or until its work is done.

use tantalum::TestHost;

use super::drive_in_use::DriveInUse;
use super::run_end::{Broken, Stop};

/// Steps after which a life without a cut is abandoned, because nothing reaches flash any more.
const MOST_STEPS: u64 = 100_000;

/// When power is lost.
#[derive(Clone, Copy)]
pub(super) struct CutPoint {
    /// After this much acknowledged work.
    pub done: u64,
    /// Then the flash operation of this number, from 1, finds no power.
    pub operation: u64,
}

/// A life of a program.
pub(crate) struct Life {
    /// Decides the steps.
    pub seed: u64,
    pub(super) cut: Option<CutPoint>,
    /// The life ends after this much acknowledged work.
    pub(super) most: Option<u64>,
    /// The host of the image, if it may fail.
    pub(super) host: Option<TestHost>,
}

impl Life {
    fn host_has_failed(&self) -> bool {
        self.host.as_ref().is_some_and(|host| host.faults.failed().is_some())
    }
}

/// Runs the steps of a life until power is lost, an error comes from the host, or the life is over. A step returns how much work has been acknowledged.
pub(crate) fn live_steps(
    life: &Life,
    place: &impl DriveInUse,
    mut step: impl FnMut() -> Result<u64, Stop>,
) -> Result<(), Broken> {
    let (mut cut, mut done) = (life.cut, 0);
    for _ in 0..MOST_STEPS {
        if let Some(point) = cut.take_if(|point| done >= point.done) {
            place.cut_after(Some(point.operation));
        }
        match step() {
            Ok(acknowledged) if place.has_power() => done = acknowledged,
            Ok(_) | Err(Stop::PowerLost) => return Ok(()),
            Err(Stop::Broken(broken)) if broken.is_error && life.host_has_failed() => return Ok(()),
            Err(Stop::Broken(broken)) => return Err(broken),
        }
        if life.most.is_some_and(|most| done >= most) {
            return Ok(());
        }
    }
    Err(Broken::new("the workload reaches flash", format!("no cut came within {MOST_STEPS} steps")))
}
