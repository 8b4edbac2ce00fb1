//! The protocol of one connection, without its socket: bytes go in ([`Session::feed`]) and out ([`Session::send`]).
//!
//! - `receiver.rs` parses PDUs; an invalid one ends the connection with a termination request.
//! - `commands.rs` checks commands (`pending.rs`), requests their data (R2T, `transfers.rs`) within the budget, and executes
//!   them.
//! - `attachment.rs` executes the Fabrics commands (`fabrics_command.rs`, `connect.rs`): the connection becomes a queue
//!   (`queue.rs`).
//! - `in_drive.rs` passes I/O commands to the drive, and holds their answers back until they are due.
//! - `abort.rs` aborts commands that wait.
//! - `sender.rs` builds PDUs; `spares.rs` keeps buffers for the next commands.
//!
//! Invariants, which `assert_invariants` checks after everything that came from the host, the drive or other threads:
//!
//! - A command under way waits in one place: for the budget, for its data, to be issued, until its answer is due, for an
//!   event, for another connection, or for a program. Otherwise nobody would answer it, or two would.
//! - The bytes of the budget in use are those of commands, of data that are discarded, and of what waits to be sent.

mod abort;
mod attachment;
mod commands;
mod connect;
mod fabrics_command;
mod in_drive;
mod pending;
mod queue;
mod receiver;
mod sender;
mod spares;
mod transfers;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::budget::{BUDGET_BYTES, Budget};
use crate::io::TRANSFER_BYTES;
use crate::limits::{CAPSULE_BYTES, EVENT_REQUESTS};
use crate::mailbox::{Mailbox, Message};
use crate::outbox::Outbox;
use crate::subsystem::Subsystem;
use crate::wire::opcode::admin as opcode;
use crate::wire::pdu::Fatal;

use attachment::Attachment;
use in_drive::InDrive;
use pending::{Pending, Work};
use receiver::{Pdu, Receiver};
use sender::Sender;
use spares::Spares;
use transfers::Transfers;

/// While more than this many bytes wait to be sent, nothing is read from the connection.
const UNSENT_BYTES: usize = BUDGET_BYTES + (256 << 10);

const _: () = assert!(
    CAPSULE_BYTES <= BUDGET_BYTES && TRANSFER_BYTES as usize <= BUDGET_BYTES,
    "the budget has room for the data of a command"
);

/// Further commands wait while at least this many bytes are unsent: the host can begin on them, and the processor's cache
/// still has them.
const MUCH_BYTES: usize = 1 << 20;

/// How a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    /// What is unsent is sent if the host can take it at once.
    AtOnce,
    /// The host is given time to read what is unsent, because it contains the reason.
    Goodbye,
}

/// The protocol of one connection.
pub struct Session {
    subsystem: Arc<Subsystem>,
    mailbox: Arc<Mailbox>,
    /// How it ends; `None` while it continues.
    ending: Option<Ending>,
    receiver: Receiver,
    sender: Sender,
    attachment: Attachment,
    /// Commands under way.
    pending: FxHashMap<u16, Pending>,
    transfers: Transfers,
    in_drive: InDrive,
    spares: Spares,
    /// Commands that wait for the budget.
    waiting: VecDeque<u16>,
    budget: Budget,
    /// Asynchronous Event Requests.
    events: Vec<u16>,
    /// Aborts that another connection must answer.
    aborts: usize,
}

impl Session {
    /// A connection to a subsystem, through `address`. Other threads reach it through the mailbox.
    pub fn new(subsystem: Arc<Subsystem>, mailbox: Arc<Mailbox>, address: Option<SocketAddr>) -> Session {
        Session {
            budget: Budget::new(&subsystem.budget),
            attachment: Attachment::new(Arc::clone(&subsystem), Arc::clone(&mailbox), address),
            in_drive: InDrive::new(Arc::clone(&subsystem)),
            subsystem,
            mailbox,
            ending: None,
            receiver: Receiver::default(),
            sender: Sender::default(),
            pending: FxHashMap::default(),
            transfers: Transfers::default(),
            spares: Spares::default(),
            waiting: VecDeque::new(),
            events: Vec::new(),
            aborts: 0,
        }
    }

    /// Whether the connection only has to send its pending output before it ends.
    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// What the host must receive before the connection is closed.
    pub fn final_output(&mut self) -> Option<Outbox> {
        (self.ending == Some(Ending::Goodbye)).then(|| self.sender.take_unsent())
    }

    /// Whether more may be read now: not while the host does not read its answers.
    pub fn may_read(&self) -> bool {
        !self.is_ending() && self.sender.unsent_bytes() < UNSENT_BYTES
    }

    /// Takes bytes from the host, until there is too much to send. Returns the number of bytes taken.
    pub fn feed(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        let much = self.sender.unsent_bytes() + MUCH_BYTES;
        while taken < bytes.len() && self.sender.unsent_bytes() < much {
            if self.is_ending() {
                return bytes.len();
            }
            match self.receiver.take(&bytes[taken..], &mut self.transfers, &mut self.spares) {
                Ok((more, pdu)) => {
                    assert!(more > 0, "no byte was taken of {} in {:?}", bytes.len() - taken, self.receiver);
                    taken += more;
                    self.take_pdu(pdu);
                }
                Err(fatal) => self.terminate(fatal),
            }
        }
        self.issue();
        self.assert_invariants();
        taken
    }

    /// A place into which the next bytes from the host may be read directly, if much data is expected; report their number
    /// with [`Session::advance`].
    pub fn direct_space(&mut self) -> Option<&mut [u8]> {
        self.receiver.direct_space(&mut self.transfers)
    }

