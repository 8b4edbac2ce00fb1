//! What holds a program's non-volatile memory: the drive's flash, or memory of the processors' own.

use tantalum::{Command, Device, Nanoseconds, Status};
use tantalum_drive::Drive;

use crate::memory::Memory;

/// The drive, locked for a handler, and the processors' own memory, if there is one: then flash does not hold theirs.
pub(crate) struct Backing<'a> {
    pub device: &'a mut Device,
    pub memory: Option<&'a mut Memory>,
}

impl Backing<'_> {
    /// Calls `work` with the drive, locked.
    pub fn with<T>(
        drive: &Drive,
        memory: &mut Option<Memory>,
        work: impl FnOnce(&mut Backing<'_>) -> T,
    ) -> T {
        work(&mut Backing { device: &mut drive.lock(), memory: memory.as_mut() })
    }

    /// Gives a command to the drive from inside it; see [`submit`].
    pub fn submit(&mut self, command: Command<'_>, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        submit(self.device, command, at_ns)
    }

    /// Makes durable what the drive has acknowledged; the processors' own memory always is.
    pub fn flush(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        match self.memory {
            Some(_) => Ok(at_ns),
            None => self.submit(Command::Flush, at_ns),
        }
    }
}

/// Gives a command to the drive from inside it, not before its last one.
pub(crate) fn submit(
    device: &mut Device,
    command: Command<'_>,
    at_ns: Nanoseconds,
) -> Result<Nanoseconds, Status> {
    let at_ns = at_ns.max(device.issued_ns());
    Ok(device.submit_inside(command, at_ns)?.done_ns)
}
