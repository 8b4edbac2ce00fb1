//! What is replayed on what, and how fast.

use tantalum::Profile;
use tantalum_report::InvalidSetting;
use tantalum_workloads::bench::Condition;

use crate::load::Load;
use crate::placement::Scale;
use crate::trace::Source;

/// When requests are issued.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// When the trace says, so many times faster.
    Open {
        /// 1 is as it was.
        speed: f64,
    },
    /// When fewer than so many are under way, whatever the trace says.
    Closed {
        /// At least 1.
        queue_depth: u32,
    },
}

/// The pace of a trace without times for which none is chosen: what fio does by default.
const WITHOUT_TIMES: Pace = Pace::Closed { queue_depth: 1 };

/// What is replayed on what.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is done to the drive.
    pub load: Load,
    /// The drive.
    pub profile: Profile,
    /// What is done to it before.
    pub condition: Condition,
    /// When requests are issued; none for the trace's times, or one after the other if it has none.
    pub pace: Option<Pace>,
    /// What is done with addresses that the drive does not have.
    pub scale: Scale,
    /// Seed of the drive's age.
    pub seed: u64,
}

impl Settings {
    pub(crate) fn validate(&self) -> Result<(), InvalidSetting> {
        match self.pace {
            Some(Pace::Open { speed }) if !(speed.is_finite() && speed > 0.0) => {
                Err(InvalidSetting::new("--speed", speed, "it must be above 0"))
            }
            Some(Pace::Closed { queue_depth: 0 }) => {
                Err(InvalidSetting::new("--queue-depth", 0, "it must be at least 1"))
            }
            _ => match &self.load {
                Load::Trace(Source { most_requests: Some(0), .. }) => {
                    Err(InvalidSetting::new("--requests", 0, "it must be at least 1"))
                }
                Load::Trace(_) => Ok(()),
                Load::Synthetic(synthetic) => synthetic.validate(self.profile.capacity_bytes),
            },
        }
    }

    /// The pace, now that it is known whether the trace has times.
    pub(crate) fn pace(&self, has_times: bool) -> Result<Pace, InvalidSetting> {
        match self.pace {
            Some(Pace::Open { speed }) if !has_times => Err(InvalidSetting::new(
                "--speed",
                speed,
                "fio's iologs of version 2 and patterns have no times; use --queue-depth",
            )),
            Some(pace) => Ok(pace),
            None if has_times => Ok(Pace::Open { speed: 1.0 }),
            None => Ok(WITHOUT_TIMES),
        }
    }
}
