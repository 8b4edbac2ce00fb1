//! The protocol of one connection, without its socket: bytes go in ([`Session::feed`]) and out ([`Session::send`]).
//!
//! A [`Session`] conducts its parts; this file has what the connection's thread calls, and `course.rs` the course of a command.
//! No part knows another one's state: it borrows what it needs for a call.
//!
//! | part | owns | what it does for others |
//! |---|---|---|
//! | `Receiver` | the PDU that is coming | `take` makes PDUs of bytes, and puts data where they belong |
//! | `Sender` | what waits to be sent | builds PDUs: `ready` (R2T), `data`, `response`, `terminate` |
//! | `Attachment` | the queue that the connection has become | Fabrics commands, authentication, time-outs |
//! | `Commands` | commands under way; which of them wait for the budget | `add`, `wait`, `admit`, `end` |
//! | `Transfers` | data that are coming from the host | `open`, `received`, `discard` |
//! | `InDrive` | commands in the drive, and answers that are not due yet | `give`, `next_issued`, `next_due` |
//! | `Fused` | halves of fused pairs | `end_open_pair`, `take_first`, `take_second`, `take_half` |
//! | `EventRequests`, `Aborts` | requests that an event, or another connection, answers | `add`, `take`; `ask`, `answered` |
//! | `Budget`, `Spares` | bytes that commands hold; buffers for the next ones | `hold`, `release`; `take`, `give` |
//!
//! Invariants, which `assert_invariants` checks after everything that came from the host, the drive or other threads:
//!
//! - A command under way waits in one place: for the budget, for its data, to be issued, until its answer is due, for an
//!   event, for the other half of its pair, for another connection, or for a program. Otherwise nobody would answer it, or two would.
//! - The bytes of the budget in use are those of commands, of data that are discarded, and of what waits to be sent.

mod aborts;
mod attachment;
mod commands;
mod connect;
mod course;
mod event_requests;
mod fabrics_command;
mod fused;
mod in_drive;
mod queue;
mod receiver;
mod request;
mod sender;
mod spares;
mod transfers;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aborts::Aborts;
use attachment::Attachment;
use commands::Commands;
use event_requests::EventRequests;
use fused::Fused;
use in_drive::InDrive;
use receiver::{Pdu, Receiver};
use sender::Sender;
use spares::Spares;
use transfers::Transfers;

use crate::authentication::Secured;
use crate::budget::{BUDGET_BYTES, Budget};
use crate::io::TRANSFER_BYTES;
use crate::limits::CAPSULE_BYTES;
use crate::mailbox::{Mailbox, Message};
use crate::outbox::Outbox;
use crate::subsystem::Subsystem;
use crate::wire::pdu::Fatal;

/// While more than this many bytes wait to be sent, nothing is read from the connection.
const UNSENT_BYTES: usize = BUDGET_BYTES + (256 << 10);

/// Further commands wait while at least this many bytes are unsent: the host can begin on them, and the processor's cache
/// still has them.
const MUCH_BYTES: usize = 1 << 20;

const _: () = assert!(
    CAPSULE_BYTES <= BUDGET_BYTES && TRANSFER_BYTES as usize <= BUDGET_BYTES,
    "the budget has room for the data of a command"
);

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
    budget: Budget,
    attachment: Attachment,
    commands: Commands,
    transfers: Transfers,
    in_drive: InDrive,
    fused: Fused,
    events: EventRequests,
    aborts: Aborts,
    spares: Spares,
}

impl Session {
    /// A connection to a subsystem, through `address`. Other threads reach it through the mailbox.
    pub fn new(subsystem: Arc<Subsystem>, mailbox: Arc<Mailbox>, address: Option<SocketAddr>) -> Session {
        Session {
            ending: None,
            receiver: Receiver::default(),
            sender: Sender::default(),
            budget: Budget::new(&subsystem.budget),
            attachment: Attachment::new(Arc::clone(&subsystem), Arc::clone(&mailbox), address),
            commands: Commands::default(),
            transfers: Transfers::default(),
            in_drive: InDrive::new(Arc::clone(&subsystem)),
            fused: Fused::default(),
            events: EventRequests::default(),
            aborts: Aborts::default(),
            spares: Spares::default(),
            subsystem,
            mailbox,
        }
    }

    /// The connection came through the port with this number, and not through the first one.
    #[must_use]
    pub fn through(mut self, port: u16) -> Session {
        self.attachment.through(port);
        self
    }

    /// The connection has TLS, with a key that only these have.
    pub fn secure(&mut self, secured: Secured) {
        self.attachment.secure(secured);
    }

    // -- from the host ------------------------------------------------------------------------------------------

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

    // -- from other threads, and with time ----------------------------------------------------------------------

    /// Takes what came from other threads.
    pub fn take_mail(&mut self) {
        while let Some(message) = self.mailbox.take() {
            match message {
                Message::Done { id, ended } => self.complete(id, ended),
                Message::Abort { id, question } => question.answer(self.abort_here(id)),
                Message::Aborted { id, is_aborted } => self.take_abort_answer(id, is_aborted),
                Message::Event => self.tell_events(),
                Message::End => self.ending = Some(Ending::AtOnce),
            }
        }
        self.issue();
        self.assert_invariants();
    }

    /// Completes what is due now.
    pub fn answer_in_time(&mut self) {
        while let Some(done) = self.in_drive.next_due() {
            self.complete_in_drive(done.id, done.ended);
        }
        self.issue();
        self.assert_invariants();
    }

    /// When the next answer is due; `None` if no answer waits.
    pub fn due_in(&self) -> Option<Duration> {
        self.in_drive.due_in()
    }

    /// How long it may continue without hearing from the host; `None` if unlimited.
    pub fn idle_timeout(&self) -> Option<Duration> {
        self.attachment.idle_timeout()
    }

    /// Ends the connection if the host was silent for too long.
    pub fn end_if_overdue(&mut self) {
        if self.idle_timeout().is_some_and(|idle_timeout| idle_timeout.is_zero()) {
            self.ending = Some(Ending::AtOnce);
        }
    }

    /// Called when there is nothing to do.
    pub fn rest(&mut self) {
        self.spares.shrink(self.budget.held());
    }

    // -- to the host --------------------------------------------------------------------------------------------

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

    /// Whether the connection only has to send what is unsent before it ends.
    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// What the host must receive before the connection is closed.
    pub fn final_output(&mut self) -> Option<Outbox> {
        (self.ending == Some(Ending::Goodbye)).then(|| self.sender.take_unsent())
    }

    // -- invariants ---------------------------------------------------------------------------------------------

    /// Checks the invariants at the head of this file, if assertions of debug builds are on.
    fn assert_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let (of_commands, unsent) = (self.commands.held(), self.sender.held());
        let discarded = self.transfers.discarded_bytes();
        assert_eq!(
            self.budget.held(),
            of_commands + discarded + unsent,
            "the budget in use, and {of_commands} bytes of commands, {discarded} discarded and {unsent} unsent"
        );
        let elsewhere = self.transfers.commands().chain(self.in_drive.commands());
        self.commands.assert_places(elsewhere.chain(self.events.commands()).chain(self.fused.commands()));
        assert_eq!(
            self.commands.aborts(),
            self.aborts.in_progress(),
            "Aborts under way, and those that another connection must answer"
        );
        let (commands, most) = (self.commands.len(), self.attachment.entries());
        assert!(commands <= most, "{commands} commands are under way in {most} entries");
    }
}
