//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tantalum::Size;
use tantalum_fuse::Pacing;
use tantalum_papers::compare::Pattern;
use tantalum_sqlite::Mode;
use tantalum_sqlite::Synchronous;
use tantalum_workloads::bench;

use crate::access::AccessOptions;
use crate::ack::AckOptions;
use crate::crash_blocks::CrashBlocksOptions;
use crate::crash_clients::CrashClientsOptions;
use crate::crash_couch::CrashCouchOptions;
use crate::crash_device::CrashDeviceOptions;
use crate::crash_kv::CrashKvOptions;
use crate::crash_replay::CrashReplayOptions;
use crate::crash_run::CrashRunOptions;
use crate::crash_sqlite::CrashSqliteOptions;
use crate::crash_zones::CrashZonesOptions;
use crate::cut::CutOptions;
use crate::drive::{ProfileOptions, capacity_help};
use crate::lab::LabAction;
use crate::life::LoadOptions;
use crate::measure::MeasureOptions;
use crate::mount::MountOptions;
use crate::offer::OfferOptions;
use crate::program::ProgramAction;
use crate::recovery_cost::RecoveryCostOptions;
use crate::replay::ReplayOptions;
use crate::seeds::parse_seconds;
use crate::serve::ServeOptions;
use crate::shell::{CompletionsOptions, ManOptions};
use crate::snapshot::SnapshotAction;
use crate::stat::StatOptions;
use crate::stop::StopOptions;
use crate::unmount::UnmountOptions;
use crate::watch::WatchOptions;

/// The capacity of `compare sqlite`, unless an option sets another: small enough that ageing it and six runs take seconds, and
/// large enough that the database is only a part of it.
pub const COMPARE_CAPACITY: Size = Size(1 << 30);

/// The capacity of `bench --nvme`: enough that caches of this machine do not hold it, and little enough to be filled quickly.
pub const SERVED_CAPACITY: Size = Size(512 << 20);

/// A solid-state drive that runs as a program: see what your database writes, down to the flash
#[derive(Parser, Debug)]
#[command(name = "tantalum", version, max_term_width = 100)]
pub struct Arguments {
    /// None prints what to try first.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The command to run.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run the same work through different interfaces of the drive and compare the costs
    Compare {
        #[command(subcommand)]
        target: CompareTarget,
    },
    /// Create a drive in an image file
    Create(CreateOptions),
    /// Show the configuration, counters and state of a drive in an image file
    Info(InfoOptions),
    /// Check the consistency of a drive in an image file, without changing it
    Check(CheckOptions),
    /// Run a program on a new drive, or watch a mount, and report what was written, down to the flash
    ///
    /// The program gets the drive's folder as {} in its arguments, as $TANTALUM_DIR, and as its working directory.
    /// The exit code is the program's.
    Measure(MeasureOptions),
    /// Replay a block trace on a new drive: of fio, blktrace, Windows, public collections, or any text whose columns you name
    ///
    /// Time is virtual, so figures do not depend on this machine. A line that cannot be parsed is an error.
    Replay(ReplayOptions),
    /// Mount a drive's volume on a folder, for any program to use
    ///
    /// Without --background the command runs until the volume is unmounted. Ctrl-C and SIGTERM unmount it.
    Mount(MountOptions),
    /// List, create or delete snapshots of an lfs-tree file system that is not mounted
    ///
    /// `tantalum mount --snapshot N` mounts a snapshot read-only.
    Snapshot {
        #[command(subcommand)]
        action: SnapshotAction,
    },
    /// Unmount a volume and wait until its image is closed
    Unmount(UnmountOptions),
    /// Show the counters of a drive and its volume, even while it is mounted or served
    Stat(StatOptions),
    /// Serve a web page that shows a mounted or served drive at work
    ///
    /// The page shows dies and blocks, throughput, write amplification by cause, latencies, garbage collection, recovery, and
    /// writes by file. Only this machine can open it, at the address that is printed. It changes nothing unless --control is given.
    Watch(WatchOptions),
    /// Cut the power of a mounted or served drive
    ///
    /// From then on every request to a mount fails; to recover, unmount it and mount it again. A served drive drops its
    /// connections and recovers, and hosts can attach again.
    Cut(CutOptions),
    /// Serve a drive over NVMe/TCP, so that Linux can attach it with `nvme connect` as a block device
    ///
    /// Without --background the command runs until Ctrl-C, SIGTERM or `tantalum stop`, and then shuts the drive down.
    Serve(ServeOptions),
    /// Set how well hosts reach a served drive through one of its ports
    ///
    /// Hosts are told (asymmetric namespace access), if the drive is served at several ports. Through one that is inaccessible,
    /// or about to change, their commands are refused, and Linux sends them another way.
    Access(AccessOptions),
    /// Note in the recording of a served drive what a program has acknowledged: each line of standard input
    ///
    /// What is noted must be there after every power cut that follows; see `tantalum crash blocks`.
    Ack(AckOptions),
    /// Stop serving a drive, and wait until its image is closed
    Stop(StopOptions),
    /// Measure how fast this machine can run the device
    Bench(BenchOptions),
    /// Measure recovery time after a power cut, and the cost of keeping it short
    ///
    /// Time is virtual, so figures do not depend on this machine, except those in the column "host s".
    RecoveryCost(RecoveryCostOptions),
    /// Run experiments from papers and compare their figures with those measured here
    ///
    /// Experiments on the device alone run in virtual time. Experiments with a database server start a private server
    /// from Debian's packages on a temporary mount. They touch no system service and remove everything afterwards.
    Lab {
        #[command(subcommand)]
        action: LabAction,
    },
    /// List the programs that come with the drive, describe a module, or run one in a drive
    Program {
        #[command(subcommand)]
        action: ProgramAction,
    },
    /// Cut power while a drive is in use, and check what survives against the promises
    Crash {
        #[command(subcommand)]
        target: CrashTarget,
    },
    /// Print a script that lets a shell complete commands and options
    Completions(CompletionsOptions),
    /// Write man pages, one for each command
    Man(ManOptions),
}

