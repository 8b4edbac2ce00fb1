//! Device Self-test (Base, section 5.8).

use super::context::Context;
use crate::failure::Failure;
use crate::history::self_test::{Outcome, code};
use crate::mailbox::Answer;
use crate::namespaces::ALL_NAMESPACES;
use crate::wire::command::Submission;

/// Begins a self-test of a namespace, of all, or of the controller alone; or ends the one that is under way.
pub fn self_test(context: &Context<'_>, command: &Submission) -> Result<Answer, Failure> {
    let (subsystem, number) = (context.subsystem, command.namespace.get());
    let is_there = number == 0 || number == ALL_NAMESPACES || context.view.numbers().contains(&number);
    if !is_there {
        return Err(Failure::INVALID_NAMESPACE);
    }
    let tests = &subsystem.history.tests;
    match (command.dword(10) & 0xf) as u8 {
        code @ (code::SHORT | code::EXTENDED) => {
            subsystem.namespaces.sanitize().check()?;
            tests.begin(subsystem, context.controller.id, code, number)?;
        }
        code::ABORT => tests.end(Outcome::Aborted, |_, _, _| true),
        _ => return Err(Failure::INVALID_FIELD),
    }
    Ok(Answer::default())
}
