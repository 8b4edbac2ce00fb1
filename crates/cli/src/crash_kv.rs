//! `tantalum crash kv`.

use clap::Args;
use tantalum_torture::kv::{Settings, run as torture};

use crate::crash_program::ProgramOptions;
use crate::failure::Failure;

/// `tantalum crash kv`.
#[derive(Args, Debug)]
pub struct CrashKvOptions {
    /// Maximum number of commits before a cut, or in the short workload [default: 60, or 12 with all and @N]
    #[arg(long, value_name = "N")]
    pub commits: Option<u64>,

    #[command(flatten)]
    pub program: ProgramOptions,
}

/// Runs the torture test and prints the results. Then a broken promise is a failure.
pub fn run(options: &CrashKvOptions) -> Result<(), Failure> {
    let program = &options.program;
    let settings = Settings {
        seeds: program.seeds(),
        cuts: program.cuts,
        commits: program.length(options.commits, 60),
        host_faults: program.host_faults,
    };
    program.run(|monitor| torture(&settings, monitor))
}
