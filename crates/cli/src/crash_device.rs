//! `tantalum crash device`.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use tantalum::{CacheMode, FlashScheduling, Plp};
use tantalum_crash::device::{
    CutPoint, Cuts, DriveChoice, Flash, Medium, Plan, Settings, Skip, Weights, of_device_crash, torture,
};
use tantalum_report::InvalidSetting;

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

    /// Also cut power during recovery: at every operation of each recovery, or at random
    #[arg(long)]
    pub second_cut: bool,

    /// What happens to the drive's DRAM when power is lost
    #[arg(long, value_enum, default_value = "all")]
    pub plp: PlpChoice,

    /// Where writes are cached
    #[arg(long, value_enum, default_value = "all")]
    pub cache: CacheChoice,

    /// Size of a flash page in bytes: 4096, 8192 or 16384 [default: the seed chooses]
    #[arg(long, value_name = "N")]
    pub page_bytes: Option<u32>,

    /// Whether key-value namespaces share the drive's log, or some have logs of their own [default: the seed chooses]
    #[arg(long, value_enum)]
    pub record_logs: Option<RecordLogs>,

    /// Whether the indexes of all key-value namespaces fit in DRAM, or are constantly swapped out to flash [default: the
    /// seed chooses]
    #[arg(long, value_enum)]
    pub indexes: Option<Indexes>,

    /// Whether the host waits for each command, or submits others while it is in flight [default: the seed chooses]
    #[arg(long, value_enum)]
    pub host: Option<HostKind>,

    /// Whether the host exceeds the drive's capacity [default: the seed chooses]
    #[arg(long, value_enum)]
    pub room: Option<Room>,

    /// Whether flash programs, erases and reads may fail [default: sound]
    #[arg(long, value_enum)]
    pub flash: Option<FlashKind>,

    /// In memory, with power cuts, or in an image whose process is killed instead [default: memory]
    #[arg(long, value_enum)]
    pub medium: Option<MediumKind>,

    /// In an image on a host that fails: each call on the file may, once or from then on, with an I/O error or because the
    /// disk is full; half of the drives must then survive the loss of the machine
    #[arg(long, conflicts_with_all = ["medium", "at"])]
    pub host_faults: bool,

    /// How flash operations are scheduled [default: the seed chooses]
    #[arg(long, value_enum)]
    pub scheduling: Option<SchedulingKind>,

    /// Number of commands before the first cut, with --cuts all
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub age: u64,

    /// Number of commands during which power is cut, with --cuts all
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub commands: u64,

    /// Relative frequency of commands, such as write=24,trim=5,reopen=0; the others keep their weight
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    pub weights: Weights,

    /// Run fresh seeds for N minutes
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "at"])]
    pub minutes: Option<u64>,

    /// Number of threads
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub threads: usize,

    /// Run only this cut, as printed with a violation
    #[arg(long, value_name = "CUT", requires = "seed", conflicts_with = "cuts")]
    pub at: Option<CutPoint>,

    /// Commands to leave out, as printed with a violation
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    pub skip: Skip,

    /// Print every command, cut and recovery on standard error
    #[arg(long, requires = "seed")]
    pub trace: bool,

    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// `--cuts`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CutCount {
    /// Every one.
    All,
    /// This many at random.
    Random(u64),
}

impl FromStr for CutCount {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<CutCount, &'static str> {
        match text {
            "all" => Ok(CutCount::All),
            number => number.parse().map(CutCount::Random).map_err(|_| "use `all` or a number"),
        }
    }
}

/// `--plp`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlpChoice {
    /// It is lost
    None,
    /// A capacitor dumps it to flash
    Capacitor,
    /// It is lost; the journal and checkpoints are in non-volatile memory
    Nvm,
    /// The first two, on separate drives
    All,
}

/// `--cache`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheChoice {
    /// In DRAM
    Volatile,
    /// In DRAM that a capacitor dumps to flash
    Durable,
    /// Nowhere: a write completes when it is on flash
    Off,
    /// All of these, on separate drives
    All,
}

/// `--record-logs`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordLogs {
    /// All share the drive's log
    Shared,
    /// One namespace has a log of its own, and one a log on each die
    Own,
}

/// `--indexes`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Indexes {
    /// All indexes fit
    Resident,
    /// Only one fits, or two of three
    Swapped,
}

/// `--host`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostKind {
    /// It submits a command when the previous one is done
    Waits,
    /// It submits commands while others are in flight
    Queues,
}

/// `--room`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// There is room for everything
    Ample,
    /// The drive becomes full repeatedly
    Full,
}

/// `--flash`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlashKind {
    /// Nothing fails
    Sound,
    /// Programs and erases fail, until the drive is read-only
    Wears,
    /// Pages also become unreadable
    Loses,
}

/// `--medium`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum MediumKind {
    /// Power is cut
    Memory,
    /// The process is killed, between any two stores to the image
    Image,
}

