//! `tantalum crash zones`.

use clap::Args;
use tantalum_torture::device::{Cuts, Flash, Skip};
use tantalum_torture::summary;
use tantalum_torture::zones::{Plan, Settings, Weights, ZoneDrives, torture};

use crate::crash_device::HostKind;
use crate::crash_drive::{CacheChoice, FlashKind, PlpChoice, SchedulingKind};
use crate::failure::Failure;
use crate::seeds::SeedOptions;
use crate::{interrupt, output};

/// `tantalum crash zones`.
#[derive(Args, Debug)]
pub struct CrashZonesOptions {
    #[command(flatten)]
    pub seeds: SeedOptions,

    /// Cut power N times in the life of each drive, at random operations and times
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub cuts: u64,

    /// Also cut power during recovery, at random, at times often in a row
    #[arg(long)]
    pub second_cut: bool,

    /// What happens to the drive's DRAM when power is lost [default: all kinds, on separate drives]
    #[arg(long, value_enum, default_value = "all", hide_default_value = true)]
    pub plp: PlpChoice,

    /// Where writes are cached
    #[arg(long, value_enum, default_value = "all")]
    pub cache: CacheChoice,

    /// Size of a flash page in bytes: 4096, 8192 or 16384 [default: the seed chooses]
    #[arg(long, value_name = "N")]
    pub page_bytes: Option<u32>,

    /// Whether the host waits for each command [default: the seed chooses]
    #[arg(long, value_enum)]
    pub host: Option<HostKind>,

    /// Whether flash programs, erases and reads may fail [default: the seed chooses]
    #[arg(long, value_enum)]
    pub flash: Option<FlashKind>,

    /// How flash operations are scheduled [default: the seed chooses]
    #[arg(long, value_enum)]
    pub scheduling: Option<SchedulingKind>,

    /// Relative frequency of commands, such as append=40,reset=5,reopen=0; the others keep their weight
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    pub weights: Weights,

    /// What to leave out, as printed with a violation
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    pub skip: Skip,

    /// Number of threads, each of which runs a drive
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub threads: usize,

    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Number of seeds if none are given.
const DEFAULT_SEEDS: u64 = 10;

/// Runs the torture test and prints the results. Then a broken promise is a failure.
pub fn run(options: &CrashZonesOptions) -> Result<(), Failure> {
    let crash = torture(&settings(options), &interrupt::monitor())?;
    output::report(&crash, options.json, |crash| summary::of(&crash.outcome))?;
    Failure::of_outcome(&crash.outcome, &options.seeds)
}

fn settings(options: &CrashZonesOptions) -> Settings {
    Settings {
        seeds: options.seeds.chosen(DEFAULT_SEEDS),
        drives: ZoneDrives {
            plp: options.plp.into(),
            cache: options.cache.into(),
            page_bytes: options.page_bytes,
            queues: options.host.map(|host| host == HostKind::Queues),
            flash: options.flash.map(Flash::from),
            scheduling: options.scheduling.map(Into::into),
        },
        plan: Plan {
            cuts: Cuts::Random(options.cuts),
            second_cut: options.second_cut,
            weights: options.weights.clone(),
            skip: options.skip.clone(),
            ..Plan::default()
        },
        threads: options.threads,
        first_only: false,
    }
}
