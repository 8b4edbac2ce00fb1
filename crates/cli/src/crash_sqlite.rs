//! `tantalum crash sqlite`.

use clap::Args;
use tantalum_sqlite::{Mode, Synchronous};
use tantalum_torture::sqlite::{Settings, run as torture};

use crate::crash_program::ProgramOptions;
use crate::failure::Failure;

/// `tantalum crash sqlite`.
#[derive(Args, Debug)]
pub struct CrashSqliteOptions {
    /// Mode: rollback, wal, x-ftl, atomic, share, sw-wal, or all
    #[arg(long, value_name = "MODE", default_value = "all", value_parser = parse_modes)]
    pub mode: Modes,

    /// SQLite's PRAGMA synchronous: normal, full or both. Full sets EXTRA, so that the removal of a rollback journal is
    /// durable too
    #[arg(long, value_name = "SETTING", default_value = "both", value_parser = parse_synchronous)]
    pub synchronous: Synchronouses,

    /// Maximum number of transactions before a cut, or in the short workload [default: 40, or 12 with all and @N]
    #[arg(long, value_name = "N")]
    pub transactions: Option<u64>,

    #[command(flatten)]
    pub program: ProgramOptions,
}

/// The selected modes.
#[derive(Clone, Debug)]
pub struct Modes(Vec<Mode>);

/// The selected settings of `synchronous`.
#[derive(Clone, Debug)]
pub struct Synchronouses(Vec<Synchronous>);

fn parse_modes(text: &str) -> Result<Modes, String> {
    if text == "all" {
        return Ok(Modes(Mode::ALL.to_vec()));
    }
    let mode = text.parse::<Mode>().map_err(|error| format!("{error}, or all"))?;
    Ok(Modes(vec![mode]))
}

fn parse_synchronous(text: &str) -> Result<Synchronouses, String> {
    if text == "both" {
        return Ok(Synchronouses(vec![Synchronous::Normal, Synchronous::Full]));
    }
    let synchronous = text.parse::<Synchronous>().map_err(|known| format!("{known}, both"))?;
    Ok(Synchronouses(vec![synchronous]))
}

/// Runs the torture test and prints the results. Then a broken promise is a failure.
pub fn run(options: &CrashSqliteOptions) -> Result<(), Failure> {
    let program = &options.program;
    let settings = Settings {
        modes: options.mode.0.clone(),
        synchronous: options.synchronous.0.clone(),
        seeds: program.seeds(),
        cuts: program.cuts,
        transactions: program.length(options.transactions, 40),
        host_faults: program.host_faults,
    };
    program.run(|monitor| torture(&settings, monitor))
}
