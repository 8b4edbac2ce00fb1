//! The work on a database in an experiment.

use rusqlite::Connection;
use tantalum_volume::Volume;

use super::outcome::WorkloadOutcome;
use super::session::Session;
use crate::error::ExperimentError;

/// A workload: the same work in every mode, and a way to check its result.
pub trait Workload: Sync {
    /// Puts the database on a fresh volume, before the drive is aged.
    fn load(&self, volume: Volume, seed: u64) -> Result<Volume, ExperimentError>;

    /// The maximum number of units by which the work makes the database grow.
    fn growth_units(&self) -> u64 {
        0
    }

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
