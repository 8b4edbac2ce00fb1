//! Commands of flexible data placement.

use super::command;
use crate::wire::command::Submission;
use crate::wire::opcode::{admin, nvm};
use crate::wire::placement::directive::DATA_PLACEMENT;

/// A Write, Write Zeroes or Copy whose data are placed by an identifier.
pub fn placed(mut command: Submission, identifier: u16) -> Submission {
    let dword12 = command.dword(12) | u32::from(DATA_PLACEMENT) << 20;
    let dword13 = command.dword(13) & 0xffff | u32::from(identifier) << 16;
    (command.dword10[2], command.dword10[3]) = (dword12.into(), dword13.into());
    command
}

/// I/O Management Receive: the status of a namespace's handles.
pub fn handle_status(namespace: u32, bytes: u32) -> Submission {
    command(nvm::IO_MANAGEMENT_RECEIVE, namespace, [1, bytes / 4 - 1, 0, 0, 0, 0])
}

/// I/O Management Send: so many placement identifiers, which are its data, begin their next reclaim units.
pub fn handle_update(namespace: u32, identifiers: u16) -> Submission {
    command(nvm::IO_MANAGEMENT_SEND, namespace, [1 | u32::from(identifiers - 1) << 16, 0, 0, 0, 0, 0])
}

/// Get Log Page of an endurance group, with what is specific to the page.
pub fn group_log(page: u8, group: u16, specific: u8, bytes: u32) -> Submission {
    let dwords = bytes / 4 - 1;
    let dword10 = u32::from(page) | u32::from(specific & 0x7f) << 8 | dwords << 16;
    command(admin::GET_LOG_PAGE, 0, [dword10, dwords >> 16 | u32::from(group) << 16, 0, 0, 0, 0])
}
