//! Commands in the drive, and their answers until they are due.
//!
//! Reads, and writes of whole units, that arrive together are issued together ([`Drive::transfer`]): the drive is locked
//! once for all of them. Any other command is executed separately, after those that came before it. The thread of the
//! connection holds answers back until they are due, so that no other thread has to be woken for them.
//!
//! A command given is *queued* until it is issued, then *issued* until it has been seen whether its answer is due, and then
//! *held back* if it is not.
//!
//! [`Drive::transfer`]: tantalum_drive::Drive::transfer

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tantalum::{Nanoseconds, Status};
use tantalum_drive::{Delivery, Ticket, Transfer};

use crate::blocks::Units;
use crate::failure::Failure;
use crate::io::{Direction, IoCommand, Worked};
use crate::mailbox::Answer;
use crate::namespaces::{Namespaces, Target, View};
use crate::recording::record;
use crate::subsystem::Subsystem;

/// Bytes issued together. In between, other clients can have the drive, and data are sent while they are in the processor's
/// cache.
const TOGETHER_BYTES: usize = 128 << 10;

/// A command that was not issued yet.
#[derive(Debug)]
struct Queued {
    id: u16,
    target: Target,
    /// The namespaces that its data may name; boxed, as few commands have any.
    sources: Option<Box<View>>,
    kind: Kind,
    /// The data from the host, or for Read a buffer of the same size.
    data: Vec<u8>,
}

#[derive(Debug)]
enum Kind {
    /// A read, or a write of whole units.
    Access(Units, Direction),
    Other(IoCommand),
}

/// What the drive made of a command.
#[derive(Debug)]
struct Issued {
    id: u16,
    ticket: Ticket,
    worked: Worked,
}

/// An answer that is not due yet.
#[derive(Debug)]
struct Held {
    due_ns: Nanoseconds,
    /// Answers due at the same time go out in order.
    number: u64,
    done: Done,
    ticket: Ticket,
}

/// A command that is done, and whose answer is due.
#[derive(Debug)]
pub struct Done {
    /// Its identifier.
    pub id: u16,
    /// How it ended.
    pub ended: Result<Answer, Failure>,
}

/// A connection's commands in the drive.
pub struct InDrive {
    subsystem: Arc<Subsystem>,
    queued: VecDeque<Queued>,
    /// Bytes of the reads and writes among them.
    queued_bytes: usize,
    /// Whether commands are being issued: what is queued meanwhile follows.
    is_issuing: bool,
    /// Those issued together; empty in between, and kept for reuse.
    together: Vec<Queued>,
    issued: VecDeque<Issued>,
    held: BinaryHeap<Reverse<Held>>,
    next_number: u64,
}

impl InDrive {
    /// Of a new connection.
    pub fn new(subsystem: Arc<Subsystem>) -> InDrive {
        InDrive {
            subsystem,
            queued: VecDeque::new(),
            queued_bytes: 0,
            is_issuing: false,
            together: Vec::new(),
            issued: VecDeque::new(),
            held: BinaryHeap::new(),
            next_number: 0,
        }
    }

    /// Queues a command of a controller with these namespaces, with the data that came from the host, or for Read a buffer of the same
    /// size. True if it is time to issue what is queued.
    pub fn give(&mut self, id: u16, target: Target, view: &View, io: IoCommand, data: Vec<u8>) -> bool {
        io.count(&self.subsystem, &target.space);
        if let Some(tape) = &self.subsystem.tape {
            record(tape, io, &target.space, &data, self.subsystem.is_write_through());
        }
        io.tell_unknown_identifier(&self.subsystem, &target);
        let kind = match io.access(&self.subsystem, &target) {
            Some((units, direction)) => Kind::Access(units, direction),
            None => Kind::Other(io),
        };
        let sources = io.is_across().then(|| Box::new(view.clone()));
        let queued = Queued { id, target, sources, kind, data };
        self.queued_bytes += queued.bytes();
        self.queued.push_back(queued);
        self.queued_bytes >= TOGETHER_BYTES
    }

