//! `tantalum crash clients`.

use clap::{Args, ValueEnum};
use tantalum::FlashScheduling;
use tantalum_crash::clients::{Plan, Settings, SetupChoice, Weights, of_clients_crash, torture};
use tantalum_crash::device::{CutPoint, Cuts, Flash, Medium, Skip};

use crate::crash_device::{
    CacheChoice, CutCount, FlashKind, Indexes, MediumKind, PlpChoice, RecordLogs, Room, SchedulingKind,
    check_place,
};
use crate::failure::Failure;
use crate::seeds::SeedOptions;
use crate::{interrupt, output};

/// `tantalum crash clients`.
#[derive(Args, Debug)]
pub struct CrashClientsOptions {
    #[command(flatten)]
    pub seeds: SeedOptions,

    /// Cut power N times in the life of each drive; or at every program and erase of each turn, in every variant, each time on a
    /// drive of its own
    #[arg(long, value_name = "all|N", default_value = "40")]
    pub cuts: CutCount,

    /// Number of turns before the first cut, with --cuts all
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub age: u64,

    /// Number of turns during which power is cut, with --cuts all
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub commands: u64,

    /// Run only this cut, as printed with a violation
    #[arg(long, value_name = "CUT", requires = "seed", conflicts_with = "cuts")]
    pub at: Option<CutPoint>,

    /// Also cut power during recovery
    #[arg(long)]
    pub second_cut: bool,

    /// Number of clients, 2 to 6 [default: the seed chooses]
    #[arg(long, value_name = "N")]
    pub clients: Option<u32>,

    /// Whether writes that repeat a recent one become shares [default: the seed chooses]
    #[arg(long, value_enum)]
    pub duplicates: Option<Duplicates>,

    /// Whether answers wait until they are due [default: the seed chooses]
    #[arg(long, value_enum)]
    pub pacing: Option<Pace>,

    /// Whether programs in the drive are clients too [default: the seed chooses]
    #[arg(long, value_enum)]
    pub programs: Option<Programs>,

    /// Who decides whose turn it is; threads that run free only read and write units
    #[arg(long, value_enum, default_value = "drawn", conflicts_with = "skip")]
    pub order: Order,

    /// What happens to the drive's DRAM when power is lost [default: all kinds, on separate drives]
    #[arg(long, value_enum, default_value = "all", hide_default_value = true)]
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

    /// Whether the indexes of all key-value namespaces fit in DRAM [default: the seed chooses]
    #[arg(long, value_enum)]
    pub indexes: Option<Indexes>,

    /// Whether the clients exceed the drive's capacity [default: the seed chooses]
    #[arg(long, value_enum)]
    pub room: Option<Room>,

    /// Whether flash programs and erases fail, until the drive is read-only; `loses` is only for one client [default: the
    /// seed chooses]
    #[arg(long, value_enum)]
    pub flash: Option<FlashKind>,

    /// How flash operations are scheduled [default: the seed chooses]
    #[arg(long, value_enum)]
    pub scheduling: Option<SchedulingKind>,

    /// In memory, or in an image that is reopened after each power cut, or after its process was killed [default: the seed
    /// chooses]
    #[arg(long, value_enum)]
    pub medium: Option<MediumKind>,

    /// Relative frequency of commands, such as write=24,trim=5,reopen=0; the others keep their weight
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    pub weights: Weights,

    /// Run fresh seeds for N minutes
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "at"])]
    pub minutes: Option<u64>,

    /// Number of threads; each runs a drive with its clients
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub threads: usize,

    /// Turns to leave out, as printed with a violation
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    pub skip: Skip,

    /// Print every command, answer, cut and recovery on standard error
    #[arg(long, requires = "seed")]
    pub trace: bool,

    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// `--duplicates`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Duplicates {
    /// They become shares
    Shared,
    /// They are written
    Written,
}

/// `--pacing`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// In virtual time: several commands are in flight
    Virtual,
    /// Answers are given at once
    None,
}

/// `--programs`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Programs {
    /// Base-IO and Atomic-Writes are installed
    On,
    /// Nothing is
    Off,
}

/// `--order`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The seed: a run repeats exactly
    Drawn,
    /// The machine: each client has a thread, and a run does not repeat
    Free,
}

/// Number of seeds if none are given: one for each number of clients.
const DEFAULT_SEEDS: u64 = 5;

/// Runs the torture test and prints the results. Then a broken promise is a failure.
pub fn run(options: &CrashClientsOptions) -> Result<(), Failure> {
    check_place(options.at.as_ref(), options.age, options.commands)?;
    let crash = torture(&settings(options), &interrupt::monitor())?;
    output::report(&crash, options.json, of_clients_crash)?;
    Failure::of_outcome(&crash.outcome)
}

fn settings(options: &CrashClientsOptions) -> Settings {
    Settings {
        seeds: options.seeds.range(DEFAULT_SEEDS),
        setups: SetupChoice {
            plp: options.plp.into(),
            cache: options.cache.into(),
            page_bytes: options.page_bytes,
            own_logs: options.record_logs.map(|logs| logs == RecordLogs::Own),
            swaps: options.indexes.map(|indexes| indexes == Indexes::Swapped),
            scheduling: options.scheduling.map(FlashScheduling::from),
            medium: options.medium.map(Medium::from),
            clients: options.clients,
            remaps: options.duplicates.map(|duplicates| duplicates == Duplicates::Shared),
            paced: options.pacing.map(|pacing| pacing == Pace::Virtual),
            programs: options.programs.map(|programs| programs == Programs::On),
            full: options.room.map(|room| room == Room::Full),
            flash: options.flash.map(Flash::from),
            free: options.order == Order::Free,
        },
        plan: Plan {
            cuts: match (&options.at, options.cuts) {
                (Some(point), _) => Cuts::At(point.clone()),
                (None, CutCount::All) => Cuts::All,
                (None, CutCount::Random(count)) => Cuts::Random(count),
            },
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
