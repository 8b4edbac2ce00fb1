//! The drive with its processors, and the order in which everything in it happens.
//!
//! Invariants:
//! - Everything that one part of the drive could notice of another happens in order of virtual time. A handler's
//!   instructions run ahead of that, because nobody notices them before it asks for something.
//! - The drive below is used as a client inside it, and its times do not go back.
//! - Each request is answered once: by its handler, or by the system.
//! - Nothing in the processors survives a loss of power; what programs stored below does, as the drive promises.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;
use std::sync::Arc;

use tantalum::{Nanoseconds, SpuProfile, Status};
use tantalum_drive::Drive;
use wasmi::{Engine, Linker};

use crate::abi::{self, Context};
use crate::activation::Activation;
use crate::answer;
use crate::host::{Event, Host};
use crate::instance::{Fault, Run};
use crate::message::{ANSWER_BYTES, AnswerTo, CallId, HEADER_BYTES, Message, Origin, ThreadRef};
use crate::module;
use crate::names::{EndpointId, Party, ProcessId, ProgramId, SpuId};
use crate::permission::{PermissionTable, Rights};
use crate::program::Installed;
use crate::stripes::Stripes;
use crate::wire::{Wire, duration_ns};

/// How long a handler waits for an answer.
pub const WAIT_NS: Nanoseconds = 50_000_000;
/// What the host's driver takes to decide about a permission: a chosen constant.
const DRIVER_NS: Nanoseconds = 2_000;
/// Bytes of a permission that the driver installs.
const PERMISSION_BYTES: u64 = 32;

/// A drive whose processors run programs.
pub struct Ssd {
    pub(crate) drive: Drive,
    pub(crate) profile: SpuProfile,
    pub(crate) stripes: Stripes,
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<Context>,
    pub(crate) spus: Vec<Spu>,
    pub(crate) programs: BTreeMap<ProgramId, Installed>,
    pub(crate) next_program: u32,
    pub(crate) host: Host,
    wires: Wires,
    agenda: BinaryHeap<Reverse<Appointment>>,
    appointments: u64,
    calls: u64,
    requests: u64,
    pub(crate) now_ns: Nanoseconds,
    is_down: bool,
}

/// A processor.
#[derive(Debug)]
pub(crate) struct Spu {
    pub permissions: PermissionTable,
    /// Whether a handler's instructions occupy it.
    pub is_running: bool,
    /// The program whose turn it was last.
    pub last: ProgramId,
    /// Bytes of requests that wait for the ring.
    pub outgoing_bytes: usize,
    pub busy_ns: Nanoseconds,
    pub requests: u64,
}

struct Wires {
    ring: Wire,
    up: Wire,
    down: Wire,
}

/// What happens, and when. Of two at one time, the one that was arranged first comes first.
struct Appointment {
    at_ns: Nanoseconds,
    order: u64,
    what: What,
}

impl Ord for Appointment {
    fn cmp(&self, other: &Appointment) -> std::cmp::Ordering {
        (self.at_ns, self.order).cmp(&(other.at_ns, other.order))
    }
}

