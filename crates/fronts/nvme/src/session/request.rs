//! What a command requests: its fields are checked as a whole before its data move or anything changes.

use std::ops::Range;

use super::aborts::Abort;
use super::attachment::Attachment;
use super::fabrics_command::FabricsCommand;
use crate::admin;
use crate::failure::Failure;
use crate::io::{IoCommand, TRANSFER_BYTES, Transfer};
use crate::limits::CAPSULE_BYTES;
use crate::namespaces::Target;
use crate::programs::is_program;
use crate::reservations::{ReservationCommand, is_reservation};
use crate::subsystem::Subsystem;
use crate::wire::command::{IN_CAPSULE, Submission, TRANSPORT};
use crate::wire::opcode::{FABRICS, admin as opcode};

/// What a command requests.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// About connections.
    Fabrics(FabricsCommand),
    /// To end another command.
    Abort(Abort),
    /// To be answered when there is an event.
    AwaitEvent,
    /// About the controller.
    Admin,
    /// About blocks or records of a namespace.
    Io(Target, IoCommand),
    /// About the reservation of a namespace.
    Reservation(Target, ReservationCommand),
    /// About programs in the drive.
    Program,
}

/// A command whose fields have been checked.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The command.
    pub command: Submission,
    /// What it requests.
    pub work: Work,
    /// The data that it moves. A host may send more than needed.
    pub transfer: Transfer,
    /// The number of bytes of data that it needs.
    needed: usize,
}

impl Request {
    /// Checks a command with this many bytes of data in its capsule. Returns also where its data are, if they are in the capsule.
    pub fn check(
        command: &Submission,
        capsule_bytes: usize,
        attachment: &Attachment,
        subsystem: &Subsystem,
    ) -> Result<(Request, Option<Range<usize>>), Failure> {
        attachment.check_authentication(command)?;
        let (work, transfer) = decode(command, attachment, subsystem)?;
        let request = Request::of(*command, work, transfer);
        match transfer {
            Transfer::None => Ok((request, None)),
            Transfer::FromHost(_) | Transfer::ToHost(_) => request.check_pointer(capsule_bytes),
        }
    }

    /// A command that was checked, and needs all the data that it moves.
    pub fn of(command: Submission, work: Work, transfer: Transfer) -> Request {
        Request { command, work, transfer, needed: transfer.bytes() }
    }

    /// Checks the data pointer. There may be more data than needed: Linux sends 4 KiB with every Dataset Management.
    fn check_pointer(self, capsule_bytes: usize) -> Result<(Request, Option<Range<usize>>), Failure> {
        // over fabrics, data pointers are SGLs (Base, section 3.3.3.1)
        let pointer_kind = self.command.flags >> 6;
        if pointer_kind == 0 || pointer_kind == 3 {
            return Err(Failure::INVALID_FIELD);
        }
        let pointer = &self.command.data;
        let in_capsule = match (pointer.kind, self.transfer) {
            (TRANSPORT, _) => None,
            (IN_CAPSULE, Transfer::FromHost(_)) => Some(pointer.address.get()),
            _ => return Err(Failure::SGL_TYPE),
        };
        let bytes = pointer.bytes.get();
        let most = match self.work {
            // a host that has not connected yet may hold little memory
            Work::Fabrics(_) => CAPSULE_BYTES,
            _ => self.needed.max(TRANSFER_BYTES as usize),
        };
        if !(self.needed..=most).contains(&(bytes as usize)) {
            return Err(Failure::SGL_LENGTH);
        }
        let request = match self.transfer {
            Transfer::FromHost(_) => Request { transfer: Transfer::FromHost(bytes), ..self },
            _ => self,
        };
        let Some(offset) = in_capsule else { return Ok((request, None)) };
        let end = offset.checked_add(bytes.into()).filter(|&end| end <= capsule_bytes as u64);
        let end = end.ok_or(Failure::SGL_OFFSET)? as usize;
        Ok((request, Some(end - bytes as usize..end)))
    }

    /// Its identifier.
    pub fn id(&self) -> u16 {
        self.command.id.get()
    }

    /// Whether it is a Read, which takes a buffer for its data to the drive.
    pub fn is_read(&self) -> bool {
        matches!(self.work, Work::Io(_, IoCommand::Read(_)))
    }

    /// Whether it is a Compare.
    pub fn is_compare(&self) -> bool {
        matches!(self.work, Work::Io(_, IoCommand::Compare(_)))
    }

    /// Whether it is executed together with another one.
    pub fn is_fused(&self) -> bool {
        self.command.flags & 3 != 0
    }

    /// Whether somebody else answers it, who knows nothing of this connection's other commands.
    pub fn is_answered_elsewhere(&self) -> bool {
        matches!(self.work, Work::Abort(_) | Work::Program)
    }

    /// The part of its data that it needs, once all of them have come.
    pub fn cut(&self, mut data: Vec<u8>) -> Vec<u8> {
        debug_assert!(
            data.len() >= self.needed || !matches!(self.transfer, Transfer::FromHost(_)),
            "command {} is executed with {} of {} bytes",
            self.id(),
            data.len(),
            self.needed
        );
        data.truncate(self.needed);
        data
    }

    /// Bytes that its answer may have at most.
    pub fn room(&self) -> usize {
        if let Transfer::ToHost(bytes) = self.transfer { bytes as usize } else { 0 }
    }
}

fn decode(
    command: &Submission,
    attachment: &Attachment,
    subsystem: &Subsystem,
) -> Result<(Work, Transfer), Failure> {
    let queue = attachment.queue();
    if command.opcode == FABRICS {
        let fabrics = FabricsCommand::decode(command, queue.map(|queue| queue.id()))?;
        return Ok((Work::Fabrics(fabrics), fabrics.transfer()));
    }
    let queue = queue.ok_or(Failure::SEQUENCE)?;
    if !queue.controller().is_ready() {
        return Err(Failure::SEQUENCE);
    }
    if queue.id() == 0 {
        let transfer = admin::transfer(command, queue.controller().kind)?;
        let work = match command.opcode {
            opcode::ABORT => Work::Abort(Abort::decode(command)),
            opcode::ASYNC_EVENT => Work::AwaitEvent,
            _ => Work::Admin,
        };
        return Ok((work, transfer));
    }
    attachment.check_io(command.namespace.get())?;
    if is_program(command) {
        let programs = subsystem.programs.as_ref().ok_or(Failure::INVALID_OPCODE)?;
        let target = attachment.view().blocks(command.namespace.get());
        let denied = target.ok_or(Failure::INVALID_NAMESPACE)?.denied;
        // programs may change any block
        if denied.writes {
            return Err(Failure::RESERVATION_CONFLICT);
        }
        return Ok((Work::Program, programs.check(command)?));
    }
    let namespace = command.namespace.get();
    if is_reservation(command)
        && let Some(target) = attachment.view().blocks(namespace)
    {
        let reservation = ReservationCommand::decode(command)?;
        return Ok((Work::Reservation(*target, reservation), reservation.transfer()));
    }
    let (target, io) = IoCommand::decode(command, attachment.view())?;
    io.check_reserved(target.denied)?;
    if io.is_across() && !queue.controller().copies_across() {
        return Err(Failure::INVALID_FIELD);
    }
    Ok((Work::Io(target, io), io.transfer(&target.space)))
}
