//! Vendor commands about programs in the drive. docs/nvme.md has their fields.
//!
//! They belong to the namespace with the drive's blocks. Each except Open names an endpoint of its controller by the
//! endpoint's key.

use std::sync::Arc;
use std::time::Duration;

use tantalum_nvme::failure::Failure;
use tantalum_nvme::io::{TRANSFER_BYTES, Transfer};
use tantalum_nvme::mailbox::Answer;
use tantalum_nvme::programs::Caller;
use tantalum_nvme::subsystem::Subsystem;
use tantalum_nvme::wire::command::Submission;
use tantalum_nvme::wire::opcode::program as opcode;
use tantalum_spu::shared_ssd::{ReceiveError, SharedSsd};
use tantalum_spu::{
    BODY_BYTES, COUNTERS, EndpointId, Event, InstallError, InstallOptions, ProcessId, ProgramId, Rights,
    STRIPE_BYTES, SpuId,
};
use zerocopy::{FromBytes, IntoBytes};

use crate::endpoints::{DrivePrograms, Owner, failure_of};
use crate::wire::{Granted, Installation, Opened, Told};

/// The longest wait for an event, in milliseconds: well below the timeout of hosts' commands.
pub const MOST_WAIT_MS: u32 = 10_000;

const INSTALLATION: u32 = size_of::<Installation>() as u32;
const GRANTED: u32 = size_of::<Granted>() as u32;
const TOLD: u32 = size_of::<Told>() as u32;
/// The text of a fault is truncated to this many bytes.
const FAULT_BYTES: usize = 512;
/// Counters come before the serial port.
const OUTPUT_HEAD: u32 = 8 * COUNTERS as u32;

/// A command about programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgramCommand {
    /// Opens an endpoint.
    Open(Owner),
    /// Closes an endpoint.
    Close,
    /// Installs a module. Bytes of the module and of the head before it.
    Install(u32),
    /// Removes a program.
    Uninstall(ProgramId),
    /// Grants rights to a process.
    Grant,
    /// Lets a program call these handlers of another.
    AllowCalls(ProgramId, ProgramId, u64),
    /// Sends a request to a handler.
    Send {
        /// The processor.
        spu: SpuId,
        /// The program.
        program: ProgramId,
        /// The handler.
        handler: u32,
        /// Bytes of the body.
        bytes: u32,
    },
    /// Waits for the next event. Bytes of the host's buffer, and the maximum wait in milliseconds.
    Receive(u32, u32),
    /// Returns what a program wrote on a processor, or for program 0 why a command was last refused. Bytes of the host's
    /// buffer.
    Output(ProgramId, SpuId, u32),
}

/// A command with the endpoint that it names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Addressed {
    /// What it requests.
    pub command: ProgramCommand,
    /// The endpoint's key.
    pub key: u64,
}

impl Addressed {
    /// Reads a command's fields.
    pub fn decode(command: &Submission) -> Result<Addressed, Failure> {
        let [first, second, third, fourth] = [10, 11, 12, 13].map(|number| command.dword(number));
        let key = u64::from(command.dword(15)) << 32 | u64::from(command.dword(14));
        let within = |bytes: u32, least: u32, most: u32| match (least..=most).contains(&bytes) {
            true => Ok(bytes),
            false => Err(Failure::INVALID_FIELD),
        };
        let program = ProgramId;
        let decoded = match command.opcode {
            opcode::OPEN => ProgramCommand::Open(match (first, key) {
                (0, 0) => Owner::New,
                (0, key) => Owner::SameAs(key),
                (1, 0) => Owner::Kernel,
                _ => return Err(Failure::INVALID_FIELD),
            }),
            opcode::CLOSE => ProgramCommand::Close,
            opcode::INSTALL => ProgramCommand::Install(within(first, INSTALLATION, TRANSFER_BYTES)?),
            opcode::UNINSTALL => ProgramCommand::Uninstall(program(first)),
            opcode::GRANT => ProgramCommand::Grant,
            opcode::ALLOW_CALLS => {
                let handlers = u64::from(fourth) << 32 | u64::from(third);
                ProgramCommand::AllowCalls(program(first), program(second), handlers)
            }
            opcode::SEND => {
                let bytes = within(first, 0, BODY_BYTES as u32)?;
                ProgramCommand::Send { spu: SpuId(second), program: program(third), handler: fourth, bytes }
            }
            opcode::RECEIVE => ProgramCommand::Receive(
                within(first, TOLD, TRANSFER_BYTES)?,
                within(second, 0, MOST_WAIT_MS)?,
            ),
            opcode::OUTPUT => {
                let bytes = within(first, OUTPUT_HEAD, TRANSFER_BYTES)?;
                ProgramCommand::Output(program(third), SpuId(second), bytes)
            }
            _ => return Err(Failure::INVALID_OPCODE),
        };
        Ok(Addressed { command: decoded, key })
    }

