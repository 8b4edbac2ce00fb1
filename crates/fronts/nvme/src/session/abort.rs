//! Abort: a command that still waits here is aborted; a command that has reached the drive is not.
//!
//! An Abort arrives on the admin queue and names a command of another connection. That connection is asked through its mailbox,
//! and answers the same way. If it ends first, nothing was aborted.

use super::Session;
use crate::failure::Failure;
use crate::limits::ABORTS;
use crate::mailbox::{Answer, Message, Question};
use crate::wire::command::Submission;

/// Bit 0 of the answer is set if the command was not aborted (Base, section 5.1).
fn answer(is_aborted: bool) -> Answer {
    Answer::result((!is_aborted).into())
}

impl Session {
    /// Aborts a command of this queue, or asks the connection of its queue to do so.
    pub(super) fn abort(&mut self, id: u16, command: &Submission) {
        let (queue, victim) = (command.dword(10) as u16, (command.dword(10) >> 16) as u16);
        if queue == 0 {
            let is_aborted = self.abort_here(victim);
            return self.complete(id, Ok(answer(is_aborted)));
        }
        if self.aborts >= ABORTS {
            return self.complete(id, Err(Failure::ABORT_LIMIT));
        }
        match self.attachment.neighbour(queue) {
            None => self.complete(id, Ok(answer(false))),
            Some(mailbox) => {
                self.aborts += 1;
                mailbox.post(Message::Abort { id: victim, question: Question::new(&self.mailbox, id) });
            }
        }
    }

    /// The other connection has answered an Abort.
    pub(super) fn abort_answered(&mut self, id: u16, is_aborted: bool) {
        assert!(self.aborts > 0, "Abort {id} was answered, but none was asked of another connection");
        self.aborts -= 1;
        self.complete(id, Ok(answer(is_aborted)));
    }

    /// Aborts a command of this queue if it waits: for an event, for the budget, or for its data. It is completed before the
    /// Abort is.
    pub(super) fn abort_here(&mut self, victim: u16) -> bool {
        if let Some(at) = self.events.iter().position(|&event| event == victim) {
            self.events.remove(at);
        } else if let Some(at) = self.waiting.iter().position(|&waiting| waiting == victim) {
            self.waiting.remove(at);
        } else if !self.discard(victim) {
            return false;
        }
        self.complete(victim, Err(Failure::ABORTED));
        true
    }

    /// Discards the data that a command still waits for. They hold its part of the budget until they have arrived. False if
    /// it waits for no data.
    fn discard(&mut self, victim: u16) -> bool {
        let Some(pending) = self.pending.get_mut(&victim) else { return false };
        let Some(bytes) = self.transfers.discard(victim) else { return false };
        assert_eq!(
            pending.held, bytes,
            "command {victim} and its transfer hold different parts of the budget"
        );
        pending.held = 0;
        true
    }
}