    /// Begins to issue what is queued. False if that has begun already, and goes on when the command that has just been done is
    /// answered.
    pub fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.is_issuing, true)
    }

    /// The next command whose answer is due as soon as it is issued; `None` if all that were queued have been issued.
    pub fn next_issued(&mut self) -> Option<Done> {
        assert!(self.is_issuing, "commands are issued without a beginning");
        loop {
            while let Some(issued) = self.issued.pop_front() {
                if let Some(done) = self.hold_back(issued) {
                    return Some(done);
                }
            }
            if self.queued.is_empty() {
                let bytes = self.queued_bytes;
                assert_eq!(bytes, 0, "all commands were issued, but {bytes} bytes of them are left");
                self.is_issuing = false;
                return None;
            }
            self.issue_some();
            assert!(!self.issued.is_empty(), "none of {} commands was issued", self.queued.len());
        }
    }

    /// Issues the next command, or those reads and writes that are next.
    fn issue_some(&mut self) {
        let mut bytes = 0;
        while bytes < TOGETHER_BYTES
            && let Some(queued) = self.take_access()
        {
            bytes += queued.bytes();
            self.together.push(queued);
        }
        self.queued_bytes -= bytes;
        if !self.together.is_empty() {
            self.issue_together();
        } else if let Some(queued) = self.queued.pop_front() {
            self.issue_alone(queued);
        }
    }

    /// The next command, if it is a read or write.
    fn take_access(&mut self) -> Option<Queued> {
        let is_access = matches!(self.queued.front()?.kind, Kind::Access(..));
        is_access.then(|| self.queued.pop_front()).flatten()
    }

    fn issue_alone(&mut self, queued: Queued) {
        debug_assert_eq!(queued.bytes(), 0, "a read or write is issued alone: {queued:?}");
        let Queued { id, target, sources, kind: Kind::Other(io), data } = queued else { return };
        let answers = self.subsystem.queue.answers();
        let ticket = answers.ticket();
        let worked = match self.subsystem.is_without_drive {
            true => Ok((io.answer_without_drive(&target.space, data), 0)),
            false => io.work(&self.subsystem, &target, sources.as_deref(), answers.when(0), data),
        };
        self.issued.push_back(Issued { id, ticket, worked });
    }

    fn issue_together(&mut self) {
        let answers = self.subsystem.queue.answers();
        let (ticket, when) = (answers.ticket(), answers.when(0));
        let taken = self.together.len();
        let namespaces = &self.subsystem.namespaces;
        let mut transfers: Vec<Transfer<'_>> =
            self.together.iter_mut().filter_map(|queued| queued.access(namespaces)).collect();
        assert_eq!(transfers.len(), taken, "reads and writes issued together, and those taken for that");
        if !self.subsystem.is_without_drive {
            self.subsystem.queue.drive().transfer(&mut transfers, when);
        }
        let ended: Vec<_> = transfers.into_iter().map(ended).collect();
        for (queued, ended) in self.together.drain(..).zip(ended) {
            let id = queued.id;
            let worked = match ended {
                Ok(done_ns) => Ok((queued.answer(), done_ns)),
                Err(failure) if failure.is_kept_out() => Err(namespaces.refusal(&queued.target)),
                Err(failure) => Err(failure),
            };
            self.issued.push_back(Issued { id, ticket, worked });
        }
    }

    // -- answers ------------------------------------------------------------------------------------------------

    /// Returns a command if its answer is due, and keeps it until then otherwise. Refusals are due at once.
    fn hold_back(&mut self, Issued { id, ticket, worked }: Issued) -> Option<Done> {
        let answers = self.subsystem.queue.answers();
        let (ended, due_ns) = match worked {
            Ok((answer, due_ns)) => (Ok(answer), due_ns),
            Err(failure) => (Err(failure), answers.now_ns().unwrap_or(0)),
        };
        let number = self.next_number;
        self.next_number += 1;
        let held = Held { due_ns, number, done: Done { id, ended }, ticket };
        if answers.wait(due_ns).is_zero() {
            return Some(self.deliver(held));
        }
        self.held.push(Reverse(held));
        None
    }

    /// The answer as it goes out: an error if power has failed before it was due.
    fn deliver(&self, Held { due_ns, done: Done { id, ended }, ticket, .. }: Held) -> Done {
        let ended = match self.subsystem.queue.answers().delivery(ticket, due_ns) {
            Delivery::InTime => ended,
            Delivery::PowerLost => ended.and(Err(Status::PowerLost.into())),
        };
        Done { id, ended }
    }

    /// The next command whose answer was held back and is due now.
    pub fn next_due(&mut self) -> Option<Done> {
        let is_due = self.due_in().is_some_and(|wait| wait.is_zero());
        let Reverse(held) = is_due.then(|| self.held.pop()).flatten()?;
        Some(self.deliver(held))
    }

    /// When the next answer is due; `None` if none is held back.
    pub fn due_in(&self) -> Option<Duration> {
        let Reverse(first) = self.held.peek()?;
        Some(self.subsystem.queue.answers().wait(first.due_ns))
    }

    /// All commands in the drive.
    pub fn commands(&self) -> impl Iterator<Item = u16> {
        let queued = self.queued.iter().map(|queued| queued.id);
        let issued = self.issued.iter().map(|issued| issued.id);
        queued.chain(issued).chain(self.held.iter().map(|Reverse(held)| held.done.id))
    }
}

/// When a transfer was done, or why it was not.
fn ended(transfer: Transfer<'_>) -> Result<Nanoseconds, Failure> {
    match transfer.was_kept_out() {
        true => Err(Failure::KEPT_OUT),
        false => Ok(transfer.ended()?.done_ns),
    }
}

impl Queued {
    /// Bytes of a read or a write.
    fn bytes(&self) -> usize {
        match &self.kind {
            Kind::Access(units, _) => units.bytes(),
            Kind::Other(_) => 0,
        }
    }

    /// Its part of what the drive issues together.
    fn access<'a>(&'a mut self, namespaces: &'a Namespaces) -> Option<Transfer<'a>> {
        let Kind::Access(units, direction) = self.kind else { return None };
        let transfer = match direction {
            Direction::ToHost => {
                self.data.resize(units.bytes(), 0);
                Transfer::read(units.first, &mut self.data)
            }
            Direction::FromHost(fua, placed) => {
                let (bytes, id) = (self.data.len(), self.id);
                assert_eq!(
                    bytes,
                    units.bytes(),
                    "command {id} writes {units:?} with other bytes than they have"
                );
                Transfer::write(units.first, &self.data, fua.0).placed(placed.handle)
            }
        };
        Some(transfer.within(namespaces.fence(&self.target)))
    }

    /// The answer to a read or a write that succeeded.
    fn answer(self) -> Answer {
        let mut data = self.data;
        match self.kind {
            Kind::Access(units, Direction::ToHost) => {
                assert_eq!(data.len(), units.bytes(), "command {} has read {units:?}", self.id);
                data.truncate(data.len() - units.after);
                data.drain(..units.before);
                Answer::data(data)
            }
            _ => Answer::spare(data),
        }
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        (self.due_ns, self.number) == (other.due_ns, other.number)
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Held) -> std::cmp::Ordering {
        (self.due_ns, self.number).cmp(&(other.due_ns, other.number))
    }
}
