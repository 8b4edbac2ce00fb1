//! Commands to a device that has more than one client.

use tantalum::{Command, Completion, Device, Nanoseconds, Status};

/// Issues a command at a client's time, or as soon afterwards as the last command allows.
pub(crate) fn issue(
    device: &mut Device,
    command: Command<'_>,
    at_ns: Nanoseconds,
) -> Result<Completion, Status> {
    let at_ns = at_ns.max(device.issued_ns());
    let issued = device.submit(command, at_ns);
    if let Ok(Completion { done_ns, .. }) = issued {
        let issued_ns = device.issued_ns();
        debug_assert!(done_ns >= at_ns, "a command of {at_ns} ns was done at {done_ns} ns");
        debug_assert!(
            issued_ns >= at_ns,
            "the last command is of {issued_ns} ns, and one of {at_ns} ns is done"
        );
    }
    issued
}
