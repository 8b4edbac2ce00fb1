//! `tantalum crash blocks`.

use std::path::PathBuf;

use clap::Args;
use tantalum::{Profile, Size};
use tantalum_crash_run::{BlockSettings, RunError, check_blocks, recorded_profile, text_of};

use crate::crash_run::parse_command;
use crate::drive::{check, promise_atomic_writes};
use crate::failure::Failure;
use crate::{interrupt, output};

/// `tantalum crash blocks`.
#[derive(Args, Debug)]
pub struct CrashBlocksOptions {
    /// The recording, a file of `tantalum serve --record`
    #[arg(value_name = "RECORDING")]
    pub recording: PathBuf,

    /// A program or shell command that exits with 0 if the file `disk` in its working directory holds what it should
    #[arg(long, value_name = "COMMAND", value_parser = parse_command)]
    pub check: String,

    /// The drive that loses power: a profile's name, or a TOML file, with the capacity of the recorded one [default: that one]
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Option<String>,

    /// Up to which size its writes are all or nothing, wherever they lie: 4KiB to 256KiB [default: the drive's]
    #[arg(long, value_name = "SIZE")]
    pub atomic_write: Option<Size>,

    /// Number of power cuts, spread over the recording, or over what follows the first acknowledgement if there is one
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub cuts: u64,

    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// Timeout of a check in seconds; a check that exceeds it has failed
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub check_seconds: u64,

    /// Save the disks for which the check fails in this new folder
    #[arg(long, value_name = "FOLDER")]
    pub save: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The drive on which the recording is performed.
fn profile(options: &CrashBlocksOptions) -> Result<Profile, Failure> {
    let recorded = recorded_profile(&options.recording)?;
    let mut profile = match &options.profile {
        Some(name) => Profile { capacity_bytes: recorded.capacity_bytes, ..Profile::load(name)? },
        None => recorded,
    };
    check(&profile, "--profile")?;
    promise_atomic_writes(&mut profile, options.atomic_write)?;
    Ok(profile)
}

/// Cuts power, checks the disks and prints the findings. Then a failed check is a failure.
pub fn run(options: &CrashBlocksOptions) -> Result<(), Failure> {
    let settings = BlockSettings {
        recording: options.recording.clone(),
        check: options.check.clone(),
        check_seconds: options.check_seconds,
        cuts: options.cuts,
        seed: options.seed,
        save: options.save.clone(),
    };
    let monitor = interrupt::patient_monitor();
    let outcome = check_blocks(&settings, &profile(options)?, &monitor).inspect_err(|error| {
        if matches!(error, RunError::Interrupted(_)) {
            output::complain("note: interrupted before power was cut: nothing was tested");
        }
    })?;
    output::report(&outcome, options.json, text_of)?;
    match outcome.failed {
        0 => Ok(monitor.check()?),
        failed => Err(Failure::FailedChecks { failed, checked: outcome.checked }),
    }
}
