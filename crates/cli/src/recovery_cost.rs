//! `tantalum recovery-cost`.

use std::path::PathBuf;

use clap::Args;
use tantalum::{Effective, Size};
use tantalum_papers::recovery_cost::{Settings, of_recovery_cost, run as measure, write_plots};
use tantalum_report::check_place;
use tantalum_report::table::bytes;

use crate::drive::{ProfileOptions, capacity_help};
use crate::failure::Failure;
use crate::offer::OfferOptions;
use crate::{interrupt, output};

/// `tantalum recovery-cost`.
#[derive(Args, Debug)]
#[command(mut_arg("capacity", |capacity| capacity.help(capacity_help(DEFAULT_CAPACITY))))]
pub struct RecoveryCostOptions {
    /// Capacities of the drives, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1GiB,16GiB,128GiB,1TiB")]
    pub capacities: Vec<Size>,

    /// Amounts written to each drive at random since the last checkpoint, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0,64MiB,256MiB,1GiB")]
    pub written: Vec<Size>,

    #[command(flatten)]
    pub drive: ProfileOptions,

    /// Seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Write the plots as one SVG file
    #[arg(long, value_name = "FILE.svg")]
    pub report: Option<PathBuf>,

    #[command(flatten)]
    pub offer: OfferOptions,

    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Small enough that filling and ageing it six times takes seconds.
const DEFAULT_CAPACITY: Size = Size(1 << 30);

/// Measures, prints the results and writes the plots.
pub fn run(options: &RecoveryCostOptions) -> Result<(), Failure> {
    let sizes = |list: &[Size]| list.iter().map(|size| size.0).collect();
    let settings = Settings {
        profile: options.drive.load(Some(DEFAULT_CAPACITY), None)?,
        capacities_bytes: sizes(&options.capacities),
        written_bytes: sizes(&options.written),
        seed: options.seed,
    };
    if let Some(path) = &options.report {
        check_place(path)?;
    }
    note_rounding(&settings)?;
    let _offer = options.offer.offer()?;
    let outcome = measure(&settings, &interrupt::monitor())?;
    if let Some(path) = &options.report {
        write_plots(&outcome, path)?;
    }
    output::report(&outcome, options.json, of_recovery_cost)
}

/// Says of each capacity where the drive differs much from what the profile asks for.
fn note_rounding(settings: &Settings) -> Result<(), Failure> {
    let mut drives = settings.drives()?;
    drives.push(settings.profile.clone());
    drives.sort_by_key(|drive| drive.capacity_bytes);
    drives.dedup_by_key(|drive| drive.capacity_bytes);
    for drive in drives {
        for line in Effective::of(&drive).warnings() {
            output::complain(&format!("note: at {}, {line}", bytes(drive.capacity_bytes)));
        }
    }
    Ok(())
}
