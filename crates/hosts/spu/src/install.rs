//! Installing programs, and ending them.
//!
//! Invariants: everything installed fits into the instruction and data memory of every processor, and each program's share is
//! reserved when it is installed; a program has a copy on every processor or on none; ending one affects no other. Each
//! program has its own runtime, because a runtime keeps the translation of every module that it ever loaded.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::abi;
use crate::activation::{Activation, Location};
use crate::answer;
use crate::error::SpuError;
use crate::fault::Fault;
use crate::host::Event;
use crate::instance::Instance;
use crate::message::HEADER_BYTES;
use crate::module::{self, ModuleError, Program};
use crate::names::{EndpointId, ProcessId, ProgramId, SpuId};
use crate::native::{Native, NativeHandler};
use crate::output::Output;
use crate::packet::Load;
use crate::program::{Installed, Resident, Thread};
use crate::stripes::STRIPE_BYTES;
use crate::system::Ssd;

/// The maximum number of programs installed at once.
pub const PROGRAMS: usize = 64;

/// How a program is installed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InstallOptions {
    /// Whether every process may send it requests, not only its owner and the kernel.
    pub is_open: bool,
    /// A part of the drive that only this program may access, on behalf of whichever process. It consists of whole rows of
    /// stripes, and only the kernel may give one.
    pub region: Option<Range<u64>>,
}

/// Why a program was not installed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The module cannot be a program.
    #[error(transparent)]
    Module(#[from] ModuleError),
    /// The drive has no power.
    #[error("the drive has no power")]
    PowerLost,
    /// It does not fit into a processor's memory.
    #[error(
        "the program needs {needed} bytes of {memory} memory, and {free} of {total} are free{}",
        Users(.used)
    )]
    DoesNotFit {
        /// Which memory: instruction or data.
        memory: &'static str,
        /// The bytes it needs.
        needed: u64,
        /// The bytes that are free on each processor.
        free: u64,
        /// The bytes that each processor has.
        total: u64,
        /// The bytes that each other program takes, with the permission table as program 0.
        used: Vec<(ProgramId, u64)>,
    },
    /// The installing endpoint was closed.
    #[error("endpoint {0:#x} is closed")]
    NoEndpoint(u32),
    /// The limit of installed programs is reached.
    #[error("{limit} programs are installed, which is the limit: remove one first")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The program cannot have this region.
    #[error("the program cannot have the region {start:#x} to {end:#x}: {reason}")]
    Region {
        /// Its first byte.
        start: u64,
        /// The byte after its last.
        end: u64,
        /// Why the program cannot have it.
        reason: &'static str,
    },
    /// A copy could not be created.
    #[error("the program cannot start: {0}")]
    Start(Fault),
}

struct Users<'a>(&'a [(ProgramId, u64)]);

impl std::fmt::Display for Users<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (program, bytes)) in self.0.iter().enumerate() {
            let lead = if at == 0 { ": " } else { ", " };
            match program.0 {
                0 => write!(f, "{lead}permissions take {bytes}")?,
                number => write!(f, "{lead}program {number} takes {bytes}")?,
            }
        }
        Ok(())
    }
}

impl Ssd {
    /// A new process of the host, without permissions.
    pub fn process(&mut self) -> ProcessId {
        self.host.process()
    }

    /// Ends a process: closes its endpoints, removes its programs and revokes its rights at once. The kernel does not end, but its
    /// endpoints are closed and its programs removed.
    pub fn end_process(&mut self, process: ProcessId) {
        let owned = self.programs.iter().filter(|(_, program)| program.owner == process);
        let owned: Vec<ProgramId> = owned.map(|(&id, _)| id).collect();
        for program in owned {
            self.remove(program);
        }
        self.host.end(process);
        for spu in &mut self.spus {
            spu.permissions.remove_process(process);
        }
    }

    /// Opens an endpoint of a process, which takes one queue pair.
    pub fn endpoint(&mut self, process: ProcessId) -> Result<EndpointId, SpuError> {
        let queue_pairs = self.profile.queue_pairs;
        self.host.endpoint(process).ok_or(SpuError::NoQueuePair { queue_pairs })
    }

    /// Closes an endpoint, and frees its queue pair.
    pub fn close(&mut self, endpoint: EndpointId) {
        self.host.close(endpoint);
    }

    /// Installs a module for a process, on all processors.
    pub fn install(
        &mut self,
        owner: ProcessId,
        module: &[u8],
        options: InstallOptions,
    ) -> Result<ProgramId, InstallError> {
        let program = Program::load(&module::engine(), module)?;
        self.install_program(owner, program, module.len() as u64, options, |_, _| {})
    }

