//! From a command capsule to its completion.
//!
//! A command whose data are not in its capsule waits until the connection's budget has room for them. Then the data are
//! requested from the host, or read from the drive. Commands without data do not wait.

use super::fabrics_command::FabricsCommand;
use super::pending::{Pending, Work};
use super::receiver::Capsule;
use super::transfers::Arrived;
use super::{Ending, Session};
use crate::admin;
use crate::failure::Failure;
use crate::io::{IoCommand, TRANSFER_BYTES, Transfer};
use crate::limits::{CAPSULE_BYTES, EVENT_REQUESTS};
use crate::mailbox::Answer;
use crate::programs::is_program;
use crate::wire::command::{Completion, IN_CAPSULE, Submission, TRANSPORT};
use crate::wire::opcode::{FABRICS, admin as opcode};
use crate::wire::pdu::Fatal;

/// What [`Session::check`] finds.
type Checked = (Work, usize, Transfer, Option<(usize, usize)>);

impl Session {
    /// Takes a command, with the data that were in its capsule.
    pub(super) fn take_command(&mut self, capsule: Capsule) -> Result<(), Fatal> {
        let Capsule { command, data, is_damaged } = capsule;
        let id = command.id.get();
        if self.pending.len() >= self.attachment.entries() {
            return Err(Fatal::Sequence);
        }
        self.attachment.advance();
        if self.pending.contains_key(&id) {
            self.respond(id, 0, Some(Failure::ID_CONFLICT));
            return Ok(());
        }
        match self.check(&command, data.len()) {
            Ok(checked) => self.accept(command, checked, data, is_damaged),
            Err(failure) => self.refuse(&command, failure),
        }
        Ok(())
    }

    /// Executes a command, or queues it until its data have room.
    fn accept(&mut self, command: Submission, checked: Checked, capsule: Vec<u8>, is_damaged: bool) {
        let id = command.id.get();
        let (work, needed, transfer, in_capsule) = checked;
        let held = in_capsule.map_or(0, |(_, bytes)| bytes);
        self.budget.hold(held);
        let other = self.pending.insert(id, Pending { command, work, transfer, needed, held });
        assert!(other.is_none(), "two commands under way are called {id}: {other:?}");
        match (transfer, in_capsule) {
            _ if is_damaged => self.complete(id, Err(Failure::TRANSIENT)),
            (_, Some((offset, bytes))) => {
                let mut data = capsule;
                data.truncate(offset + bytes);
                data.drain(..offset);
                self.execute(id, data);
            }
            (Transfer::None, None) => self.execute(id, Vec::new()),
            (_, None) => {
                self.waiting.push_back(id);
                self.admit();
            }
        }
    }

    /// What a command requests, the number of data bytes that it needs, their direction, and their position if they are in
    /// the capsule.
    fn check(&self, command: &Submission, capsule_bytes: usize) -> Result<Checked, Failure> {
        let (fused, pointer_kind) = (command.flags & 3, command.flags >> 6);
        if fused != 0 {
            return Err(Failure::INVALID_FIELD);
        }
        let (work, transfer) = self.decode(command)?;
        let needed = match transfer {
            Transfer::None => return Ok((work, 0, transfer, None)),
            Transfer::FromHost(bytes) | Transfer::ToHost(bytes) => bytes,
        };
        // over fabrics, data pointers are SGLs (Base, section 3.3.3.1)
        if pointer_kind == 0 || pointer_kind == 3 {
            return Err(Failure::INVALID_FIELD);
        }
        let pointer = &command.data;
        let in_capsule = match (pointer.kind, transfer) {
            (TRANSPORT, _) => None,
            (IN_CAPSULE, Transfer::FromHost(_)) => Some(pointer.address.get()),
            _ => return Err(Failure::SGL_TYPE),
        };
        // there may be more data than needed: Linux sends 4 KiB with every Dataset Management
        let bytes = pointer.bytes.get();
        let most = match work {
            // a host that has not connected yet may hold little memory
            Work::Fabrics(_) => CAPSULE_BYTES as u32,
            Work::Admin | Work::Io(_) | Work::Program => TRANSFER_BYTES.max(needed),
        };
        if bytes < needed || bytes > most {
            return Err(Failure::SGL_LENGTH);
        }
        let transfer =
            if let Transfer::FromHost(_) = transfer { Transfer::FromHost(bytes) } else { transfer };
        let needed = needed as usize;
        let Some(offset) = in_capsule else { return Ok((work, needed, transfer, None)) };
        let end = offset.checked_add(bytes.into());
        if end.is_none_or(|end| end > capsule_bytes as u64) {
            return Err(Failure::SGL_OFFSET);
        }
        Ok((work, needed, transfer, Some((offset as usize, bytes as usize))))
    }

    fn decode(&self, command: &Submission) -> Result<(Work, Transfer), Failure> {
        self.attachment.check_authentication(command)?;
        let queue = self.attachment.queue();
        if command.opcode == FABRICS {
            let fabrics = FabricsCommand::decode(command, queue.map(|queue| queue.id()))?;
            return Ok((Work::Fabrics(fabrics), fabrics.transfer()));
        }
        let queue = queue.ok_or(Failure::SEQUENCE)?;
        if !queue.controller().is_ready() {
            return Err(Failure::SEQUENCE);
        }
        if queue.id() == 0 {
            return Ok((Work::Admin, admin::transfer(command, queue.controller().kind)?));
        }
        if is_program(command) {
            let programs = self.subsystem.programs.as_ref().ok_or(Failure::INVALID_OPCODE)?;
            return Ok((Work::Program, programs.check(command)?));
        }
        let namespaces = &self.subsystem.namespaces;
        let io = IoCommand::decode(command, namespaces)?;
        Ok((Work::Io(io), io.transfer(&namespaces.blocks)))
    }

