//! I/O Management Receive and Send: the status of a namespace's reclaim unit handles, and the beginning of their next reclaim units
//! (Base 2.1, sections 7.3 and 7.4; NVM 1.1, section 3.2.1).

use tantalum_drive::When;
use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, IntoBytes};

use super::part::Part;
use super::transfer::{TRANSFER_BYTES, Transfer};
use super::work::Worked;
use crate::failure::Failure;
use crate::mailbox::Answer;
use crate::namespaces::{Namespaces, Target};
use crate::wire::command::Submission;
use crate::wire::identify::empty;
use crate::wire::opcode::nvm;
use crate::wire::placement::{Status, Statuses};

/// Management operations (`MO`).
const NOTHING: u8 = 0;
const HANDLES: u8 = 1;

/// A command about handles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandleCommand {
    /// No operation.
    Nothing,
    /// The status of handles, of which the host takes so many bytes.
    Status(u32),
    /// Handles begin their next reclaim units: how many identifiers of them.
    Update(u32),
}

impl HandleCommand {
    /// Whether a command is about handles.
    pub fn is_one(command: &Submission) -> bool {
        matches!(command.opcode, nvm::IO_MANAGEMENT_RECEIVE | nvm::IO_MANAGEMENT_SEND)
    }

    /// Reads a command.
    pub fn decode(command: &Submission) -> Result<HandleCommand, Failure> {
        let is_send = command.opcode == nvm::IO_MANAGEMENT_SEND;
        match command.dword(10) as u8 {
            NOTHING => Ok(HandleCommand::Nothing),
            HANDLES if is_send => Ok(HandleCommand::Update((command.dword(10) >> 16) + 1)),
            HANDLES => {
                let bytes = (u64::from(command.dword(11)) + 1) * 4;
                let fits = bytes <= TRANSFER_BYTES.into();
                if fits { Ok(HandleCommand::Status(bytes as u32)) } else { Err(Failure::INVALID_FIELD) }
            }
            _ => Err(Failure::INVALID_FIELD),
        }
    }

    /// Refuses more identifiers than a drive with so many handles takes at once (`MAXPIDS`).
    pub fn check(self, drive: u32) -> Result<(), Failure> {
        match self {
            HandleCommand::Update(identifiers) if identifiers > drive => Err(Failure::INVALID_FIELD),
            _ => Ok(()),
        }
    }

    /// The data that it moves.
    pub fn transfer(&self) -> Transfer {
        match *self {
            HandleCommand::Nothing => Transfer::None,
            HandleCommand::Status(bytes) => Transfer::ToHost(bytes),
            HandleCommand::Update(identifiers) => Transfer::FromHost(identifiers * 2),
        }
    }

    /// Executes it, with the data that came from the host.
    pub fn work(
        self,
        part: Part<'_>,
        target: &Target,
        namespaces: &Namespaces,
        when: When,
        data: &[u8],
    ) -> Worked {
        match self {
            HandleCommand::Nothing => Ok(Default::default()),
            HandleCommand::Status(bytes) => {
                let mut told = status(part, target, namespaces)?;
                told.resize(bytes as usize, 0);
                Ok((Answer::data(told), 0))
            }
            HandleCommand::Update(_) => {
                let identifiers = <[U16]>::ref_from_bytes(data).map_err(|_| Failure::INVALID_FIELD)?;
                let identifiers: Vec<u16> = identifiers.iter().map(|identifier| identifier.get()).collect();
                let done_ns = namespaces.begin_reclaim_units(target, &identifiers, when, || part.lock())?;
                Ok((Answer::default(), done_ns))
            }
        }
    }
}

/// The handles of a namespace, in the order of its placement handles.
fn status(part: Part<'_>, target: &Target, namespaces: &Namespaces) -> Result<Vec<u8>, Failure> {
    let handles = namespaces.handles_of(target)?;
    let device = part.lock()?;
    let (states, whole) = (device.handles(), device.reclaim_unit_units());
    let mut header: Statuses = empty();
    header.count = (handles.len() as u16).into();
    let mut told = header.as_bytes().to_vec();
    for (identifier, handle) in handles.into_iter().enumerate() {
        let writable = states.get(handle.index()).map_or(0, |state| state.writable_units);
        let units = left_after(writable, device.waiting_units(handle), whole);
        let mut status: Status = empty();
        status.identifier = (identifier as u16).into();
        status.handle = u16::from(handle.0).into();
        status.writable_blocks = (units * u64::from(part.space.per_unit())).into();
        told.extend(status.as_bytes());
    }
    Ok(told)
}

/// Units that fit in a reclaim unit once what waits for it is there. If more waits than fits, it is the next one that is told.
fn left_after(writable: u64, waiting: u64, whole: u64) -> u64 {
    match waiting.checked_sub(writable) {
        None => writable - waiting,
        Some(0) => whole,
        Some(beyond) => whole - beyond % whole.max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_takes_room_of_the_reclaim_unit() {
        assert_eq!(left_after(10, 3, 16), 7);
        assert_eq!(left_after(10, 10, 16), 16, "the next one begins");
        assert_eq!((left_after(10, 14, 16), left_after(10, 42, 16)), (12, 16));
    }

    #[test]
    fn fields_are_checked() {
        let decode = |opcode, dword10, dword11| {
            let dword10 = [dword10, dword11, 0, 0, 0, 0].map(Into::into);
            let command = Submission { opcode, dword10, ..Submission::default() };
            HandleCommand::decode(&command).and_then(|decoded| decoded.check(8).map(|()| decoded))
        };
        let (receive, send) = (nvm::IO_MANAGEMENT_RECEIVE, nvm::IO_MANAGEMENT_SEND);
        assert_eq!(decode(receive, 1, 3), Ok(HandleCommand::Status(16)));
        assert_eq!(decode(receive, 1, TRANSFER_BYTES / 4 - 1), Ok(HandleCommand::Status(TRANSFER_BYTES)));
        for dwords in [TRANSFER_BYTES / 4, u32::MAX] {
            assert_eq!(decode(receive, 1, dwords), Err(Failure::INVALID_FIELD), "{dwords} dwords");
        }
        assert_eq!(decode(send, 1 | 7 << 16, 0), Ok(HandleCommand::Update(8)));
        assert_eq!(decode(send, 1 | 8 << 16, 0), Err(Failure::INVALID_FIELD), "more than the drive has");
        for opcode in [receive, send] {
            assert_eq!(decode(opcode, 0, u32::MAX), Ok(HandleCommand::Nothing));
            assert_eq!(
                [2, 0xff].map(|operation| decode(opcode, operation, 0)),
                [Err(Failure::INVALID_FIELD); 2]
            );
        }
    }
}
