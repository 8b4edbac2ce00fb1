//! A drive on which a recording is performed.

use std::path::Path;

use tantalum::{Device, Nanoseconds, PowerLoss, Profile, Status};
use tantalum_record::blocks::{BlockEvent, perform};

use crate::error::RunError;

/// A drive, and the time of its host, which waits for each command.
pub struct Replay {
    pub device: Device,
    now_ns: Nanoseconds,
}

impl Replay {
    /// On a new drive.
    pub fn new(profile: &Profile) -> Result<Replay, RunError> {
        let device = Device::in_memory(profile)?;
        Ok(Replay { now_ns: device.time_ns(), device })
    }

    /// The same drive once more.
    pub fn copy(&self) -> Replay {
        let device = self.device.try_clone().expect("the drive is in memory");
        Replay { device, now_ns: self.now_ns }
    }

    /// Has the drive do what the host did.
    pub fn perform(&mut self, event: &BlockEvent<'_>) -> Result<(), Status> {
        let Replay { device, now_ns } = self;
        perform(event, |command| {
            let done = device.submit(command, (*now_ns).max(device.issued_ns()))?;
            *now_ns = done.done_ns;
            Ok(())
        })
    }

    /// The same, of a recording's event of that number; an error is one of the recording.
    pub fn follow(
        &mut self,
        recording: &Path,
        number: usize,
        event: &BlockEvent<'_>,
    ) -> Result<(), RunError> {
        let failed = |status| RunError::Event { path: recording.to_owned(), number, status };
        self.perform(event).map_err(failed)
    }

    /// The drive loses power at a flash operation of this event, counted from 1 since the drive began, and gets it back. Operations in
    /// flight end as the seed says.
    pub fn lose_power(&mut self, event: &BlockEvent<'_>, operation: u64, seed: u64) -> Result<(), RunError> {
        let broken = |what: String| RunError::NotRecovered { operation, what };
        let device = &mut self.device;
        device.cut_after(Some(operation - device.flash_operations()));
        let ended = self.perform(event);
        let device = &mut self.device;
        if device.has_power() {
            return Err(broken(format!("power stayed on, and the command ended with {ended:?}")));
        }
        device.power_on(&mut PowerLoss::seeded(seed)).map_err(|error| broken(error.to_string()))?;
        Ok(())
    }
}
