//! What to test, and for how long.

use tantalum_sqlite::{Mode, Synchronous};

use crate::program::Cuts;
use crate::seeds::Seeds;

/// What to test, and for how long.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// SQLite's use of the drive.
    pub modes: Vec<Mode>,
    /// `PRAGMA synchronous`; full sets SQLite's EXTRA, so that the removal of a rollback journal is durable too.
    pub synchronous: Vec<Synchronous>,
    /// The seeds.
    pub seeds: Seeds,
    /// When power is cut.
    pub cuts: Cuts,
    /// The maximum number of transactions before a random cut, or the transactions of the run that is cut at every
    /// flash operation.
    pub transactions: u64,
    /// Whether the host fails, as often as `cuts` says, instead of the power.
    pub host_faults: bool,
}
