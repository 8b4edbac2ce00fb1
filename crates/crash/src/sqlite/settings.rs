//! What to test, and for how long.

use tantalum_sqlite::{Mode, Synchronous};

use crate::program::Cuts;

/// What to test, and for how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// SQLite's use of the drive.
    pub modes: Vec<Mode>,
    /// `PRAGMA synchronous`; full sets SQLite's EXTRA, so that the removal of a rollback journal is durable too.
    pub synchronous: Vec<Synchronous>,
    /// The first seed.
    pub first_seed: u64,
    /// Number of consecutive seeds.
    pub seeds: u64,
    /// When power is cut.
    pub cuts: Cuts,
    /// The maximum number of transactions before a random cut, or the transactions of the run that is cut at every
    /// flash operation.
    pub transactions: u64,
    /// Continues with fresh seeds for this many minutes instead of `seeds`.
    pub minutes: Option<u64>,
    /// Whether the host fails, as often as `cuts` says, instead of the power.
    pub host_faults: bool,
}