    /// Resumes commands that waited for the budget, in order.
    pub(super) fn admit(&mut self) {
        while let Some(&id) = self.waiting.front() {
            let Some(pending) = self.pending.get(&id) else { break };
            let (Transfer::FromHost(bytes) | Transfer::ToHost(bytes)) = pending.transfer else { break };
            let (held, transfer) = (bytes as usize, pending.transfer);
            let is_read = matches!(pending.work, Work::Io(IoCommand::Read(_)));
            if !self.budget.may_hold(held) {
                break;
            }
            self.waiting.pop_front();
            self.budget.hold(held);
            if let Some(pending) = self.pending.get_mut(&id) {
                pending.held = held;
            }
            match transfer {
                Transfer::FromHost(bytes) => {
                    let buffer = self.spares.take(held);
                    assert_eq!(
                        buffer.len(),
                        bytes as usize,
                        "the buffer of command {id} is not as long as its data"
                    );
                    let tag = self.transfers.open(id, buffer);
                    self.sender.ready(id, tag, bytes);
                }
                _ => {
                    let buffer = if is_read { self.spares.take(held) } else { Vec::new() };
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

    fn execute(&mut self, id: u16, mut data: Vec<u8>) {
        let Some(pending) = self.pending.get(&id) else { return };
        let (work, command) = (pending.work, pending.command);
        debug_assert!(
            data.len() >= pending.needed || !matches!(pending.transfer, Transfer::FromHost(_)),
            "command {id} is executed with {} of {} bytes",
            data.len(),
            pending.needed
        );
        data.truncate(pending.needed);
        match work {
            Work::Io(io) => {
                if self.in_drive.give(id, io, data) {
                    self.issue();
                }
            }
            Work::Program => {
                let (programs, caller) = (&self.subsystem.programs, self.attachment.caller(id));
                if let (Some(programs), Some(caller)) = (programs, caller) {
                    programs.start(&command, &caller, data);
                }
            }
            Work::Fabrics(fabrics) => self.execute_fabrics(id, fabrics, &data),
            Work::Admin if command.opcode == opcode::ASYNC_EVENT => self.await_event(id),
            Work::Admin if command.opcode == opcode::ABORT => self.abort(id, &command),
            Work::Admin => {
                let context = self.attachment.context();
                let ended = context.and_then(|context| admin::answer(&context, &command, &data));
                self.complete(id, ended);
                // other events may have been enabled, or a log page read
                self.tell_events();
            }
        }
    }

    fn execute_fabrics(&mut self, id: u16, fabrics: FabricsCommand, data: &[u8]) {
        let ended = self.attachment.execute(fabrics, data);
        if matches!(fabrics, FabricsCommand::Connect(_)) {
            let commands = self.pending.len();
            assert_eq!(commands, 1, "a connection of {commands} commands becomes a queue");
        }
        self.complete(id, ended);
        // the answer, or an authentication's last message, says why
        if matches!(fabrics, FabricsCommand::Disconnect) || self.attachment.has_refused() {
            self.ending = Some(Ending::Goodbye);
        }
    }

    /// The command stays until there is an event.
    fn await_event(&mut self, id: u16) {
        debug_assert!(!self.events.contains(&id), "request {id} waits for two events");
        if self.events.len() >= EVENT_REQUESTS {
            return self.complete(id, Err(Failure::EVENT_LIMIT));
        }
        self.events.push(id);
        self.tell_events();
    }

    /// Completes event requests, one for each event that may be reported.
    pub(super) fn tell_events(&mut self) {
        while !self.events.is_empty()
            && let Some(queue) = self.attachment.queue()
            && let Some(event) = queue.controller().next_event()
        {
            let id = self.events.remove(0);
            self.complete(id, Ok(Answer::result(event.result())));
        }
    }

    /// A command is done: its data and its completion go out.
    pub(super) fn complete(&mut self, id: u16, ended: Result<Answer, Failure>) {
        let Some(pending) = self.pending.remove(&id) else { return };
        let room = if let Transfer::ToHost(bytes) = pending.transfer { bytes as usize } else { 0 };
        if let Ok(answer) = &ended {
            let bytes = answer.data.len();
            assert!(
                bytes <= room,
                "command {id} is answered with {bytes} bytes, and its host has room for {room}"
            );
        }
        match ended {
            Ok(answer) if answer.data.is_empty() => {
                self.spares.give(answer.spare, self.budget.held());
                self.budget.release(pending.held);
                self.respond(id, answer.result, None);
            }
            Ok(answer) => {
                let is_silent = self.attachment.needs_no_completion(answer.result);
                self.sender.data(id, answer.data, is_silent, pending.held);
                if !is_silent {
                    self.respond(id, answer.result, None);
                }
                self.reclaim();
            }
            Err(failure) => {
                self.budget.release(pending.held);
                self.refuse(&pending.command, failure);
            }
        }
        self.admit();
    }

    fn refuse(&mut self, command: &Submission, failure: Failure) {
        let queue = self.attachment.queue().map_or(0, |queue| queue.id());
        // what a host finds out by asking is no error
        if queue != 0 || !admin::only_asks(command) {
            self.subsystem.errors.add(queue, command, failure);
        }
        self.respond(command.id.get(), failure.result, Some(failure));
    }

    /// The completion of a command goes out.
    fn respond(&mut self, id: u16, result: u64, failure: Option<Failure>) {
        let status = failure.map_or(0, Failure::field);
        self.sender.response(Completion {
            result: result.into(),
            queue_head: self.attachment.head().into(),
            queue: 0.into(),
            id: id.into(),
            status: status.into(),
        });
    }
}
