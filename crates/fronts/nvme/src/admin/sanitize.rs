//! Sanitize (Base, section 5.24).

use super::context::Context;
use super::namespaces::wait;
use crate::failure::Failure;
use crate::history::events::Happened;
use crate::history::self_test::Outcome;
use crate::mailbox::Answer;
use crate::namespaces::{ALL_NAMESPACES, Sanitize, SanitizeState};
use crate::wire::command::Submission;
use crate::wire::identify::empty;
use crate::wire::log_page::SanitizeStatus;

/// Kinds (`SANACT`).
const EXIT_FAILURE: u32 = 1;
const BLOCK_ERASE: u32 = 2;

/// Block erase; units are always deallocated; nothing is written to them afterwards (`SANICAP`).
pub const CAPABILITIES: u32 = 1 << 1 | 1 << 29 | 1 << 30;

/// Whether hosts may use the drive after one that failed (`AUSE`).
const UNRESTRICTED: u32 = 1 << 3;
/// Not to deallocate (`NDAS`).
const NO_DEALLOCATE: u32 = 1 << 9;

/// Sanitize: the command is done when that has begun.
pub fn sanitize(context: &Context<'_>, command: &Submission) -> Result<Answer, Failure> {
    let (subsystem, dword) = (context.subsystem, command.dword(10));
    let ticket = subsystem.queue.answers().ticket();
    match dword & 7 {
        BLOCK_ERASE if dword & NO_DEALLOCATE == 0 => {
            let host = &context.controller.host.id;
            subsystem.namespaces.check_reserved(host, ALL_NAMESPACES)?;
            let begun = subsystem.namespaces.begin_sanitize(&subsystem.queue, dword)?;
            subsystem.history.tests.end(Outcome::Sanitized, |_, _, _| true);
            let happened = Happened::SanitizeBegun([CAPABILITIES, dword, command.dword(11)]);
            subsystem.history.events.add(subsystem, Some(context.controller.id), &happened);
            let waited = wait(subsystem, ticket, begun.done_ns);
            subsystem.sanitize();
            waited?;
        }
        EXIT_FAILURE => {
            let is_allowed = |last: u32| last & UNRESTRICTED != 0;
            let left = subsystem.namespaces.end_failed_sanitize(&subsystem.queue, is_allowed)?;
            wait(subsystem, ticket, left.done_ns)?;
        }
        _ => return Err(Failure::INVALID_FIELD),
    }
    Ok(Answer::default())
}

/// The log page.
pub fn status(sanitize: Sanitize) -> SanitizeStatus {
    let mut log: SanitizeStatus = empty();
    log.progress = if sanitize.state == SanitizeState::Running { 0 } else { 0xffff }.into();
    log.status = match sanitize.state {
        SanitizeState::Never => 0,
        SanitizeState::Done => 1,
        SanitizeState::Running => 2,
        SanitizeState::Failed => 3,
    }
    .into();
    log.dword = sanitize.dword.into();
    log.estimates = [u32::MAX.into(); 6];
    log
}