/// `--scheduling`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum SchedulingKind {
    /// First come, first served
    Fifo,
    /// Reads go ahead of operations that have not begun, and the host's programs ahead of garbage collection's
    ReadFirst,
    /// Reads also interrupt programs and erases
    Suspend,
}

/// Number of seeds if none are given.
const DEFAULT_SEEDS: u64 = 4;

/// Failures of the host in one run, if no number is given.
const DEFAULT_HOST_FAULTS: u64 = 100;

/// The number of commands within which a cut to be replayed must be, unless --commands allows more. With all cuts of
/// each command, this many take days, so a larger number is a mistake.
const MOST_REPLAYED: u64 = 1_000_000;

/// Runs the torture test and prints the results. Then a broken promise is a failure.
pub fn run(options: &CrashDeviceOptions) -> Result<(), Failure> {
    check_place(options.at.as_ref(), options.age, options.commands)?;
    let crash = torture(&settings(options), &interrupt::monitor())?;
    output::report(&crash, options.json, of_device_crash)?;
    Failure::of_outcome(&crash.outcome)
}

/// Fails if a cut to be replayed is beyond any run: it would take days to execute millions of commands before finding
/// it missing.
pub fn check_place(at: Option<&CutPoint>, age: u64, commands: u64) -> Result<(), Failure> {
    let end = age.saturating_add(commands.max(MOST_REPLAYED));
    match at {
        Some(point) if point.command >= end => {
            let command = point.command;
            let expected = format!(
                "a run with --age {age} ends before command {end}; if a violation of a longer run named command \
                 {command}, add its --commands"
            );
            Err(InvalidSetting::new("--at", point, expected).into())
        }
        _ => Ok(()),
    }
}

fn settings(options: &CrashDeviceOptions) -> Settings {
    let seeds = options.seeds.range(DEFAULT_SEEDS);
    let cuts = match (&options.at, options.cuts) {
        (Some(point), _) => Cuts::At(point.clone()),
        (None, None | Some(CutCount::All)) if options.host_faults => Cuts::Random(DEFAULT_HOST_FAULTS),
        (None, None | Some(CutCount::All)) => Cuts::All,
        (None, Some(CutCount::Random(count))) => Cuts::Random(count),
    };
    Settings {
        seeds,
        drives: drives(options),
        plan: Plan {
            cuts,
            second_cut: options.second_cut,
            age: options.age,
            commands: options.commands,
            weights: options.weights.clone(),
            skip: options.skip.clone(),
            trace: options.trace,
            minimising_runs: if options.trace { 0 } else { Plan::default().minimising_runs },
        },
        minutes: options.minutes,
        threads: options.threads,
        first_only: false,
    }
}

fn drives(options: &CrashDeviceOptions) -> DriveChoice {
    let own_logs = options.record_logs.map(|logs| logs == RecordLogs::Own);
    let swaps = options.indexes.map(|indexes| indexes == Indexes::Swapped);
    let queues = options.host.map(|host| host == HostKind::Queues);
    let full = options.room.map(|room| room == Room::Full);
    DriveChoice {
        plp: options.plp.into(),
        cache: options.cache.into(),
        page_bytes: options.page_bytes,
        own_logs,
        swaps,
        queues,
        full,
        flash: options.flash.map(Flash::from),
        medium: if options.host_faults {
            Some(Medium::FailingHost)
        } else {
            options.medium.map(Medium::from)
        },
        scheduling: options.scheduling.map(FlashScheduling::from),
    }
}

impl From<PlpChoice> for Option<Plp> {
    fn from(choice: PlpChoice) -> Option<Plp> {
        match choice {
            PlpChoice::None => Some(Plp::None),
            PlpChoice::Capacitor => Some(Plp::Capacitor),
            PlpChoice::Nvm => Some(Plp::Nvm),
            PlpChoice::All => None,
        }
    }
}

impl From<CacheChoice> for Option<CacheMode> {
    fn from(choice: CacheChoice) -> Option<CacheMode> {
        match choice {
            CacheChoice::Volatile => Some(CacheMode::Volatile),
            CacheChoice::Durable => Some(CacheMode::Durable),
            CacheChoice::Off => Some(CacheMode::Off),
            CacheChoice::All => None,
        }
    }
}

impl From<FlashKind> for Flash {
    fn from(kind: FlashKind) -> Flash {
        match kind {
            FlashKind::Sound => Flash::Sound,
            FlashKind::Wears => Flash::Wears,
            FlashKind::Loses => Flash::Loses,
        }
    }
}

impl From<MediumKind> for Medium {
    fn from(kind: MediumKind) -> Medium {
        match kind {
            MediumKind::Memory => Medium::Memory,
            MediumKind::Image => Medium::Image,
        }
    }
}

impl From<SchedulingKind> for FlashScheduling {
    fn from(kind: SchedulingKind) -> FlashScheduling {
        match kind {
            SchedulingKind::Fifo => FlashScheduling::Fifo,
            SchedulingKind::ReadFirst => FlashScheduling::ReadFirst,
            SchedulingKind::Suspend => FlashScheduling::Suspend,
        }
    }
}
