//! The device with the clock of its only client.
//!
//! Invariant: the clock never goes back, and no command is issued once the drive has stopped for good.

use tantalum::{Clock, Command, Completion, Device, Lpn, Nanoseconds, Status};

use crate::error::VolumeError;

/// A device, the client's time, and whether the drive has stopped.
#[derive(Debug)]
pub(crate) struct Drive {
    pub device: Device,
    pub clock: Clock,
    /// When the last command was issued.
    issued_ns: Nanoseconds,
    stopped: Option<Status>,
}

impl Drive {
    pub fn new(device: Device) -> Drive {
        let clock = Clock::virtual_from(device.time_ns());
        Drive { device, clock, issued_ns: 0, stopped: None }
    }

    pub fn try_clone(&self) -> Option<Drive> {
        let device = self.device.try_clone()?;
        Some(Drive { device, clock: self.clock, issued_ns: self.issued_ns, stopped: self.stopped.clone() })
    }

    pub fn now_ns(&self) -> Nanoseconds {
        self.clock.now_ns()
    }

    pub fn wait_until(&mut self, ns: Nanoseconds) {
        self.clock.wait_until(ns);
    }

    /// Another client goes on, whose time is `now_ns`: earlier than another's wait may end, but not than its last
    /// command.
    pub fn begin_at(&mut self, now_ns: Nanoseconds) {
        self.clock = Clock::virtual_from(now_ns.max(self.issued_ns));
    }

    /// Refuses with the error that stopped the drive, if one did.
    pub fn check(&self) -> Result<(), VolumeError> {
        match &self.stopped {
            Some(status) => Err(VolumeError::Device(status.clone())),
            None => Ok(()),
        }
    }

    /// Issues a command now and does not wait for it.
    pub fn submit_queued(&mut self, command: Command<'_>) -> Result<Completion, VolumeError> {
        self.check()?;
        self.issued_ns = self.clock.now_ns();
        self.device.submit(command, self.issued_ns).map_err(|status| {
            if matches!(status, Status::PowerLost | Status::Image(_)) {
                self.stopped = Some(status.clone());
            }
            VolumeError::Device(status)
        })
    }

    /// Issues a command now and waits for it.
    pub fn submit(&mut self, command: Command<'_>) -> Result<Completion, VolumeError> {
        let completion = self.submit_queued(command)?;
        self.wait_until(completion.done_ns);
        Ok(completion)
    }

    pub fn read(&mut self, lpn: Lpn, data: &mut [u8]) -> Result<(), VolumeError> {
        self.submit(Command::Read { lpn, data }).map(drop)
    }
}
