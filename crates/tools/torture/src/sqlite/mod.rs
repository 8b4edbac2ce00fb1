//! `tantalum crash sqlite`: a real SQLite runs on a drive, power is cut at flash operations, and what is left is
//! checked against what SQLite promised.
//!
//! After each cut the drive recovers, the volume is mounted, SQLite opens the database and checks its integrity, and
//! all rows are compared with a copy in host memory. The database must equal the state after one transaction, and the
//! mode and `synchronous` must allow that state (`history`). Everything follows from a seed, so every violation has a
//! command line that reproduces it.

mod contents;
mod database;
mod history;
mod session;
mod settings;
mod step;

use database::Database;
pub use settings::Settings;
use tantalum_report::Monitor;

use crate::CrashOutcome;
use crate::error::CrashError;
use crate::program::{Plan, torture};

/// Runs the torture test of SQLite. Broken promises are results, not errors.
///
/// SQLite has one random number generator for the process, so only one run at a time can be reproducible byte for byte.
pub fn run(settings: &Settings, monitor: &Monitor) -> Result<CrashOutcome, CrashError> {
    let with = |mode| settings.synchronous.iter().map(move |&synchronous| Database { mode, synchronous });
    let plan = Plan {
        programs: settings.modes.iter().flat_map(|&mode| with(mode)).collect(),
        seeds: settings.seeds.clone(),
        cuts: settings.cuts,
        length: settings.transactions,
        host_faults: settings.host_faults,
    };
    torture(&plan, monitor)
}
