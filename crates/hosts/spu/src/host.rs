//! The host's side: processes with their endpoints, events, and the driver's book of permissions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::ops::Range;

use tantalum::{NamespaceId, Nanoseconds};

use crate::fault::Fault;
use crate::functions::Function;
use crate::names::{EndpointId, ProcessId, ProgramId, SpuId};
use crate::permission::{PermissionTable, Rights};

/// The number of programs' requests that an endpoint's queue holds; further ones are not delivered.
pub const ENDPOINT_QUEUE: usize = 64;
/// The number of bytes of their bodies that it holds.
pub const ENDPOINT_QUEUE_BYTES: usize = 320 << 10;

/// An event that the host learns of.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The answer to a request of the host.
    Answer {
        /// The endpoint that sent the request.
        endpoint: EndpointId,
        /// The request, as [`crate::Ssd::send`] returned it.
        request: u64,
        /// The handler's status, or one of [`crate::answer`].
        status: i32,
        /// When it arrives at the host.
        at_ns: Nanoseconds,
    },
    /// A request of a program to an endpoint.
    Request {
        /// The endpoint.
        endpoint: EndpointId,
        /// The processor that sent it.
        spu: SpuId,
        /// The program.
        program: ProgramId,
        /// The host's handler that it is for.
        handler: u32,
        /// Its body.
        body: Vec<u8>,
        /// When it arrives at the host.
        at_ns: Nanoseconds,
    },
    /// The driver decided about a permission that a processor requested. If it was granted, the request that failed with
    /// [`crate::answer::NO_PERMISSION`] can be sent again.
    Permission {
        /// The endpoint on whose behalf the range was accessed.
        endpoint: EndpointId,
        /// The processor.
        spu: SpuId,
        /// The range.
        range: Range<u64>,
        /// Whether the processor has the permission now.
        granted: bool,
        /// When it arrives at the host.
        at_ns: Nanoseconds,
    },
    /// A program was ended. Its unanswered requests are answered with [`crate::answer::ENDED`].
    Ended {
        /// The program.
        program: ProgramId,
        /// Its owner.
        owner: ProcessId,
        /// The processor on which it faulted.
        spu: SpuId,
        /// The handler.
        handler: u32,
        /// The function in which it faulted, if the handler had begun.
        function: Option<Function>,
        /// The fault.
        fault: Fault,
        /// When the event arrives at the host.
        at_ns: Nanoseconds,
    },
    /// The drive lost power: nothing is installed, and requests in flight are not answered.
    PowerLost {
        /// When power was lost.
        at_ns: Nanoseconds,
    },
}

impl Event {
    fn body_bytes(&self) -> usize {
        if let Event::Request { body, .. } = self { body.len() } else { 0 }
    }

    /// When it arrives at the host.
    pub fn at_ns(&self) -> Nanoseconds {
        match self {
            Event::Answer { at_ns, .. }
            | Event::Request { at_ns, .. }
            | Event::Permission { at_ns, .. }
            | Event::Ended { at_ns, .. }
            | Event::PowerLost { at_ns } => *at_ns,
        }
    }

    /// Whether an endpoint receives it: its own events, and a loss of power.
    pub(crate) fn is_for(&self, endpoint: EndpointId) -> bool {
        match self {
            Event::Answer { endpoint: whose, .. }
            | Event::Request { endpoint: whose, .. }
            | Event::Permission { endpoint: whose, .. } => *whose == endpoint,
            Event::PowerLost { .. } => true,
            Event::Ended { .. } => false,
        }
    }

    /// Why a program was ended, and in which function; none for other events.
    pub fn why_ended(&self) -> Option<String> {
        match self {
            Event::Ended { fault, function: Some(function), .. } => Some(format!("{fault}, in {function}")),
            Event::Ended { fault, function: None, .. } => Some(fault.to_string()),
            _ => None,
        }
    }

    /// The event with another time.
    pub(crate) fn at(mut self, now_ns: Nanoseconds) -> Event {
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

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Answer { request, status, .. } => {
                write!(f, "request {request} was answered with {status}")
            }
            Event::Request { spu, program, handler, body, .. } => {
                let bytes = body.len();
                write!(f, "program {program} on processor {spu} sent {bytes} bytes to handler {handler}")
            }
            Event::Permission { spu, range, granted, .. } => {
                let how = if *granted { "granted" } else { "refused" };
                write!(f, "processor {spu} was {how} {:#x} to {:#x}", range.start, range.end)
            }
            Event::Ended { program, owner, spu, handler, .. } => {
                let why = self.why_ended().unwrap_or_default();
                write!(
                    f,
                    "program {program} of {owner} was ended at processor {spu}, handler {handler}: {why}"
                )
            }
            Event::PowerLost { .. } => f.write_str("the drive lost power"),
        }
    }
}

