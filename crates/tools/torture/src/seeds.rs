//! Which seeds a torture runs: a range of them, or fresh ones until the time is up.

use std::ops::Range;
use std::time::Duration;

use tantalum_report::InvalidSetting;

use crate::error::CrashError;

/// Longer than anybody waits.
const MOST_MINUTES: f64 = 60.0 * 24.0 * 365.0;

/// Which seeds are run.
#[derive(Clone, PartialEq, Debug)]
pub struct Seeds {
    /// The seeds. With `minutes` only the first one counts, and others follow it.
    pub range: Range<u64>,
    /// Runs fresh seeds for this many minutes. Then the findings depend on the machine.
    pub minutes: Option<f64>,
}

impl From<Range<u64>> for Seeds {
    fn from(range: Range<u64>) -> Seeds {
        Seeds { range, minutes: None }
    }
}

impl Seeds {
    /// How many there are, if there is no limit of time.
    pub(crate) fn count(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// For how long seeds are run.
    pub(crate) fn duration(&self) -> Option<Duration> {
        self.minutes.map(|minutes| Duration::from_secs_f64(60.0 * minutes))
    }

    /// Fails if they make no sense.
    pub(crate) fn validate(&self) -> Result<(), CrashError> {
        if self.range.is_empty() {
            let range = format!("{}..{}", self.range.start, self.range.end);
            return Err(InvalidSetting::new("--seeds", range, "the range is empty").into());
        }
        match self.minutes {
            // also what is not a number
            Some(minutes) if !(minutes > 0.0 && minutes <= MOST_MINUTES) => {
                let expected = "use a number of minutes above 0, and of no more than a year (525600)";
                Err(InvalidSetting::new("--minutes", minutes, expected).into())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_and_times_that_make_no_sense_are_refused() {
        let wrong = |seeds: Seeds| seeds.validate().unwrap_err().to_string();
        assert_eq!(wrong((5..5).into()), "--seeds 5..5: the range is empty");
        for minutes in [0.0, -1.0, f64::NAN, f64::INFINITY, 525_601.0] {
            let why = wrong(Seeds { range: 0..1, minutes: Some(minutes) });
            assert!(why.contains("use a number of minutes above 0"), "{why}");
        }
        let half = Seeds { range: 0..1, minutes: Some(0.5) };
        half.validate().unwrap();
        assert_eq!(half.duration(), Some(Duration::from_secs(30)));
    }
}
