//! `tantalum crash sqlite`.

use clap::Args;
use tantalum_crash::Cuts;
use tantalum_crash::sqlite::{Settings, run as torture};
use tantalum_crash::summary;
use tantalum_sqlite::{Mode, Synchronous};

use crate::failure::Failure;
use crate::offered::OfferOptions;
use crate::seeds::SeedOptions;
use crate::{interrupt, output};

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

    #[command(flatten)]
    pub seeds: SeedOptions,

    /// N: this many power cuts in the life of a database; all: one at every flash operation of a short workload; @N: only
    /// at operation N of that workload
    #[arg(long, value_name = "N", default_value = "40")]
    pub cuts: Cuts,

    /// Maximum number of transactions before a cut, or in the short workload [default: 40, or 12 with all and @N]
    #[arg(long, value_name = "N")]
    pub transactions: Option<u64>,

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
    let _offer = options.offer.offer()?;
    let transactions = match options.cuts {
        Cuts::Random(_) => 40,
        Cuts::All | Cuts::At(_) => 12,
    };
    let seeds = options.seeds.range(1);
    let settings = Settings {
        modes: options.mode.0.clone(),
        synchronous: options.synchronous.0.clone(),
        first_seed: seeds.start,
        seeds: seeds.end - seeds.start,
        cuts: options.cuts,
        transactions: options.transactions.unwrap_or(transactions),
        minutes: options.minutes,
        host_faults: options.host_faults,
    };
    let outcome = torture(&settings, &interrupt::monitor())?;
    output::report(&outcome, options.json, summary::of)?;
    Failure::of_outcome(&outcome)
}