impl PartialOrd for Appointment {
    fn partial_cmp(&self, other: &Appointment) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Appointment {
    fn eq(&self, other: &Appointment) -> bool {
        self.order == other.order
    }
}

impl Eq for Appointment {}

pub(crate) enum What {
    /// A packet is ready for the ring, for the link to the host, for the link to the drive, or has arrived.
    Ring(Packet),
    Up(Packet),
    Down(Packet),
    Arrives(Packet),
    /// A thread has executed instructions, and this came of them.
    Step {
        thread: ThreadRef,
        run: Run,
        call: Option<Activation>,
    },
    /// What a thread waits for is done, with this result.
    Wake {
        thread: ThreadRef,
        status: i32,
    },
    /// A program on the same processor has answered a call.
    CallAnswered {
        thread: ThreadRef,
        status: i32,
        bytes: Vec<u8>,
    },
    /// A thread has waited long enough for a ticket, or for a call.
    Timeout {
        thread: ThreadRef,
        ticket: Option<usize>,
    },
    /// The driver looks at a permission that a processor asked for.
    Decide(Miss),
}

/// Something on its way between processors and host.
pub(crate) struct Packet {
    from: Option<SpuId>,
    to: Option<SpuId>,
    bytes: u64,
    load: Load,
}

pub(crate) enum Load {
    Request(Message),
    /// A request of a program to an endpoint.
    ToEndpoint(EndpointId, Message),
    Answer(AnswerTo, i32),
    Miss(Miss),
    Permission {
        process: ProcessId,
        range: Range<u64>,
        rights: Rights,
        answers: Option<Miss>,
    },
    /// An event that only passes the link.
    Tell(Event),
    /// Bytes that nobody waits for.
    Bulk,
}

/// A permission that a processor asked for.
#[derive(Clone)]
pub(crate) struct Miss {
    pub endpoint: EndpointId,
    pub spu: SpuId,
    pub range: Range<u64>,
    pub rights: Rights,
}

/// Why the host could not do something with programs.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SpuError {
    /// The drive has no power.
    #[error("the drive has no power")]
    PowerLost,
    /// All queue pairs are taken.
    #[error("all {queue_pairs} queue pairs of the drive are in use: close an endpoint first")]
    NoQueuePair {
        /// How many there are.
        queue_pairs: u32,
    },
    /// An endpoint that was closed.
    #[error("endpoint {0:#x} is closed")]
    NoEndpoint(u32),
    /// A processor that the drive does not have.
    #[error("the drive has {processors} processors, numbered from 0, and no processor {spu}")]
    NoProcessor {
        /// The number given.
        spu: u32,
        /// How many there are.
        processors: u32,
    },
    /// A body that is too long.
    #[error("the body has {bytes} bytes, and may have {limit}")]
    BodyTooLong {
        /// Its bytes.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A program that is not installed.
    #[error("program {0} is not installed")]
    NoProgram(ProgramId),
    /// A range that cannot be granted.
    #[error("{start:#x} to {end:#x} cannot be granted: {reason}")]
    NotGrantable {
        /// Its first byte.
        start: u64,
        /// The byte after its last.
        end: u64,
        /// Why.
        reason: &'static str,
    },
}

impl Ssd {
    /// Starts the processors of a drive; nothing is installed.
    pub fn new(drive: Drive) -> Ssd {
        let (profile, capacity_bytes, now_ns) = {
            let device = drive.lock();
            (device.profile().spu.clone(), device.profile().capacity_bytes, device.time_ns())
        };
        let engine = module::engine();
        Ssd {
            stripes: Stripes::new(profile.count, capacity_bytes),
            linker: abi::linker(&engine),
            engine,
            spus: (0..profile.count).map(|_| Spu::new(&profile)).collect(),
            programs: BTreeMap::new(),
            next_program: 1,
            host: Host::new(profile.queue_pairs),
            wires: Wires {
                ring: Wire::new(profile.ring_bytes_per_second),
                up: Wire::new(profile.host_bytes_per_second),
                down: Wire::new(profile.host_bytes_per_second),
            },
            agenda: BinaryHeap::new(),
            appointments: 0,
            calls: 0,
            requests: 0,
            now_ns,
            is_down: false,
            profile,
            drive,
        }
    }

    // -- the host's requests ------------------------------------------------------------------------------------

    /// Sends a request from an endpoint at `at_ns`, or now if that is past. Returns its number; its answer comes from
    /// [`Ssd::next_event`].
    pub fn send(
        &mut self,
        endpoint: EndpointId,
        spu: SpuId,
        (program, handler): (ProgramId, u32),
        body: Vec<u8>,
        at_ns: Nanoseconds,
    ) -> Result<u64, SpuError> {
        self.check_power()?;
        if !self.host.has(endpoint) {
            return Err(SpuError::NoEndpoint(endpoint.number()));
        }
        if spu.0 >= self.profile.count {
            return Err(SpuError::NoProcessor { spu: spu.0, processors: self.profile.count });
        }
        if body.len() > crate::message::BODY_BYTES {
            return Err(SpuError::BodyTooLong { bytes: body.len(), limit: crate::message::BODY_BYTES });
        }
        self.requests += 1;
        let request = self.requests;
        let message = Message {
            origin: Origin::new(endpoint),
            source: Party::Endpoint(endpoint),
            caller: None,
            program,
            handler,
            body,
            answer_to: AnswerTo::Host { endpoint, request },
        };
        let bytes = message.bytes();
        self.dispatch_packet(None, Some(spu), bytes, Load::Request(message), at_ns);
        Ok(request)
    }

