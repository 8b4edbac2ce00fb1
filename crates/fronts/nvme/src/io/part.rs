//! The drive as a command may use it: through its namespace's right, which is checked each time that the drive is locked.

use tantalum::{Completion, Handle, Lpn, NamespaceId, Nanoseconds, Reply, Request};
use tantalum_drive::{DeviceGuard, Drive, Fence, Transfer, When};

use crate::blocks::{BlockSpace, Blocks};
use crate::failure::Failure;
use crate::namespaces::{Target, Uncorrectable};

/// The drive for a command of one namespace.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    drive: &'a Drive,
    fence: Fence<'a>,
    /// The right to another part of the drive that is needed as well.
    other: Option<Fence<'a>>,
    target: &'a Target,
    uncorrectable: &'a Uncorrectable,
    /// The namespace's blocks.
    pub space: &'a BlockSpace,
}

impl<'a> Part<'a> {
    /// For a command of this namespace, which had this right to it when it was checked.
    pub fn new(
        drive: &'a Drive,
        fence: Fence<'a>,
        target: &'a Target,
        uncorrectable: &'a Uncorrectable,
    ) -> Part<'a> {
        Part { drive, fence, other: None, target, uncorrectable, space: &target.space }
    }

    /// The same, for what concerns the part of another namespace as well.
    pub fn beside(&self, other: &Part<'a>) -> Part<'a> {
        Part { other: Some(other.fence), ..*self }
    }

    /// Blocks of the drive that hosts have marked as not readable; `None` if there were none when the command was checked.
    pub fn uncorrectable(&self) -> Option<&'a Uncorrectable> {
        Some(self.uncorrectable).filter(|_| self.target.has_marks)
    }

    /// Refuses blocks that are marked as not readable, and deallocated ones if a host asked for that. Another command may change that
    /// at any time.
    pub fn check_readable(&self, blocks: Blocks) -> Result<(), Failure> {
        if !self.target.is_checked() {
            return Ok(());
        }
        self.check_readable_on(&self.lock()?, blocks)
    }

    /// As [`Part::check_readable`], for whoever has the drive.
    pub fn check_readable_on(&self, device: &DeviceGuard<'_>, blocks: Blocks) -> Result<(), Failure> {
        if self.uncorrectable().is_some_and(|marks| marks.touches(self.space.sectors(blocks))) {
            return Err(Failure::UNREADABLE);
        }
        let units = self.space.units(blocks);
        let mut all = (units.first.0..units.first.0 + units.count).map(Lpn);
        match self.target.reports_deallocated && !all.all(|lpn| device.is_mapped(lpn)) {
            true => Err(Failure::DEALLOCATED),
            false => Ok(()),
        }
    }

    /// Marks blocks as not readable, in the drive's own namespace. Returns when that is durable.
    pub fn mark(
        &self,
        device: &mut DeviceGuard<'_>,
        when: When,
        kept: NamespaceId,
        blocks: Blocks,
    ) -> Result<Nanoseconds, Failure> {
        self.uncorrectable.mark(device, when, kept, self.space.sectors(blocks))
    }

    /// Takes the marks of blocks away that were written, when that is durable. Returns when.
    pub fn unmark(&self, blocks: Blocks, when: When) -> Result<Nanoseconds, Failure> {
        match self.uncorrectable() {
            None => Ok(0),
            Some(marks) => marks.clear(&mut self.lock()?, when, self.space.sectors(blocks)),
        }
    }

    /// Locks the drive.
    ///
    /// # Errors
    /// [`Failure::KEPT_OUT`] if the right was withdrawn. So it is with all that follow.
    pub fn lock(&self) -> Result<DeviceGuard<'a>, Failure> {
        let device = self.drive.lock();
        let holds = self.fence.holds(&device) && self.other.is_none_or(|other| other.holds(&device));
        if holds { Ok(device) } else { Err(Failure::KEPT_OUT) }
    }

    /// [`Drive::perform`] of a request that is neither a read nor a plain write.
    pub fn perform(&self, request: Request, when: When) -> Result<Reply, Failure> {
        let mut kept_out = None;
        let performed = request.issue_with(|command| match self.lock() {
            Ok(mut device) => device.issue(command, when),
            Err(failure) => {
                kept_out = Some(failure);
                Err(tantalum::Status::PowerLost)
            }
        });
        match kept_out {
            Some(failure) => Err(failure),
            None => Ok(performed?),
        }
    }

    /// [`Drive::read`].
    pub fn read(&self, lpn: Lpn, data: &mut [u8], when: When) -> Result<Completion, Failure> {
        self.transfer(Transfer::read(lpn, data), when)
    }

    /// [`Drive::write`], with a reclaim unit handle.
    pub fn write(
        &self,
        lpn: Lpn,
        data: &[u8],
        fua: bool,
        handle: Option<Handle>,
        when: When,
    ) -> Result<Completion, Failure> {
        self.transfer(Transfer::write(lpn, data, fua).placed(handle), when)
    }

    fn transfer<'b>(&self, transfer: Transfer<'b>, when: When) -> Result<Completion, Failure>
    where
        'a: 'b,
    {
        debug_assert!(self.other.is_none(), "data move in one part of the drive");
        let mut transfers = [transfer.within(self.fence)];
        self.drive.transfer(&mut transfers, when);
        let [transfer] = transfers;
        if transfer.was_kept_out() { Err(Failure::KEPT_OUT) } else { Ok(transfer.ended()?) }
    }
}
