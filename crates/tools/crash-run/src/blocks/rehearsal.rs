//! The recording without a cut: where power can be cut, and whether the check passes at all.

use tantalum::Profile;
use tantalum_record::blocks::BlockEvent;
use tantalum_report::Monitor;

use super::disk::Disk;
use super::replay::Replay;
use super::{BlockSettings, events};
use crate::check::Checker;
use crate::error::RunError;

/// What a recording does to a drive that keeps its power.
#[derive(Debug)]
pub struct Rehearsed {
    /// Flash operations before the first acknowledgement: no cut is made before; 0 if there is none.
    pub begins: u64,
    /// Flash operations up to the end of each event.
    pub ends: Vec<u64>,
    /// Commands that changed something, and flushes among them.
    pub commands: u64,
    pub flushes: u64,
    /// Everything that was acknowledged.
    pub acks: u64,
}

impl Rehearsed {
    /// Flash operations at which power may be cut: those after [`Rehearsed::begins`].
    pub fn places(&self) -> u64 {
        self.ends.last().map_or(0, |last| last - self.begins)
    }
}

/// Performs all of it, and runs the check on the disk.
pub fn rehearse(
    settings: &BlockSettings,
    profile: &Profile,
    checker: &Checker,
    monitor: &Monitor,
) -> Result<Rehearsed, RunError> {
    let (mut replay, mut events) = (Replay::new(profile)?, events(&settings.recording)?);
    let mut rehearsed = Rehearsed { begins: 0, ends: Vec::new(), commands: 0, flushes: 0, acks: 0 };
    let mut acks = Vec::new();
    while let Some(event) = events.next().map_err(RunError::recording(&settings.recording))? {
        monitor.check()?;
        match event {
            BlockEvent::Ack(line) => {
                if acks.is_empty() {
                    rehearsed.begins = replay.device.flash_operations();
                }
                acks.push(line.to_owned());
            }
            _ => rehearsed.commands += 1,
        }
        rehearsed.flushes += u64::from(event == BlockEvent::Flush);
        replay.follow(&settings.recording, rehearsed.ends.len(), &event)?;
        rehearsed.ends.push(replay.device.flash_operations());
    }
    rehearsed.acks = acks.len() as u64;
    if rehearsed.places() == 0 {
        return Err(RunError::NoFlashOperations { path: settings.recording.clone() });
    }
    let disk = Disk::write(checker.place.join("whole"), &mut replay.device, &acks)?;
    let verdict = checker.run_in(&settings.check, &disk.folder(), &disk.acks())?;
    disk.remove()?;
    verdict.must_pass(&checker.check)?;
    Ok(rehearsed)
}
