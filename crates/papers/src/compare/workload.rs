//! The work on a database in an experiment.

use rusqlite::Connection;
use tantalum_volume::Volume;

use super::outcome::WorkloadOutcome;
use super::session::Session;
use crate::error::ExperimentError;

/// The database's file on the volume.
pub(crate) const DATABASE: &str = "test.db";

/// The volume's page cache in an experiment: the part of the host's memory for files. Less than the default database,
/// so that reads reach the drive as well.
pub(crate) const PAGE_CACHE_BYTES: u64 = 64 << 20;

/// A workload: the same work whatever mode serves it, and a way to check its result.
pub trait Workload: Sync {
    /// Puts the database on a fresh volume, before the drive is aged.
    fn load(&self, volume: Volume, seed: u64) -> Result<Volume, ExperimentError>;

    /// Transactions in a run, measured or not: the length of its progress bar.
    fn steps(&self) -> u64;

    /// The work before the measurement.
    fn warm_up(&self, session: &mut Session<'_>, seed: u64) -> Result<(), ExperimentError>;

    /// The measured work.
    fn measure(&self, session: &mut Session<'_>, seed: u64) -> Result<(), ExperimentError>;

    /// Compares the whole database with the expected contents. Returns the first difference, if there is one.
    fn difference(&self, connection: &Connection, seed: u64) -> Result<Option<String>, ExperimentError>;

    /// Describes itself in the results.
    fn describe(&self, outcome: &mut WorkloadOutcome);
}