    /// This many bytes have been read to [`Session::direct_space`].
    pub fn advance(&mut self, bytes: usize) {
        let pdu = self.receiver.advance(bytes);
        self.take_pdu(pdu);
        self.issue();
        self.assert_invariants();
    }

    fn take_pdu(&mut self, pdu: Option<Pdu>) {
        match pdu {
            None => {}
            Some(Pdu::Initialize(digests, alignment)) => self.sender.initialize(digests, alignment),
            Some(Pdu::Command(capsule)) => {
                if let Err(fatal) = self.take_command(capsule) {
                    self.terminate(fatal);
                }
            }
            Some(Pdu::Data { tag, end, is_damaged }) => self.take_data(tag, end, is_damaged),
            Some(Pdu::Terminate) => self.ending = Some(Ending::AtOnce),
        }
    }

    /// Ends the connection, with the reason and the header at fault.
    fn terminate(&mut self, fatal: Fatal) {
        self.sender.terminate(fatal, self.receiver.header());
        self.ending = Some(Ending::Goodbye);
    }

    /// Takes what came from other threads.
    pub fn take_mail(&mut self) {
        while let Some(message) = self.mailbox.take() {
            match message {
                Message::Done { id, ended } => self.complete(id, ended),
                Message::Abort { id, question } => question.answer(self.abort_here(id)),
                Message::Aborted { id, is_aborted } => self.abort_answered(id, is_aborted),
                Message::Event => self.tell_events(),
                Message::End => self.ending = Some(Ending::AtOnce),
            }
        }
        self.issue();
        self.assert_invariants();
    }

    /// Issues the commands given to the drive, and those given while these are answered.
    fn issue(&mut self) {
        if !self.in_drive.begin() {
            return;
        }
        while let Some(done) = self.in_drive.next_issued() {
            debug_assert!(
                self.pending.contains_key(&done.id),
                "the drive has done command {}, which is not under way",
                done.id
            );
            self.complete(done.id, done.ended);
        }
    }

    /// Completes what is due now.
    pub fn answer_in_time(&mut self) {
        while let Some(done) = self.in_drive.next_due() {
            self.complete(done.id, done.ended);
        }
        self.issue();
        self.assert_invariants();
    }

    /// When the next answer is due; `None` if no answer waits.
    pub fn due_in(&self) -> Option<Duration> {
        self.in_drive.due_in()
    }

    /// Checks the invariants at the head of this file, if assertions of debug builds are on.
    fn assert_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let of_commands: usize = self.pending.values().map(|pending| pending.held).sum();
        let (discarded, unsent) = (self.transfers.discarded_bytes(), self.sender.held());
        debug_assert_eq!(
            self.budget.held(),
            of_commands + discarded + unsent,
            "the budget in use, and {of_commands} bytes of commands, {discarded} discarded and {unsent} unsent"
        );
        let is_abort = |pending: &Pending| {
            matches!(pending.work, Work::Admin) && pending.command.opcode == opcode::ABORT
        };
        let aborts = self.pending.values().filter(|pending| is_abort(pending)).count();
        debug_assert_eq!(
            aborts, self.aborts,
            "Aborts under way, and those that another connection must answer"
        );
        let mut places: Vec<u16> = self.waiting.iter().chain(&self.events).copied().collect();
        places.extend(self.transfers.commands());
        places.extend(self.in_drive.commands());
        let elsewhere = |pending: &Pending| is_abort(pending) || matches!(pending.work, Work::Program);
        for (id, pending) in &self.pending {
            let count = places.iter().filter(|place| *place == id).count();
            debug_assert!(
                count == 1 || count == 0 && elsewhere(pending),
                "command {id} waits in {count} places: {pending:?}"
            );
        }
        let unknown = places.iter().find(|id| !self.pending.contains_key(id));
        debug_assert_eq!(unknown, None, "a command waits that is not under way");
        let most = self.attachment.entries();
        debug_assert!(
            self.pending.len() <= most,
            "{} commands are under way in {most} entries",
            self.pending.len()
        );
        debug_assert!(self.events.len() <= EVENT_REQUESTS, "{} requests wait for events", self.events.len());
    }

    /// Whether something waits to be sent.
    pub fn has_unsent(&self) -> bool {
        self.sender.unsent_bytes() > 0
    }

    /// Sends as much as the host takes. Returns whether there is more to send, because what was sent made room for it.
    pub fn send(&mut self, to: &mut impl Write) -> io::Result<bool> {
        let freed = self.sender.send(to)?;
        let before = self.sender.unsent_bytes();
        if freed > 0 {
            self.budget.release(freed);
            self.reclaim();
            self.admit();
            self.issue();
        }
        self.assert_invariants();
        Ok(self.sender.unsent_bytes() > before)
    }

    /// Keeps buffers whose data have been sent.
    fn reclaim(&mut self) {
        while let Some(buffer) = self.sender.emptied() {
            self.spares.give(buffer, self.budget.held());
        }
    }

    /// Called when there is nothing to do.
    pub fn rest(&mut self) {
        self.spares.shrink(self.budget.held());
    }

    /// How long it may continue without hearing from the host; `None` if unlimited.
    pub fn idle_timeout(&self) -> Option<Duration> {
        self.attachment.idle_timeout()
    }

    /// Whether that time has passed.
    pub fn is_overdue(&self) -> bool {
        self.idle_timeout().is_some_and(|idle_timeout| idle_timeout.is_zero())
    }

    /// The host was silent for too long.
    pub fn close_idle(&mut self) {
        self.ending = Some(Ending::AtOnce);
    }
}
