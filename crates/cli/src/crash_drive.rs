//! What `tantalum crash device` and `crash clients` have in common: which drives, and what is done with each.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use tantalum::{CacheMode, FlashScheduling, Plp};
use tantalum_report::InvalidSetting;
use tantalum_torture::device::{CutPoint, Cuts, Flash, Medium, Skip};
use tantalum_torture::{Kinds, Plan, Weights};

use crate::failure::Failure;

/// Options of the drives.
#[derive(Args, Debug)]
pub struct DriveOptions {
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

    /// Whether the drive's capacity is exceeded [default: the seed chooses]
    #[arg(long, value_enum)]
    pub room: Option<Filling>,

    /// Whether flash programs, erases and reads may fail [default: sound]
    #[arg(long, value_enum)]
    pub flash: Option<FlashKind>,

    /// How flash operations are scheduled [default: the seed chooses]
    #[arg(long, value_enum)]
    pub scheduling: Option<SchedulingKind>,

    /// In memory, with power cuts, or in an image whose process is killed instead [default: memory]
    #[arg(long, value_enum)]
    pub medium: Option<MediumKind>,
}

impl DriveOptions {
    /// Whether namespaces have logs of their own; `None` if the seed chooses, as for the others.
    pub fn own_logs(&self) -> Option<bool> {
        self.record_logs.map(|logs| logs == RecordLogs::Own)
    }

    /// Whether indexes are swapped out.
    pub fn swaps(&self) -> Option<bool> {
        self.indexes.map(|indexes| indexes == Indexes::Swapped)
    }

    /// Whether the drive becomes full.
    pub fn full(&self) -> Option<bool> {
        self.room.map(|room| room == Filling::Full)
    }

    /// How flash operations are scheduled.
    pub fn scheduling(&self) -> Option<FlashScheduling> {
        self.scheduling.map(FlashScheduling::from)
    }
}

/// Options of what is done with each drive, but for those whose meaning or default differs.
#[derive(Args, Debug)]
pub struct PlanOptions {
    /// Also cut power during recovery: at every operation of each recovery, or at random
    #[arg(long)]
    pub second_cut: bool,

    /// Run only this cut, as printed with a violation
    #[arg(long, value_name = "CUT", requires = "seed", conflicts_with_all = ["cuts", "minutes"])]
    pub at: Option<CutPoint>,

    /// What to leave out, as printed with a violation
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    pub skip: Skip,

    /// Print all that happens on standard error: commands, cuts, recoveries
    #[arg(long, requires = "seed")]
    pub trace: bool,

    /// Number of threads, each of which runs a drive
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub threads: usize,

    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

impl PlanOptions {
    /// The plan, with commands before and during the cuts, and weights. `cuts` counts unless --at names one.
    pub fn plan<K: Kinds>(&self, cuts: Cuts, (age, commands): (u64, u64), weights: &Weights<K>) -> Plan<K> {
        Plan {
            cuts: self.at.clone().map_or(cuts, Cuts::At),
            second_cut: self.second_cut,
            age,
            commands,
            weights: weights.clone(),
            skip: self.skip.clone(),
            trace: self.trace,
            minimising_runs: if self.trace { 0 } else { Plan::<K>::default().minimising_runs },
        }
    }

    /// Fails if a cut to be replayed is beyond any run: it would take days to execute millions of commands before finding
    /// it missing.
    pub fn check_place(&self, age: u64, commands: u64) -> Result<(), Failure> {
        let end = age.saturating_add(commands.max(MOST_REPLAYED));
        match &self.at {
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
}

/// The number of commands within which a cut to be replayed must be, unless --commands allows more. With all cuts of
/// each command, this many take days, so a larger number is a mistake.
const MOST_REPLAYED: u64 = 1_000_000;

/// `--cuts`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CutCount {
    /// Every one.
    All,
    /// This many cuts at random.
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

/// `--room`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filling {
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
