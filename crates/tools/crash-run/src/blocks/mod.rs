//! What a host's file systems and programs find after a power cut: what they did to the blocks of a served drive is performed again
//! on a drive that loses power, and the user's check gets the disk that is left.
//!
//! The recording is performed once to count flash operations ([`rehearsal`]), and once more with a copy of the drive for each cut
//! ([`cuts`]).

mod cuts;
mod disk;
mod outcome;
mod rehearsal;
mod replay;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tantalum::Profile;
use tantalum_record::blocks::BlockEvents;
use tantalum_report::Monitor;

pub use outcome::{BlockFinding, BlockOutcome, text_of};

use crate::check::{Check, Checker};
use crate::error::{RunError, temporary_folder};
use crate::settings::check_place;
use cuts::Cuts;
use rehearsal::rehearse;

/// How a recording of blocks is checked.
#[derive(Clone, Debug)]
pub struct BlockSettings {
    /// The recording, of `tantalum serve --record`.
    pub recording: PathBuf,
    /// The command that checks a disk.
    pub check: String,
    /// A check that takes longer fails.
    pub check_seconds: u64,
    /// How often power is cut, spread over the recording.
    pub cuts: u64,
    /// The seed of all random choices.
    pub seed: u64,
    /// The folder in which disks are saved that the check refuses.
    pub save: Option<PathBuf>,
}

/// The drive that was recorded.
pub fn recorded_profile(recording: &Path) -> Result<Profile, RunError> {
    Ok(events(recording)?.profile)
}

fn events(recording: &Path) -> Result<BlockEvents, RunError> {
    let file = File::open(recording).map_err(RunError::files(recording))?;
    BlockEvents::read(file).map_err(|error| RunError::Recording { path: recording.to_owned(), error })
}

/// Checks what is on a drive with this profile after power cuts.
pub fn check_blocks(
    settings: &BlockSettings,
    profile: &Profile,
    monitor: &Monitor,
) -> Result<BlockOutcome, RunError> {
    settings.save.as_deref().map_or(Ok(()), check_place)?;
    let place = temporary_folder()?;
    let checker = Checker {
        check: Check::Command(settings.check.clone()),
        most: Duration::from_secs(settings.check_seconds),
        place: place.path().to_owned(),
        monitor: monitor.quiet(),
    };
    let rehearsed = rehearse(settings, profile, &checker, monitor)?;
    Cuts { settings, profile, checker: &checker, rehearsed: &rehearsed }.make(monitor)
}
