//! The drive as a command may use it: through its namespace's right, which is checked each time that the drive is locked.

use tantalum::{Completion, Handle, Lpn, Reply, Request};
use tantalum_drive::{DeviceGuard, Drive, Fence, Transfer, When};

use crate::blocks::BlockSpace;
use crate::failure::Failure;

/// The drive for a command of one namespace.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    drive: &'a Drive,
    fence: Fence<'a>,
    /// The namespace's blocks.
    pub space: &'a BlockSpace,
}

impl<'a> Part<'a> {
    /// For a command that has this right, of a namespace with these blocks.
    pub fn new(drive: &'a Drive, fence: Fence<'a>, space: &'a BlockSpace) -> Part<'a> {
        Part { drive, fence, space }
    }

    /// Locks the drive.
    ///
    /// # Errors
    /// [`Failure::KEPT_OUT`] if the right was withdrawn. So it is with all that follow.
    pub fn lock(&self) -> Result<DeviceGuard<'a>, Failure> {
        let device = self.drive.lock();
        if self.fence.holds(&device) { Ok(device) } else { Err(Failure::KEPT_OUT) }
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
        let mut transfers = [transfer.within(self.fence)];
        self.drive.transfer(&mut transfers, when);
        let [transfer] = transfers;
        if transfer.was_kept_out() { Err(Failure::KEPT_OUT) } else { Ok(transfer.ended()?) }
    }
}
