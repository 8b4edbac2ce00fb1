//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tantalum_lab::{Pattern, Synchronous, bench};
use tantalum_sqlite::Mode;

use crate::crash_sqlite::CrashSqliteOptions;
use crate::drive::ProfileOptions;

/// A solid-state drive that runs as a program: what does your database write, down to the flash?
#[derive(Parser, Debug)]
#[command(name = "tantalum", version, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run the same work through different interfaces of the drive and compare what it costs
    Compare {
        #[command(subcommand)]
        target: CompareTarget,
    },
    /// Make a drive in an image file
    Create(CreateOptions),
    /// Show a drive in an image file: what it is, what it has been through
    Info(InfoOptions),
    /// Drive the device as fast as this machine allows
    Bench(BenchOptions),
    /// Cut the power while something works, again and again, and check what is there afterwards
    Crash {
        #[command(subcommand)]
        target: CrashTarget,
    },
}

/// What works while power is cut.
#[derive(Subcommand, Debug)]
pub enum CrashTarget {
    /// SQLite on a small drive
    ///
    /// Everything follows from the seed: a violation comes with the command line that shows it again.
    Sqlite(CrashSqliteOptions),
}

/// Whose interfaces are compared.
#[derive(Subcommand, Debug)]
pub enum CompareTarget {
    /// SQLite's transactions
    ///
    /// Each mode gets a copy of one aged drive. Time is the drive's own, so figures do not depend on this
    /// machine: the same seed gives the same figures anywhere.
    Sqlite(CompareOptions),
}

/// `tantalum compare sqlite`.
#[derive(Args, Debug)]
pub struct CompareOptions {
    /// Modes, separated by commas [default: rollback,wal,x-ftl,atomic,share,sw-wal]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub modes: Vec<Mode>,

    /// In which order rows are updated: random or sequential
    #[arg(long, value_name = "PATTERN", default_value = "random", conflicts_with = "database")]
    pub pattern: Pattern,

    /// Bytes of a value
    #[arg(long, value_name = "N", default_value_t = 4096, conflicts_with = "database")]
    pub value_bytes: u32,

    /// Transactions to measure, each of one update
    #[arg(long, value_name = "N", default_value_t = 20_000, conflicts_with = "database")]
    pub operations: u64,

    /// Rows of the table
    #[arg(long, value_name = "N", default_value_t = 20_000, conflicts_with = "database")]
    pub rows: u64,

    /// SQLite's PRAGMA synchronous: normal or full
    #[arg(long, value_name = "MODE", default_value = "full")]
    pub synchronous: Synchronous,

    #[command(flatten)]
    pub drive: ProfileOptions,

    /// Where all randomness comes from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Your own database instead of a table of values; it is copied and never touched
    #[arg(long, value_name = "FILE", requires = "sql")]
    pub database: Option<PathBuf>,

    /// Your own statements, each a transaction unless they BEGIN one
    #[arg(long, value_name = "FILE", requires = "database")]
    pub sql: Option<PathBuf>,

    /// Write a report with plots, one HTML page
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,

    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// `tantalum create`.
#[derive(Args, Debug)]
pub struct CreateOptions {
    /// The image file to make; it must not exist
    pub image: PathBuf,

    #[command(flatten)]
    pub drive: ProfileOptions,

    /// Flash beyond the capacity, in percent of it [default: the profile's]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub over_provisioning_percent: Option<f64>,
}

/// `tantalum info`.
#[derive(Args, Debug)]
pub struct InfoOptions {
    /// The image file
    pub image: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `tantalum bench`.
#[derive(Args, Debug)]
pub struct BenchOptions {
    /// What to do: seqwrite, randwrite, randread, or mixed (70 reads and 30 writes of a hundred)
    #[arg(long, value_name = "PATTERN")]
    pub pattern: bench::Pattern,

    #[command(flatten)]
    pub drive: ProfileOptions,

    /// Flash beyond the capacity, in percent of it [default: the profile's]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub over_provisioning_percent: Option<f64>,

    /// Operations to measure, each of one unit of 4 KiB
    #[arg(long, value_name = "N", default_value_t = 2_000_000)]
    pub operations: u64,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_help_names_every_builtin_profile() {
        let help = Arguments::command().find_subcommand_mut("bench").unwrap().render_help().to_string();
        for (name, _) in tantalum::builtin() {
            assert!(help.contains(name), "{name} is not in the help");
        }
    }
}
