//! Authentication Send and Authentication Receive: a queue that requires authentication accepts no other command before.

use super::fabrics_command::MESSAGE_BYTES;
use super::{Ending, Queue, Session};
use crate::authentication::Exchange;
use crate::failure::Failure;
use crate::mailbox::Answer;
use crate::wire::command::Submission;
use crate::wire::opcode::{FABRICS, fabrics};

/// Whether a command is part of an authentication.
fn is_authentication(command: &Submission) -> bool {
    let kind = command.namespace.get() as u8;
    command.opcode == FABRICS
        && matches!(kind, fabrics::AUTHENTICATION_SEND | fabrics::AUTHENTICATION_RECEIVE)
}

impl Queue {
    /// Whether it accepts any command.
    pub(super) fn is_authenticated(&self) -> bool {
        self.exchange.as_ref().is_none_or(Exchange::is_authenticated)
    }
}

impl Session {
    /// Refuses everything but an authentication on a queue that is not authenticated.
    pub(super) fn check_authentication(&self, command: &Submission) -> Result<(), Failure> {
        let may = |queue: &Queue| queue.is_authenticated() || is_authentication(command);
        if self.queue.as_ref().is_none_or(may) { Ok(()) } else { Err(Failure::AUTHENTICATION_REQUIRED) }
    }

    fn exchange(&mut self) -> Result<&mut Exchange, Failure> {
        // a host without a secret has nothing to prove
        self.queue.as_mut().and_then(|queue| queue.exchange.as_mut()).ok_or(Failure::SEQUENCE)
    }

    pub(super) fn take_message(&mut self, message: &[u8]) -> Result<Answer, Failure> {
        let exchange = self.exchange()?;
        exchange.take(message);
        self.end_if_refused();
        Ok(Answer::default())
    }

    pub(super) fn give_message(&mut self, bytes: u32) -> Result<Answer, Failure> {
        let mut message = self.exchange()?.give();
        self.end_if_refused();
        assert!(
            message.len() <= MESSAGE_BYTES as usize,
            "an authentication sends {} bytes, more than a host may ask for",
            message.len()
        );
        if message.len() > bytes as usize {
            return Err(Failure::INVALID_FIELD);
        }
        message.resize(bytes as usize, 0);
        Ok(Answer::data(message))
    }

    /// Tells a host that it failed to prove its identity, and ends the connection.
    fn end_if_refused(&mut self) {
        if self.queue.as_ref().and_then(|queue| queue.exchange.as_ref()).is_some_and(Exchange::has_failed) {
            self.ending = Some(Ending::Goodbye);
        }
    }
}
