//! What a mount answers at its control socket.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tantalum::{Access, Device, PowerLoss, RecoveryReport};
use tantalum_control::{End, Look, Subject};
use tantalum_drive::{Drive, WeakDrive};
use tantalum_record::{Spool, Tape};

use crate::front::Front;
use crate::host::Host;
use crate::options::Options;
use crate::report::{Marked, Report};
use crate::watched_files::Looked;

const TOO_LATE: &str = "the volume is being unmounted";

/// What the answers depend on.
pub(crate) struct Mount {
    pub front: Arc<Front>,
    pub image: PathBuf,
    pub folder: PathBuf,
    pub options: Options,
    pub tape: Tape,
    pub drive: WeakDrive,
    /// The drive as recovery leaves it, in memory only: after a cut whose recovery was tried. It keeps the image locked.
    pub tried: Mutex<Option<Drive>>,
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

    fn look(&self) -> Result<serde_json::Value, String> {
        let tried = self.tried.lock();
        let recovered = tried.as_ref().map(Drive::downgrade);
        let drive = recovered.as_ref().unwrap_or(&self.drive);
        let mut look = Look::at(drive, self.image.clone(), Some(self.options.pacing)).ok_or(TOO_LATE)?;
        look.has_power &= tried.is_none();
        let is_tried = tried.is_some();
        drop(tried);
        let told = |host: &mut Host| {
            let stopped = host.file_system.client().end().map(|status| status.to_string());
            (stopped, host.watched.as_ref().map(|watched| watched.told()).unwrap_or_default())
        };
        let (stopped, (files, all_files, files_written)) = self.front.look(told).ok_or(TOO_LATE)?;
        let mounted_on = self.folder.clone();
        let looked = Looked { look, mounted_on, is_tried, stopped, files, all_files, files_written };
        Ok(serde_json::to_value(looked).expect("a look is plain data"))
    }

    fn begin_watch(&self) {
        self.front.look(|host| host.watched.get_or_insert_default().watchers += 1);
    }

    fn end_watch(&self) {
        self.front.look(|host| {
            host.watched = host.watched.take().filter(|watched| watched.watchers > 1).map(|mut watched| {
                watched.watchers -= 1;
                watched
            });
        });
    }

    /// The image becomes what unmounting would make it; then it is recovered in memory.
    fn recover(&self) -> Result<RecoveryReport, String> {
        let mut tried = self.tried.lock();
        if let Some(drive) = &*tried {
            return Ok(*drive.lock().recovery());
        }
        let seed = self.seed.load(Ordering::Relaxed);
        let settled = self.front.look(|host| {
            let mut device = host.file_system.client().device();
            if device.has_power() {
                return Err("the drive has power".to_owned());
            }
            let loss = &mut PowerLoss::seeded(seed);
            device.settle_power_loss(loss).map_err(|error| format!("the image could not be closed: {error}"))
        });
        settled.ok_or(TOO_LATE)??;
        let device = Device::open_as(&self.image, Access::Overlay);
        let device = device.map_err(|error| format!("the drive does not recover: {error}"))?;
        let report = *device.recovery();
        *tried = Some(Drive::new(device));
        Ok(report)
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
            // the client reads what there is so far
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
