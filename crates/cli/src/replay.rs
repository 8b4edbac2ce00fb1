//! `tantalum replay`.

use std::path::PathBuf;

use clap::Args;
use tantalum::Size;
use tantalum_replay::{
    Action, BlkparseFormat, ColumnNames, Columns, Format, Load, OffsetUnit, OperationNames, Pace,
    ReplayError, Scale, Settings, Source, TimeUnit, replay, text, write_report,
};
use tantalum_report::{Interrupted, check_place};
use tantalum_workloads::bench::Condition;

use crate::drive::{ProfileOptions, capacity_help, give_handles, note_rounding};
use crate::failure::Failure;
use crate::offer::OfferOptions;
use crate::{interrupt, output};

/// The drive's capacity, unless an option sets another.
const CAPACITY: Size = Size(1 << 30);

/// `tantalum replay`.
#[derive(Args, Debug)]
#[command(mut_arg("capacity", |capacity| capacity.help(capacity_help(CAPACITY))))]
pub struct ReplayOptions {
    /// The trace, which may be compressed with gzip or Zstandard; - for standard input; for blktrace's files one of them, or the
    /// name before .blktrace.
    pub trace: PathBuf,

    /// The trace's format: fio, fio1, blkparse, blktrace, msr, alibaba, spc, systor, tencent, etw, cloudphysics or mqsim [default:
    /// recognised from its beginning]
    #[arg(long, value_name = "NAME")]
    pub format: Option<Format>,

    /// The text is what `blkparse -f FORMAT` printed
    #[arg(long, value_name = "FORMAT", conflicts_with = "format")]
    pub blkparse_format: Option<BlkparseFormat>,

    /// The text has these columns, between commas, tabs or blanks: time, op, offset, one of bytes, sectors and units (the length),
    /// volume, and - for each column to skip
    #[arg(long, value_name = "LIST", conflicts_with_all = ["format", "blkparse_format"])]
    pub columns: Option<ColumnNames>,

    /// With --columns: the unit of times
    #[arg(long, value_name = "s|ms|us|ns|filetime", requires = "columns")]
    pub time_unit: Option<TimeUnit>,

    /// With --columns: the unit of offsets, and of lengths in the column units: byte, sector (512 bytes) or a size such as 4K
    /// [default: byte]
    #[arg(long, value_name = "UNIT", requires = "columns")]
    pub offset_unit: Option<OffsetUnit>,

    /// With --columns: what stands in the column op, such as read=0,write=1 [default: R, W, D (trim), F (flush), and their words]
    #[arg(long, value_name = "LIST", requires = "columns")]
    pub operations: Option<OperationNames>,

    /// Events of a trace by blktrace or blkparse to replay: Q (queued), D (issued to the device) or C (completed) [default: D]
    #[arg(long, value_name = "LETTER")]
    pub action: Option<Action>,

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

    /// Give the drive N reclaim unit handles, 1 to 128: each of the trace's volumes is written with one, in turn [default: the
    /// profile's]
    #[arg(long, value_name = "N")]
    pub handles: Option<u32>,

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
    let settings = settings(options)?;
    note_rounding(&settings.profile);
    let outcome = replay(&settings, &interrupt::monitor()).inspect_err(|error| {
        if matches!(error, ReplayError::Interrupted(_)) {
            output::complain("interrupted: nothing was replayed yet");
        }
    })?;
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

fn columns(options: &ReplayOptions) -> Result<Option<Columns>, Failure> {
    let Some(names) = options.columns.clone() else { return Ok(None) };
    let offset = options.offset_unit.unwrap_or_default();
    let operations = options.operations.clone().unwrap_or_default();
    let columns = Columns::new(names, options.time_unit, offset, operations);
    columns.map(Some).map_err(|why| Failure::Columns { why })
}

fn settings(options: &ReplayOptions) -> Result<Settings, Failure> {
    let pace = match (options.speed, options.queue_depth) {
        (_, Some(queue_depth)) => Some(Pace::Closed { queue_depth }),
        (Some(speed), None) => Some(Pace::Open { speed }),
        (None, None) => None,
    };
    let mut profile = options.drive.load(Some(CAPACITY), options.over_provisioning_percent)?;
    give_handles(&mut profile, options.handles)?;
    Ok(Settings {
        load: Load::Trace(Source {
            path: options.trace.clone(),
            format: options.format,
            columns: columns(options)?,
            blkparse_format: options.blkparse_format.clone(),
            action: options.action,
            volumes: options.volumes.clone(),
            most_requests: options.requests,
        }),
        profile,
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
