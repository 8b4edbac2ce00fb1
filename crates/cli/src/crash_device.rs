//! `tantalum crash device`.

use clap::{Args, ValueEnum};
use tantalum_torture::device::{
    Cuts, DriveChoice, Flash, Handles, Medium, Settings, Weights, of_device_crash, torture,
};

use crate::crash_drive::{CutCount, DriveOptions, PlanOptions};
use crate::failure::Failure;
use crate::seeds::SeedOptions;
use crate::{interrupt, output};

/// `tantalum crash device`.
#[derive(Args, Debug)]
pub struct CrashDeviceOptions {
    #[command(flatten)]
    pub seeds: SeedOptions,

    /// Cut power at every program and erase of each command, in every variant, on copies of the drive; or N times at
    /// random in one long run [default: all, or 100 with --host-faults]
    #[arg(long, value_name = "all|N")]
    pub cuts: Option<CutCount>,

    #[command(flatten)]
    pub drive: DriveOptions,

    /// Whether the host waits for each command, or submits others while it is in flight [default: the seed chooses]
    #[arg(long, value_enum)]
    pub host: Option<HostKind>,

    /// Units of the largest write that is all or nothing, 1 to 16; fewer if the drive's cache is small [default: the seed chooses]
    #[arg(long, value_name = "N")]
    pub atomic_write_units: Option<u32>,

    /// How the host places data: not at all, or with reclaim unit handles that are kept apart until garbage is collected, or always
    /// [default: the seed chooses]
    #[arg(long, value_enum)]
    pub handles: Option<HandleKind>,

    /// In an image on a host that fails: each call on the file may, once or from then on, with an I/O error or because the
    /// disk is full; half of the drives must then survive the loss of the machine
    #[arg(long, conflicts_with_all = ["medium", "at"])]
    pub host_faults: bool,

    /// Number of commands before the first cut, with --cuts all
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub age: u64,

    /// Number of commands during which power is cut, with --cuts all
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub commands: u64,

    /// Relative frequency of commands, such as write=24,trim=5,reopen=0; the others keep their weight
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    pub weights: Weights,

    #[command(flatten)]
    pub plan: PlanOptions,
}

/// `--host`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostKind {
    /// It submits a command when the previous one is done
    Waits,
    /// It submits commands while others are in flight
    Queues,
}

/// `--handles`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandleKind {
    /// The drive has no reclaim unit handles
    None,
    /// Copies of all handles lie together
    Initially,
    /// Copies lie with copies of the same handle
    Persistently,
}

impl From<HandleKind> for Handles {
    fn from(kind: HandleKind) -> Handles {
        match kind {
            HandleKind::None => Handles::None,
            HandleKind::Initially => Handles::Initially,
            HandleKind::Persistently => Handles::Persistently,
        }
    }
}

/// Number of seeds if none are given.
const DEFAULT_SEEDS: u64 = 4;

/// Failures of the host in one run, if no number is given.
const DEFAULT_HOST_FAULTS: u64 = 100;

/// Runs the torture test and prints the results. Then a broken promise is a failure.
pub fn run(options: &CrashDeviceOptions) -> Result<(), Failure> {
    options.plan.check_place(options.age, options.commands)?;
    let crash = torture(&settings(options), &interrupt::monitor())?;
    output::report(&crash, options.plan.json, of_device_crash)?;
    Failure::of_outcome(&crash.outcome, &options.seeds)
}

fn settings(options: &CrashDeviceOptions) -> Settings {
    let cuts = match options.cuts {
        None | Some(CutCount::All) if options.host_faults => Cuts::Random(DEFAULT_HOST_FAULTS),
        None | Some(CutCount::All) => Cuts::All,
        Some(CutCount::Random(count)) => Cuts::Random(count),
    };
    Settings {
        seeds: options.seeds.chosen(DEFAULT_SEEDS),
        drives: drives(options),
        plan: options.plan.plan(cuts, (options.age, options.commands), &options.weights),
        threads: options.plan.threads,
        first_only: false,
    }
}

fn drives(options: &CrashDeviceOptions) -> DriveChoice {
    let drive = &options.drive;
    DriveChoice {
        plp: drive.plp.into(),
        cache: drive.cache.into(),
        page_bytes: drive.page_bytes,
        own_logs: drive.own_logs(),
        swaps: drive.swaps(),
        queues: options.host.map(|host| host == HostKind::Queues),
        full: drive.full(),
        flash: drive.flash.map(Flash::from),
        medium: match options.host_faults {
            true => Some(Medium::FailingHost),
            false => drive.medium.map(Medium::from),
        },
        scheduling: drive.scheduling(),
        atomic_write_units: options.atomic_write_units,
        handles: options.handles.map(Handles::from),
    }
}
