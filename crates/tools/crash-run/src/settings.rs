//! How a recording is checked: what may be lost, which check runs, and how much is tried.

use std::path::PathBuf;
use std::time::Duration;

use tantalum::Profile;

use crate::check::Check;
use crate::error::RunError;
use crate::sector::Sector;

/// What a power cut may lose.
#[derive(Clone, Debug)]
pub enum Losses {
    /// The worst that POSIX allows, on a disk with these sectors.
    Posix(Sector),
    /// What this drive loses, with a volume on it.
    Drive(Box<Profile>),
}

/// How a recording is checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What a power cut may lose.
    pub losses: Losses,
    /// The check that runs on the remaining files.
    pub check: Check,
    /// A check that takes longer fails.
    pub check_seconds: u64,
    /// The maximum number of cuts, spread evenly over the run; `None` for all of them.
    pub cuts: Option<u64>,
    /// Tries nothing more after this many minutes, which is above 0. The first cuts are spread over the run, later ones fall
    /// between them.
    pub minutes: Option<f64>,
    /// The seed of all random choices.
    pub seed: u64,
    /// The folder to save findings in.
    pub save: Option<PathBuf>,
}

impl Settings {
    /// How long a run may take.
    pub(crate) fn time(&self) -> Option<Duration> {
        // what is longer than a time can say has no end
        self.minutes.and_then(|minutes| Duration::try_from_secs_f64(60.0 * minutes).ok())
    }

    /// Refuses unusable settings, before the program runs.
    pub fn check(&self) -> Result<(), RunError> {
        let Some(save) = &self.save else { return Ok(()) };
        let is_free = match std::fs::read_dir(save) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        if is_free { Ok(()) } else { Err(RunError::PlaceInUse { path: save.clone() }) }
    }
}
