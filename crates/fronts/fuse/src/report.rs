//! Statistics of a drive and its file system: the answer to `tantalum stat`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tantalum_control::DriveReport;
use tantalum_filesystem::{FileSystem, Statistics};

/// The whole report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The drive's part.
    #[serde(flatten)]
    pub drive: DriveReport,
    /// Units of its flash, without spare areas: capacity and over-provisioning.
    #[serde(default)]
    pub flash_units: u32,
    /// Where it is mounted; none if it is not.
    #[serde(with = "tantalum_control::path", default)]
    pub mounted_on: Option<PathBuf>,
    /// The error that stopped the drive for good, if any: changes fail, and without power every request.
    #[serde(default)]
    pub stopped: Option<String>,
    /// The file system's contents.
    pub volume: Statistics,
}

/// The state of a mount at a mark of its recording. Everything was synced just before.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Marked {
    /// The counters.
    pub report: Report,
    /// The drive's profile as TOML.
    pub profile: String,
    /// Whether each write of whole units is all or nothing.
    pub atomic_writes: bool,
    /// Whether a flush follows each write.
    pub sync_writes: bool,
}

impl Report {
    /// The report of a file system now; the caller supplies `image` and where it is mounted.
    pub fn of(file_system: &dyn FileSystem, image: PathBuf) -> Report {
        let (stopped, statistics) = (file_system.client().end(), file_system.statistics());
        let device = file_system.client().device();
        Report {
            drive: DriveReport::of(&device, image, None),
            flash_units: device.profile().geometry().map_or(0, |geometry| geometry.units()),
            mounted_on: None,
            stopped: stopped.map(|status| status.to_string()),
            volume: statistics,
        }
    }
}
