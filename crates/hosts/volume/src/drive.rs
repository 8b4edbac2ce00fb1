//! The drive as the volume's files see it: whole units, and errors of the volume.

use tantalum::{Command, Completion, Fills, Lpn, Nanoseconds, Status};
use tantalum_drive::{Client, DeviceGuard};

use crate::error::VolumeError;

/// A client of a drive whose changes the volume can stop.
#[derive(Debug)]
pub(crate) struct StoppableClient {
    pub client: Client,
    /// Why the volume refuses every change although the drive may go on.
    stopped: Option<Status>,
}

impl StoppableClient {
    pub fn new(client: Client) -> StoppableClient {
        StoppableClient { client, stopped: None }
    }

    pub fn try_clone(&self) -> Option<StoppableClient> {
        Some(StoppableClient { client: self.client.try_clone()?, stopped: self.stopped.clone() })
    }

    /// A step failed that can neither be undone nor left as it is: from now on the volume refuses every change.
    pub fn stop(&mut self, why: Status) {
        self.stopped.get_or_insert(why);
    }

    /// Why the volume refuses every change, if it does.
    pub fn end(&self) -> Option<Status> {
        self.stopped.clone().or_else(|| self.client.end())
    }

    /// The device by itself.
    pub fn device(&self) -> DeviceGuard<'_> {
        self.client.device()
    }

    pub fn now_ns(&self) -> Nanoseconds {
        self.client.now_ns()
    }

    pub fn wait_until(&mut self, ns: Nanoseconds) {
        self.client.wait_until(ns);
    }

    /// Fails with the error that ended the drive or the volume, if one has: nothing can be changed.
    pub fn check(&self) -> Result<(), VolumeError> {
        match &self.stopped {
            Some(why) => Err(why.clone().into()),
            None => Ok(self.client.check()?),
        }
    }

    /// Fails if nothing can be read: the drive has no power.
    pub fn check_power(&self) -> Result<(), VolumeError> {
        Ok(self.client.check_power()?)
    }

    /// Issues a command now, without waiting for it.
    pub fn submit_queued(&mut self, command: Command<'_>) -> Result<Completion, VolumeError> {
        Ok(self.client.submit_queued(command)?)
    }

    /// Issues a command now and waits for it.
    pub fn submit(&mut self, command: Command<'_>) -> Result<Completion, VolumeError> {
        Ok(self.client.submit(command)?)
    }

    pub fn read(&mut self, lpn: Lpn, data: &mut [u8]) -> Result<(), VolumeError> {
        self.submit(Command::Read { lpn, data }).map(drop)
    }

    /// Writes whole units of a file now and returns when this will be done; units recently written elsewhere are shared
    /// instead.
    pub fn write(&mut self, lpn: Lpn, data: &[u8]) -> Result<Nanoseconds, VolumeError> {
        self.write_filled(lpn, data, None)
    }

    /// As [`StoppableClient::write`]. The next buffers of `fills` already hold the same units.
    pub fn write_filled(
        &mut self,
        lpn: Lpn,
        data: &[u8],
        fills: Option<&mut Fills>,
    ) -> Result<Nanoseconds, VolumeError> {
        let command = match fills {
            Some(fills) => Command::WriteFilled { lpn, data, fills },
            None => Command::Write { lpn, data, fua: false },
        };
        Ok(self.client.submit_or_share(command)?.done_ns)
    }
}
