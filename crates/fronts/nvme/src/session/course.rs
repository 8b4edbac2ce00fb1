//! The course of a command, from its capsule to its completion.
//!
//! A command whose data are not in its capsule waits until the connection's budget has room for them. Then the data are
//! requested from the host, or read from the drive. Commands without data do not wait.

use std::ops::Range;

use super::aborts::{self, Abort};
use super::fabrics_command::FabricsCommand;
use super::fused::Half;
use super::receiver::Capsule;
use super::request::{Request, Work};
use super::transfers::Arrived;
use super::{Ending, Session};
use crate::admin;
use crate::failure::Failure;
use crate::io::Transfer;
use crate::mailbox::Answer;
use crate::wire::command::{Completion, Submission};
use crate::wire::pdu::Fatal;

/// A command that was checked, and where its data are, if they are in its capsule.
pub(super) type Checked = (Request, Option<Range<usize>>);

impl Session {
    /// Takes a command, with the data that were in its capsule.
    pub(super) fn take_command(&mut self, capsule: Capsule) -> Result<(), Fatal> {
        if self.commands.len() >= self.attachment.entries() {
            return Err(Fatal::Sequence);
        }
        self.attachment.advance();
        let half = Half::of(&capsule.command);
        if half != Ok(Some(Half::Second)) {
            self.end_open_pair();
        }
        match half {
            Err(failure) => self.refuse(&capsule.command, failure),
            Ok(Some(Half::First)) => self.take_first(capsule),
            Ok(Some(Half::Second)) => self.take_second(capsule),
            Ok(None) => match self.check(&capsule) {
                Ok(checked) => self.begin(checked, capsule),
                Err(failure) => self.refuse(&capsule.command, failure),
            },
        }
        Ok(())
    }

    /// Checks a command. Returns also where its data are, if they are in its capsule.
    pub(super) fn check(&self, capsule: &Capsule) -> Result<Checked, Failure> {
        let Capsule { command, data, .. } = capsule;
        match self.commands.contains(command.id.get()) {
            true => Err(Failure::ID_CONFLICT),
            false => Request::check(command, data.len(), &self.attachment, &self.subsystem),
        }
    }

    /// Begins with a command that was checked.
    pub(super) fn begin(&mut self, (request, range): Checked, capsule: Capsule) {
        let Capsule { mut data, is_damaged, .. } = capsule;
        let Some(range) = range else { return self.accept(request, is_damaged) };
        let (id, bytes) = (request.id(), range.len());
        data.truncate(range.end);
        data.drain(..range.start);
        self.budget.hold(bytes);
        self.commands.add(request, bytes);
        self.execute_unless(is_damaged, id, data);
    }

    /// Executes a command without data in its capsule, or queues it until its data have room.
    fn accept(&mut self, request: Request, is_damaged: bool) {
        let id = request.id();
        self.commands.add(request, 0);
        if is_damaged || request.transfer == Transfer::None {
            return self.execute_unless(is_damaged, id, Vec::new());
        }
        self.commands.wait(id);
        self.admit();
    }

    /// Executes a command, unless its data do not match their digest.
    fn execute_unless(&mut self, is_damaged: bool, id: u16, data: Vec<u8>) {
        match is_damaged {
            true => self.complete(id, Err(Failure::TRANSIENT)),
            false => self.execute(id, data),
        }
    }

    /// Resumes commands that waited for the budget, in order.
    pub(super) fn admit(&mut self) {
        while let Some(request) = self.commands.admit(&mut self.budget) {
            let (id, is_read) = (request.id(), request.is_read());
            match request.transfer {
                Transfer::FromHost(bytes) => {
                    let buffer = self.spares.take(bytes as usize);
                    assert_eq!(
                        buffer.len(),
                        bytes as usize,
                        "the buffer of command {id} is not as long as its data"
                    );
                    let tag = self.transfers.open(id, buffer);
                    self.sender.ready(id, tag, bytes);
                }
                transfer => {
                    let buffer = if is_read { self.spares.take(transfer.bytes()) } else { Vec::new() };
                    self.execute(id, buffer);
                }
            }
        }
    }

