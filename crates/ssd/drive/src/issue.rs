//! Commands to a device that has more than one client.

use tantalum::{Command, Completion, Device, Nanoseconds, Status};

/// Issues a command at a client's time, or as soon afterwards as the last command allows.
pub(crate) fn issue(
    device: &mut Device,
    command: Command<'_>,
    at_ns: Nanoseconds,
) -> Result<Completion, Status> {
    device.submit(command, at_ns.max(device.issued_ns()))
}
