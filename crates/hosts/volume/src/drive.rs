//! The drive as the volume sees it: whole units, errors of the volume, and what was sent to it and not flushed.
//!
//! Invariant: after a change that an inode may show, [`VolumeClient::owes_flush`] until [`VolumeClient::flush`] has succeeded (V4).

use tantalum::{Command, Completion, Fetches, Fills, Lpn, Nanoseconds, ShareRange, Status, TxId};
use tantalum_canaries::guard;
use tantalum_drive::{Client, DeviceGuard};

use crate::error::VolumeError;
use crate::extents::LpnRange;

/// A client of a drive.
#[derive(Debug)]
pub(crate) struct VolumeClient {
    client: Client,
    /// Why the volume refuses every change although the drive may go on.
    stopped: Option<Status>,
    /// When the write-back in flight is done.
    write_back_done_ns: Nanoseconds,
    /// Something was sent and not flushed: data, shares, trims or continuations. An inode must not become durable before
    /// what it shows.
    owes_flush: bool,
}

impl VolumeClient {
    pub fn new(client: Client) -> VolumeClient {
        VolumeClient { client, stopped: None, write_back_done_ns: 0, owes_flush: false }
    }

    /// None if the drive cannot be copied.
    pub fn try_clone(&self) -> Option<VolumeClient> {
        let (client, stopped) = (self.client.try_clone()?, self.stopped.clone());
        Some(VolumeClient { client, stopped, ..*self })
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }

    pub fn into_client(self) -> Client {
        self.client
    }

    /// The device by itself.
    pub fn device(&self) -> DeviceGuard<'_> {
        self.client.device()
    }

    /// A step failed that can neither be undone nor left as it is: from now on the volume refuses every change.
    pub fn stop(&mut self, why: Status) {
        self.stopped.get_or_insert(why);
    }

    /// Why the volume refuses every change, if it does.
    pub fn end(&self) -> Option<Status> {
        self.stopped.clone().or_else(|| self.client.end())
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

    pub fn now_ns(&self) -> Nanoseconds {
        self.client.now_ns()
    }

    pub fn wait_until(&mut self, ns: Nanoseconds) {
        self.client.wait_until(ns);
    }

    // -- what the drive is ----------------------------------------------------------------------------------------

    /// Units in one atomic batch.
    pub fn batch_units(&self) -> usize {
        self.device().limits().atomic_units as usize
    }

    /// Units that one command shares.
    pub fn share_units(&self) -> u32 {
        self.device().limits().share_units
    }

    /// Its units, as a count within the range of LPNs.
    pub fn units(&self) -> u32 {
        u32::try_from(self.device().limits().capacity_units).unwrap_or(u32::MAX)
    }

    /// Whether a unit was written since it was last trimmed.
    pub fn is_mapped(&self, lpn: Lpn) -> bool {
        self.device().is_mapped(lpn)
    }

    // -- commands -------------------------------------------------------------------------------------------------

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

    /// Reads whole units, and returns when this will be done. With `fetches`, bytes in the drive's image file are left to be
    /// fetched.
    pub fn read_queued(
        &mut self,
        lpn: Lpn,
        data: &mut [u8],
        fetches: Option<&mut Fetches>,
    ) -> Result<Nanoseconds, VolumeError> {
        let command = match fetches {
            Some(fetches) => Command::ReadLater { lpn, data, fetches },
            None => Command::Read { lpn, data },
        };
        Ok(self.submit_queued(command)?.done_ns)
    }

    /// Writes whole units of a file now and returns when this will be done; units recently written elsewhere are shared
    /// instead. The next buffers of `fills` already hold the same units.
    pub fn write(
        &mut self,
        lpn: Lpn,
        data: &[u8],
        fills: Option<&mut Fills>,
    ) -> Result<Nanoseconds, VolumeError> {
        let command = match fills {
            Some(fills) => Command::WriteFilled { lpn, data, fills, handle: None },
            None => Command::Write { lpn, data, fua: false, handle: None },
        };
        let done_ns = self.client.submit_or_share(command)?.done_ns;
        self.owes_flush |= guard!(InodeBeforeData, true);
        Ok(done_ns)
    }

    /// As [`VolumeClient::write`], with nobody waiting except the next flush.
    pub fn write_back(&mut self, lpn: Lpn, data: &[u8]) -> Result<(), VolumeError> {
        let done_ns = self.write(lpn, data, None)?;
        self.write_back_done_ns = self.write_back_done_ns.max(done_ns);
        Ok(())
    }

    /// Writes a unit of metadata that an inode will name, with nobody waiting except the next flush.
    pub fn write_continuation(&mut self, lpn: Lpn, data: &[u8]) -> Result<(), VolumeError> {
        self.send(Command::Write { lpn, data, fua: false, handle: None })
    }

    /// Shares units at the next flush.
    pub fn share_deferred(&mut self, ranges: &[ShareRange]) -> Result<(), VolumeError> {
        self.send(Command::Share { ranges, deferred: true })
    }

    fn send(&mut self, command: Command<'_>) -> Result<(), VolumeError> {
        let done_ns = self.submit_queued(command)?.done_ns;
        self.write_back_done_ns = self.write_back_done_ns.max(done_ns);
        self.owe_flush();
        Ok(())
    }

    /// Makes units read as zeros. If it fails, some of them may.
    pub fn zero(&mut self, range: LpnRange) -> Result<(), VolumeError> {
        self.owe_flush();
        self.submit_queued(Command::WriteZeroes { lpn: range.lpn, units: range.units }).map(drop)
    }

    /// Nobody waits for it.
    pub fn trim(&mut self, range: LpnRange) -> Result<(), VolumeError> {
        self.owes_flush |= guard!(TrimUnflushed, true);
        self.submit_queued(Command::Trim { lpn: range.lpn, units: range.units }).map(drop)
    }

    /// Writes a unit in a transaction, and returns when this will be done.
    pub fn write_in(&mut self, tx: TxId, lpn: Lpn, data: &[u8]) -> Result<Nanoseconds, VolumeError> {
        Ok(self.submit_queued(Command::TxWrite { tx, lpn, data })?.done_ns)
    }

    /// Writes units all or nothing, durable when it returns.
    pub fn write_atomic(&mut self, writes: &[(Lpn, &[u8])]) -> Result<(), VolumeError> {
        debug_assert!(!writes.is_empty(), "a batch of nothing");
        self.submit(Command::WriteAtomic { writes }).map(drop)
    }

    // -- what is sent and not flushed -------------------------------------------------------------------------------

    /// Waits for the write-back in flight.
    pub fn await_write_back(&mut self) {
        self.wait_until(self.write_back_done_ns);
    }

    /// What is about to be sent may take effect even if it fails.
    pub fn owe_flush(&mut self) {
        self.owes_flush = true;
    }

    /// Whether an inode that is written now could precede what it shows.
    pub fn owes_flush(&self) -> bool {
        self.owes_flush
    }

    /// Makes everything durable that the drive has acknowledged. As an operating system does, it first waits for the
    /// write-back in flight. That costs time, and durability would not need it, as the drive flushes whatever it was
    /// sent.
    pub fn flush(&mut self) -> Result<(), VolumeError> {
        self.await_write_back();
        self.submit(Command::Flush)?;
        self.owes_flush = false;
        Ok(())
    }
}
