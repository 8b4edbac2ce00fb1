//! What a mount answers at its control socket.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tantalum_drive::Pacing;
use tantalum_drive::control::{End, Subject};

use crate::front::Front;
use crate::report::Report;

const TOO_LATE: &str = "the volume is being unmounted";

/// What the answers depend on.
pub(crate) struct Mount {
    pub front: Arc<Front>,
    pub image: PathBuf,
    pub folder: PathBuf,
    pub pacing: Pacing,
    /// The seed of the last cut.
    pub seed: AtomicU64,
    pub end: End,
}

impl Subject for Mount {
    fn image(&self) -> &Path {
        &self.image
    }

    fn stat(&self) -> Result<serde_json::Value, String> {
        let report = self.front.look(|host| {
            let mut report = Report::of(&*host.file_system, self.image.clone());
            report.mounted_on = Some(self.folder.clone());
            report.drive.time = Some(self.pacing);
            report
        });
        let report = report.ok_or(TOO_LATE)?;
        Ok(serde_json::to_value(report).expect("reports are plain data"))
    }

    fn cut(&self, after_flash_operations: Option<u64>, seed: u64) -> Result<bool, String> {
        self.seed.store(seed, Ordering::Relaxed);
        Ok(self.front.cut(after_flash_operations).ok_or(TOO_LATE)?)
    }

    fn stop(&self) -> Result<(), String> {
        Err(format!("it is mounted; end that with `tantalum unmount {}`", self.folder.display()))
    }

    fn end(&self) -> &End {
        &self.end
    }
}
