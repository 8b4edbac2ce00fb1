//! What a mount answers at its control socket.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tantalum_drive::control::{End, Subject};
use tantalum_record::{Spool, Tape};

use crate::front::Front;
use crate::host::Host;
use crate::options::Options;
use crate::report::{Marked, Report};

const TOO_LATE: &str = "the volume is being unmounted";

/// What the answers depend on.
pub(crate) struct Mount {
    pub front: Arc<Front>,
    pub image: PathBuf,
    pub folder: PathBuf,
    pub options: Options,
    pub tape: Tape,
    /// The seed of the last cut.
    pub seed: AtomicU64,
    pub end: End,
}

impl Subject for Mount {
    fn image(&self) -> &Path {
        &self.image
    }

    fn stat(&self) -> Result<serde_json::Value, String> {
        let report = self.front.look(|host| self.report(host)).ok_or(TOO_LATE)?;
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

    fn record(&self, to: &Path) -> Result<(), String> {
        let file = File::create(to).map_err(|error| format!("{}: {error}", to.display()))?;
        let sink = Box::new(Spool::new(file));
        match self.front.look(|host| self.tape.start(&mut *host.file_system, sink)).ok_or(TOO_LATE)? {
            Ok(Some(())) => Ok(()),
            Ok(None) => Err("its files are being recorded already".to_owned()),
            Err(errno) => Err(format!("its files cannot be listed: {errno}")),
        }
    }

    fn mark(&self) -> Result<serde_json::Value, String> {
        if self.front.look(|_| ()).is_none() {
            // whoever asked reads what there is so far
            self.tape.end();
            return Err(TOO_LATE.to_owned());
        }
        let marked = self.front.with(|host| {
            host.file_system.write_back()?;
            let now_ns = host.file_system.client().now_ns();
            let report = self.report(host);
            let profile = host.file_system.client().device().profile().to_toml();
            Ok((self.tape.mark(now_ns), report, profile))
        });
        let (kept, report, profile) = marked.outcome.map_err(|_| {
            self.tape.end();
            "the drive has no power, or what was written cannot be synced"
        })?;
        kept.map_err(|error| format!("the recording could not be written: {error}"))?;
        let Options { atomic_writes, sync_writes, .. } = self.options;
        let marked = Marked { report, profile, atomic_writes, sync_writes };
        Ok(serde_json::to_value(marked).expect("reports are plain data"))
    }

    fn end_recording(&self) {
        self.tape.end();
    }
}

impl Mount {
    fn report(&self, host: &Host) -> Report {
        let mut report = Report::of(&*host.file_system, self.image.clone());
        report.mounted_on = Some(self.folder.clone());
        report.drive.time = Some(self.options.pacing);
        report
    }
}