    /// The data that it moves.
    pub fn transfer(&self) -> Transfer {
        match self.command {
            ProgramCommand::Open(_) => Transfer::ToHost(size_of::<Opened>() as u32),
            ProgramCommand::Install(bytes) => Transfer::FromHost(bytes),
            ProgramCommand::Grant => Transfer::FromHost(GRANTED),
            ProgramCommand::Send { bytes, .. } if bytes > 0 => Transfer::FromHost(bytes),
            ProgramCommand::Receive(bytes, _) | ProgramCommand::Output(_, _, bytes) => {
                Transfer::ToHost(bytes)
            }
            _ => Transfer::None,
        }
    }

    /// Passes it to the processors, with the data that came from the host. Returns immediate refusals.
    pub fn start(self, programs: &DrivePrograms, caller: &Caller<'_>, data: Vec<u8>) -> Result<(), Failure> {
        if let ProgramCommand::Open(owner) = self.command {
            let opened = open(programs, caller, owner)?;
            caller.answer(Ok(Answer::data(opened_data(programs.ssd()?, opened))));
            return Ok(());
        }
        let endpoint = programs.endpoint(caller.controller, self.key)?;
        let ssd = programs.ssd()?;
        let done = caller.later();
        match self.command {
            ProgramCommand::Send { spu, program, handler, .. } => {
                ssd.send(endpoint, spu, (program, handler), data, move |answered| {
                    let answer = |status: i32| Answer::result(u64::from(status as u32));
                    done(answered.map(answer).map_err(failure_of));
                });
            }
            ProgramCommand::Receive(bytes, wait_ms) => {
                let (room, wait) = (bytes - TOLD, Duration::from_millis(wait_ms.into()));
                ssd.receive(endpoint, room as usize, wait, move |received| {
                    done(told(received, room as usize));
                });
            }
            ProgramCommand::Install(_) => self.install(programs, caller, endpoint, data)?,
            _ => done(self.perform(programs, caller, endpoint, &data)),
        }
        Ok(())
    }

    fn install(
        self,
        programs: &DrivePrograms,
        caller: &Caller<'_>,
        endpoint: EndpointId,
        mut data: Vec<u8>,
    ) -> Result<(), Failure> {
        let module = data.split_off(INSTALLATION as usize);
        let options = options_of(&data)?;
        let (refusals, key, done) = (Arc::clone(programs.refusals()), self.key, caller.later());
        programs.ssd()?.install(endpoint, module, options, move |installed| {
            let installed = installed.map(|program| Answer::result(program.0.into()));
            done(installed.map_err(|error| {
                refusals.note(key, error.to_string());
                match error {
                    InstallError::PowerLost => Failure::POWER_LOSS,
                    _ => Failure::NOT_INSTALLED,
                }
            }));
        });
        Ok(())
    }

