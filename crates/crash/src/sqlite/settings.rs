//! What to test, and for how long.

use std::fmt;
use std::str::FromStr;

use tantalum_report::InvalidSetting;
use tantalum_sqlite::Mode;
use tantalum_sqlite::Synchronous;

use crate::error::CrashError;

/// When power is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cuts {
    /// This many times in the life of one database, at random flash operations.
    Random(u64),
    /// At every flash operation of a workload, each time from its beginning.
    All,
    /// At one flash operation of that workload, from 1.
    At(u64),
}

impl fmt::Display for Cuts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cuts::Random(cuts) => write!(f, "{cuts}"),
            Cuts::All => f.write_str("all"),
            Cuts::At(operation) => write!(f, "@{operation}"),
        }
    }
}

impl FromStr for Cuts {
    type Err = String;

    fn from_str(text: &str) -> Result<Cuts, String> {
        let number = |text: &str| match text.parse() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err("use a number of cuts from 1, all, or @N for flash operation N".to_owned()),
        };
        match text.strip_prefix('@') {
            Some(operation) => number(operation).map(Cuts::At),
            None if text == "all" => Ok(Cuts::All),
            None => number(text).map(Cuts::Random),
        }
    }
}

/// What to test, and for how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// SQLite's use of the drive.
    pub modes: Vec<Mode>,
    /// `PRAGMA synchronous`; full sets SQLite's EXTRA, so that the removal of a rollback journal is durable too.
    pub synchronous: Vec<Synchronous>,
    /// The first seed.
    pub first_seed: u64,
    /// How many seeds, one after another.
    pub seeds: u64,
    /// When power is cut.
    pub cuts: Cuts,
    /// The most transactions before a random cut; or those of the workload whose every flash operation is cut.
    pub transactions: u64,
    /// Continues with fresh seeds for this many minutes instead of `seeds`.
    pub minutes: Option<u64>,
}

impl Settings {
    /// Runs of each seed.
    pub(super) fn runs_of_a_seed(&self) -> u64 {
        (self.modes.len() * self.synchronous.len()) as u64
    }

    /// Refuses settings that would do nothing.
    pub(super) fn validate(&self) -> Result<(), CrashError> {
        let refuse =
            |option, value: u64, expected: &str| Err(InvalidSetting::new(option, value, expected).into());
        if self.seeds == 0 {
            return refuse("--seeds", self.seeds, "use at least 1");
        }
        if self.transactions == 0 {
            return refuse("--transactions", self.transactions, "use at least 1");
        }
        if self.minutes == Some(0) {
            return refuse("--minutes", 0, "use at least 1");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_written_as_they_are_read() {
        for (text, cuts) in [("20", Cuts::Random(20)), ("all", Cuts::All), ("@7", Cuts::At(7))] {
            assert_eq!(text.parse(), Ok(cuts));
            assert_eq!(cuts.to_string(), text);
        }
        for wrong in ["", "0", "@", "@0", "-1", "some"] {
            assert!(wrong.parse::<Cuts>().unwrap_err().contains("@N"), "{wrong:?}");
        }
    }
}
