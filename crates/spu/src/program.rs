//! Installing programs, and ending them.
//!
//! Invariants: instruction and data memory of every processor hold all that is installed, and each program's share is set
//! aside when it is installed; a program has a copy on every processor or on none; ending one touches no other. Each has a
//! runtime of its own, since a runtime keeps the translation of every module that it ever had.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use tantalum::{NamespaceId, Status};

use crate::abi;
use crate::activation::{Activation, Place};
use crate::answer;
use crate::instance::{Fault, Instance};
use crate::message::{CallId, Message};
use crate::module::{self, ModuleError, Program};
use crate::names::{EndpointId, ProcessId, ProgramId, SpuId};
use crate::permission::Rights;
use crate::stripes::STRIPE_BYTES;
use crate::system::{Load, SpuError, Ssd};

/// Programs that may be installed at once.
pub const PROGRAMS: usize = 64;

/// How a program is installed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InstallOptions {
    /// Whether every process may send it requests, or only its owner and the kernel.
    pub is_open: bool,
    /// A part of the drive that only this program reaches, whoever's request it works on. Whole rows of stripes; only the
    /// kernel may give one.
    pub region: Option<Range<u64>>,
}

/// Why a program was not installed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InstallError {
    /// The module cannot be a program.
    #[error(transparent)]
    Module(#[from] ModuleError),
    /// The drive has no power.
    #[error("the drive has no power")]
    PowerLost,
    /// It does not fit.
    #[error(
        "the program needs {needed} bytes of {memory} memory, and {free} of {total} are free{}",
        Users(.used)
    )]
    DoesNotFit {
        /// Which memory: instruction or data.
        memory: &'static str,
        /// What it needs.
        needed: u64,
        /// What is free on each processor.
        free: u64,
        /// What each processor has.
        total: u64,
        /// What other programs take, and the permission table as program 0.
        used: Vec<(ProgramId, u64)>,
    },
    /// The endpoint of who installs it was closed.
    #[error("endpoint {0:#x} is closed")]
    NoEndpoint(u32),
    /// There are as many as there may be.
    #[error("{limit} programs are installed, the most that there may be: remove one first")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// A region that cannot be given.
    #[error("the region {start:#x} to {end:#x} cannot be given: {reason}")]
    Region {
        /// Its first byte.
        start: u64,
        /// The byte after its last.
        end: u64,
        /// Why.
        reason: &'static str,
    },
    /// A copy could not be made.
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

/// An installed program.
pub(crate) struct Installed {
    pub owner: ProcessId,
    pub is_open: bool,
    /// Which handlers of which other programs it may call: its rows of the intercall table.
    pub may_call: BTreeMap<ProgramId, u64>,
    pub region: Option<Range<u64>>,
    pub parts: Vec<Resident>,
    code_bytes: u64,
    data_bytes: u64,
}

/// A program's copy on one processor.
pub(crate) struct Resident {
    pub instance: Instance,
    pub queue: VecDeque<Message>,
    pub queued_bytes: usize,
    pub threads: Vec<Thread>,
}

/// What a thread does.
#[derive(Clone, Debug)]
pub(crate) enum Thread {
    Idle,
    /// Its instructions occupy the processor, or it waits for the system to do what it asked for.
    Running(CallId),
    /// It can go on with this result.
    Ready(CallId, i32),
    Waiting(CallId, Waiting),
}

#[derive(Clone, Debug)]
pub(crate) enum Waiting {
    Drive,
    Ticket(usize),
    Call(crate::activation::Room),
}

/// What a program has told its host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Output {
    /// The serial ports of its copies, processor by processor: the last 4 KiB of each.
    pub serial: Vec<Vec<u8>>,
    /// Its counters, over all processors.
    pub counters: [u64; abi::COUNTERS],
}

impl Ssd {
    /// A new process of the host, which has no permissions.
    pub fn process(&mut self) -> ProcessId {
        self.host.process()
    }

    /// Ends a process: its endpoints are closed, its programs removed, its rights taken away at once. The kernel does not
    /// end, but its endpoints and programs go the same way.
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

    /// An endpoint for a process: one queue pair.
    pub fn endpoint(&mut self, process: ProcessId) -> Result<EndpointId, SpuError> {
        let queue_pairs = self.profile.queue_pairs;
        self.host.endpoint(process).ok_or(SpuError::NoQueuePair { queue_pairs })
    }