    /// Executes commands that complete at once.
    fn perform(
        self,
        programs: &DrivePrograms,
        caller: &Caller<'_>,
        endpoint: EndpointId,
        data: &[u8],
    ) -> Result<Answer, Failure> {
        let ssd = programs.ssd()?;
        let process = endpoint.process();
        let owns = |program| allowed(may(process, owner(ssd, program)?.0));
        match self.command {
            ProgramCommand::Close => programs.close(caller.controller, self.key)?,
            ProgramCommand::Uninstall(program) => {
                owns(program)?;
                ssd.with(|ssd| ssd.uninstall(program)).map_err(failure_of)?;
            }
            ProgramCommand::AllowCalls(calls, called, handlers) => {
                allow_calls(ssd, process, [calls, called], handlers)?;
            }
            ProgramCommand::Grant => {
                allowed(process.is_kernel())?;
                let granted = Granted::ref_from_bytes(data).map_err(|_| Failure::INVALID_FIELD)?;
                grant(caller.subsystem, ssd, granted).inspect_err(|_| {
                    let refusal = format!("{granted:?} cannot be granted");
                    programs.refusals().note(self.key, refusal);
                })?;
            }
            ProgramCommand::Output(ProgramId(0), _, bytes) => {
                let mut text = programs.refusals().of(self.key).into_bytes();
                text.truncate(bytes as usize);
                return Ok(Answer { result: text.len() as u64, data: text, ..Answer::default() });
            }
            ProgramCommand::Output(program, spu, bytes) => {
                owns(program)?;
                return output(ssd, program, spu, bytes);
            }
            _ => return Err(Failure::INTERNAL),
        }
        Ok(Answer::default())
    }
}

fn open(programs: &DrivePrograms, caller: &Caller<'_>, owner: Owner) -> Result<(u64, EndpointId), Failure> {
    let (subsystem, controller) = (caller.subsystem, caller.controller);
    if owner == Owner::Kernel && !subsystem.hosts.is_kernel(&controller.host.name) {
        return Err(Failure::NOT_ALLOWED);
    }
    let has_ended = || match subsystem.controller(controller.id) {
        Some(there) => !Arc::ptr_eq(&there, controller),
        None => true,
    };
    programs.open(&subsystem.queue, controller, owner, has_ended)
}

fn allowed(is_allowed: bool) -> Result<(), Failure> {
    if is_allowed { Ok(()) } else { Err(Failure::NOT_ALLOWED) }
}

/// Whether a process may do what is reserved to the owner.
fn may(process: ProcessId, owner: ProcessId) -> bool {
    process.is_kernel() || owner == process
}

/// The owner of a program, and whether it is open to all.
fn owner(ssd: &SharedSsd, program: ProgramId) -> Result<(ProcessId, bool), Failure> {
    ssd.with(|ssd| ssd.owner(program)).map_err(failure_of)
}

fn allow_calls(
    ssd: &SharedSsd,
    process: ProcessId,
    [calls, called]: [ProgramId; 2],
    handlers: u64,
) -> Result<(), Failure> {
    let ((calling, _), (offering, is_open)) = (owner(ssd, calls)?, owner(ssd, called)?);
    // the owner of handlers decides who calls them; a program that is open to all is open to programs
    allowed(may(process, offering) || is_open && may(process, calling))?;
    let handlers: Vec<u32> = (0..64).filter(|&handler| handlers >> handler & 1 != 0).collect();
    ssd.with(|ssd| ssd.allow_calls(calls, called, &handlers)).map_err(failure_of)
}

fn opened_data(ssd: &SharedSsd, (key, endpoint): (u64, EndpointId)) -> Vec<u8> {
    let (processors, stripes) = ssd.with(|ssd| (ssd.processors(), ssd.stripes()));
    let mut opened = Opened::default();
    opened.key = key.into();
    opened.endpoint = endpoint.number().into();
    opened.process = endpoint.process().number().into();
    opened.processors = processors.into();
    opened.stripe_bytes = (STRIPE_BYTES as u32).into();
    opened.capacity_bytes = stripes.capacity_bytes().into();
    opened.body_bytes = (BODY_BYTES as u32).into();
    opened.as_bytes().to_vec()
}

