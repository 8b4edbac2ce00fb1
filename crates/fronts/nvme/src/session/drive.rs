//! Commands in the drive, and their answers until they are due.
//!
//! Reads, and writes of whole units, that arrive together are issued together ([`Drive::transfer`]): the drive is locked
//! once for all of them. Any other command is executed separately, after those that came before it. The thread of the
//! connection holds answers back until they are due, so that no other thread has to be woken for them.
//!
//! [`Drive::transfer`]: tantalum_drive::Drive::transfer

use std::cmp::Reverse;
use std::time::Duration;

use tantalum::Status;
use tantalum_drive::{Delivery, Ticket, Transfer};

use super::Session;
use super::in_drive::{CommandKind, DelayedCompletion, QueuedCommand};
use crate::failure::Failure;
use crate::io::{IoCommand, Worked};

/// Bytes issued together. In between, other clients can have the drive, and data are sent while they are in the processor's
/// cache.
const TOGETHER_BYTES: usize = 128 << 10;

impl Session {
    /// Takes a command, with the data that came from the host, or for Read a buffer of the same size.
    pub(super) fn give(&mut self, id: u16, io: IoCommand, data: Vec<u8>) {
        io.count(&self.subsystem);
        let kind = match io.access(&self.subsystem) {
            Some((units, direction)) => CommandKind::Access(units, direction),
            None => CommandKind::Other(io),
        };
        let given = QueuedCommand { id, kind, data };
        self.in_drive.bytes += given.bytes();
        self.in_drive.given.push_back(given);
        if self.in_drive.bytes >= TOGETHER_BYTES {
            self.issue();
        }
    }

    /// Issues the commands taken, and those taken while these are answered.
    pub(super) fn issue(&mut self) {
        if std::mem::replace(&mut self.in_drive.is_issuing, true) {
            return;
        }
        let mut together = std::mem::take(&mut self.in_drive.spare);
        while !self.in_drive.given.is_empty() {
            let mut bytes = 0;
            while bytes < TOGETHER_BYTES
                && let Some(given) = self.in_drive.take_access()
            {
                bytes += given.bytes();
                together.push(given);
            }
            if !together.is_empty() {
                self.issue_together(&mut together);
            } else if let Some(given) = self.in_drive.given.pop_front() {
                self.issue_alone(given);
            }
        }
        let bytes = self.in_drive.bytes;
        assert_eq!(bytes, 0, "all commands were issued, but {bytes} bytes of them are left");
        assert!(together.is_empty(), "{} commands were taken and not issued", together.len());
        self.in_drive.spare = together;
        self.in_drive.is_issuing = false;
    }

    fn issue_alone(&mut self, given: QueuedCommand) {
        debug_assert_eq!(given.bytes(), 0, "a read or write is issued alone: {given:?}");
        let QueuedCommand { id, kind: CommandKind::Other(io), data } = given else { return };
        let answers = self.subsystem.queue.answers();
        let ticket = answers.ticket();
        let worked = match self.subsystem.is_without_drive {
            true => Ok((io.answer_without_drive(&self.subsystem.namespaces.blocks, data), 0)),
            false => io.work(&self.subsystem, answers.when(0), data),
        };
        self.hold_back(id, ticket, worked);
    }

    fn issue_together(&mut self, together: &mut Vec<QueuedCommand>) {
        let answers = self.subsystem.queue.answers();
        let (ticket, when) = (answers.ticket(), answers.when(0));
        let taken = together.len();
        let mut transfers: Vec<Transfer<'_>> =
            together.iter_mut().filter_map(QueuedCommand::access).collect();
        assert_eq!(transfers.len(), taken, "reads and writes issued together, and those taken for that");
        if !self.subsystem.is_without_drive {
            self.subsystem.queue.drive().transfer(&mut transfers, when);
        }
        let ended: Vec<_> = transfers.into_iter().map(Transfer::ended).collect();
        for (given, ended) in together.drain(..).zip(ended) {
            let id = given.id;
            let worked = ended.map_err(Failure::from).map(|completion| (given.answer(), completion.done_ns));
            self.hold_back(id, ticket, worked);
        }
    }

    /// Completes a command when it is due. Refusals are due at once.
    fn hold_back(&mut self, id: u16, ticket: Ticket, worked: Worked) {
        let answers = self.subsystem.queue.answers();
        let (ended, due_ns) = match worked {
            Ok((answer, due_ns)) => (Ok(answer), due_ns),
            Err(failure) => (Err(failure), answers.now_ns().unwrap_or(0)),
        };
        debug_assert!(
            self.pending.contains_key(&id),
            "the drive has done command {id}, which is not under way"
        );
        let number = self.in_drive.next_number;
        self.in_drive.next_number += 1;
        let held = DelayedCompletion { due_ns, number, id, ticket, ended };
        if answers.wait(due_ns).is_zero() {
            self.answer(held);
        } else {
            self.in_drive.held.push(Reverse(held));
        }
    }

    fn answer(&mut self, held: DelayedCompletion) {
        let DelayedCompletion { due_ns, id, ticket, ended, .. } = held;
        let ended = match self.subsystem.queue.answers().delivery(ticket, due_ns) {
            Delivery::InTime => ended,
            Delivery::PowerLost => ended.and(Err(Status::PowerLost.into())),
        };
        self.complete(id, ended);
    }

    /// Completes what is due now.
    pub fn answer_in_time(&mut self) {
        while self.due_in().is_some_and(|wait| wait.is_zero())
            && let Some(Reverse(held)) = self.in_drive.held.pop()
        {
            self.answer(held);
        }
        self.issue();
        self.assert_invariants();
    }

    /// When the next answer is due; `None` if no answer waits.
    pub fn due_in(&self) -> Option<Duration> {
        let Reverse(first) = self.in_drive.held.peek()?;
        Some(self.subsystem.queue.answers().wait(first.due_ns))
    }
}