/// What runs on the drive when power is lost.
#[derive(Subcommand, Debug)]
pub enum CrashTarget {
    /// Run a random mix of all commands of the drive
    ///
    /// The drives are so small that they collect garbage, level wear, flush the journal and take checkpoints all the time.
    /// Every seed runs on each selected kind of drive. A broken promise ends its run. It is minimised, and printed with
    /// the command line that reproduces it, and the exit code is 1.
    Device(CrashDeviceOptions),
    /// Run several clients of one drive, with commands of every kind in flight together
    ///
    /// Whose turn it is, and how long everybody waits, is drawn from the seed, so a violation is printed with the command line
    /// that reproduces it. Every seed runs on each selected kind of drive.
    Clients(CrashClientsOptions),
    /// Run SQLite on a small drive
    ///
    /// The seed determines everything: a violation is printed with the command line that reproduces it.
    Sqlite(CrashSqliteOptions),
    /// Run a document store on a small drive, in its original form and with sharing
    ///
    /// The seed determines everything: a violation is printed with the command line that reproduces it.
    Couch(CrashCouchOptions),
    /// Run the key-value store on a small drive: ordered and hashed namespaces, ranges, snapshots, large transactions
    ///
    /// The seed determines everything: a violation is printed with the command line that reproduces it.
    Kv(CrashKvOptions),
    /// Test zones of a drive that a host fills, finishes and resets
    ///
    /// The seed determines everything: a violation is printed with the command line that reproduces it.
    Zones(CrashZonesOptions),
    /// Test whether a program survives power loss
    ///
    /// The program runs once, in a folder on a mounted drive, and its file operations are recorded. Then power is cut after
    /// each operation, in every way that can make a difference, and --check runs on the files that are left. It must exit with
    /// 0 if they are intact. The lines `ack ...` that the program had printed, or written to $TANTALUM_ACK, before the cut are
    /// given to the check in the file $TANTALUM_ACKS. The exit code is 1 if a check failed.
    Run(CrashRunOptions),
    /// Test whether a machine, with its file systems and programs, survives power loss
    ///
    /// What a host did to a drive that `tantalum serve --record` served is performed again, on a drive that loses power. --check
    /// runs on each disk that is left, a file of the name `disk`. It must exit with 0 if that holds what it should. The
    /// lines that `tantalum ack` had noted before the cut are given to the check in the file $TANTALUM_ACKS. The exit code is 1 if a check failed.
    Blocks(CrashBlocksOptions),
    /// Check a finding of `crash run` again, or mount its files for inspection
    ///
    /// Without DIR the check runs on a copy of the files, and the exit code is 1 if it fails again.
    Replay(CrashReplayOptions),
}

