//! What is done to a database in an experiment.

use rusqlite::Connection;
use tantalum_volume::Volume;

use super::outcome::WorkloadOutcome;
use super::session::Session;
use crate::error::ExperimentError;

/// The database's file on the volume.
pub(crate) const DATABASE: &str = "test.db";

/// The volume's page cache in an experiment: the host's memory, as far as files get it. Less than the default
/// database, so that reads reach the drive as well.
pub(crate) const PAGE_CACHE_BYTES: u64 = 64 << 20;

/// A workload: the same work whatever interface of the drive serves it, and a way to tell whether its result is
/// right.
pub trait Workload: Sync {
    /// Puts the database on a fresh volume, before the drive is aged.
    fn load(&self, volume: Volume, seed: u64) -> Result<Volume, ExperimentError>;

    /// Transactions that a run does, measured or not: how long its progress bar is.
    fn steps(&self) -> u64;

    /// Does what comes before the measurement.
    fn warm_up(&self, session: &mut Session<'_>, seed: u64) -> Result<(), ExperimentError>;

    /// Does what is measured.
    fn measure(&self, session: &mut Session<'_>, seed: u64) -> Result<(), ExperimentError>;

    /// Compares all of the database with what it should hold. Tells the first difference, if there is one.
    fn difference(&self, connection: &Connection, seed: u64) -> Result<Option<String>, ExperimentError>;

    /// Describes itself in an outcome.
    fn describe(&self, outcome: &mut WorkloadOutcome);
}
