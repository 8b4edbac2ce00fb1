//! The queue that a connection has become: how far it was read, and whether its host has authenticated.

use std::sync::Arc;
use std::time::Duration;

use super::fabrics_command::MESSAGE_BYTES;
use crate::authentication::Exchange;
use crate::controller::Controller;
use crate::failure::Failure;
use crate::mailbox::{Answer, Mailbox};
use crate::wire::command::Submission;
use crate::wire::opcode::{FABRICS, fabrics};

/// A queue of a controller.
pub struct Queue {
    controller: Arc<Controller>,
    /// 0 for the admin queue.
    id: u16,
    /// Its entries.
    entries: u16,
    /// How far it was read.
    head: u16,
    /// Whether the host wants to know this.
    has_flow_control: bool,
    /// The authentication of the host; `None` if its name is enough.
    exchange: Option<Exchange>,
}

/// Whether a command is part of an authentication.
fn is_authentication(command: &Submission) -> bool {
    let kind = command.namespace.get() as u8;
    command.opcode == FABRICS
        && matches!(kind, fabrics::AUTHENTICATION_SEND | fabrics::AUTHENTICATION_RECEIVE)
}

impl Queue {
    /// A queue of this many entries, of which the Connect that made it was the first.
    pub fn new(
        controller: Arc<Controller>,
        id: u16,
        entries: u16,
        has_flow_control: bool,
        exchange: Option<Exchange>,
    ) -> Queue {
        assert!(entries > 1, "queue {id} has {entries} entries, of which a Connect takes one");
        controller.hear();
        Queue { controller, id, entries, head: 1, has_flow_control, exchange }
    }

    /// Its controller.
    pub fn controller(&self) -> &Arc<Controller> {
        &self.controller
    }

    /// Its number, 0 for the admin queue.
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Its entries.
    pub fn entries(&self) -> usize {
        self.entries.into()
    }

    /// A command was taken from the queue, so its host is alive.
    pub fn advance(&mut self) {
        debug_assert!(self.head < self.entries, "queue {} was read beyond its end", self.id);
        self.head = if self.head + 1 >= self.entries { 0 } else { self.head + 1 };
        self.controller.hear();
    }

    /// How far it was read, as completions report it.
    pub fn head(&self) -> u16 {
        let Queue { head, entries, id, .. } = *self;
        assert!(head < entries, "queue {id} was read up to {head} of {entries} entries");
        if self.has_flow_control { head } else { 0xffff }
    }

    /// Whether the host waits for completions to know the head.
    pub fn has_flow_control(&self) -> bool {
        self.has_flow_control
    }

    /// How long the connection may continue without hearing from the host, once it is authenticated; `None` if unlimited.
    pub fn alive_for(&self) -> Option<Duration> {
        if self.id == 0 { self.controller.alive_for() } else { None }
    }

    /// The connection ends, which others reached through this mailbox.
    pub fn leave(&self, mailbox: &Arc<Mailbox>) {
        assert_ne!(self.id, 0, "the admin queue leaves a controller, which ends with it");
        self.controller.remove_queue(self.id, mailbox);
    }

    // -- authentication -----------------------------------------------------------------------------------------

    /// Whether it accepts any command.
    pub fn is_authenticated(&self) -> bool {
        self.exchange.as_ref().is_none_or(Exchange::is_authenticated)
    }

    /// Whether the host failed to prove its identity.
    pub fn has_refused(&self) -> bool {
        self.exchange.as_ref().is_some_and(Exchange::has_failed)
    }

    /// Refuses everything but an authentication on a queue that is not authenticated.
    pub fn check_authentication(&self, command: &Submission) -> Result<(), Failure> {
        let may = self.is_authenticated() || is_authentication(command);
        if may { Ok(()) } else { Err(Failure::AUTHENTICATION_REQUIRED) }
    }

    fn exchange(&mut self) -> Result<&mut Exchange, Failure> {
        // a host without a secret has nothing to prove
        self.exchange.as_mut().ok_or(Failure::SEQUENCE)
    }

    /// Takes a message of the authentication.
    pub fn take_message(&mut self, message: &[u8]) -> Result<Answer, Failure> {
        self.exchange()?.take(message);
        Ok(Answer::default())
    }

    /// Gives the next message of the authentication to a host that has room for this many bytes.
    pub fn give_message(&mut self, bytes: u32) -> Result<Answer, Failure> {
        let mut message = self.exchange()?.give();
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
}