    /// Gives an endpoint's queue pair back.
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
        self.check_power().map_err(|_| InstallError::PowerLost)?;
        if self.programs.len() >= PROGRAMS {
            return Err(InstallError::TooMany { limit: PROGRAMS });
        }
        let engine = module::engine();
        let linker = abi::linker(&engine);
        let program = Program::load(&engine, module)?;
        self.check_fit("instruction", program.code_bytes, self.profile.instruction_bytes, |other| {
            other.code_bytes
        })?;
        self.check_fit("data", program.data_bytes, self.profile.data_bytes, |other| other.data_bytes)?;
        if let Some(region) = &options.region {
            self.check_region(owner, region)?;
        }
        let mut parts = Vec::new();
        for spu in 0..self.profile.count {
            let place = self.place(SpuId(spu), options.region.as_ref());
            let instance = Instance::new(&program, &linker, place, self.profile.handler_instructions)
                .map_err(InstallError::Start)?;
            let threads = vec![Thread::Idle; instance.threads()];
            parts.push(Resident { instance, queue: VecDeque::new(), queued_bytes: 0, threads });
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
        };
        self.programs.insert(id, installed);
        for spu in 0..self.profile.count {
            let bytes = module.len() as u64;
            self.dispatch_packet(None, Some(SpuId(spu)), bytes, Load::Bulk, self.now_ns);
        }
        Ok(id)
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
            "only the kernel gives a part of the drive to a program"
        } else if region.is_empty() || !region.start.is_multiple_of(row) || !region.end.is_multiple_of(row) {
            "it must be whole rows of stripes, one of 8 KiB for each processor"
        } else if region.end > self.stripes.capacity_bytes() {
            "it ends beyond the drive"
        } else if self.host.book.overlaps(region) {
            "a process has rights to a part of it"
        } else if self.programs.values().filter_map(|other| other.region.as_ref()).any(overlaps) {
            "a part of it is another program's"
        } else {
            return Ok(());
        };
        Err(InstallError::Region { start: region.start, end: region.end, reason })
    }

    fn place(&self, spu: SpuId, region: Option<&Range<u64>>) -> Place {
        let row = self.stripes.row_bytes();
        Place {
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

    /// Ends a program that did what no program may.
    pub(crate) fn end_program(&mut self, program: ProgramId, at: (SpuId, u32), fault: Fault) {
        if let Some(owner) = self.programs.get(&program).map(|installed| installed.owner) {
            self.remove(program);
            self.tell_end(program, owner, at, fault);
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

    /// Answers the request of a call that will not be finished.
    pub(crate) fn give_up(&mut self, spu: SpuId, call: &Activation) {
        if !call.is_answered {
            self.send_answer(spu, call.message.answer_to, answer::ENDED, self.now_ns);
        }
    }

    /// Lets one program call handlers of another on the same processor, and send requests to them.
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

    /// Gives a process rights to a range, instead of those it had there; [`Rights::NONE`] takes them away. The driver
    /// keeps them in its book, and installs them in the processors.
    pub fn grant(&mut self, process: ProcessId, range: Range<u64>, rights: Rights) -> Result<(), SpuError> {
        self.check_power()?;
        let overlaps = |region: &Range<u64>| region.start < range.end && range.start < region.end;
        let reason = if process.is_kernel() {
            Some("the kernel has all rights")
        } else if !self.host.is_alive(process) {
            Some("there is no such process")
        } else if range.is_empty() || range.end > self.stripes.capacity_bytes() {
            Some("it is empty, or ends beyond the drive")
        } else if self.programs.values().filter_map(|program| program.region.as_ref()).any(overlaps) {
            Some("a part of it is a program's own")
        } else {
            None
        };
        if let Some(reason) = reason {
            return Err(SpuError::NotGrantable { start: range.start, end: range.end, reason });
        }
        self.host.book.install(process, range.clone(), rights);
        self.send_permission(process, &range, rights);
        Ok(())
    }

    /// Lets a process read a key-value namespace.
    pub fn grant_namespace(&mut self, process: ProcessId, namespace: NamespaceId) {
        if self.host.is_alive(process) {
            self.host.namespaces.insert((process, namespace));
        }
    }

    /// What a program wrote to its serial ports, and its counters.
    pub fn output(&self, program: ProgramId) -> Result<Output, SpuError> {
        let installed = self.programs.get(&program).ok_or(SpuError::NoProgram(program))?;
        let mut output = Output::default();
        for copy in &installed.parts {
            let context = copy.instance.context();
            output.serial.push(context.serial.clone());
            for (sum, count) in output.counters.iter_mut().zip(context.counters) {
                *sum += count;
            }
        }
        Ok(output)
    }

    /// Data memory that is free on each processor, and instruction memory, in bytes.
    pub fn free_memory(&self) -> (u64, u64) {
        let data: u64 = self.programs.values().map(|program| program.data_bytes).sum();
        let code: u64 = self.programs.values().map(|program| program.code_bytes).sum();
        let profile = &self.profile;
        let data_total = u64::from(profile.data_bytes - profile.table_bytes());
        (data_total - data, u64::from(profile.instruction_bytes) - code)
    }
}

impl Thread {
    pub fn is_idle(&self) -> bool {
        matches!(self, Thread::Idle)
    }
}

/// Whether an error of the drive means that it has no power.
pub(crate) fn is_power_loss(status: &Status) -> bool {
    *status == Status::PowerLost
}
