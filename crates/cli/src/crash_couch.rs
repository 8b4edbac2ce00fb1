//! `tantalum crash couch`.

use clap::Args;
use tantalum_couch::Way;
use tantalum_crash::Cuts;
use tantalum_crash::couch::{Settings, run as torture, way_name};
use tantalum_crash::summary;

use crate::failure::Failure;
use crate::offered::OfferOptions;
use crate::seeds::SeedOptions;
use crate::{interrupt, output};

/// `tantalum crash couch`.
#[derive(Args, Debug)]
pub struct CrashCouchOptions {
    /// How documents are updated: share, original, or both
    #[arg(long, value_name = "WAY", default_value = "both", value_parser = parse_ways)]
    pub way: Ways,

    #[command(flatten)]
    pub seeds: SeedOptions,

    /// N: this many power cuts in the life of a store; all: one at every flash operation of a short workload; @N: only
    /// at operation N of that workload
    #[arg(long, value_name = "N", default_value = "40")]
    pub cuts: Cuts,

    /// Maximum number of commits before a cut, or in the short workload [default: 60, or 12 with all and @N]
    #[arg(long, value_name = "N")]
    pub commits: Option<u64>,

    /// Threads that use the store, 1 to 6; the seed draws which of them goes on whenever one is about to use the volume
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: u64,

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

/// The selected ways.
#[derive(Clone, Debug)]
pub struct Ways(Vec<Way>);

fn parse_ways(text: &str) -> Result<Ways, String> {
    let all = [Way::Share, Way::Original];
    if text == "both" {
        return Ok(Ways(all.to_vec()));
    }
    let way = all.into_iter().find(|way| way_name(*way) == text);
    way.map(|way| Ways(vec![way])).ok_or_else(|| "known are share, original, both".to_owned())
}

/// Runs the torture test and prints the results. Then a broken promise is a failure.
pub fn run(options: &CrashCouchOptions) -> Result<(), Failure> {
    let _offer = options.offer.offer()?;
    let commits = match options.cuts {
        Cuts::Random(_) => 60,
        Cuts::All | Cuts::At(_) => 12,
    };
    let seeds = options.seeds.range(1);
    let settings = Settings {
        ways: options.way.0.clone(),
        first_seed: seeds.start,
        seeds: seeds.end - seeds.start,
        cuts: options.cuts,
        commits: options.commits.unwrap_or(commits),
        threads: options.threads,
        minutes: options.minutes,
        host_faults: options.host_faults,
    };
    let outcome = torture(&settings, &interrupt::monitor())?;
    output::report(&outcome, options.json, summary::of)?;
    Failure::of_outcome(&outcome)
}
