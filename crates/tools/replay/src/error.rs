//! Errors that stop a replay.

use std::path::PathBuf;

use tantalum::Status;
use tantalum_report::{Interrupted, InvalidSetting};
use tantalum_workloads::{WorkloadError, WrongData};

use crate::trace::TraceError;

/// Why a trace was not replayed to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// It was interrupted before there was anything to report.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A setting that cannot be used.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(TraceError),
    /// The trace has no requests.
    #[error("{}: the trace has no requests", path.display())]
    NoRequests {
        /// The trace.
        path: PathBuf,
    },
    /// The trace was changed meanwhile.
    #[error(
        "line {line}: the trace has changed since it was first read; replay it while nothing writes to it"
    )]
    Changed {
        /// Where this shows; 0 at its end.
        line: u64,
    },
    /// A request goes beyond the end of the drive, and scaling is off.
    #[error(
        "{}, line {line}: the request ends at byte {end_bytes}, but the drive has {capacity_bytes}; use --scale fit or \
         wrap, or a larger --capacity",
        path.display()
    )]
    BeyondCapacity {
        /// The trace.
        path: PathBuf,
        /// The line.
        line: u64,
        /// Where the request ends, with all volumes one after the other.
        end_bytes: u64,
        /// The drive's capacity.
        capacity_bytes: u64,
    },
    /// The drive is so slow that requests pile up.
    #[error(
        "line {line}: {waiting} requests wait for reads or flushes of their own, so the drive cannot keep up with the \
         trace; use a lower --speed, or --queue-depth"
    )]
    Overloaded {
        /// The line.
        line: u64,
        /// The number of requests that wait.
        waiting: usize,
    },
    /// The drive refused a command.
    #[error("line {line}: the drive refused a command: {status}")]
    Refused {
        /// The line.
        line: u64,
        /// The drive's status.
        status: Status,
    },
    /// The drive lost data.
    #[error("line {line}: {wrong}")]
    WrongData {
        /// The line.
        line: u64,
        /// The unit, and what it holds instead of its own data.
        wrong: WrongData,
    },
    /// The drive could not be created or brought into its initial condition.
    #[error(transparent)]
    Drive(WorkloadError),
}

impl ReplayError {
    /// Whether the results before it are worth reporting: the drive or the user ended the replay, which was in order until
    /// then.
    pub(crate) fn ends_replay(&self) -> bool {
        matches!(
            self,
            ReplayError::Interrupted(_) | ReplayError::Refused { .. } | ReplayError::Overloaded { .. }
        )
    }
}

impl From<TraceError> for ReplayError {
    fn from(error: TraceError) -> ReplayError {
        match error {
            TraceError::Interrupted(interrupted) => interrupted.into(),
            error => ReplayError::Trace(error),
        }
    }
}

impl From<WorkloadError> for ReplayError {
    fn from(error: WorkloadError) -> ReplayError {
        match error {
            WorkloadError::Interrupted(interrupted) => interrupted.into(),
            WorkloadError::Setting(setting) => setting.into(),
            error => ReplayError::Drive(error),
        }
    }
}
