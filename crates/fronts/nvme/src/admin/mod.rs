//! Admin commands. All except Abort and Asynchronous Event Request, which concern other commands of the session, are
//! answered here.

mod context;
mod directives;
pub mod features;
pub mod identify;
pub mod log_page;
mod namespaces;
pub mod placement;
mod sanitize;
mod self_test;
mod zones;

pub use context::Context;
pub use log_page::smart;
pub use namespaces::wait;
pub use sanitize::status as sanitize_status;

use crate::controller::ControllerKind;
use crate::failure::Failure;
use crate::io::Transfer;
use crate::mailbox::Answer;
use crate::wire::command::Submission;
use crate::wire::identify::IDENTIFY_BYTES;
use crate::wire::opcode::admin;

/// The data that an admin command moves.
pub fn transfer(command: &Submission, kind: ControllerKind) -> Result<Transfer, Failure> {
    let opcode = command.opcode;
    let of_discovery = matches!(
        opcode,
        admin::GET_LOG_PAGE
            | admin::IDENTIFY
            | admin::KEEP_ALIVE
            | admin::ASYNC_EVENT
            | admin::SET_FEATURES
            | admin::GET_FEATURES
    );
    if kind == ControllerKind::Discovery && !of_discovery {
        return Err(Failure::INVALID_OPCODE);
    }
    match opcode {
        admin::IDENTIFY => Ok(Transfer::ToHost(IDENTIFY_BYTES as u32)),
        admin::GET_LOG_PAGE => log_page::bytes_of(command).map(Transfer::ToHost),
        admin::SET_FEATURES => Ok(features::sent(command)),
        admin::GET_FEATURES => features::given(command),
        admin::NAMESPACE_MANAGEMENT => Ok(namespaces::managed(command)),
        admin::NAMESPACE_ATTACHMENT => Ok(namespaces::attached()),
        admin::DIRECTIVE_RECEIVE => directives::received(command),
        admin::ABORT
        | admin::ASYNC_EVENT
        | admin::KEEP_ALIVE
        | admin::FORMAT
        | admin::SANITIZE
        | admin::DIRECTIVE_SEND
        | admin::SELF_TEST => Ok(Transfer::None),
        _ => Err(Failure::INVALID_OPCODE),
    }
}

/// Whether a command only asks what there is. A refusal answers it, as when a tool finds out which structures, log pages and
/// features a controller has, and is not an error for its log.
pub fn only_asks(command: &Submission) -> bool {
    matches!(command.opcode, admin::IDENTIFY | admin::GET_LOG_PAGE | admin::GET_FEATURES)
}

/// Answers a command, with the data that came from the host.
pub fn answer(context: &Context<'_>, command: &Submission, data: &[u8]) -> Result<Answer, Failure> {
    match command.opcode {
        admin::IDENTIFY => identify::answer(context, command).map(Answer::data),
        admin::GET_LOG_PAGE => log_page::answer(context, command).map(Answer::data),
        admin::SET_FEATURES => features::set(context, command, data),
        admin::GET_FEATURES => features::get(context, command),
        admin::NAMESPACE_MANAGEMENT => namespaces::manage(context, command, data),
        admin::NAMESPACE_ATTACHMENT => namespaces::attach(context, command, data),
        admin::DIRECTIVE_RECEIVE => directives::receive(context, command),
        admin::DIRECTIVE_SEND => directives::send(context, command),
        admin::SANITIZE => sanitize::sanitize(context, command),
        admin::FORMAT => namespaces::format(context, command),
        admin::SELF_TEST => self_test::self_test(context, command),
        admin::KEEP_ALIVE => Ok(Answer::default()),
        _ => Err(Failure::INVALID_OPCODE),
    }
}