    /// Installs a handler in Rust on all processors: `make` makes the copy of each. A request takes `instructions` of virtual
    /// time, and the program takes no memory of the processors.
    ///
    /// # Errors
    /// As [`Ssd::install`].
    pub fn install_native(
        &mut self,
        owner: ProcessId,
        options: InstallOptions,
        instructions: u64,
        mut make: impl FnMut(SpuId) -> NativeHandler,
    ) -> Result<ProgramId, InstallError> {
        self.install_program(owner, Program::empty(&module::engine()), 0, options, |spu, instance| {
            instance.set_native(Native::new(make(spu), instructions));
        })
    }

    /// Installs a program whose module has `bytes` bytes. `prepare` may change its copies.
    fn install_program(
        &mut self,
        owner: ProcessId,
        program: Program,
        bytes: u64,
        options: InstallOptions,
        mut prepare: impl FnMut(SpuId, &mut Instance),
    ) -> Result<ProgramId, InstallError> {
        self.check_power().map_err(|_| InstallError::PowerLost)?;
        self.check_room(owner, &program, options.region.as_ref())?;
        let mut parts = self.copies(&program, options.region.as_ref())?;
        for (spu, part) in (0..).zip(&mut parts) {
            prepare(SpuId(spu), &mut part.instance);
        }
        let id = ProgramId(self.next_program);
        self.next_program += 1;
        let installed = Installed {
            owner,
            is_open: options.is_open,
            may_call: BTreeMap::new(),
            region: options.region,
            parts,
            code_bytes: program.code_bytes,
            data_bytes: program.data_bytes,
            names: program.names,
        };
        self.programs.insert(id, installed);
        for spu in 0..self.profile.count {
            self.dispatch_packet(None, Some(SpuId(spu)), bytes, Load::Bulk, self.now_ns);
        }
        Ok(id)
    }

    /// Whether a program can be installed.
    fn check_room(
        &self,
        owner: ProcessId,
        program: &Program,
        region: Option<&Range<u64>>,
    ) -> Result<(), InstallError> {
        if self.programs.len() >= PROGRAMS {
            return Err(InstallError::TooMany { limit: PROGRAMS });
        }
        let profile = &self.profile;
        self.check_fit("instruction", program.code_bytes, profile.instruction_bytes, |other| {
            other.code_bytes
        })?;
        self.check_fit("data", program.data_bytes, profile.data_bytes, |other| other.data_bytes)?;
        region.map_or(Ok(()), |region| self.check_region(owner, region))
    }

    /// A copy of a program for each processor.
    fn copies(&self, program: &Program, region: Option<&Range<u64>>) -> Result<Vec<Resident>, InstallError> {
        let linker = abi::linker(program.module.engine());
        let copy = |spu| {
            let place = self.place(SpuId(spu), region);
            let instance = Instance::new(program, &linker, place, self.profile.handler_instructions)
                .map_err(InstallError::Start)?;
            let threads = vec![Thread::Idle; instance.threads()];
            Ok(Resident { instance, queue: VecDeque::new(), queued_bytes: 0, threads })
        };
        (0..self.profile.count).map(copy).collect()
    }

    fn check_fit(
        &self,
        memory: &'static str,
        needed: u64,
        total: u32,
        share: impl Fn(&Installed) -> u64,
    ) -> Result<(), InstallError> {
        let table = match memory {
            "data" => u64::from(self.profile.table_bytes()),
            _ => 0,
        };
        let others = self.programs.iter().map(|(&id, other)| (id, share(other)));
        let used: Vec<(ProgramId, u64)> =
            [(ProgramId(0), table)].into_iter().chain(others).filter(|(_, bytes)| *bytes > 0).collect();
        let total = u64::from(total);
        let free = total.saturating_sub(used.iter().map(|(_, bytes)| bytes).sum());
        if needed > free {
            return Err(InstallError::DoesNotFit { memory, needed, free, total, used });
        }
        Ok(())
    }

    fn check_region(&self, owner: ProcessId, region: &Range<u64>) -> Result<(), InstallError> {
        let row = self.stripes.row_bytes();
        let overlaps = |other: &Range<u64>| other.start < region.end && region.start < other.end;
        let reason = if !owner.is_kernel() {
            "only the kernel may give a program a part of the drive"
        } else if region.is_empty() || !region.start.is_multiple_of(row) || !region.end.is_multiple_of(row) {
            "it must be whole rows of stripes, one of 8 KiB for each processor"
        } else if region.end > self.stripes.capacity_bytes() {
            "it ends beyond the drive"
        } else if self.host.book.overlaps(region) {
            "a process has rights to a part of it"
        } else if self.programs.values().filter_map(|other| other.region.as_ref()).any(overlaps) {
            "a part of it belongs to another program"
        } else {
            return Ok(());
        };
        Err(InstallError::Region { start: region.start, end: region.end, reason })
    }