/// What is compared.
#[derive(Subcommand, Debug)]
pub enum CompareTarget {
    /// SQLite's transactions
    ///
    /// Each mode gets a copy of the same aged drive. Time is virtual, so the same seed gives the same figures on any
    /// machine.
    Sqlite(CompareOptions),
}

/// `tantalum compare sqlite`.
#[derive(Args, Debug)]
#[command(mut_arg("capacity", |capacity| capacity.help(capacity_help(COMPARE_CAPACITY))))]
pub struct CompareOptions {
    /// Modes, separated by commas [default: rollback,wal,x-ftl,atomic,share,sw-wal]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub modes: Vec<Mode>,

    /// Order in which rows are updated: random or sequential
    #[arg(long, value_name = "PATTERN", default_value = "random", conflicts_with = "database")]
    pub pattern: Pattern,

    /// Size of a value in bytes
    #[arg(long, value_name = "N", default_value_t = 4096, conflicts_with = "database")]
    pub value_bytes: u32,

    /// Number of transactions to measure, each of one update
    #[arg(long, value_name = "N", default_value_t = 20_000, conflicts_with = "database")]
    pub operations: u64,

    /// Number of rows in the table
    #[arg(long, value_name = "N", default_value_t = 20_000, conflicts_with = "database")]
    pub rows: u64,

    /// SQLite's PRAGMA synchronous: normal or full
    #[arg(long, value_name = "MODE", default_value = "full")]
    pub synchronous: Synchronous,

    #[command(flatten)]
    pub drive: ProfileOptions,

    /// Seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Use a copy of your own database instead of a table of values; the original is not touched
    #[arg(long, value_name = "FILE", requires = "sql")]
    pub database: Option<PathBuf>,

    /// Run your own statements, each as a transaction unless they BEGIN one, on --database (an empty file is an empty database)
    #[arg(long, value_name = "FILE", requires = "database")]
    pub sql: Option<PathBuf>,

    /// Write a report with plots as one HTML page
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,

    #[command(flatten)]
    pub offer: OfferOptions,

    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// `tantalum create`.
#[derive(Args, Debug)]
pub struct CreateOptions {
    /// The image file to create; it must not exist
    pub image: PathBuf,

    #[command(flatten)]
    pub drive: ProfileOptions,

    /// Flash beyond the capacity, as a percentage of it [default: the profile's]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub over_provisioning_percent: Option<f64>,

    /// DRAM for the indexes of key-value namespaces, such as 64M; beyond it, the least recently used indexes are swapped
    /// out to flash [default: the profile's, or unlimited]
    #[arg(long, value_name = "SIZE")]
    pub index_dram: Option<Size>,

    /// Up to which size a write is all or nothing, wherever it lies: 4KiB to 256KiB [default: the profile's]
    #[arg(long, value_name = "SIZE")]
    pub atomic_write: Option<Size>,

    /// Reclaim unit handles with which hosts place data, 1 to 128 [default: the profile's]
    #[arg(long, value_name = "N")]
    pub handles: Option<u32>,

    /// Age the drive: create a volume with a file of other data, and overwrite it at random until garbage collection is
    /// steady. A new drive has no garbage to collect, which flatters write-heavy programs
    #[arg(long)]
    pub aged: bool,

    /// Fill this share of the capacity with other data, in a volume [default with --aged: 90, or less on a drive below 320 MiB,
    /// of which 32 MiB stay free]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=95))]
    pub fill: Option<u8>,

    /// Seed of the data written by --aged or --fill
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// `tantalum info`.
#[derive(Args, Debug)]
pub struct InfoOptions {
    /// The image file
    pub image: PathBuf,

    #[command(flatten)]
    pub load: LoadOptions,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `tantalum check`.
///
/// Exits with 0 if nothing is wrong, 1 if something is, and 2 if the file is not an image or cannot be read.
#[derive(Args, Debug)]
pub struct CheckOptions {
    /// The image file
    pub image: PathBuf,

