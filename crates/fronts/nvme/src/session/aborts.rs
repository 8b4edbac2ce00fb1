//! Abort: a command that still waits here is aborted; a command that has reached the drive is not.
//!
//! An Abort arrives on the admin queue and names a command of another connection. That connection is asked through its mailbox,
//! and answers the same way. If it ends first, nothing was aborted.

use std::sync::Arc;

use crate::failure::Failure;
use crate::limits::ABORTS;
use crate::mailbox::{Answer, Mailbox, Message, Question};
use crate::wire::command::Submission;

/// Which command is to be aborted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abort {
    /// Its queue.
    pub queue: u16,
    /// Its identifier.
    pub victim: u16,
}

impl Abort {
    /// Reads the fields.
    pub fn decode(command: &Submission) -> Abort {
        Abort { queue: command.dword(10) as u16, victim: (command.dword(10) >> 16) as u16 }
    }
}

/// The answer to an Abort: bit 0 is set if the command was not aborted (Base, section 5.1).
pub fn answer(is_aborted: bool) -> Answer {
    Answer::result((!is_aborted).into())
}

/// Aborts that other connections must answer.
#[derive(Debug, Default)]
pub struct Aborts {
    asked: usize,
}

impl Aborts {
    /// Asks another connection to abort a command of its own. Its answer is that to the Abort `id`, which came through the mailbox
    /// `asker`.
    pub fn ask(&mut self, other: &Mailbox, asker: &Arc<Mailbox>, id: u16, victim: u16) {
        assert!(self.may_ask().is_ok(), "Abort {id} is asked, and {} are in progress", self.asked);
        self.asked += 1;
        other.post(Message::Abort { id: victim, question: Question::new(asker, id) });
    }

    /// Refuses an Abort if there are too many.
    pub fn may_ask(&self) -> Result<(), Failure> {
        if self.asked < ABORTS { Ok(()) } else { Err(Failure::ABORT_LIMIT) }
    }

    /// The other connection has answered an Abort.
    pub fn answered(&mut self, id: u16) {
        assert!(self.asked > 0, "Abort {id} was answered, but none was asked of another connection");
        self.asked -= 1;
    }

    /// How many are in progress.
    pub fn in_progress(&self) -> usize {
        self.asked
    }
}
