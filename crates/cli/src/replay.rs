//! `tantalum replay`.

use std::path::PathBuf;

use clap::Args;
use tantalum::Size;
use tantalum_replay::{
    Action, Format, Load, Pace, ReplayError, Scale, Settings, Source, replay, text, write_report,
};
use tantalum_report::{Interrupted, check_place};
use tantalum_workloads::bench::Condition;

use crate::drive::{ProfileOptions, capacity_help};
use crate::failure::Failure;
use crate::offered::OfferOptions;
use crate::{interrupt, output};

/// The drive's capacity, unless an option sets another.
const CAPACITY: Size = Size(1 << 30);

/// `tantalum replay`.
#[derive(Args, Debug)]
#[command(mut_arg("capacity", |capacity| capacity.help(capacity_help(CAPACITY))))]
pub struct ReplayOptions {
    /// The trace: an iolog of fio (version 2 or 3), text of blkparse, or CSV of MSR Cambridge or Alibaba
    pub trace: PathBuf,

    /// The trace's format: fio, blkparse, msr or alibaba [default: recognised from its first line]
    #[arg(long, value_name = "NAME")]
    pub format: Option<Format>,

    /// Events of a blkparse trace to replay: Q (queued), D (issued to the device) or C (completed)
    #[arg(long, value_name = "LETTER", default_value = "D")]
    pub action: Action,

    /// Replay only this volume, as the trace names it: a file, MAJOR,MINOR, HOST,DISK or a number; may be repeated
    #[arg(long = "volume", value_name = "NAME")]
    pub volumes: Vec<String>,

    /// Replay only the first N requests
    #[arg(long, value_name = "N")]
    pub requests: Option<u64>,

    /// Issue each request at its time in the trace, N times as fast [default: 1, if the trace has times]
    #[arg(long, value_name = "N", conflicts_with = "queue_depth", allow_negative_numbers = true)]
    pub speed: Option<f64>,

    /// Keep N requests in flight, and ignore the trace's times [default: 1, if the trace has no times]
    #[arg(long, value_name = "N")]
    pub queue_depth: Option<u32>,

    /// Addresses beyond the drive: fit drops the space that the trace never touches, wrap continues at the beginning, none
    /// refuses them
    #[arg(long, value_name = "fit|wrap|none", default_value = "fit")]
    pub scale: Scale,

    #[command(flatten)]
    pub drive: ProfileOptions,

    /// Flash beyond the capacity, as a percentage of it [default: the profile's]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub over_provisioning_percent: Option<f64>,

    /// First write every unit of the drive once
    #[arg(long, conflicts_with = "aged")]
    pub fill: bool,

    /// First fill the drive, and overwrite it at random until garbage collection is steady
    #[arg(long)]
    pub aged: bool,

    /// Seed of the data with which the drive is aged
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Write an HTML page with plots
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    #[command(flatten)]
    pub offer: OfferOptions,

    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Replays the trace and prints the outcome.
pub fn run(options: &ReplayOptions) -> Result<(), Failure> {
    let _offer = options.offer.offer()?;
    options.report.as_deref().map_or(Ok(()), check_place)?;
    let outcome = replay(&settings(options)?, &interrupt::monitor())?;
    if let Some(path) = &options.report {
        write_report(&outcome, path)?;
    }
    output::report(&outcome, options.json, text::of)?;
    match outcome.ended_early() {
        None => Ok(()),
        Some(ReplayError::Interrupted(_)) => Err(Interrupted.into()),
        Some(error) => Err(Failure::ReplayEnded { why: error.to_string() }),
    }
}

fn settings(options: &ReplayOptions) -> Result<Settings, Failure> {
    let pace = match (options.speed, options.queue_depth) {
        (_, Some(queue_depth)) => Some(Pace::Closed { queue_depth }),
        (Some(speed), None) => Some(Pace::Open { speed }),
        (None, None) => None,
    };
    Ok(Settings {
        load: Load::Trace(Source {
            path: options.trace.clone(),
            format: options.format,
            action: options.action,
            volumes: options.volumes.clone(),
            most_requests: options.requests,
        }),
        profile: options.drive.load(Some(CAPACITY), options.over_provisioning_percent)?,
        condition: match (options.fill, options.aged) {
            (_, true) => Condition::Aged,
            (true, false) => Condition::Filled,
            (false, false) => Condition::Fresh,
        },
        pace,
        scale: options.scale,
        seed: options.seed,
    })
}
