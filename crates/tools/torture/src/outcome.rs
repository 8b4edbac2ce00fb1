//! The results of a torture test.

use serde::Serialize;

/// A broken promise.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Violation {
    /// The seed of the run.
    pub seed: u64,
    /// Which cut of the run, from 0.
    pub cut: u64,
    /// The promise: `D1` to `D5`, or one of SQLite's.
    pub promise: String,
    /// What was found and what would have been allowed.
    pub detail: String,
    /// The command line that reproduces it, minimised.
    pub replay: String,
}

/// Counts over all runs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CrashOutcome {
    /// Seeds run.
    pub seeds: u64,
    /// Power cuts while the drive worked.
    pub cuts: u64,
    /// Recoveries that found the drive not shut down cleanly.
    pub dirty_recoveries: u64,
    /// Power cuts during recovery.
    pub second_cuts: u64,
    /// Pages that recovery found torn.
    pub torn_pages_seen: u64,
    /// Comparisons with the oracle.
    pub promises_checked: u64,
    /// Broken promises.
    pub violations: Vec<Violation>,
    /// Whether it was interrupted: these are the results until then.
    pub interrupted: bool,
}

impl CrashOutcome {
    /// Whether no cut was made, nothing was found, and the run was not interrupted.
    pub fn has_done_nothing(&self) -> bool {
        self.cuts == 0 && self.second_cuts == 0 && self.violations.is_empty() && !self.interrupted
    }

    /// Adds another run's counts.
    pub fn add(&mut self, other: CrashOutcome) {
        self.seeds += other.seeds;
        self.cuts += other.cuts;
        self.dirty_recoveries += other.dirty_recoveries;
        self.second_cuts += other.second_cuts;
        self.torn_pages_seen += other.torn_pages_seen;
        self.promises_checked += other.promises_checked;
        self.violations.extend(other.violations);
        self.interrupted |= other.interrupted;
    }
}