    /// Data of a transfer have arrived, up to `end`.
    pub(super) fn take_data(&mut self, tag: u16, end: usize, is_damaged: bool) {
        match self.transfers.received(tag, end, is_damaged) {
            None => {}
            Some(Arrived::Whole { command, data }) => self.execute(command, data),
            Some(Arrived::Damaged { command }) => self.complete(command, Err(Failure::TRANSIENT)),
            Some(Arrived::Discarded(held)) => {
                self.budget.release(held);
                self.admit();
            }
        }
    }

    // -- execution ----------------------------------------------------------------------------------------------

    fn execute(&mut self, id: u16, data: Vec<u8>) {
        let Some(request) = self.commands.get(id) else { return };
        let data = request.cut(data);
        self.attachment.refresh();
        match request.work {
            Work::Io(target, io) => {
                // it may have waited for its data, while another host has reserved the namespace
                let target = self.attachment.view().renewed(request.command.namespace.get(), &target);
                let reaches = self.subsystem.ports.check(self.attachment.port());
                if let Err(failure) = reaches.and_then(|()| io.check_reserved(target.denied)) {
                    return self.complete(id, Err(failure));
                }
                if request.is_fused() {
                    return self.take_half(id, target, data);
                }
                if self.in_drive.give(id, target, self.attachment.view(), io, data) {
                    self.issue();
                }
            }
            Work::Reservation(target, reservation) => {
                let number = request.command.namespace.get();
                let context = self.attachment.context();
                let ended = context.and_then(|context| reservation.execute(&context, &target, number, &data));
                self.complete(id, ended);
            }
            Work::Program => {
                let (programs, caller) = (&self.subsystem.programs, self.attachment.caller(id));
                if let (Some(programs), Some(caller)) = (programs, caller) {
                    programs.start(&request.command, &caller, data);
                }
            }
            Work::Fabrics(fabrics) => self.execute_fabrics(id, fabrics, &data),
            Work::Abort(abort) => self.abort(id, abort),
            Work::AwaitEvent => match self.events.add(id) {
                Ok(()) => self.tell_events(),
                Err(failure) => self.complete(id, Err(failure)),
            },
            Work::Admin => {
                let context = self.attachment.context();
                let ended = context.and_then(|context| admin::answer(&context, &request.command, &data));
                self.complete(id, ended);
                // other events may have been enabled, or a log page read
                self.tell_events();
            }
        }
    }

    fn execute_fabrics(&mut self, id: u16, fabrics: FabricsCommand, data: &[u8]) {
        let ended = self.attachment.execute(fabrics, data);
        if matches!(fabrics, FabricsCommand::Connect(_)) {
            let commands = self.commands.len();
            assert_eq!(commands, 1, "a connection of {commands} commands becomes a queue");
        }
        self.complete(id, ended);
        // the answer, or an authentication's last message, says why
        if matches!(fabrics, FabricsCommand::Disconnect) || self.attachment.has_refused() {
            self.ending = Some(Ending::Goodbye);
        }
    }

    /// Issues the commands given to the drive, and those given while these are answered.
    pub(super) fn issue(&mut self) {
        if !self.in_drive.begin() {
            return;
        }
        while let Some(done) = self.in_drive.next_issued() {
            debug_assert!(
                self.commands.contains(done.id),
                "the drive has done command {}, which is not under way",
                done.id
            );
            self.complete_in_drive(done.id, done.ended);
        }
    }

    /// Completes event requests, one for each event that may be reported.
    pub(super) fn tell_events(&mut self) {
        while let Some(queue) = self.attachment.queue()
            && let Some((id, event)) = self.events.take(queue.controller())
        {
            self.complete(id, Ok(Answer::result(event.result())));
        }
    }

