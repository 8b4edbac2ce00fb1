//! Directive Send and Directive Receive (Base 2.1, sections 5.1.7, 5.1.6 and 8.1.8): of a drive with reclaim unit handles, whose
//! namespaces have the directive of data placement. It is always enabled.

use super::context::Context;
use crate::failure::Failure;
use crate::io::{TRANSFER_BYTES, Transfer};
use crate::mailbox::Answer;
use crate::namespaces::ALL_NAMESPACES;
use crate::wire::command::Submission;
use crate::wire::identify::IDENTIFY_BYTES;
use crate::wire::placement::directive::{DATA_PLACEMENT, ENABLE, IDENTIFY, RETURN_PARAMETERS};

/// Each of the three lists of directives has a bit for each.
const LIST_BYTES: usize = 32;

/// The data of Directive Receive.
pub fn received(command: &Submission) -> Result<Transfer, Failure> {
    let bytes = (u64::from(command.dword(10)) + 1) * 4;
    let fits = bytes <= TRANSFER_BYTES.into();
    if fits { Ok(Transfer::ToHost(bytes as u32)) } else { Err(Failure::INVALID_FIELD) }
}

/// The type of the directive, and the operation.
fn operation(command: &Submission) -> (u8, u8) {
    ((command.dword(11) >> 8) as u8, command.dword(11) as u8)
}

/// Refuses namespaces that do not have the directive of data placement, and drives without it.
fn check(context: &Context<'_>, number: u32) -> Result<(), Failure> {
    let is_block = context.view.blocks(number).is_some();
    match context.subsystem.placement {
        None => Err(Failure::INVALID_OPCODE),
        Some(_) if is_block => Ok(()),
        // its hosts cannot name a handle
        Some(_) if context.subsystem.namespaces.is_of_drive(number) => Err(Failure::PLACEMENT_DISABLED),
        Some(_) => Err(Failure::INVALID_NAMESPACE),
    }
}

/// Directive Receive: which directives there are, which of them are enabled, and which stay so after a reset.
pub fn receive(context: &Context<'_>, command: &Submission) -> Result<Answer, Failure> {
    let number = command.namespace.get();
    if context.subsystem.placement.is_some() && number == ALL_NAMESPACES {
        return Err(Failure::INVALID_FIELD);
    }
    check(context, number)?;
    if operation(command) != (IDENTIFY, RETURN_PARAMETERS) {
        return Err(Failure::INVALID_FIELD);
    }
    let (identify, placement) = (1 << IDENTIFY, 1 << DATA_PLACEMENT);
    let mut told = vec![0; IDENTIFY_BYTES];
    (told[0], told[LIST_BYTES], told[2 * LIST_BYTES]) =
        (identify | placement, identify | placement, placement);
    told.resize(received(command)?.bytes(), 0);
    Ok(Answer::data(told))
}

/// Directive Send: enables what is always enabled.
pub fn send(context: &Context<'_>, command: &Submission) -> Result<Answer, Failure> {
    check(context, command.namespace.get())?;
    let (kind, is_enabled) = ((command.dword(12) >> 8) as u8, command.bit(12, 0));
    match operation(command) {
        (IDENTIFY, ENABLE) if kind == DATA_PLACEMENT && is_enabled => Ok(Answer::default()),
        _ => Err(Failure::INVALID_FIELD),
    }
}
