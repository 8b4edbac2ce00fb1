//! Progress of a case, and whether to continue.

use std::time::{Duration, Instant};

use tantalum_report::Bar;

/// Shows the progress of a case, and stops it when its time is up.
pub(crate) struct Progress<'a> {
    bar: Option<&'a Bar>,
    deadline: Option<(Instant, Duration)>,
}

impl Progress<'_> {
    /// Shows progress on the bar; stops when the bar does, or after `duration`.
    pub fn on(bar: &Bar, duration: Option<Duration>) -> Progress<'_> {
        Progress { bar: Some(bar), deadline: duration.map(|duration| (Instant::now(), duration)) }
    }

    /// Shows nothing and never stops.
    pub fn unseen() -> Progress<'static> {
        Progress { bar: None, deadline: None }
    }

    /// Some steps were done. False if it is time to stop.
    pub fn advance(&self, steps: u64) -> bool {
        let Some(bar) = self.bar else { return true };
        match self.deadline {
            None => bar.advance(steps).is_ok(),
            Some((began, duration)) => {
                bar.reach(began.elapsed().as_secs()).is_ok() && began.elapsed() < duration
            }
        }
    }

    /// False if it is time to stop.
    pub fn goes_on(&self) -> bool {
        self.advance(0)
    }
}
