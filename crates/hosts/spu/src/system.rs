//! The drive with its processors: their state, their clock, and their power.
//!
//! Invariants:
//! - The processors use the drive below as a client inside it, and time never goes back.
//! - Nothing in the processors survives a loss of power; programs' stores to the drive do, as it promises.

use std::collections::BTreeMap;

use tantalum::{Nanoseconds, SpuProfile};
use tantalum_drive::Drive;

use crate::agenda::{Agenda, What};
use crate::error::SpuError;
use crate::host::{Event, Host};
use crate::memory::{Memory, MemoryCounters};
use crate::message::CallId;
use crate::names::{ProgramId, SpuId};
use crate::output::Output;
use crate::permission::PermissionTable;
use crate::program::{Installed, Resident};
use crate::stripes::Stripes;
use crate::wire::{Wires, duration_ns};

/// How long a handler waits for an answer before it times out.
pub const WAIT_NS: Nanoseconds = 50_000_000;

/// A drive whose processors run programs.
pub struct Ssd {
    pub(crate) drive: Drive,
    /// Their own memory, if they do not use flash.
    pub(crate) memory: Option<Memory>,
    pub(crate) profile: SpuProfile,
    pub(crate) stripes: Stripes,
    pub(crate) spus: Vec<Spu>,
    pub(crate) programs: BTreeMap<ProgramId, Installed>,
    pub(crate) next_program: u32,
    /// The program that faulted last, with its output.
    pub(crate) faulted: Option<(ProgramId, Output)>,
    pub(crate) host: Host,
    pub(crate) wires: Wires,
    agenda: Agenda,
    calls: u64,
    requests: u64,
    pub(crate) now_ns: Nanoseconds,
    /// The number of revocations still on their way.
    pub(crate) revoking: usize,
    is_down: bool,
}

/// A processor.
#[derive(Debug)]
pub(crate) struct Spu {
    pub permissions: PermissionTable,
    /// Whether a handler's instructions occupy it.
    pub is_running: bool,
    /// The program that had the last turn.
    pub last: ProgramId,
    /// Bytes of requests that wait for the ring.
    pub outgoing_bytes: usize,
    pub busy_ns: Nanoseconds,
    pub requests: u64,
}

impl Ssd {
    /// Starts the processors of a drive; nothing is installed.
    pub fn new(drive: Drive) -> Ssd {
        let (profile, capacity_bytes, now_ns) = {
            let device = drive.lock();
            (device.profile().spu.clone(), device.profile().capacity_bytes, device.time_ns())
        };
        Ssd {
            memory: Memory::of(&profile, capacity_bytes),
            stripes: Stripes::new(profile.count, capacity_bytes),
            spus: (0..profile.count).map(|_| Spu::new(&profile)).collect(),
            programs: BTreeMap::new(),
            next_program: 1,
            faulted: None,
            host: Host::new(profile.queue_pairs),
            wires: Wires::new(&profile),
            agenda: Agenda::default(),
            calls: 0,
            requests: 0,
            now_ns,
            revoking: 0,
            is_down: false,
            profile,
            drive,
        }
    }

    /// Fails if the processors have noticed a loss of power.
    pub(crate) fn check_power(&self) -> Result<(), SpuError> {
        if self.is_down { Err(SpuError::PowerLost) } else { Ok(()) }
    }

    /// The time of the last event.
    pub fn now_ns(&self) -> Nanoseconds {
        self.now_ns
    }

    /// The drive below.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// The number of processors.
    pub fn processors(&self) -> u32 {
        self.profile.count
    }

    /// Which processor owns which part of the drive.
    pub fn stripes(&self) -> Stripes {
        self.stripes
    }

    /// Bytes that the link has carried to the drive, and to the host.
    pub fn link_bytes(&self) -> (u64, u64) {
        (self.wires.down.bytes, self.wires.up.bytes)
    }

    /// Bytes that the ring has carried.
    pub fn ring_bytes(&self) -> u64 {
        self.wires.ring.bytes
    }

