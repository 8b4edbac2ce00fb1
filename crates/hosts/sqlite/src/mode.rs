//! How SQLite uses the drive.

use std::fmt;
use std::str::FromStr;

/// One way to run SQLite's transactions on the drive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mode {
    /// A rollback journal in a plain file.
    Rollback,
    /// A write-ahead log in a plain file, as SQLite does it today: the baseline.
    Wal,
    /// Drive transactions; SQLite keeps what a rollback needs in memory (X-FTL).
    XFtl,
    /// SQLite's batch-atomic writes: one `write_atomic` for each transaction.
    Atomic,
    /// A write-ahead log with one frame in each unit; checkpoints share frames with the database file (SHARE).
    Share,
    /// A write-ahead log with one frame in each unit, by hinted writes; checkpoints bring frames home without a journal
    /// (SW-WAL).
    SwWal,
}

impl Mode {
    /// All modes, in the order of the documentation.
    pub const ALL: [Mode; 6] =
        [Mode::Rollback, Mode::Wal, Mode::XFtl, Mode::Atomic, Mode::Share, Mode::SwWal];

    /// The name on command lines, in URIs and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Rollback => "rollback",
            Mode::Wal => "wal",
            Mode::XFtl => "x-ftl",
            Mode::Atomic => "atomic",
            Mode::Share => "share",
            Mode::SwWal => "sw-wal",
        }
    }

    /// The SQLite `journal_mode` for it.
    pub fn journal_mode(self) -> &'static str {
        match self {
            Mode::Rollback | Mode::Atomic => "delete",
            Mode::XFtl => "memory",
            Mode::Wal | Mode::Share | Mode::SwWal => "wal",
        }
    }

    /// Whether a log that restarts is laid out in units.
    pub(crate) fn frames_log(self) -> bool {
        matches!(self, Mode::Share | Mode::SwWal)
    }

    /// Whether pages of a log laid out in units carry hints.
    pub(crate) fn hints_log(self) -> bool {
        self == Mode::SwWal
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no mode with that name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no mode named {name:?}; use {}", Mode::ALL.map(Mode::name).join(", "))]
pub struct UnknownMode {
    /// The requested name.
    pub name: String,
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Mode, UnknownMode> {
        Mode::ALL
            .into_iter()
            .find(|mode| mode.name() == name)
            .ok_or_else(|| UnknownMode { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_is_found_by_its_name() {
        for mode in Mode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
    }

    #[test]
    fn an_unknown_mode_names_the_known_ones() {
        let error = "wall".parse::<Mode>().unwrap_err().to_string();
        assert_eq!(error, "no mode named \"wall\"; use rollback, wal, x-ftl, atomic, share, sw-wal");
    }
}
