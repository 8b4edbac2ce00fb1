//! `tantalum crash couch`.

use clap::Args;
use tantalum_couch::Way;
use tantalum_torture::couch::{Settings, run as torture, way_name};

use crate::crash_program::ProgramOptions;
use crate::failure::Failure;

/// `tantalum crash couch`.
#[derive(Args, Debug)]
pub struct CrashCouchOptions {
    /// How documents are updated: share, original, or both
    #[arg(long, value_name = "WAY", default_value = "both", value_parser = parse_ways)]
    pub way: Ways,

    /// Maximum number of commits before a cut, or in the short workload [default: 60, or 12 with all and @N]
    #[arg(long, value_name = "N")]
    pub commits: Option<u64>,

    /// Threads that use the store, 1 to 6; the seed draws which of them goes on whenever one is about to use the volume
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: u64,

    #[command(flatten)]
    pub program: ProgramOptions,
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
    let program = &options.program;
    let settings = Settings {
        ways: options.way.0.clone(),
        seeds: program.seeds(),
        cuts: program.cuts,
        commits: program.length(options.commits, 60),
        threads: options.threads,
        host_faults: program.host_faults,
    };
    program.run(|monitor| torture(&settings, monitor))
}
