//! A client that waits for its commands, with its clock.

use tantalum::{Command, Completion, Device, Nanoseconds, Status};

use crate::clock::Clock;
use crate::drive::{Drive, Locked};

/// A client of the drive, possibly the only one. Its clock never goes back, and it submits no command once the drive
/// has come to its end.
#[derive(Debug)]
pub struct Client {
    drive: Drive,
    clock: Clock,
    end: Option<Status>,
}

impl Client {
    pub(crate) fn new(drive: Drive) -> Client {
        let clock = Clock::virtual_from(drive.lock().time_ns());
        Client { drive, clock, end: None }
    }

    /// The client of a copy of the drive, at the same time. None if the drive cannot be copied.
    pub fn try_clone(&self) -> Option<Client> {
        Some(Client { drive: self.drive.try_clone()?, clock: self.clock, end: self.end.clone() })
    }

    /// The drive.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// The device itself; see [`Drive::lock`].
    pub fn device(&self) -> Locked<'_> {
        self.drive.lock()
    }

    /// Gives up the drive: returns the device if nobody else has the drive, and the client otherwise.
    pub fn into_device(self) -> Result<Device, Client> {
        let Client { drive, clock, end } = self;
        drive.into_device().map_err(|drive| Client { drive, clock, end })
    }

    /// The client's time.
    pub fn now_ns(&self) -> Nanoseconds {
        self.clock.now_ns()
    }

    /// The client waits until `ns`, if that is not past.
    pub fn wait_until(&mut self, ns: Nanoseconds) {
        self.clock.wait_until(ns);
    }

    /// From now on the client lives in the machine's time, and sees the drive's latencies.
    pub fn run_in_real_time(&mut self) {
        let now_ns = self.device().time_ns();
        self.clock = Clock::real_from(now_ns);
    }

    /// The client continues in virtual time at `now_ns`. That may be before its last wait ended, if it stands for
    /// several clients, but not before the drive's last command.
    pub fn begin_at(&mut self, now_ns: Nanoseconds) {
        let issued_ns = self.device().issued_ns();
        self.clock = Clock::virtual_from(now_ns.max(issued_ns));
    }

    /// Fails with the error that ended the drive, if it has ended.
    pub fn check(&self) -> Result<(), Status> {
        self.end.clone().map_or(Ok(()), Err)
    }

    /// What ended the drive, if anything did: the first such error of this client ([`Status::is_end_of_drive`]), or the
    /// loss of power.
    pub fn end(&self) -> Option<Status> {
        let without_power = || (!self.device().has_power()).then_some(Status::PowerLost);
        self.end.clone().or_else(without_power)
    }

    /// Issues a command now, without waiting for it.
    pub fn submit_queued(&mut self, command: Command<'_>) -> Result<Completion, Status> {
        self.check()?;
        let at_ns = self.clock.now_ns();
        self.drive.issue(command, at_ns).inspect_err(|status| {
            if status.is_end_of_drive() {
                self.end = Some(status.clone());
            }
        })
    }

    /// Issues a command now and waits for it.
    pub fn submit(&mut self, command: Command<'_>) -> Result<Completion, Status> {
        let completion = self.submit_queued(command)?;
        self.wait_until(completion.done_ns);
        Ok(completion)
    }
}

impl From<Device> for Client {
    /// The only client of a drive.
    fn from(device: Device) -> Client {
        Drive::new(device).client()
    }
}