    fn place(&self, spu: SpuId, region: Option<&Range<u64>>) -> Location {
        let row = self.stripes.row_bytes();
        Location {
            spu,
            processors: self.profile.count,
            region: region.map(|region| {
                let stripes = (region.end - region.start) / row;
                (region.start + u64::from(spu.0) * STRIPE_BYTES, stripes as u32)
            }),
            bytes_per_instruction: (self.profile.ring_bytes_per_second
                / self.profile.instructions_per_second)
                .max(1),
        }
    }

    /// The process that installed a program, and whether every process may send it requests.
    pub fn owner(&self, program: ProgramId) -> Result<(ProcessId, bool), SpuError> {
        let installed = self.programs.get(&program).ok_or(SpuError::NoProgram(program))?;
        Ok((installed.owner, installed.is_open))
    }

    /// Removes a program. Its unanswered requests are answered with [`answer::ENDED`].
    pub fn uninstall(&mut self, program: ProgramId) -> Result<(), SpuError> {
        match self.programs.contains_key(&program) {
            true => {
                self.remove(program);
                Ok(())
            }
            false => Err(SpuError::NoProgram(program)),
        }
    }

    /// Ends a program that faulted, and tells its host.
    pub(crate) fn end_program(&mut self, program: ProgramId, at: (SpuId, u32), fault: Fault) {
        if let Some(installed) = self.programs.get(&program) {
            let (owner, (spu, handler)) = (installed.owner, at);
            let function = installed.function(spu);
            self.faulted = Some((program, Output::of(installed)));
            self.remove(program);
            let event = Event::Ended { program, owner, spu, handler, function, fault, at_ns: self.now_ns };
            self.dispatch_packet(Some(spu), None, HEADER_BYTES, Load::Tell(event), self.now_ns);
        }
    }

    fn remove(&mut self, program: ProgramId) {
        let Some(installed) = self.programs.remove(&program) else { return };
        for (spu, mut copy) in installed.parts.into_iter().enumerate() {
            let spu = SpuId(spu as u32);
            for message in copy.queue.drain(..) {
                self.send_answer(spu, message.answer_to, answer::ENDED, self.now_ns);
            }
            for call in copy.instance.take_stopped() {
                self.give_up(spu, &call);
            }
        }
        for other in self.programs.values_mut() {
            other.may_call.remove(&program);
        }
    }

    /// Answers the request of a call that will never finish.
    pub(crate) fn give_up(&mut self, spu: SpuId, call: &Activation) {
        if !call.is_answered {
            self.send_answer(spu, call.message.answer_to, answer::ENDED, self.now_ns);
        }
    }

    /// Lets one program call handlers of another on the same processor, and send requests to them on any.
    pub fn allow_calls(&mut self, from: ProgramId, to: ProgramId, handlers: &[u32]) -> Result<(), SpuError> {
        if !self.programs.contains_key(&to) {
            return Err(SpuError::NoProgram(to));
        }
        let caller = self.programs.get_mut(&from).ok_or(SpuError::NoProgram(from))?;
        let mask =
            handlers.iter().filter(|&&handler| handler < 64).fold(0, |mask, handler| mask | 1 << handler);
        *caller.may_call.entry(to).or_default() |= mask;
        Ok(())
    }

    /// Whether the intercall table lets a program use a handler of another.
    pub(crate) fn may_call(&self, from: ProgramId, to: ProgramId, handler: u32) -> bool {
        from == to
            || self.programs.get(&from).is_some_and(|caller| {
                let mask = caller.may_call.get(&to).copied().unwrap_or(0);
                handler < 64 && mask & 1 << handler != 0
            })
    }

    /// What a program wrote to its serial ports, and its counters; also available for the program that faulted last.
    pub fn output(&self, program: ProgramId) -> Result<Output, SpuError> {
        match (&self.programs.get(&program), &self.faulted) {
            (Some(installed), _) => Ok(Output::of(installed)),
            (None, Some((faulted, output))) if *faulted == program => Ok(output.clone()),
            (None, _) => Err(SpuError::NoProgram(program)),
        }
    }

    /// The free data memory and instruction memory of each processor, in bytes.
    pub fn free_memory(&self) -> (u64, u64) {
        let data: u64 = self.programs.values().map(|program| program.data_bytes).sum();
        let code: u64 = self.programs.values().map(|program| program.code_bytes).sum();
        let profile = &self.profile;
        let data_total = u64::from(profile.data_bytes - profile.table_bytes());
        (data_total - data, u64::from(profile.instruction_bytes) - code)
    }
}
