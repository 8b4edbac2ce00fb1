//! Errors that may be an interruption: Ctrl-C ends each part of the program in the same way.

use tantalum_crash_run::RunError;
use tantalum_nvme::bench::BenchError;
use tantalum_papers::ExperimentError;
use tantalum_replay::ReplayError;
use tantalum_report::Interrupted;
use tantalum_sweep::SweepError;
use tantalum_torture::CrashError;
use tantalum_workloads::WorkloadError;

use crate::failure::Failure;

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Failure {
        match error {
            ExperimentError::Interrupted(interrupted) => interrupted.into(),
            error => Failure::Experiment(error),
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        match error {
            RunError::Interrupted(interrupted) => interrupted.into(),
            error => Failure::Run(error),
        }
    }
}

impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Failure {
        match error {
            ReplayError::Interrupted(interrupted) => interrupted.into(),
            error => Failure::Replay(error),
        }
    }
}

impl From<SweepError> for Failure {
    fn from(error: SweepError) -> Failure {
        match error {
            SweepError::Interrupted(interrupted) => interrupted.into(),
            error => Failure::Sweep(error),
        }
    }
}

impl From<CrashError> for Failure {
    fn from(error: CrashError) -> Failure {
        match error {
            CrashError::Interrupted(interrupted) => interrupted.into(),
            error => Failure::Crash(error),
        }
    }
}

impl From<WorkloadError> for Failure {
    fn from(error: WorkloadError) -> Failure {
        match error {
            WorkloadError::Interrupted(interrupted) => interrupted.into(),
            error => Failure::Bench(error),
        }
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Failure {
        match error {
            BenchError::Interrupted => Interrupted.into(),
            error => Failure::ServedBench(error),
        }
    }
}
