//! Commands that own their data, and their answers: for clients that continue while a command is in flight.

use tantalum::{Command, Reply, Request, Status, Units};

use crate::drive::Drive;
use crate::transfer::Transfer;
use crate::when::When;

impl Drive {
    /// Executes a command at a client's time, as [`DeviceGuard::issue`](crate::DeviceGuard::issue) does. The answer is returned at once; the caller must
    /// hold it back until it is due. Where the drive allows it, bytes of reads and writes move while others have the
    /// drive. A [`Request::Write`] becomes a share where it repeats a recent one; see
    /// [`DeviceGuard::issue_or_share`](crate::DeviceGuard::issue_or_share).
    pub fn perform(&self, request: Request, when: impl Into<When>) -> Result<Reply, Status> {
        let when = when.into();
        if let Request::Read { lpn, data: Units(units) } = request {
            // so that an oversized request allocates no memory
            self.lock().check_range(lpn, units.into())?;
        }
        request.issue_with(|command| match command {
            Command::Read { lpn, data } => self.read(lpn, data, when),
            Command::Write { lpn, data, fua, handle } => {
                self.transfer_one(Transfer::write(lpn, data, fua).placed(handle), when)
            }
            other => self.lock().issue(other, when),
        })
    }
}
