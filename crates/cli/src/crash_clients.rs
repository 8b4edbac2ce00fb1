//! `tantalum crash clients`.

use clap::{Args, ValueEnum};
use tantalum_torture::clients::{Settings, SetupChoice, Weights, of_clients_crash, torture};
use tantalum_torture::device::{Cuts, Flash, Medium};

use crate::crash_drive::{CutCount, DriveOptions, PlanOptions};
use crate::failure::Failure;
use crate::seeds::SeedOptions;
use crate::{interrupt, output};

/// What --plp does here.
const PLP_HELP: &str =
    "What happens to the drive's DRAM when power is lost [default: all kinds, on separate drives]";

/// What --flash does here.
const FLASH_HELP: &str = "Whether flash programs and erases fail, until the drive is read-only; `loses` is only for one client \
                          [default: the seed chooses]";

/// What --medium does here.
const MEDIUM_HELP: &str = "In memory, or in an image that is reopened after each power cut, or after its process was killed \
                           [default: the seed chooses]";

/// `tantalum crash clients`.
#[derive(Args, Debug)]
#[command(mut_arg("plp", |plp| plp.help(PLP_HELP).hide_default_value(true)))]
#[command(mut_arg("flash", |flash| flash.help(FLASH_HELP)))]
#[command(mut_arg("medium", |medium| medium.help(MEDIUM_HELP)))]
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

    #[command(flatten)]
    pub drive: DriveOptions,

    /// Relative frequency of commands, such as write=24,trim=5,reopen=0; the others keep their weight
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    pub weights: Weights,

    #[command(flatten)]
    pub plan: PlanOptions,
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
    options.plan.check_place(options.age, options.commands)?;
    let crash = torture(&settings(options), &interrupt::monitor())?;
    output::report(&crash, options.plan.json, of_clients_crash)?;
    Failure::of_outcome(&crash.outcome, &options.seeds)
}

fn settings(options: &CrashClientsOptions) -> Settings {
    let cuts = match options.cuts {
        CutCount::All => Cuts::All,
        CutCount::Random(count) => Cuts::Random(count),
    };
    Settings {
        seeds: options.seeds.chosen(DEFAULT_SEEDS),
        drives: setups(options),
        plan: options.plan.plan(cuts, (options.age, options.commands), &options.weights),
        threads: options.plan.threads,
        first_only: false,
    }
}

fn setups(options: &CrashClientsOptions) -> SetupChoice {
    let drive = &options.drive;
    SetupChoice {
        plp: drive.plp.into(),
        cache: drive.cache.into(),
        page_bytes: drive.page_bytes,
        own_logs: drive.own_logs(),
        swaps: drive.swaps(),
        scheduling: drive.scheduling(),
        medium: drive.medium.map(Medium::from),
        clients: options.clients,
        remaps: options.duplicates.map(|duplicates| duplicates == Duplicates::Shared),
        paced: options.pacing.map(|pacing| pacing == Pace::Virtual),
        programs: options.programs.map(|programs| programs == Programs::On),
        full: drive.full(),
        flash: drive.flash.map(Flash::from),
        free: options.order == Order::Free,
    }
}
