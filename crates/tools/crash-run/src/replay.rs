//! Checks or mounts the files of a saved finding again.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use tantalum_fuse::Mounted;
use tantalum_report::Monitor;
use tempfile::TempDir;

use crate::check::{Check, Checker};
use crate::error::{RunError, temporary_folder};
use crate::program::{mount, new_volume};
use crate::saved_finding::SavedFinding;

/// The least capacity of the drive on which the files are mounted.
const LEAST_BYTES: u64 = 1 << 30;

/// The result of a check that was run again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Again {
    /// How it ended if it failed; `None` if it passed.
    pub failed: Option<String>,
    /// The end of what it printed.
    pub said: String,
}

/// The files of a finding, mounted on a new drive. Changes to them are lost when it is unmounted.
pub struct MountedFinding {
    /// The mount.
    pub mounted: Mounted,
    _place: TempDir,
}

/// Runs a finding's check, or another one, on a copy of its files.
pub fn check_again(saved: &SavedFinding, check: Option<&str>) -> Result<Again, RunError> {
    let check = check.or(saved.check.as_deref()).ok_or(RunError::NoCheck)?;
    let place = temporary_folder()?;
    let folder = place.path().join("dir");
    fs::create_dir(&folder).map_err(RunError::files(&folder))?;
    saved.copy_to(&folder)?;
    let checker = Checker {
        check: Check::Command(check.to_owned()),
        most: Duration::from_secs(saved.check_seconds),
        place: place.path().to_owned(),
        monitor: Monitor::silent(),
    };
    let verdict = checker.run_in(check, &folder, &saved.acks())?;
    Ok(Again { failed: verdict.failed, said: verdict.said })
}

/// Mounts the files of a finding on an empty folder.
pub fn mount_finding(saved: &SavedFinding, folder: &Path) -> Result<MountedFinding, RunError> {
    let place = temporary_folder()?;
    let image = place.path().join("drive");
    // a mount is identified by the path of its image, and this drive is in memory
    File::create(&image).map_err(RunError::files(&image))?;
    let capacity_bytes = LEAST_BYTES.max(4 * saved.bytes()?);
    let volume = new_volume(capacity_bytes)?;
    let mounted = mount(Box::new(volume), image, folder)?;
    match saved.copy_to(folder) {
        Ok(()) => Ok(MountedFinding { mounted, _place: place }),
        Err(error) => {
            mounted.stopper().stop();
            mounted.wait(|_| {})?;
            Err(error)
        }
    }
}