    // -- Abort --------------------------------------------------------------------------------------------------

    /// Aborts a command of this queue, or asks the connection of its queue to do so.
    fn abort(&mut self, id: u16, Abort { queue, victim }: Abort) {
        if queue == 0 {
            let is_aborted = self.abort_here(victim);
            return self.complete(id, Ok(aborts::answer(is_aborted)));
        }
        if let Err(failure) = self.aborts.may_ask() {
            return self.complete(id, Err(failure));
        }
        match self.attachment.neighbour(queue) {
            None => self.complete(id, Ok(aborts::answer(false))),
            Some(other) => self.aborts.ask(&other, &self.mailbox, id, victim),
        }
    }

    /// Another connection has answered an Abort.
    pub(super) fn take_abort_answer(&mut self, id: u16, is_aborted: bool) {
        self.aborts.answered(id);
        self.complete(id, Ok(aborts::answer(is_aborted)));
    }

    /// Aborts a command of this queue if it waits: for an event, for the budget, for its data, or for the other half of its pair. It is completed before the
    /// Abort is.
    pub(super) fn abort_here(&mut self, victim: u16) -> bool {
        let waits = self.events.withdraw(victim)
            || self.commands.withdraw(victim)
            || self.fused.waits(victim)
            || self.discard(victim);
        if waits {
            self.complete(victim, Err(Failure::ABORTED));
        }
        waits
    }

    /// Discards the data that a command still waits for. They hold its part of the budget until they have arrived. False if
    /// it waits for no data.
    fn discard(&mut self, victim: u16) -> bool {
        let Some(bytes) = self.transfers.discard(victim) else { return false };
        let held = self.commands.leave_budget(victim);
        assert_eq!(held, bytes, "command {victim} and its transfer hold different parts of the budget");
        true
    }

    // -- completion ---------------------------------------------------------------------------------------------

    /// A command is done: its data and its completion go out.
    pub(super) fn complete(&mut self, id: u16, ended: Result<Answer, Failure>) {
        let Some((request, held)) = self.commands.end(id) else { return };
        if ended.is_err() && request.is_fused() {
            self.fail_other_half(id);
        }
        match ended {
            Ok(answer) if answer.data.is_empty() => {
                self.spares.give(answer.spare, self.budget.held());
                self.budget.release(held);
                self.respond(id, answer.result, None);
            }
            Ok(Answer { data, result, .. }) => {
                let (bytes, room) = (data.len(), request.room());
                assert!(
                    bytes <= room,
                    "command {id} is answered with {bytes} bytes, and its host has room for {room}"
                );
                let is_silent = self.attachment.needs_no_completion(result);
                self.sender.data(id, data, is_silent, held);
                if !is_silent {
                    self.respond(id, result, None);
                }
                self.reclaim();
            }
            Err(failure) => {
                self.budget.release(held);
                self.refuse(&request.command, failure);
            }
        }
        self.admit();
    }

    /// Keeps buffers whose data have been sent.
    pub(super) fn reclaim(&mut self) {
        while let Some(buffer) = self.sender.emptied() {
            self.spares.give(buffer, self.budget.held());
        }
    }

    pub(super) fn refuse(&mut self, command: &Submission, failure: Failure) {
        let queue = self.attachment.queue().map_or(0, |queue| queue.id());
        // what a host finds out by asking is no error
        if queue != 0 || !admin::only_asks(command) {
            self.subsystem.errors.add(queue, command, failure);
        }
        self.respond(command.id.get(), failure.result, Some(failure));
    }

    fn respond(&mut self, id: u16, result: u64, failure: Option<Failure>) {
        self.sender.response(Completion {
            result: result.into(),
            queue_head: self.attachment.head().into(),
            queue: 0.into(),
            id: id.into(),
            status: failure.map_or(0, Failure::field).into(),
        });
    }
}