    /// Repair the image without inventing data; refuse, and change nothing, if anything cannot be repaired
    #[arg(long)]
    pub repair: bool,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `tantalum bench`.
#[derive(Args, Debug)]
#[command(mut_arg("capacity", |capacity| capacity.help(bench_capacity_help())))]
pub struct BenchOptions {
    /// Access pattern: seqwrite, randwrite, randread, or mixed (70 % reads, 30 % writes); with zones zonewrite, zoneappend, or zonemixed
    #[arg(long, value_name = "PATTERN", required_unless_present_any = ["nvme", "seconds", "image", "time"], conflicts_with = "nvme")]
    pub pattern: Option<bench::Pattern>,

    /// Do not tell the drive which reads come next; by default it looks 16 of them up ahead, as for a host with a queue
    #[arg(long, requires = "pattern")]
    pub no_prefetch: bool,

    /// Measure the drive as `tantalum serve` serves it, compared with the same server without a drive
    #[arg(long)]
    pub nvme: bool,

    /// With --nvme: also measure a drive in this file, which must not exist and is removed afterwards
    #[arg(long, value_name = "FILE", requires = "nvme")]
    pub image: Option<PathBuf>,

    /// With --nvme: whether hosts see the drive's latencies [default: none]
    #[arg(long, value_name = "real|none", requires = "nvme")]
    pub time: Option<Pacing>,

    /// With --nvme: seconds to measure each case, in turns with its limit
    #[arg(long, value_name = "N", default_value_t = 3.0, requires = "nvme", conflicts_with = "pattern", value_parser = parse_seconds)]
    pub seconds: f64,

    #[command(flatten)]
    pub drive: ProfileOptions,

    /// Flash beyond the capacity, as a percentage of it [default: the profile's]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub over_provisioning_percent: Option<f64>,

    /// With --pattern: give the drive N reclaim unit handles, 1 to 128, each for an equal part of its units [default: the
    /// profile's]
    #[arg(long, value_name = "N", conflicts_with = "nvme")]
    pub handles: Option<u32>,

    /// With --pattern: number of operations to measure, each of one 4 KiB unit
    #[arg(long, value_name = "N", default_value_t = 2_000_000, conflicts_with = "nvme")]
    pub operations: u64,

    /// Seed of the random addresses
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "nvme")]
    pub seed: u64,

    #[command(flatten)]
    pub offer: OfferOptions,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `tantalum bench` measures two kinds of drives.
fn bench_capacity_help() -> String {
    let served = capacity_help(SERVED_CAPACITY);
    served.replace("[default: ", "[default: the profile's, with --nvme ")
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// The help of replay, measure and compare named the profile's capacity, which they do not use.
    #[test]
    fn the_help_says_each_commands_default_capacity() {
        let cases = [
            (&["create"][..], "the profile's"),
            (&["bench"], "the profile's, with --nvme 512MiB"),
            (&["replay"], "1GiB"),
            (&["measure"], "1GiB"),
            (&["compare", "sqlite"], "1GiB"),
            (&["recovery-cost"], "1GiB"),
        ];
        for (names, default) in cases {
            let mut command = Arguments::command();
            for name in names {
                command = command.find_subcommand(name).unwrap().clone();
            }
            let capacity = command.get_arguments().find(|argument| argument.get_id() == "capacity").unwrap();
            let help = capacity.get_help().unwrap().to_string();
            assert!(help.ends_with(&format!("[default: {default}]")), "{names:?}: {help}");
        }
    }

    /// `bench --pattern` ignored --seconds, and `bench --nvme` --operations.
    #[test]
    fn bench_refuses_what_it_would_ignore() {
        let error = |ignored: &[&str]| {
            let arguments = ["tantalum", "bench"].iter().chain(ignored);
            Arguments::try_parse_from(arguments).unwrap_err().to_string()
        };
        error(&["--pattern", "mixed", "--seconds", "9"]);
        error(&["--nvme", "--operations", "9"]);
        assert!(error(&["--seconds", "9"]).contains("--nvme"));
    }

    #[test]
    fn the_help_names_every_builtin_profile() {
        let help = Arguments::command().find_subcommand_mut("bench").unwrap().render_help().to_string();
        for (name, _) in tantalum::builtin() {
            assert!(help.contains(name), "{name} is not in the help");
        }
    }
}
