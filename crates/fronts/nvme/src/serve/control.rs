//! What the control socket of a served image answers: `tantalum stat`, `cut` and others.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tantalum::RecoveryReport;
use tantalum_control::{DriveReport, End, Look, Subject};
use tantalum_drive::{Answers, Pacing};
use tantalum_image::mix;
use tantalum_record::blocks::BlockEvent;

use super::error::ServeError;
use super::report::{BlockNamespace, Report, ServedReport};
use super::stopper::Stopper;
use crate::ports::AccessError;
use crate::server::Server;

/// How often power has failed, and the seed of what the next failure leaves.
#[derive(Debug, Default)]
pub struct PowerLosses {
    /// The seed of the last cut.
    seed: AtomicU64,
    count: AtomicU64,
}

impl PowerLosses {
    /// Chooses what failures leave from now on.
    pub fn choose(&self, seed: u64) {
        self.seed.store(seed, Ordering::Relaxed);
    }

    /// The seed of what the next failure leaves.
    pub fn next_seed(&self) -> u64 {
        mix(self.seed.load(Ordering::Relaxed) ^ self.count())
    }

    /// Power has failed once more.
    pub fn add(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// How often power has failed.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// What the answers depend on.
pub struct ControlContext {
    image: PathBuf,
    server: Arc<Server>,
    answers: Answers,
    pacing: Pacing,
    losses: Arc<PowerLosses>,
    end: End,
    stopper: Stopper,
}

impl ControlContext {
    /// For the image that a server serves.
    pub fn new(
        image: PathBuf,
        server: Arc<Server>,
        answers: Answers,
        pacing: Pacing,
        losses: Arc<PowerLosses>,
        stopper: Stopper,
    ) -> ControlContext {
        ControlContext { image, server, answers, pacing, losses, end: End::default(), stopper }
    }
}

impl Subject for ControlContext {
    fn image(&self) -> &Path {
        &self.image
    }

    fn stat(&self) -> Result<serde_json::Value, String> {
        let subsystem = self.server.subsystem();
        let table = subsystem.namespaces.table();
        let device = subsystem.queue.drive().lock();
        let drive = DriveReport::of(&device, self.image.clone(), Some(self.pacing));
        let duplicates = device.duplicates();
        let flash_units = device.profile().geometry().map_or(0, |geometry| geometry.units());
        drop(device);
        let served = ServedReport {
            address: self.server.address(),
            ports: subsystem.ports.all(),
            name: subsystem.settings.name.clone(),
            block_namespaces: BlockNamespace::all(&table),
            flash_units,
            controllers: subsystem.controllers(),
            connections: self.server.connections(),
            connections_accepted: self.server.accepted(),
            commands_failed: subsystem.errors.count(),
            power_losses: self.losses.count(),
            units_remapped: duplicates.remapped,
            units_without_duplicate: duplicates.without_duplicate,
        };
        Ok(serde_json::to_value(Report { drive, served }).expect("reports are plain data"))
    }

    fn look(&self) -> Result<serde_json::Value, String> {
        let drive = self.server.subsystem().queue.drive().downgrade();
        let look =
            Look::at(&drive, self.image.clone(), Some(self.pacing)).ok_or("the drive is being shut down")?;
        Ok(serde_json::to_value(look).expect("a look is plain data"))
    }

    /// The drive recovers by itself.
    fn recover(&self) -> Result<RecoveryReport, String> {
        let device = self.server.subsystem().queue.drive().lock();
        match device.has_power() {
            true => Ok(*device.recovery()),
            false => Err("the drive is still recovering".to_owned()),
        }
    }

    fn cut(&self, after_flash_operations: Option<u64>, seed: u64) -> Result<bool, String> {
        self.losses.choose(seed);
        let mut device = self.server.subsystem().queue.drive().lock();
        if !device.has_power() {
            return Err("the drive is recovering from an earlier cut; try again when it has power".to_owned());
        }
        match after_flash_operations {
            Some(operations) => device.cut_after(Some(operations)),
            None => {
                // not before anything already acknowledged to a host
                let now_ns = self.answers.now_ns().unwrap_or_else(|| device.time_ns());
                let now_ns = now_ns.max(device.issued_ns());
                device.cut_power(now_ns);
            }
        }
        Ok(device.has_power())
    }

    fn set_access(&self, port: u16, access: &str) -> Result<(), String> {
        let access = access.parse().map_err(|error: AccessError| error.to_string())?;
        self.server.subsystem().set_access(port, access).map_err(|error| error.to_string())
    }

    fn acknowledge(&self, line: &str) -> Result<(), String> {
        let Some(tape) = &self.server.subsystem().tape else {
            return Err("nothing is recorded; serve the drive with --record".to_owned());
        };
        tape.take(&BlockEvent::Ack(line));
        tape.check().map_err(|error| ServeError::Recording(error).to_string())
    }

    fn stop(&self) -> Result<(), String> {
        self.stopper.stop();
        Ok(())
    }

    fn end(&self) -> &End {
        &self.end
    }
}