    /// The next that the host is told. None if nothing is under way.
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.host.next_event() {
                return Some(event);
            }
            self.advance()?;
        }
    }

    /// The next that an endpoint is told, or that power is lost. What others are told waits for them. None if nothing is under
    /// way.
    pub fn next_event_of(&mut self, endpoint: EndpointId) -> Option<Event> {
        loop {
            if let Some(event) = self.host.next_event_of(endpoint) {
                return Some(event);
            }
            self.advance()?;
        }
    }

    /// The next that the host is told by `at_ns`; none if nothing happens until then. For a host that does something of its own
    /// at that time.
    pub fn next_event_until(&mut self, at_ns: Nanoseconds) -> Option<Event> {
        loop {
            if let Some(event) = self.host.next_event() {
                return Some(event);
            }
            let Reverse(next) = self.agenda.peek()?;
            if next.at_ns > at_ns {
                return None;
            }
            self.advance()?;
        }
    }

    /// Whether the drive has power, as far as programs noticed.
    pub(crate) fn check_power(&self) -> Result<(), SpuError> {
        if self.is_down { Err(SpuError::PowerLost) } else { Ok(()) }
    }

    /// The time of what happened last.
    pub fn now_ns(&self) -> Nanoseconds {
        self.now_ns
    }

    /// The drive below.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// How many processors there are.
    pub fn processors(&self) -> u32 {
        self.profile.count
    }

    /// Which processor owns what.
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

    /// How long a processor's instructions have occupied it.
    pub fn busy_ns(&self, spu: SpuId) -> Nanoseconds {
        self.spus.get(spu.0 as usize).map_or(0, |spu| spu.busy_ns)
    }

    /// Entries in a processor's permission table, and how many were evicted for want of room.
    pub fn permissions(&self, spu: SpuId) -> (usize, u64) {
        self.spus.get(spu.0 as usize).map_or((0, 0), |spu| (spu.permissions.len(), spu.permissions.evicted))
    }

    /// Requests that handlers were called for.
    pub fn requests_handled(&self) -> u64 {
        self.spus.iter().map(|spu| spu.requests).sum()
    }

    // -- power --------------------------------------------------------------------------------------------------

    /// Power goes now.
    pub fn cut_power(&mut self) {
        let mut device = self.drive.lock();
        let at_ns = self.now_ns.max(device.issued_ns());
        device.cut_power(at_ns);
        drop(device);
        self.lose_power();
    }

    fn lose_power(&mut self) {
        if self.is_down {
            return;
        }
        self.is_down = true;
        self.agenda.clear();
        self.programs.clear();
        self.spus = (0..self.profile.count).map(|_| Spu::new(&self.profile)).collect();
        self.host.tell(Event::PowerLost { at_ns: self.now_ns });
    }

    /// The drive has power again: its processors start with nothing installed. The host's driver keeps its book of
    /// permissions, and installs programs again.
    ///
    /// # Errors
    /// [`SpuError::PowerLost`] if the drive has none.
    pub fn power_on(&mut self) -> Result<(), SpuError> {
        let device = self.drive.lock();
        if !device.has_power() {
            return Err(SpuError::PowerLost);
        }
        self.now_ns = self.now_ns.max(device.time_ns());
        drop(device);
        self.is_down = false;
        Ok(())
    }

    // -- time ---------------------------------------------------------------------------------------------------

    pub(crate) fn arrange(&mut self, at_ns: Nanoseconds, what: What) {
        self.appointments += 1;
        let at_ns = at_ns.max(self.now_ns);
        self.agenda.push(Reverse(Appointment { at_ns, order: self.appointments, what }));
    }

    pub(crate) fn instructions_ns(&self, instructions: u64) -> Nanoseconds {
        duration_ns(instructions, self.profile.instructions_per_second)
    }

    pub(crate) fn next_call(&mut self) -> CallId {
        self.calls += 1;
        CallId(self.calls)
    }

    /// The next thing happens. None if nothing is arranged.
    fn advance(&mut self) -> Option<()> {
        let Reverse(next) = self.agenda.pop()?;
        if !self.is_stale(&next.what) {
            self.now_ns = next.at_ns;
            if let Err(Status::PowerLost) = self.happen(next.what) {
                self.lose_power();
            }
        }
        Some(())
    }

    fn happen(&mut self, what: What) -> Result<(), Status> {
        match what {
            What::Ring(packet) => {
                if let Load::Request(message) | Load::ToEndpoint(_, message) = &packet.load
                    && let Some(from) = packet.from
                {
                    self.spus[from.0 as usize].outgoing_bytes -= message.body.len();
                }
                let done_ns = self.wires.ring.carry(self.now_ns, packet.bytes);
                match packet.to {
                    Some(_) => self.arrange(done_ns, What::Arrives(packet)),
                    None => self.arrange(done_ns, What::Up(packet)),
                }
            }
            What::Up(packet) => {
                let done_ns = self.wires.up.carry(self.now_ns, packet.bytes);
                self.arrange(done_ns, What::Arrives(packet));
            }
            What::Down(packet) => {
                let done_ns = self.wires.down.carry(self.now_ns, packet.bytes);
                self.arrange(done_ns, What::Ring(packet));
            }
            What::Arrives(packet) => self.arrive(packet),
            What::Step { thread, run, call } => self.step(thread, run, call)?,
            What::Wake { thread, status } => self.wake(thread, status),
            What::CallAnswered { thread, status, bytes } => self.call_answered(thread, status, &bytes),
            What::Timeout { thread, ticket } => self.time_out(thread, ticket),
            What::Decide(miss) => self.decide(miss),
        }
        Ok(())
    }

    // -- packets ------------------------------------------------------------------------------------------------

    /// Sends a packet from a processor, or from the host, to a processor, or to the host.
    pub(crate) fn dispatch_packet(
        &mut self,
        from: Option<SpuId>,
        to: Option<SpuId>,
        bytes: u64,
        load: Load,
        at_ns: Nanoseconds,
    ) {
        let packet = Packet { from, to, bytes, load };
        match from {
            None => self.arrange(at_ns, What::Down(packet)),
            Some(_) => self.arrange(at_ns, What::Ring(packet)),
        }
    }

    /// A request that stays on its processor.
    pub(crate) fn arrange_local(&mut self, spu: SpuId, message: Message, at_ns: Nanoseconds) {
        let load = Load::Request(message);
        self.arrange(at_ns, What::Arrives(Packet { from: Some(spu), to: Some(spu), bytes: 0, load }));
    }

    fn arrive(&mut self, packet: Packet) {
        let at_ns = self.now_ns;
        match (packet.load, packet.to) {
            (Load::Request(message), Some(spu)) => self.admit(spu, message),
            (Load::ToEndpoint(endpoint, message), _) => {
                self.admit_at_endpoint(endpoint, message, packet.from)
            }
            (Load::Answer(AnswerTo::Host { endpoint, request }, status), _) => {
                self.host.tell(Event::Answer { endpoint, request, status, at_ns });
            }
            (Load::Answer(AnswerTo::Ticket { thread, ticket }, status), _) => {
                self.ticket_answered(thread, ticket, status);
            }
            (Load::Miss(miss), _) => self.arrange(at_ns + DRIVER_NS, What::Decide(miss)),
            (Load::Permission { process, range, rights, answers }, Some(spu)) => {
                self.spus[spu.0 as usize].permissions.install(process, range, rights);
                if let Some(miss) = answers {
                    let told = miss.told(true, at_ns);
                    self.dispatch_packet(Some(spu), None, ANSWER_BYTES, Load::Tell(told), at_ns);
                }
            }
            (Load::Tell(event), _) => self.host.tell(event.at(at_ns)),
            (Load::Request(_) | Load::Answer(..) | Load::Permission { .. } | Load::Bulk, _) => {}
        }
    }

    /// A request of a program arrives at an endpoint, which answers by having it.
    fn admit_at_endpoint(&mut self, endpoint: EndpointId, message: Message, from: Option<SpuId>) {
        let (Some(spu), Some(program)) = (from, message.caller) else { return };
        let (handler, body, at_ns) = (message.handler, message.body, self.now_ns);
        let event = Event::Request { endpoint, spu, program, handler, body, at_ns };
        let status = if self.host.deliver(endpoint, event) { answer::OK } else { answer::NOT_DELIVERED };
        let packet = Packet {
            from: None,
            to: Some(spu),
            bytes: ANSWER_BYTES,
            load: Load::Answer(message.answer_to, status),
        };
        self.arrange(at_ns, What::Down(packet));
    }

    /// Sends an answer from a processor.
    pub(crate) fn send_answer(&mut self, spu: SpuId, to: AnswerTo, status: i32, at_ns: Nanoseconds) {
        match to {
            AnswerTo::Call(thread) => {
                self.arrange(at_ns, What::CallAnswered { thread, status, bytes: Vec::new() });
            }
            AnswerTo::Host { .. } => {
                self.dispatch_packet(Some(spu), None, ANSWER_BYTES, Load::Answer(to, status), at_ns);
            }
            AnswerTo::Ticket { thread, .. } if thread.spu == spu => {
                let load = Load::Answer(to, status);
                let packet = Packet { from: Some(spu), to: Some(spu), bytes: ANSWER_BYTES, load };
                self.arrange(at_ns, What::Arrives(packet));
            }
            AnswerTo::Ticket { thread, .. } => {
                let load = Load::Answer(to, status);
                self.dispatch_packet(Some(spu), Some(thread.spu), ANSWER_BYTES, load, at_ns);
            }
        }
    }

    // -- permissions --------------------------------------------------------------------------------------------

    /// A processor asks the driver for a permission.
    pub(crate) fn miss(&mut self, miss: Miss) {
        let spu = miss.spu;
        self.dispatch_packet(Some(spu), None, HEADER_BYTES, Load::Miss(miss), self.now_ns);
    }

    fn decide(&mut self, miss: Miss) {
        let process = miss.endpoint.process();
        match self.host.resolve(process, &miss.range, miss.rights) {
            Some((range, rights)) => {
                let spu = miss.spu;
                let load = Load::Permission { process, range, rights, answers: Some(miss) };
                self.dispatch_packet(None, Some(spu), PERMISSION_BYTES, load, self.now_ns);
            }
            None => self.host.tell(miss.told(false, self.now_ns)),
        }
    }

    /// The driver sends a permission to the processors that own a part of the range.
    pub(crate) fn send_permission(&mut self, process: ProcessId, range: &Range<u64>, rights: Rights) {
        let rows = (range.end - range.start).div_ceil(self.stripes.row_bytes());
        let whole = rows > 1 || range.end - range.start > self.stripes.row_bytes();
        let mut owners: Vec<SpuId> = match whole {
            true => (0..self.profile.count).map(SpuId).collect(),
            false => self.stripes.pieces(range.clone()).map(|(spu, _)| spu).collect(),
        };
        owners.sort_unstable();
        owners.dedup();
        for spu in owners {
            let load = Load::Permission { process, range: range.clone(), rights, answers: None };
            self.dispatch_packet(None, Some(spu), PERMISSION_BYTES, load, self.now_ns);
        }
    }

    /// The host learns that a program was ended.
    pub(crate) fn tell_end(&mut self, program: ProgramId, owner: ProcessId, at: (SpuId, u32), fault: Fault) {
        let (spu, handler) = at;
        let event = Event::Ended { program, owner, spu, handler, fault, at_ns: self.now_ns };
        self.dispatch_packet(Some(spu), None, HEADER_BYTES, Load::Tell(event), self.now_ns);
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

impl Miss {
    fn told(&self, granted: bool, at_ns: Nanoseconds) -> Event {
        let (endpoint, spu, range) = (self.endpoint, self.spu, self.range.clone());
        Event::Permission { endpoint, spu, range, granted, at_ns }
    }
}

impl Event {
    /// The event, told at another time.
    fn at(mut self, now_ns: Nanoseconds) -> Event {
        match &mut self {
            Event::Answer { at_ns, .. }
            | Event::Request { at_ns, .. }
            | Event::Permission { at_ns, .. }
            | Event::Ended { at_ns, .. }
            | Event::PowerLost { at_ns } => *at_ns = now_ns,
        }
        self
    }
}

/// On whose behalf a message is sent on.
pub(crate) fn on_behalf(message: &Message) -> Arc<Origin> {
    Arc::clone(&message.origin)
}
