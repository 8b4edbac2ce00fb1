//! `tantalum crash kv`.

use clap::Args;
use tantalum_crash::Cuts;
use tantalum_crash::kv::{Settings, run as torture};
use tantalum_crash::summary;

use crate::failure::Failure;
use crate::offered::OfferOptions;
use crate::seeds::SeedOptions;
use crate::{interrupt, output};

/// `tantalum crash kv`.
#[derive(Args, Debug)]
pub struct CrashKvOptions {
    #[command(flatten)]
    pub seeds: SeedOptions,

    /// N power cuts in the life of a store; all: one at every flash operation of a short workload; @N: only at
    /// operation N of it
    #[arg(long, value_name = "N", default_value = "40")]
    pub cuts: Cuts,

    /// Maximum number of commits before a cut, or in the short workload [default: 60, or 12 with all and @N]
    #[arg(long, value_name = "N")]
    pub commits: Option<u64>,

    /// Let the host fail instead of the power, as often as --cuts says: calls on the image's file, with I/O errors or because
    /// the disk is full
    #[arg(long)]
    pub host_faults: bool,

    /// Continue with fresh seeds for N minutes
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    pub minutes: Option<u64>,

    #[command(flatten)]
    pub offer: OfferOptions,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Tortures and prints the outcome. A broken promise is a failure after that.
pub fn run(options: &CrashKvOptions) -> Result<(), Failure> {
    let commits = match options.cuts {
        Cuts::Random(_) => 60,
        Cuts::All | Cuts::At(_) => 12,
    };
    let seeds = options.seeds.range(1);
    let settings = Settings {
        first_seed: seeds.start,
        seeds: seeds.end - seeds.start,
        cuts: options.cuts,
        commits: options.commits.unwrap_or(commits),
        minutes: options.minutes,
        host_faults: options.host_faults,
    };
    let _offer = options.offer.offer()?;
    let outcome = torture(&settings, &interrupt::monitor())?;
    output::report(&outcome, options.json, summary::of)?;
    Failure::of_outcome(&outcome)
}
