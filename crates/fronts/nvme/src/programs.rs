//! Commands about programs in the drive, which somebody else executes: this crate knows their opcodes and nothing else.

use std::fmt;
use std::sync::Arc;

use crate::controller::Controller;
use crate::failure::Failure;
use crate::io::Transfer;
use crate::mailbox::{Answer, Mailbox, Message};
use crate::namespaces::BLOCK_NAMESPACE;
use crate::subsystem::Subsystem;
use crate::wire::command::Submission;
use crate::wire::opcode::program::*;

/// Executes commands about programs in the drive (`tantalum-nvme-programs`).
pub trait Programs: fmt::Debug + Send + Sync {
    /// Checks a command's fields, and returns the data that it moves.
    fn check(&self, command: &Submission) -> Result<Transfer, Failure>;

    /// Executes a command that was checked, with the data that came from the host. Its answer may come later.
    fn start(&self, command: &Submission, caller: &Caller<'_>, data: Vec<u8>);

    /// Calls `told` with a text for every program that is ended. To be called before any command.
    fn on_end(&self, told: Box<dyn Fn(String) + Send + Sync>);

    /// A controller has ended.
    fn end(&self, controller: &Controller);

    /// Programs send the drive no more commands until [`Programs::power_on`].
    fn stop(&self);

    /// The drive has power again.
    fn power_on(&self);
}

/// The sender of a command, and the destination of its answer.
pub struct Caller<'a> {
    /// The subsystem.
    pub subsystem: &'a Arc<Subsystem>,
    /// The controller that received it.
    pub controller: &'a Arc<Controller>,
    /// Where its answer goes.
    pub mailbox: &'a Arc<Mailbox>,
    /// Its identifier.
    pub id: u16,
}

impl Caller<'_> {
    /// Answers the command.
    pub fn answer(&self, ended: Result<Answer, Failure>) {
        self.mailbox.post(Message::Done { id: self.id, ended });
    }

    /// A function that answers later.
    pub fn later(&self) -> impl FnOnce(Result<Answer, Failure>) + Send + 'static {
        let (id, mailbox) = (self.id, Arc::clone(self.mailbox));
        move |ended| mailbox.post(Message::Done { id, ended })
    }
}

/// Whether a command is about programs.
pub fn is_program(command: &Submission) -> bool {
    let code = command.opcode;
    command.namespace.get() == BLOCK_NAMESPACE
        && matches!(code, OPEN | CLOSE | INSTALL | UNINSTALL | GRANT | ALLOW_CALLS | SEND | RECEIVE | OUTPUT)
}
