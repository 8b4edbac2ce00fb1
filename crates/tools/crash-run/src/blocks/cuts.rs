//! The cuts: the recording is performed once more, and at each chosen flash operation a copy of the drive loses power.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::SyncSender;

use parking_lot::Mutex;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Profile, UNIT_BYTES};
use tantalum_record::blocks::BlockEvent;
use tantalum_report::Monitor;

use super::disk::Disk;
use super::outcome::{BlockFinding, BlockOutcome, named};
use super::rehearsal::Rehearsed;
use super::replay::Replay;
use super::{BlockSettings, events};
use crate::check::{Checker, Verdict};
use crate::error::RunError;
use crate::parallel::in_parallel;

/// What cuts are made of.
pub struct Cuts<'a> {
    pub settings: &'a BlockSettings,
    pub profile: &'a Profile,
    pub checker: &'a Checker,
    pub rehearsed: &'a Rehearsed,
}

/// A disk that waits for its check.
struct Job {
    /// The number of the cut, from 1.
    number: u64,
    disk: Disk,
    finding: BlockFinding,
}

/// What the threads that run checks share.
#[derive(Default)]
struct Checks {
    checked: u64,
    /// By the number of their cut.
    findings: BTreeMap<u64, BlockFinding>,
    /// Why a check could not be run, or what it left not be saved.
    stopped: Option<RunError>,
}

impl Cuts<'_> {
    /// Makes all cuts. An interrupted run returns what it has so far.
    pub fn make(&self, monitor: &Monitor) -> Result<BlockOutcome, RunError> {
        let checks = Mutex::new(Checks::default());
        let made =
            in_parallel(1, |_, job| self.take(job, &checks), |jobs| self.cut_all(&jobs, &checks, monitor));
        let Checks { checked, findings, stopped } = checks.into_inner();
        match stopped.map_or(made, Err) {
            Ok(()) | Err(RunError::Interrupted(_)) => {}
            Err(other) => return Err(other),
        }
        let Rehearsed { commands, flushes, acks, .. } = *self.rehearsed;
        Ok(BlockOutcome {
            drive: self.profile.name.clone(),
            atomic_write_bytes: u64::from(self.profile.limits.atomic_write_units.max(1)) * UNIT_BYTES as u64,
            commands,
            flushes,
            acknowledged: acks,
            places: self.rehearsed.places(),
            planned: self.settings.cuts.min(self.rehearsed.places()),
            checked,
            failed: findings.len() as u64,
            findings: findings.into_values().collect(),
        })
    }

    /// The flash operations at which power goes, in ascending order: one in each of as many equal parts of the recording.
    fn chosen(&self) -> Vec<u64> {
        let (begins, places) = (self.rehearsed.begins, self.rehearsed.places());
        let parts = self.settings.cuts.min(places);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.settings.seed);
        let part =
            |number: u64| begins + (u128::from(places) * u128::from(number) / u128::from(parts)) as u64;
        (0..parts).map(|number| 1 + random.random_range(part(number)..part(number + 1))).collect()
    }

    /// Performs the recording, and cuts the power of a copy wherever it is to go.
    fn cut_all(
        &self,
        jobs: &SyncSender<Job>,
        checks: &Mutex<Checks>,
        monitor: &Monitor,
    ) -> Result<(), RunError> {
        let path = &self.settings.recording;
        let chosen = self.chosen();
        let bar = monitor.bar("power cuts", chosen.len() as u64);
        let (mut replay, mut events) = (Replay::new(self.profile)?, events(path)?);
        let (mut acks, mut cuts) = (Vec::new(), 0);
        for (number, end) in self.rehearsed.ends.iter().enumerate() {
            let next = events.next().map_err(RunError::recording(path))?;
            let event = next.ok_or_else(|| RunError::RecordingChanged { path: path.clone() })?;
            if let BlockEvent::Ack(line) = event {
                acks.push(line.to_owned());
            }
            while let Some(&operation) = chosen.get(cuts).filter(|operation| *operation <= end) {
                cuts += 1;
                bar.advance(1)?;
                if checks.lock().stopped.is_some() {
                    return Ok(());
                }
                let mut copy = replay.copy();
                copy.lose_power(&event, operation, self.settings.seed ^ operation)?;
                let disk = Disk::write(self.place().join(format!("cut-{cuts}")), &mut copy.device, &acks)?;
                let finding = BlockFinding {
                    flash_operation: operation - self.rehearsed.begins,
                    after_commands: number as u64,
                    during: named(&event),
                    acknowledged: acks.len() as u64,
                    check_ended: String::new(),
                    check_said: String::new(),
                    saved: None,
                };
                jobs.send(Job { number: cuts as u64, disk, finding })
                    .expect("threads take jobs until they end");
            }
            if cuts == chosen.len() {
                return Ok(());
            }
            replay.follow(path, number, &event)?;
        }
        Ok(())
    }

    /// Where disks are made: those that are to be saved where they stay.
    fn place(&self) -> &Path {
        self.settings.save.as_deref().unwrap_or(&self.checker.place)
    }

    /// Runs the check on a disk.
    fn take(&self, job: Job, checks: &Mutex<Checks>) {
        if checks.lock().stopped.is_some() {
            // the queue is still emptied, or the sender would block
            let _ = job.disk.remove();
            return;
        }
        let (number, checked) = (job.number, self.check(job));
        let mut checks = checks.lock();
        match checked {
            Ok(found) => {
                checks.checked += 1;
                checks.findings.extend(found.map(|finding| (number, finding)));
            }
            Err(error) => checks.stopped = Some(error),
        }
    }

    /// What is wrong with a disk, if something is.
    fn check(&self, job: Job) -> Result<Option<BlockFinding>, RunError> {
        let Job { disk, finding, .. } = job;
        let checked = self.checker.run_in(&self.settings.check, &disk.folder(), &disk.acks());
        let Verdict { failed, said } = match checked {
            Ok(verdict) => verdict,
            Err(error) => {
                let _ = disk.remove();
                return Err(error);
            }
        };
        let saved = self.settings.save.as_ref().filter(|_| failed.is_some()).map(|_| disk.place.clone());
        if saved.is_none() {
            disk.remove()?;
        }
        Ok(failed.map(|check_ended| BlockFinding { check_ended, check_said: said, saved, ..finding }))
    }
}
