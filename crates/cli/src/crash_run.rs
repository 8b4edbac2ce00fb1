//! `tantalum crash run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use tantalum::{Profile, Size};
use tantalum_crash_run::{
    Check, Losses, RunError, Sector, Settings, Task, check, record, summary, write_report,
};
use tantalum_report::check_place;

use crate::failure::Failure;
use crate::offer::OfferOptions;
use crate::seeds::parse_minutes;
use crate::{interrupt, leftovers, output};

/// `tantalum crash run`.
#[derive(Args, Debug)]
pub struct CrashRunOptions {
    /// A program or shell command that exits with 0 if the files in its working directory ($TANTALUM_DIR) are intact
    #[arg(long, value_name = "COMMAND", value_parser = parse_command)]
    pub check: String,

    /// A shell command that prepares the folder before the program runs; its files are durable
    #[arg(long, value_name = "COMMAND", value_parser = parse_command)]
    pub setup: Option<String>,

    /// Lose as much as POSIX allows: any part of the data not synced, torn at sectors. This is the default
    #[arg(long, conflicts_with = "drive")]
    pub adversary: bool,

    /// Size of these sectors, which the disk writes atomically
    #[arg(long, value_name = "512|4KiB", default_value = "512", conflicts_with = "drive", value_parser = parse_sector)]
    pub sector: Sector,

    /// Lose what this drive would lose: a profile's name, or a TOML file. Power is cut at its flash operations
    #[arg(long, value_name = "NAME|FILE")]
    pub drive: Option<String>,

    /// Number of points at which power is cut, spread over the run, or all
    #[arg(long, value_name = "N|all", default_value = "all", value_parser = parse_cuts)]
    pub cuts: Cuts,

    /// Try nothing more after this many minutes, such as 0.5. The first cuts are spread over the run, later ones fall between
    /// them
    #[arg(long, value_name = "N", value_parser = parse_minutes)]
    pub minutes: Option<f64>,

    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// Timeout of a check in seconds; a check that exceeds it has failed
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub check_seconds: u64,

    /// Capacity of the folder's drive
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub capacity: Size,

    /// Save each finding in a new folder within this folder, for `tantalum crash replay`
    #[arg(long, value_name = "FOLDER")]
    pub save: Option<PathBuf>,

    /// Write the findings as an HTML page
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,

    #[command(flatten)]
    pub offer: OfferOptions,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// The program and its arguments; {} stands for the folder
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// A number of cuts; `None` for all.
#[derive(Clone, Copy, Debug)]
pub struct Cuts(Option<u64>);

fn parse_cuts(text: &str) -> Result<Cuts, String> {
    match text.parse() {
        Ok(cuts) if cuts > 0 => Ok(Cuts(Some(cuts))),
        _ if text == "all" => Ok(Cuts(None)),
        _ => Err("use a number of cuts from 1, or all".to_owned()),
    }
}

/// A shell takes an empty command for one that succeeds, so that an unset variable would pass every check.
pub fn parse_command(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("use a command; an empty one does nothing and succeeds".to_owned()),
        false => Ok(text.to_owned()),
    }
}

fn parse_sector(text: &str) -> Result<Sector, String> {
    match text.parse::<Size>() {
        Ok(Size(512)) => Ok(Sector::Bytes512),
        Ok(Size(4096)) => Ok(Sector::KiB4),
        _ => Err("use 512 or 4KiB".to_owned()),
    }
}

fn settings(options: &CrashRunOptions) -> Result<Settings, Failure> {
    let losses = match &options.drive {
        Some(name) => {
            let mut profile = Profile::load(name)?;
            profile.capacity_bytes = options.capacity.0;
            Losses::Drive(Box::new(profile))
        }
        None => Losses::Posix(options.sector),
    };
    Ok(Settings {
        losses,
        check: Check::Command(options.check.clone()),
        check_seconds: options.check_seconds,
        cuts: options.cuts.0,
        minutes: options.minutes,
        seed: options.seed,
        save: options.save.clone(),
    })
}

/// Records the program, checks the outcomes and prints the findings. Then a failed check is a failure.
pub fn run(options: &CrashRunOptions) -> Result<(), Failure> {
    let _offer = options.offer.offer()?;
    let settings = settings(options)?;
    settings.check()?;
    options.report.as_deref().map_or(Ok(()), check_place)?;
    let task = Task {
        program: options.program.clone(),
        setup: options.setup.clone(),
        capacity_bytes: options.capacity.0,
    };
    let monitor = interrupt::patient_monitor();
    let note = |error: &RunError, when: &str| {
        if matches!(error, RunError::Interrupted(_)) {
            output::complain(&format!("note: interrupted {when}: nothing was tested"));
        }
    };
    leftovers::note();
    let recording = record(&task, &monitor).inspect_err(|error| note(error, "before power could be cut"))?;
    let in_first = "in the first check, of all that the program left; no check had ended";
    let outcome = check(&recording, &settings, &monitor).inspect_err(|error| note(error, in_first))?;
    if let Some(path) = &options.report {
        let words: Vec<_> = options.program.iter().map(|word| word.to_string_lossy()).collect();
        write_report(&outcome, &words.join(" "), path)?;
    }
    output::report(&outcome, options.json, summary::of)?;
    match outcome.failed {
        0 if outcome.checked == 0 && monitor.check().is_ok() => Err(Failure::NothingTested),
        0 => Ok(monitor.check()?),
        failed => Err(Failure::FailedChecks { failed, checked: outcome.checked }),
    }
}
