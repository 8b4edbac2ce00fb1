//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tantalum_lab::crash::device::{CutPoint, Skip, Weights};
use tantalum_lab::{Pattern, Synchronous, bench};
use tantalum_sqlite::Mode;

use crate::crash_device::{
    CacheChoice, CutCount, FlashKind, HostKind, Indexes, MediumKind, PlpChoice, RecordLogs, Room,
};
use crate::crash_sqlite::CrashSqliteOptions;
use crate::cut::CutOptions;
use crate::drive::ProfileOptions;
use crate::lab::LabAction;
use crate::mount::MountOptions;
use crate::recovery_cost::RecoveryCostOptions;
use crate::seeds::Seeds;
use crate::serve::ServeOptions;
use crate::stat::StatOptions;
use crate::stop::StopOptions;
use crate::unmount::UnmountOptions;
use tantalum::Size;

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
    /// Check a drive in an image file against itself, without changing it
    Check(CheckOptions),
    /// Mount a drive's volume on a folder: programs use its files as they use any others
    ///
    /// Without --background it runs until the volume is unmounted, or until Ctrl-C or SIGTERM, which unmount it.
    Mount(MountOptions),
    /// Unmount a volume, and wait until its image is closed
    Unmount(UnmountOptions),
    /// What a drive has been through and what its volume holds, also while it is mounted or served
    Stat(StatOptions),
    /// Cut the power of a mounted or served drive
    ///
    /// Every request on a mount fails from then on. Unmount it, and mount it again: that recovers. A served drive drops
    /// its connections, recovers, and hosts attach again.
    Cut(CutOptions),
    /// Serve a drive over NVMe/TCP: Linux attaches it with `nvme connect` as a block device
    ///
    /// Without --background it runs until Ctrl-C, SIGTERM or `tantalum stop`, and then shuts the drive down.
    Serve(ServeOptions),
    /// Stop serving a drive, and wait until its image is closed
    Stop(StopOptions),
    /// Drive the device as fast as this machine allows
    Bench(BenchOptions),
    /// What recovery takes after a power cut, and what it costs to keep it short
    ///
    /// Time is the drive's own, so figures do not depend on this machine, except for the column host s.
    RecoveryCost(RecoveryCostOptions),
    /// Run the experiments of papers, and see their figures beside what is measured here
    ///
    /// Those on the device alone are in the drive's own time. Those with a database server start a private one from
    /// Debian's packages on a temporary mount, touch no system service, and take everything down again.
    Lab {
        #[command(subcommand)]
        action: LabAction,
    },
    /// Cut power while something works on a drive, and compare what is left with what was promised
    Crash {
        #[command(subcommand)]
        target: CrashTarget,
    },
}

/// What works on the drive when power goes.
#[derive(Subcommand, Debug)]
pub enum CrashTarget {
    /// A random mix of all commands of the drive
    ///
    /// The drives are so small that garbage collection, wear levelling, journal and checkpoints happen all the time.
    /// Every seed runs on each kind of drive chosen. A promise that is not kept ends its run; it is made small, and
    /// printed with the command line that shows it again. The exit code is then 1.
    Device(CrashDeviceOptions),
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

    /// The drive's DRAM for indexes of key-value namespaces, as in 64M: beyond, those used longest ago are swapped out to
    /// flash [default: the profile's; without one there is room for all]
    #[arg(long, value_name = "SIZE")]
    pub index_dram: Option<Size>,
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

/// `tantalum check`.
///
/// Ends with 0 if nothing is wrong, 1 if something is, 2 if the file is no image or cannot be read.
#[derive(Args, Debug)]
pub struct CheckOptions {
    /// The image file
    pub image: PathBuf,

    /// Repair what can be repaired without inventing anything; refuse the rest and change nothing
    #[arg(long)]
    pub repair: bool,

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

/// `tantalum crash device`.
#[derive(Args, Debug)]
pub struct CrashDeviceOptions {
    /// One seed; with --minutes the first one
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    pub seed: Option<u64>,

    /// Seeds A to B-1, or as many from 0 on [default: 4]
    #[arg(long, value_name = "A..B|COUNT")]
    pub seeds: Option<Seeds>,

    /// Cut power at every program and erase of each command, in every variant, on copies of the drive; or so many
    /// times at random in one long run
    #[arg(long, value_name = "all|N", default_value = "all")]
    pub cuts: CutCount,

    /// Cut power in recovery too: at every operation of each, or at random
    #[arg(long)]
    pub second_cut: bool,

    /// What becomes of the drive's DRAM
    #[arg(long, value_enum, default_value = "all")]
    pub plp: PlpChoice,

    /// Where writes wait
    #[arg(long, value_enum, default_value = "all")]
    pub cache: CacheChoice,

    /// Bytes of a flash page: 4096, 8192 or 16384 [default: the seed chooses]
    #[arg(long, value_name = "N")]
    pub page_bytes: Option<u32>,

    /// Whether key-value namespaces share the drive's log, or some have logs of their own [default: the seed chooses]
    #[arg(long, value_enum)]
    pub record_logs: Option<RecordLogs>,

    /// Whether DRAM has room for the indexes of all key-value namespaces, or they are swapped out to flash all the time
    /// [default: the seed chooses]
    #[arg(long, value_enum)]
    pub indexes: Option<Indexes>,

    /// Whether the host waits for each command, or gives others while it is under way [default: the seed chooses]
    #[arg(long, value_enum)]
    pub host: Option<HostKind>,

    /// Whether the host asks for more than there is room for [default: the seed chooses]
    #[arg(long, value_enum)]
    pub room: Option<Room>,

    /// Whether programs, erases and reads of flash fail [default: sound]
    #[arg(long, value_enum)]
    pub flash: Option<FlashKind>,

    /// Where the drive is: in memory, or in an image whose process is killed instead of power being cut [default: memory]
    #[arg(long, value_enum)]
    pub medium: Option<MediumKind>,

    /// Commands before the first cut, with --cuts all
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub age: u64,

    /// Commands in which power is cut, with --cuts all
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub commands: u64,

    /// How often each command comes, as in write=24,trim=5,reopen=0; the others keep their weight
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    pub weights: Weights,

    /// Fresh seeds until so many minutes are over
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "at"])]
    pub minutes: Option<u64>,

    /// Threads
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub threads: usize,

    /// One cut only, as a violation names it
    #[arg(long, value_name = "CUT", requires = "seed", conflicts_with = "cuts")]
    pub at: Option<CutPoint>,

    /// Commands to leave out, as a violation names them
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    pub skip: Skip,

    /// Tell every command, cut and recovery on standard error
    #[arg(long, requires = "seed")]
    pub trace: bool,

    /// Print one JSON object instead of a table
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
