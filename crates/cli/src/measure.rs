//! `tantalum measure`.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process;
use std::time::Duration;

use clap::Args;
use tantalum::{Size, UNIT_BYTES};
use tantalum_fuse::Pacing;
use tantalum_measure::{DriveSetup, Measurement, Stop, Task, Watched, attach, run as run_task, text};
use tantalum_report::check_place;
use tantalum_report::table::{bytes, grouped};

use crate::drive::{ProfileOptions, capacity_help, note_rounding, note_small_fill};
use crate::failure::Failure;
use crate::interrupt::INTERRUPTED;
use crate::seeds::parse_seconds;
use crate::{leftovers, output};

/// The capacity of the folder's drive, unless an option sets another.
const CAPACITY: Size = Size(1 << 30);

/// `tantalum measure`.
#[derive(Args, Debug)]
#[command(mut_arg("capacity", |capacity| capacity.help(capacity_help(CAPACITY))))]
pub struct MeasureOptions {
    /// Watch the mount on this folder until Ctrl-C, instead of running a program on a new drive
    #[arg(long, value_name = "DIR", conflicts_with_all = ["program", "setup", "aged", "keep", "atomic_writes", "time", "profile", "capacity"])]
    pub attach: Option<PathBuf>,

    /// With --attach: watch for this many seconds
    #[arg(long, value_name = "N", requires = "attach", value_parser = parse_seconds)]
    pub seconds: Option<f64>,

    #[command(flatten)]
    pub drive: ProfileOptions,

    /// First fill 90 % of the drive, of which at least 32 MiB stay free, with other data, and overwrite them until garbage
    /// collection is steady
    #[arg(long)]
    pub aged: bool,

    /// Seed for ageing the drive
    #[arg(long, value_name = "N", default_value_t = 1, requires = "aged")]
    pub seed: u64,

    /// A shell command that prepares the folder before the program runs; it is not measured
    #[arg(long, value_name = "COMMAND")]
    pub setup: Option<String>,

    /// Whether the program sees the drive's latencies: real, or none to run as fast as this machine can [default: real]
    #[arg(long, value_name = "real|none")]
    pub time: Option<Pacing>,

    /// Make each write of whole 4 KiB blocks atomic, for a program whose protection against torn pages is off
    #[arg(long)]
    pub atomic_writes: bool,

    /// Keep the drive in this image file, which must not exist; otherwise it is in memory and discarded
    #[arg(long, value_name = "FILE")]
    pub keep: Option<PathBuf>,

    /// Do not replay the recording: report neither the writes to flash by file nor what other drives would save
    #[arg(long)]
    pub no_replay: bool,

    /// Write an HTML page with plots
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    /// Print one JSON object; the program's output goes to standard error
    #[arg(long)]
    pub json: bool,

    /// The program and its arguments; {} stands for the folder
    #[arg(last = true, required_unless_present = "attach", value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// Measures, and reports the results. The exit code is then the program's.
pub fn run(options: &MeasureOptions) -> Result<(), Failure> {
    options.report.as_deref().map_or(Ok(()), check_place)?;
    let stop = Stop::default();
    let pressed = stop.clone();
    let on_interrupt = move || {
        if !pressed.press() {
            process::exit(INTERRUPTED.into());
        }
    };
    // Without a handler Ctrl-C ends the process, and no report has been started in its place.
    let _ = ctrlc::set_handler(on_interrupt);
    let measurement = match &options.attach {
        Some(folder) => {
            let most = options.seconds.map(Duration::from_secs_f64);
            let mut is_first = true;
            let measured =
                attach(folder, most, !options.no_replay, &stop, |watched| tell(watched, &mut is_first));
            clear_line();
            measured?
        }
        None => {
            leftovers::note();
            let task = task(options)?;
            let measured = run_task(&task, &stop)?;
            if options.aged {
                note_small_fill(&task.drive.profile, "");
            }
            measured
        }
    };
    tell_all(options, &measurement)?;
    // Ctrl-C has ended the replays
    Ok(stop.monitor().check()?)
}

fn task(options: &MeasureOptions) -> Result<Task, Failure> {
    let profile = options.drive.load(Some(CAPACITY), None)?;
    note_rounding(&profile);
    Ok(Task {
        program: options.program.clone(),
        setup: options.setup.clone(),
        drive: DriveSetup {
            profile,
            aged: options.aged.then_some(options.seed),
            image: options.keep.clone(),
        },
        time: options.time.unwrap_or(Pacing::Real),
        atomic_writes: options.atomic_writes,
        quiet_output: options.json,
        replays: !options.no_replay,
    })
}

fn tell_all(options: &MeasureOptions, measurement: &Measurement) -> Result<(), Failure> {
    if let Some(path) = &options.report {
        tantalum_measure::write_report(measurement, path)?;
    }
    output::report(measurement, options.json, text::of)?;
    match measurement.exit_code {
        None | Some(0) => Ok(()),
        Some(code) => Err(Failure::ProgramEnded { code }),
    }
}

/// On a terminal, one line that the next one replaces; elsewhere only that it has begun.
fn tell(watched: Watched, is_first: &mut bool) {
    let mut terminal = io::stderr();
    if !terminal.is_terminal() {
        if std::mem::take(is_first) {
            output::complain("watching until Ctrl-C");
        }
    } else {
        let to = |units: u64| bytes(units * UNIT_BYTES as u64);
        let _ = write!(
            terminal,
            "\r\x1b[K{:.0} s: {} to the drive, {} to flash, {} flushes (Ctrl-C ends it)",
            watched.seconds,
            to(watched.host_units),
            to(watched.flash_units),
            grouped(watched.flushes)
        );
    }
}

fn clear_line() {
    let mut terminal = io::stderr();
    if terminal.is_terminal() {
        let _ = write!(terminal, "\r\x1b[K");
    }
}