    /// How long a processor has executed instructions.
    pub fn busy_ns(&self, spu: SpuId) -> Nanoseconds {
        self.spus.get(spu.0 as usize).map_or(0, |spu| spu.busy_ns)
    }

    /// The number of entries in a processor's permission table, and how many were evicted so far.
    pub fn permissions(&self, spu: SpuId) -> (usize, u64) {
        self.spus.get(spu.0 as usize).map_or((0, 0), |spu| (spu.permissions.len(), spu.permissions.evicted))
    }

    /// What the processors' own memory has done since power came on; zeros if they have none.
    pub fn memory_counters(&self) -> MemoryCounters {
        self.memory.as_ref().map_or_else(MemoryCounters::default, Memory::counters)
    }

    /// How many requests were passed to handlers.
    pub fn requests_handled(&self) -> u64 {
        self.spus.iter().map(|spu| spu.requests).sum()
    }

    // -- power --------------------------------------------------------------------------------------------------

    /// Cuts the drive's power now.
    pub fn cut_power(&mut self) {
        let mut device = self.drive.lock();
        let at_ns = self.now_ns.max(device.issued_ns());
        device.cut_power(at_ns);
        drop(device);
        self.lose_power();
    }

    /// Stops the processors, as when the drive loses power: nothing is installed any more, and nothing in flight is answered.
    pub(crate) fn lose_power(&mut self) {
        if self.is_down {
            return;
        }
        self.is_down = true;
        self.revoking = 0;
        self.agenda.clear();
        self.programs.clear();
        self.spus = (0..self.profile.count).map(|_| Spu::new(&self.profile)).collect();
        self.host.tell(Event::PowerLost { at_ns: self.now_ns });
    }

    /// Starts the processors after the drive got power again, with nothing installed. The host's driver keeps its book of
    /// permissions; programs must be installed again.
    ///
    /// # Errors
    /// [`SpuError::PowerLost`] if the drive has none.
    pub fn power_on(&mut self) -> Result<(), SpuError> {
        let device = self.drive.lock();
        if !device.has_power() {
            return Err(SpuError::PowerLost);
        }
        let device_ns = device.time_ns();
        drop(device);
        // another client of the drive may have noticed the loss first
        self.lose_power();
        self.now_ns = self.now_ns.max(device_ns);
        self.is_down = false;
        Ok(())
    }

    // -- time ---------------------------------------------------------------------------------------------------

    pub(crate) fn arrange(&mut self, at_ns: Nanoseconds, what: What) {
        self.agenda.arrange(at_ns.max(self.now_ns), what);
    }

    pub(crate) fn instructions_ns(&self, instructions: u64) -> Nanoseconds {
        duration_ns(instructions, self.profile.instructions_per_second)
    }

    pub(crate) fn next_call(&mut self) -> CallId {
        self.calls += 1;
        CallId(self.calls)
    }

    pub(crate) fn copy_mut(&mut self, spu: SpuId, program: ProgramId) -> Option<&mut Resident> {
        self.programs.get_mut(&program).map(|installed| &mut installed.parts[spu.0 as usize])
    }

    pub(crate) fn next_request(&mut self) -> u64 {
        self.requests += 1;
        self.requests
    }

    /// Takes the next event and its time. `None` if nothing is scheduled.
    pub(crate) fn next_arranged(&mut self) -> Option<(Nanoseconds, What)> {
        self.agenda.next()
    }

    /// The time of the next event.
    pub(crate) fn next_ns(&self) -> Option<Nanoseconds> {
        self.agenda.next_ns()
    }
}

impl Spu {
    fn new(profile: &SpuProfile) -> Spu {
        Spu {
            permissions: PermissionTable::new(profile.permission_entries as usize),
            is_running: false,
            last: ProgramId(0),
            outgoing_bytes: 0,
            busy_ns: 0,
            requests: 0,
        }
    }
}
