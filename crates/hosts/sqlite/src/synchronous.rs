//! How often SQLite syncs.

use std::str::FromStr;

/// `PRAGMA synchronous`, as far as it matters to a write-ahead log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Synchronous {
    /// The log is synced before each checkpoint.
    Normal,
    /// The log is synced with each transaction.
    Full,
}

impl Synchronous {
    /// The name in the pragma, on command lines and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Synchronous::Normal => "normal",
            Synchronous::Full => "full",
        }
    }
}

impl FromStr for Synchronous {
    type Err = String;

    fn from_str(name: &str) -> Result<Synchronous, String> {
        [Synchronous::Normal, Synchronous::Full]
            .into_iter()
            .find(|synchronous| synchronous.name() == name)
            .ok_or_else(|| "use one of normal, full".to_owned())
    }
}
