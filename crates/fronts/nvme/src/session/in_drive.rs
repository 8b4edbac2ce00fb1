//! A connection's commands in the drive: those that wait to be issued, and answers that are not due yet.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use tantalum::Nanoseconds;
use tantalum_drive::{Ticket, Transfer};

use crate::blocks::Units;
use crate::failure::Failure;
use crate::io::{Direction, IoCommand};
use crate::mailbox::Answer;

/// A command that was not issued yet.
#[derive(Debug)]
pub struct QueuedCommand {
    pub id: u16,
    pub kind: CommandKind,
    /// The data from the host, or for Read a buffer of the same size.
    pub data: Vec<u8>,
}

#[derive(Debug)]
pub enum CommandKind {
    /// A read, or a write of whole units.
    Access(Units, Direction),
    Other(IoCommand),
}

/// An answer that is not due yet.
#[derive(Debug)]
pub struct DelayedCompletion {
    pub due_ns: Nanoseconds,
    /// Answers due at the same time go out in order.
    pub number: u64,
    pub id: u16,
    pub ticket: Ticket,
    pub ended: Result<Answer, Failure>,
}

impl PartialEq for DelayedCompletion {
    fn eq(&self, other: &DelayedCompletion) -> bool {
        (self.due_ns, self.number) == (other.due_ns, other.number)
    }
}

impl Eq for DelayedCompletion {}

impl PartialOrd for DelayedCompletion {
    fn partial_cmp(&self, other: &DelayedCompletion) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DelayedCompletion {
    fn cmp(&self, other: &DelayedCompletion) -> std::cmp::Ordering {
        (self.due_ns, self.number).cmp(&(other.due_ns, other.number))
    }
}

/// A connection's commands in the drive.
#[derive(Debug, Default)]
pub struct InDrive {
    pub given: VecDeque<QueuedCommand>,
    /// Bytes of the reads and writes among them.
    pub bytes: usize,
    /// Whether commands are being issued: their answers may bring further ones.
    pub is_issuing: bool,
    /// An issued list, kept for reuse.
    pub spare: Vec<QueuedCommand>,
    pub held: BinaryHeap<Reverse<DelayedCompletion>>,
    pub next_number: u64,
}

impl InDrive {
    /// Commands that wait to be issued, or whose answers are not due.
    pub fn commands(&self) -> impl Iterator<Item = u16> {
        let held = self.held.iter().map(|Reverse(held)| held.id);
        self.given.iter().map(|given| given.id).chain(held)
    }

    /// The next command, if it is a read or write.
    pub fn take_access(&mut self) -> Option<QueuedCommand> {
        if !matches!(self.given.front()?.kind, CommandKind::Access(..)) {
            return None;
        }
        let given = self.given.pop_front()?;
        self.bytes -= given.bytes();
        Some(given)
    }
}

impl QueuedCommand {
    /// Bytes of a read or a write.
    pub fn bytes(&self) -> usize {
        match &self.kind {
            CommandKind::Access(units, _) => units.bytes(),
            CommandKind::Other(_) => 0,
        }
    }

    /// Its part of what the drive issues together.
    pub fn access(&mut self) -> Option<Transfer<'_>> {
        let CommandKind::Access(units, direction) = self.kind else { return None };
        Some(match direction {
            Direction::ToHost => {
                self.data.resize(units.bytes(), 0);
                Transfer::read(units.first, &mut self.data)
            }
            Direction::FromHost(fua) => {
                let (bytes, id) = (self.data.len(), self.id);
                assert_eq!(
                    bytes,
                    units.bytes(),
                    "command {id} writes {units:?} with other bytes than they have"
                );
                Transfer::write(units.first, &self.data, fua.0)
            }
        })
    }

    /// The answer to a read or a write that succeeded.
    pub fn answer(self) -> Answer {
        let mut data = self.data;
        match self.kind {
            CommandKind::Access(units, Direction::ToHost) => {
                assert_eq!(data.len(), units.bytes(), "command {} has read {units:?}", self.id);
                data.truncate(data.len() - units.after);
                data.drain(..units.before);
                Answer::data(data)
            }
            _ => Answer::spare(data),
        }
    }
}
