//! The settings of a replay: what, on which drive, and how fast.

use tantalum::Profile;
use tantalum_report::InvalidSetting;
use tantalum_workloads::bench::Condition;

use crate::load::Load;
use crate::placement::Scale;
use crate::trace::Source;

/// When requests are issued.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// At the trace's times, this many times faster.
    Open {
        /// 1 is the original speed.
        speed: f64,
    },
    /// Whenever fewer than this many are in flight, ignoring the trace's times.
    Closed {
        /// Commands in flight, at least 1.
        queue_depth: u32,
    },
}

/// The default pace of a trace without times: fio's own default.
const WITHOUT_TIMES: Pace = Pace::Closed { queue_depth: 1 };

/// The settings of a replay.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The load.
    pub load: Load,
    /// The drive.
    pub profile: Profile,
    /// The drive's initial condition.
    pub condition: Condition,
    /// When requests are issued; `None` for the trace's times, or one after the other if it has none.
    pub pace: Option<Pace>,
    /// What to do with addresses beyond the drive.
    pub scale: Scale,
    /// Seed for ageing the drive.
    pub seed: u64,
}

impl Settings {
    pub(crate) fn validate(&self) -> Result<(), InvalidSetting> {
        if self.profile.zones.is_some() {
            let expected = "requests to blocks say nothing of zones: use a profile without [zones]";
            return Err(InvalidSetting::new("--profile", &self.profile.name, expected));
        }
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

    /// The pace, given whether the trace has times.
    pub(crate) fn pace(&self, has_times: bool) -> Result<Pace, InvalidSetting> {
        match self.pace {
            Some(Pace::Open { speed }) if !has_times => {
                Err(InvalidSetting::new("--speed", speed, "the requests have no times; use --queue-depth"))
            }
            Some(pace) => Ok(pace),
            None if has_times => Ok(Pace::Open { speed: 1.0 }),
            None => Ok(WITHOUT_TIMES),
        }
    }
}