/// The requests in an endpoint's queue, and the bytes of their bodies.
#[derive(Clone, Copy, Debug, Default)]
struct Queued {
    requests: usize,
    bytes: usize,
}

/// Processes, endpoints, and what the driver has granted.
#[derive(Debug)]
pub(crate) struct Host {
    queue_pairs: u32,
    last_process: ProcessId,
    processes: BTreeSet<ProcessId>,
    endpoints: BTreeMap<EndpointId, Queued>,
    outbox: VecDeque<Event>,
    pub book: PermissionTable,
    pub namespaces: BTreeSet<(ProcessId, NamespaceId)>,
}

impl Host {
    pub fn new(queue_pairs: u32) -> Host {
        Host {
            queue_pairs,
            last_process: ProcessId::KERNEL,
            processes: BTreeSet::new(),
            endpoints: BTreeMap::new(),
            outbox: VecDeque::new(),
            book: PermissionTable::new(usize::MAX),
            namespaces: BTreeSet::new(),
        }
    }

    /// A new process. Numbers are reused as late as possible.
    ///
    /// # Panics
    /// If all of the two million numbers are in use.
    pub fn process(&mut self) -> ProcessId {
        assert!(self.processes.len() < ProcessId::MOST_USERS, "all numbers of processes are in use");
        loop {
            self.last_process = self.last_process.next_user();
            if self.processes.insert(self.last_process) {
                return self.last_process;
            }
        }
    }

    /// Whether a process exists.
    pub fn is_alive(&self, process: ProcessId) -> bool {
        process.is_kernel() || self.processes.contains(&process)
    }

    /// Ends a process, and removes its endpoints and rights.
    pub fn end(&mut self, process: ProcessId) {
        self.processes.remove(&process);
        self.endpoints.retain(|endpoint, _| endpoint.process() != process);
        self.book.remove_process(process);
        self.namespaces.retain(|(whose, _)| *whose != process);
    }

    /// A new endpoint of a process, if there is a queue pair for it.
    pub fn endpoint(&mut self, process: ProcessId) -> Option<EndpointId> {
        if self.endpoints.len() >= self.queue_pairs as usize {
            return None;
        }
        let free = (0..self.queue_pairs).map(|queue| process.endpoint(queue));
        let endpoint = free.into_iter().find(|endpoint| !self.endpoints.contains_key(endpoint))?;
        self.endpoints.insert(endpoint, Queued::default());
        Some(endpoint)
    }

    pub fn close(&mut self, endpoint: EndpointId) {
        self.endpoints.remove(&endpoint);
    }

    pub fn has(&self, endpoint: EndpointId) -> bool {
        self.endpoints.contains_key(&endpoint)
    }

    /// Delivers a request of a program; false if the endpoint's queue has no room for it.
    pub fn deliver(&mut self, endpoint: EndpointId, event: Event) -> bool {
        let bytes = event.body_bytes();
        match self.endpoints.get_mut(&endpoint) {
            Some(queued)
                if queued.requests < ENDPOINT_QUEUE && queued.bytes + bytes <= ENDPOINT_QUEUE_BYTES =>
            {
                queued.requests += 1;
                queued.bytes += bytes;
                self.outbox.push_back(event);
                true
            }
            _ => false,
        }
    }

    /// Adds an event that needs no room in an endpoint's queue.
    pub fn tell(&mut self, event: Event) {
        self.outbox.push_back(event);
    }

    pub fn next_event(&mut self) -> Option<Event> {
        self.take(0)
    }

    /// The next event of some kind.
    pub fn next_event_that(&mut self, is_its: impl Fn(&Event) -> bool) -> Option<Event> {
        let at = self.outbox.iter().position(is_its)?;
        self.take(at)
    }

    fn take(&mut self, at: usize) -> Option<Event> {
        let event = self.outbox.remove(at)?;
        self.release(&event);
        Some(event)
    }

    /// The next event, for a host that passes it to another queue. A request keeps its room in its endpoint's queue
    /// until [`Host::release`].
    pub fn pass_on(&mut self) -> Option<Event> {
        self.outbox.pop_front()
    }

    /// Frees a request's room in its endpoint's queue.
    pub fn release(&mut self, event: &Event) {
        if let Event::Request { endpoint, body, .. } = event
            && let Some(queued) = self.endpoints.get_mut(endpoint)
        {
            queued.requests -= 1;
            queued.bytes -= body.len();
        }
    }

    /// The driver's decision about a missing permission: the extent to install, or `None`.
    pub fn resolve(
        &mut self,
        process: ProcessId,
        range: &Range<u64>,
        rights: Rights,
    ) -> Option<(Range<u64>, Rights)> {
        let (allowed, _) = self.book.check(process, range, rights);
        if allowed { self.book.extent(process, range.start) } else { None }
    }
}
