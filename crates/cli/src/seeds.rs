//! Seeds on the command line: `10` for the first ten, `40..50` for 40 to 49; and times.

use std::ops::Range;
use std::str::FromStr;

use clap::Args;

/// The options that choose seeds.
#[derive(Args, Debug)]
pub struct SeedOptions {
    /// Run one seed; with --minutes, the first one
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    pub seed: Option<u64>,

    /// Run seeds A to B-1, or the first COUNT seeds from 0 [default: a few]
    #[arg(long, value_name = "A..B|COUNT")]
    pub seeds: Option<Seeds>,

    /// Run fresh seeds for N minutes, such as 0.5
    #[arg(long, value_name = "N", value_parser = parse_minutes, conflicts_with = "seeds")]
    pub minutes: Option<f64>,
}

impl SeedOptions {
    /// The seeds that were chosen; without a choice, the first `default`.
    pub fn chosen(&self, default: u64) -> tantalum_torture::Seeds {
        let range = match (self.seed, &self.seeds) {
            (Some(seed), _) => seed..seed.saturating_add(1),
            (None, Some(seeds)) => seeds.0.clone(),
            (None, None) => 0..default,
        };
        tantalum_torture::Seeds { range, minutes: self.minutes }
    }
}

/// A year in minutes.
const MOST_TIME: f64 = 525_600.0;

/// A time in minutes.
pub fn parse_minutes(text: &str) -> Result<f64, String> {
    parse_time(text, "minutes")
}

/// A time in seconds.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    parse_time(text, "seconds")
}

fn parse_time(text: &str, unit: &str) -> Result<f64, String> {
    let time = text.parse::<f64>().ok().filter(|time| *time > 0.0 && *time <= MOST_TIME);
    time.ok_or_else(|| {
        format!("use a number of {unit} above 0, such as 0.5, and of no more than {MOST_TIME}")
    })
}

/// A range of seeds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seeds(pub Range<u64>);

/// Why a text is not a range of seeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SeedsError {
    /// It is neither a number nor a range.
    #[error("expected a count, or a range A..B that ends before B")]
    Form,
    /// There are none.
    #[error("no seeds selected: in A..B, B must be larger than A; a count must be at least 1")]
    Empty,
}

impl FromStr for Seeds {
    type Err = SeedsError;

    fn from_str(text: &str) -> Result<Seeds, SeedsError> {
        let number = |text: &str| text.parse::<u64>().map_err(|_| SeedsError::Form);
        let range = match text.split_once("..") {
            Some((start, end)) => number(start)?..number(end)?,
            None => 0..number(text)?,
        };
        if range.is_empty() { Err(SeedsError::Empty) } else { Ok(Seeds(range)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_may_be_a_fraction() {
        for text in ["0", "-1", "nan", "inf", "x", "", "1e9", "3s"] {
            assert!(parse_minutes(text).unwrap_err().contains("minutes"), "{text}");
            assert!(parse_seconds(text).unwrap_err().contains("seconds"), "{text}");
        }
        assert_eq!(parse_minutes("0.05"), Ok(0.05));
        assert_eq!(parse_seconds("0.2"), Ok(0.2));
    }

    #[test]
    fn a_count_and_a_range_are_seeds() {
        assert_eq!("10".parse(), Ok(Seeds(0..10)));
        assert_eq!("40..50".parse(), Ok(Seeds(40..50)));
        for text in ["", "a", "1..", "-1", "1...3"] {
            assert_eq!(text.parse::<Seeds>(), Err(SeedsError::Form), "{text}");
        }
        for text in ["0", "7..7", "9..3"] {
            assert_eq!(text.parse::<Seeds>(), Err(SeedsError::Empty), "{text}");
        }
    }
}
