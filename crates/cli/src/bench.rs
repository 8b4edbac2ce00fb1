//! `tantalum bench`.

use tantalum_workloads::bench::{Settings, bench, of_bench};

use crate::arguments::BenchOptions;
use crate::drive::{give_handles, note_rounding};
use crate::failure::Failure;
use crate::{bench_nvme, interrupt, output};

/// Measures and prints the outcome.
pub fn run(options: &BenchOptions) -> Result<(), Failure> {
    let _offer = options.offer.offer()?;
    let Some(pattern) = options.pattern else { return bench_nvme::run(options) };
    let mut profile = options.drive.load(None, options.over_provisioning_percent)?;
    give_handles(&mut profile, options.handles)?;
    let settings = Settings {
        profile,
        pattern,
        announce_reads: !options.no_prefetch,
        operations: options.operations,
        seed: options.seed,
    };
    note_rounding(&settings.profile);
    let outcome = bench(&settings, &interrupt::monitor())?;
    output::report(&outcome, options.json, of_bench)
}
