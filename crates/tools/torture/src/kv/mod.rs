//! `tantalum crash kv`: the key-value store runs on a drive, power is cut at flash operations, and what is left is checked
//! against what the store promised (K1, K2, K4 and K5 at the head of `tantalum-kv`).
//!
//! Transactions of one record to thousands change an ordered and a hashed namespace together, with values of up to two MiB. Keys have up to 1,024 bytes,
//! are prefixes of each other, and come and go, so that nodes are split and merged. Ranges are read from both ends, with the
//! transaction's own changes; snapshots are held open; other records are overwritten so that garbage is collected, and
//! occasionally the drive is full. After each cut the drive recovers, the store is opened, and all records are compared with
//! a copy in host memory. Everything follows from a seed, so every violation has a command line that reproduces it.

mod contents;
mod draw;
mod held;
mod keys;
mod ranges;
mod session;
mod settings;
mod under_test;

pub use settings::Settings;
use tantalum_report::Monitor;
use under_test::KeyValue;

use crate::CrashOutcome;
use crate::error::CrashError;
use crate::program::{Plan, torture};

/// Runs the torture test of the store. Broken promises are results, not errors.
pub fn run(settings: &Settings, monitor: &Monitor) -> Result<CrashOutcome, CrashError> {
    let plan = Plan {
        programs: vec![KeyValue],
        seeds: settings.seeds.clone(),
        cuts: settings.cuts,
        length: settings.commits,
        host_faults: settings.host_faults,
    };
    torture(&plan, monitor)
}
