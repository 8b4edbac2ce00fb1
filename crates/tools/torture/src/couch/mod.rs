//! `tantalum crash couch`: a document store runs on a drive, power is cut at flash operations, and the result is
//! checked against what the store promised (C1 to C5 at the head of `tantalum-couch`).
//!
//! Batches create, update and delete documents, snapshots are held open, the file is compacted step by step, and other
//! data are overwritten so that garbage is collected. Several threads can do so in turns that the seed draws. After each cut the drive recovers, the volume is mounted, the store
//! is opened, and all documents and all changes are compared with a copy in host memory. Everything follows from a seed,
//! so every violation has a command line that reproduces it.

mod contents;
mod documents;
mod session;
mod settings;
mod turns;

use documents::Documents;
pub use settings::{MOST_THREADS, Settings, way_name};
use tantalum_report::{InvalidSetting, Monitor};

use crate::CrashOutcome;
use crate::error::CrashError;
use crate::program::{Plan, torture};

/// Runs the torture test of the store. Broken promises are results, not errors.
pub fn run(settings: &Settings, monitor: &Monitor) -> Result<CrashOutcome, CrashError> {
    if !(1..=MOST_THREADS).contains(&settings.threads) {
        let expected = format!("use a number from 1 to {MOST_THREADS}");
        return Err(InvalidSetting::new("--threads", settings.threads, expected).into());
    }
    let plan = Plan {
        programs: settings.ways.iter().map(|&way| Documents { way, threads: settings.threads }).collect(),
        seeds: settings.seeds.clone(),
        cuts: settings.cuts,
        length: settings.commits,
        host_faults: settings.host_faults,
    };
    torture(&plan, monitor)
}
