//! Errors that may be an interruption: Ctrl-C ends each part of the program in the same way.

use tantalum_crash_run::RunError;
use tantalum_measure::MeasureError;
use tantalum_nvme::bench::BenchError;
use tantalum_papers::ExperimentError;
use tantalum_replay::ReplayError;
use tantalum_report::Interrupted;
use tantalum_sweep::SweepError;
use tantalum_torture::CrashError;
use tantalum_workloads::WorkloadError;

use crate::failure::Failure;

/// For each error with a variant `Interrupted`: what else it is.
macro_rules! failures {
    ($($error:ident => $failure:ident),* $(,)?) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                match error {
                    $error::Interrupted(interrupted) => interrupted.into(),
                    error => Failure::$failure(error),
                }
            }
        }
    )*};
}

failures! {
    CrashError => Crash,
    ExperimentError => Experiment,
    MeasureError => Measure,
    ReplayError => Replay,
    RunError => Run,
    SweepError => Sweep,
    WorkloadError => Bench,
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Failure {
        match error {
            BenchError::Interrupted => Interrupted.into(),
            error => Failure::ServedBench(error),
        }
    }
}
