//! How a recording is checked: what may be lost, which check runs, and how much is tried.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{AccessFlags, access};
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

impl Losses {
    /// What is written whole or not at all: of a drive, a unit.
    pub(crate) fn sector(&self) -> Sector {
        match self {
            Losses::Posix(sector) => *sector,
            Losses::Drive(_) => Sector::KiB4,
        }
    }
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
        self.save.as_deref().map_or(Ok(()), check_place)
    }
}

/// Refuses a folder for findings that has something in it, or cannot be made.
pub(crate) fn check_place(save: &Path) -> Result<(), RunError> {
    let is_free = match std::fs::read_dir(save) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    if !is_free {
        return Err(RunError::PlaceInUse { path: save.to_owned() });
    }
    can_be_made(save).map_err(RunError::files(save))
}

/// Fails if a folder can be neither written nor made.
fn can_be_made(folder: &Path) -> io::Result<()> {
    let absolute = std::path::absolute(folder)?;
    let there = absolute.ancestors().find(|folder| folder.symlink_metadata().is_ok());
    let Some(there) = there else { return Ok(()) };
    if !there.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(access(there, AccessFlags::W_OK | AccessFlags::X_OK)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All findings were lost after a run whose folder could not be made.
    #[test]
    fn a_folder_that_cannot_be_made_is_refused_before_the_run() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("file"), "").unwrap();
        assert!(can_be_made(&place.path().join("a/b")).is_ok());
        assert_eq!(
            can_be_made(&place.path().join("file/a")).unwrap_err().kind(),
            io::ErrorKind::NotADirectory
        );
        assert!(!place.path().join("a").exists(), "nothing is made");
    }
}
