//! Reservation Register, Acquire, Release and Report (Base, sections 7.5 to 7.8).

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::admin::{Context, wait};
use crate::failure::Failure;
use crate::io::{TRANSFER_BYTES, Transfer};
use crate::mailbox::Answer;
use crate::namespaces::{Notices, Persistence, Reservation, ReservationKind, Target};
use crate::wire::command::Submission;
use crate::wire::identify::empty;
use crate::wire::opcode::nvm as opcode;

/// What is done with a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Registers {
    /// A new one is registered (`RREGA`).
    New,
    /// None is registered any more.
    None,
    /// Another one is.
    Other,
}

/// A command about a reservation whose fields have been checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReservationCommand {
    /// Registers a host, perhaps without regard to its present key.
    Register(Registers, bool, Persistence),
    /// Takes the reservation.
    Acquire(ReservationKind),
    /// Takes it from others, whose commands may end.
    Preempt(ReservationKind),
    /// Gives it up.
    Release(Option<ReservationKind>),
    /// Removes it and all registrations.
    Clear,
    /// Tells who has registered, in so many bytes.
    Report(u32),
}

/// The state of a reservation, for hosts with identifiers of 128 bits.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Status {
    generation: U32,
    kind: u8,
    registrants: U16,
    reserved: [u8; 2],
    persists: u8,
    reserved2: [u8; 54],
}

/// A registrant.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RegistrantStatus {
    /// FFFFh: controllers come with connections.
    controller: U16,
    /// Bit 0: it holds the reservation.
    status: u8,
    reserved: [u8; 5],
    key: U64,
    host: [u8; 16],
    reserved2: [u8; 32],
}

/// Whether a command is one about reservations.
pub fn is_reservation(command: &Submission) -> bool {
    matches!(
        command.opcode,
        opcode::RESERVATION_REGISTER
            | opcode::RESERVATION_REPORT
            | opcode::RESERVATION_ACQUIRE
            | opcode::RESERVATION_RELEASE
    )
}

impl ReservationCommand {
    /// Reads a command's fields.
    pub fn decode(command: &Submission) -> Result<ReservationCommand, Failure> {
        let (dword, action) = (command.dword(10), command.dword(10) & 7);
        let ignores_key = command.bit(10, 3);
        let kind = ReservationKind::of((dword >> 8) as u8);
        // only Register has a meaning for it
        if ignores_key && !matches!(command.opcode, opcode::RESERVATION_REGISTER | opcode::RESERVATION_REPORT)
        {
            return Err(Failure::INVALID_FIELD);
        }
        let known_kind = kind.ok_or(Failure::INVALID_FIELD);
        match (command.opcode, action) {
            (opcode::RESERVATION_REGISTER, action) => {
                let registers = match action {
                    0 => Registers::New,
                    1 => Registers::None,
                    2 => Registers::Other,
                    _ => return Err(Failure::INVALID_FIELD),
                };
                let persistence = match dword >> 30 {
                    0 => Persistence::Stays,
                    2 => Persistence::Becomes(false),
                    3 => Persistence::Becomes(true),
                    _ => return Err(Failure::INVALID_FIELD),
                };
                Ok(ReservationCommand::Register(registers, ignores_key, persistence))
            }
            (opcode::RESERVATION_ACQUIRE, 0) => Ok(ReservationCommand::Acquire(known_kind?)),
            (opcode::RESERVATION_ACQUIRE, 1 | 2) => Ok(ReservationCommand::Preempt(known_kind?)),
            (opcode::RESERVATION_RELEASE, 0) => Ok(ReservationCommand::Release(kind)),
            (opcode::RESERVATION_RELEASE, 1) => Ok(ReservationCommand::Clear),
            (opcode::RESERVATION_REPORT, _) => {
                // identifiers of hosts have 128 bits
                if !command.bit(11, 0) {
                    return Err(Failure::HOST_ID_FORMAT);
                }
                let bytes = (u64::from(dword) + 1) * 4;
                match bytes > TRANSFER_BYTES.into() {
                    true => Err(Failure::INVALID_FIELD),
                    false => Ok(ReservationCommand::Report(bytes as u32)),
                }
            }
            _ => Err(Failure::INVALID_FIELD),
        }
    }

    /// The data that it moves.
    pub fn transfer(&self) -> Transfer {
        match self {
            ReservationCommand::Release(_) | ReservationCommand::Clear => Transfer::FromHost(8),
            ReservationCommand::Report(bytes) => Transfer::ToHost(*bytes),
            _ => Transfer::FromHost(16),
        }
    }

    /// Executes it for the host of a controller.
    pub fn execute(
        self,
        context: &Context<'_>,
        target: &Target,
        number: u32,
        data: &[u8],
    ) -> Result<Answer, Failure> {
        let host = &context.controller.host.id;
        let key = |at: usize| {
            data.get(at..at + 8).and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        let namespaces = &context.subsystem.namespaces;
        if let ReservationCommand::Report(bytes) = self {
            let mut report = report(&namespaces.reservation(target));
            report.resize(bytes as usize, 0);
            return Ok(Answer::data(report));
        }
        let ticket = context.subsystem.queue.answers().ticket();
        let changed = namespaces.reserve(&context.subsystem.queue, target, |reservation| match self {
            ReservationCommand::Register(registers, ignores_key, persistence) => {
                let current = (!ignores_key).then(|| key(0));
                let notices = match registers {
                    Registers::New => reservation.register(host, key(8)).map(|()| Notices::new()),
                    Registers::None => reservation.unregister(host, current),
                    Registers::Other => reservation.replace(host, current, key(8)).map(|()| Notices::new()),
                }?;
                reservation.persist(persistence);
                Ok(notices)
            }
            ReservationCommand::Acquire(kind) => {
                reservation.acquire(host, key(0), kind).map(|()| Notices::new())
            }
            ReservationCommand::Preempt(kind) => {
                reservation.preempt(host, key(0), key(8), kind).map(|(notices, _)| notices)
            }
            ReservationCommand::Release(kind) => reservation.release(host, key(0), kind),
            ReservationCommand::Clear => reservation.clear(host, key(0)),
            ReservationCommand::Report(_) => Ok(Notices::new()),
        })?;
        wait(context.subsystem, ticket, changed.done_ns)?;
        for controller in context.subsystem.io_controllers() {
            let of_host = changed.result.iter().filter(|(host, _)| *host == controller.host.id);
            of_host.for_each(|(_, notice)| controller.tell_reservation(number, *notice as u8));
        }
        Ok(Answer::default())
    }
}

fn report(reservation: &Reservation) -> Vec<u8> {
    let mut status: Status = empty();
    status.generation = reservation.generation.into();
    status.kind = reservation.kind.map_or(0, |kind| kind as u8);
    status.registrants = (reservation.registrants.len() as u16).into();
    status.persists = reservation.persists.into();
    let mut report = status.as_bytes().to_vec();
    for registrant in &reservation.registrants {
        let mut told: RegistrantStatus = empty();
        told.controller = u16::MAX.into();
        told.status = reservation.is_held_by(&registrant.host).into();
        (told.key, told.host) = (registrant.key.into(), registrant.host);
        report.extend(told.as_bytes());
    }
    report
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn layouts_are_the_standards() {
        assert_eq!((size_of::<Status>(), offset_of!(Status, persists)), (64, 9));
        assert_eq!((size_of::<RegistrantStatus>(), offset_of!(RegistrantStatus, host)), (64, 16));
    }
}
