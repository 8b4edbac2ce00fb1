//! What a drive and its volume tell about themselves: the answer to `tantalum stat`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tantalum_drive::report::DriveReport;
use tantalum_volume::{Volume, VolumeStatistics};

/// All that is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// What the drive tells.
    #[serde(flatten)]
    pub drive: DriveReport,
    /// Where it is mounted; none if it is not.
    pub mounted_on: Option<PathBuf>,
    /// The error that stopped the drive for good, if one did: every request fails.
    #[serde(default)]
    pub stopped: Option<String>,
    /// What the volume holds.
    pub volume: VolumeStatistics,
}

impl Report {
    /// What is known of a volume now; `image` and where it is mounted are the caller's to know.
    pub fn of(volume: &Volume, image: PathBuf) -> Report {
        let (stopped, statistics) = (volume.stopped(), volume.statistics());
        Report {
            drive: DriveReport::of(&volume.device(), image, None),
            mounted_on: None,
            stopped: stopped.map(|status| status.to_string()),
            volume: statistics,
        }
    }
}