fn options_of(data: &[u8]) -> Result<InstallOptions, Failure> {
    let head = Installation::ref_from_bytes(data).map_err(|_| Failure::INVALID_FIELD)?;
    let (start, end) = (head.region_start.get(), head.region_end.get());
    if head.is_open.get() > 1 || start > end {
        return Err(Failure::INVALID_FIELD);
    }
    Ok(InstallOptions { is_open: head.is_open.get() == 1, region: (end > 0).then_some(start..end) })
}

fn grant(subsystem: &Subsystem, ssd: &SharedSsd, granted: &Granted) -> Result<(), Failure> {
    let process = ProcessId::from_number(granted.process.get()).ok_or(Failure::INVALID_FIELD)?;
    if granted.namespace.get() != 0 {
        let namespace = subsystem.namespaces.key_value(granted.namespace.get());
        let namespace = namespace.ok_or(Failure::INVALID_NAMESPACE)?;
        ssd.with(|ssd| ssd.grant_namespace(process, namespace));
        return Ok(());
    }
    let rights = Rights::from_bits(granted.rights.get()).ok_or(Failure::INVALID_FIELD)?;
    let (start, end) = (granted.start.get(), granted.end.get());
    if start >= end {
        return Err(Failure::INVALID_FIELD);
    }
    ssd.with(|ssd| ssd.grant(process, start..end, rights)).map_err(failure_of)
}

/// The answer to a command that receives.
fn told(received: Result<Option<Event>, ReceiveError>, room: usize) -> Result<Answer, Failure> {
    let event = match received {
        Ok(None) => return Ok(Answer::default()),
        Ok(Some(event)) => event,
        Err(ReceiveError::Busy) => return Err(Failure::SEQUENCE),
        Err(ReceiveError::TooLong { bytes }) => {
            return Err(Failure::VALUE_SIZE.with_result(bytes as u64 + u64::from(TOLD)));
        }
        Err(ReceiveError::Endpoint(error)) => return Err(failure_of(error)),
    };
    let mut head = Told { at_ns: event.at_ns().into(), ..Told::default() };
    let why_ended = event.why_ended();
    let mut rest = Vec::new();
    match event {
        Event::Request { spu, program, handler, body, .. } => {
            (head.kind, head.spu, head.program) = (1.into(), spu.0.into(), program.0.into());
            head.handler = handler.into();
            rest = body;
        }
        Event::Permission { spu, range, granted, .. } => {
            (head.kind, head.spu, head.granted) = (2.into(), spu.0.into(), u32::from(granted).into());
            (head.start, head.end) = (range.start.into(), range.end.into());
        }
        Event::Ended { program, spu, handler, .. } => {
            (head.kind, head.spu, head.program) = (3.into(), spu.0.into(), program.0.into());
            head.handler = handler.into();
            rest = why_ended.unwrap_or_default().into_bytes();
            rest.truncate(room.min(FAULT_BYTES));
        }
        Event::Answer { .. } | Event::PowerLost { .. } => return Err(Failure::INTERNAL),
    }
    head.bytes = (rest.len() as u32).into();
    let data = [head.as_bytes(), &rest].concat();
    Ok(Answer { result: data.len() as u64, data, ..Answer::default() })
}

fn output(ssd: &SharedSsd, program: ProgramId, spu: SpuId, bytes: u32) -> Result<Answer, Failure> {
    let output = ssd.with(|ssd| ssd.output(program)).map_err(failure_of)?;
    let serial = output.serial.get(spu.0 as usize).ok_or(Failure::INVALID_FIELD)?;
    let counters = output.counters.iter().flat_map(|counter| counter.to_le_bytes());
    let mut data: Vec<u8> = counters.chain(serial.iter().copied()).collect();
    data.truncate(bytes as usize);
    Ok(Answer { result: data.len() as u64, data, ..Answer::default() })
}
