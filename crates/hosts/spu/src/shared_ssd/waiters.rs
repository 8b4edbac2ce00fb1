//! Requests and waits of a shared drive's endpoints, with their deadlines.
//!
//! Invariants: every unanswered request has a deadline, and so has every wait for an event; nothing else has one. Nobody waits at
//! an endpoint whose inbox has an event.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::answer;
use crate::error::SpuError;
use crate::host::Event;
use crate::names::{EndpointId, ProcessId};
use crate::system::Ssd;

/// The most decisions about permissions and ends of programs in an endpoint's inbox; further ones are dropped.
pub const NOTICES: usize = 64;

/// Why there is no event.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The endpoint is not usable.
    #[error(transparent)]
    Endpoint(#[from] SpuError),
    /// The body of the first request is longer than the caller's buffer. The request stays.
    #[error("the body has {bytes} bytes, more than the buffer holds")]
    TooLong {
        /// Its bytes.
        bytes: usize,
    },
    /// Another call waits for events of the endpoint.
    #[error("another call already waits for events of this endpoint")]
    Busy,
}

type Answered = Box<dyn FnOnce(Result<i32, SpuError>) + Send>;
type Received = Box<dyn FnOnce(Result<Option<Event>, ReceiveError>) + Send>;
type Told = Box<dyn Fn(&Event) + Send>;

/// Open endpoints, unanswered requests, and deadlines.
#[derive(Default)]
pub(super) struct Waiting {
    inboxes: BTreeMap<EndpointId, Inbox>,
    sent: BTreeMap<u64, Sent>,
    deadlines: BTreeMap<Deadline, Due>,
    last_deadline: u64,
    /// Called with the end of every program, in addition to its owner's event.
    on_end: Option<Told>,
}

/// Events that wait for an endpoint, or a call that waits for an event.
#[derive(Default)]
struct Inbox {
    events: VecDeque<Event>,
    notices: usize,
    waiter: Option<Waiter>,
}

struct Waiter {
    room: usize,
    deadline: Deadline,
    received: Received,
}

/// An unanswered request.
struct Sent {
    endpoint: EndpointId,
    deadline: Deadline,
    answered: Answered,
}

type Deadline = (Instant, u64);

/// What ends at a deadline.
enum Due {
    Request(u64),
    Wait(EndpointId),
}

impl Waiting {
    /// Calls `told` with the event of every program that is ended from now on.
    pub fn on_end(&mut self, told: Told) {
        self.on_end = Some(told);
    }

    /// Whether a process has an endpoint.
    pub fn has_endpoint(&self, process: ProcessId) -> bool {
        self.inboxes.keys().any(|endpoint| endpoint.process() == process)
    }

    /// Whether an endpoint is open.
    pub fn is_open(&self, endpoint: EndpointId) -> bool {
        self.inboxes.contains_key(&endpoint)
    }

    pub fn open(&mut self, endpoint: EndpointId) {
        self.inboxes.insert(endpoint, Inbox::default());
    }

    /// Closes an endpoint, and fails its waits and requests; false if it was not open.
    pub fn close(&mut self, endpoint: EndpointId) -> bool {
        let Some(inbox) = self.inboxes.remove(&endpoint) else { return false };
        let closed = SpuError::NoEndpoint(endpoint.number());
        if let Some(waiter) = inbox.waiter {
            self.deadlines.remove(&waiter.deadline);
            (waiter.received)(Err(closed.clone().into()));
        }
        let open = self.sent.iter().filter(|(_, sent)| sent.endpoint == endpoint);
        for request in open.map(|(&request, _)| request).collect::<Vec<_>>() {
            self.answer(request, Err(closed.clone()));
        }
        true
    }

    /// Records a request that was sent.
    pub fn sent(&mut self, request: u64, endpoint: EndpointId, patience: Duration, answered: Answered) {
        let deadline = self.deadline(patience, Due::Request(request));
        self.sent.insert(request, Sent { endpoint, deadline, answered });
    }

    /// Waits for the next event of an endpoint other than an answer. A request's body must fit into `room` bytes.
    pub fn receive(
        &mut self,
        ssd: &mut Ssd,
        endpoint: EndpointId,
        room: usize,
        wait: Duration,
        received: Received,
    ) {
        match self.inboxes.get(&endpoint) {
            None => return received(Err(SpuError::NoEndpoint(endpoint.number()).into())),
            Some(Inbox { waiter: Some(_), .. }) => return received(Err(ReceiveError::Busy)),
            Some(inbox) if inbox.events.is_empty() && wait.is_zero() => return received(Ok(None)),
            Some(_) => {}
        }
        let deadline = self.deadline(wait, Due::Wait(endpoint));
        let inbox = self.inboxes.get_mut(&endpoint).expect("it was there");
        inbox.waiter = Some(Waiter { room, deadline, received });
        self.hand_over(ssd, endpoint);
    }

    /// The first deadline.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first_key_value().map(|((at, _), _)| *at)
    }

    fn deadline(&mut self, after: Duration, due: Due) -> Deadline {
        self.last_deadline += 1;
        let deadline = (Instant::now() + after, self.last_deadline);
        self.deadlines.insert(deadline, due);
        deadline
    }

    /// Ends requests and waits whose deadline has passed.
    pub fn expire(&mut self, now: Instant) {
        while let Some(first) = self.deadlines.first_entry()
            && first.key().0 <= now
        {
            match first.remove() {
                Due::Request(request) => self.answer(request, Ok(answer::TIMEOUT)),
                Due::Wait(endpoint) => {
                    let waiter = self.inboxes.get_mut(&endpoint).and_then(|inbox| inbox.waiter.take());
                    if let Some(waiter) = waiter {
                        (waiter.received)(Ok(None));
                    }
                }
            }
        }
    }

    fn answer(&mut self, request: u64, status: Result<i32, SpuError>) {
        if let Some(sent) = self.sent.remove(&request) {
            self.deadlines.remove(&sent.deadline);
            (sent.answered)(status);
        }
    }

    /// Delivers all events and answers.
    pub fn deliver(&mut self, ssd: &mut Ssd) {
        while let Some(event) = ssd.host.pass_on() {
            let to = match &event {
                Event::Answer { request, status, .. } => {
                    self.answer(*request, Ok(*status));
                    continue;
                }
                Event::PowerLost { .. } => {
                    self.fail_all(ssd);
                    continue;
                }
                Event::Request { endpoint, .. } | Event::Permission { endpoint, .. } => Some(*endpoint),
                Event::Ended { owner, .. } => {
                    if let Some(told) = &self.on_end {
                        told(&event);
                    }
                    self.inboxes.keys().find(|endpoint| endpoint.process() == *owner).copied()
                }
            };
            if let Some(endpoint) = to {
                self.put(ssd, endpoint, event);
            }
        }
    }

    fn put(&mut self, ssd: &mut Ssd, endpoint: EndpointId, event: Event) {
        let Some(inbox) = self.inboxes.get_mut(&endpoint) else { return };
        if !matches!(event, Event::Request { .. }) {
            if inbox.notices >= NOTICES {
                return;
            }
            inbox.notices += 1;
        }
        inbox.events.push_back(event);
        self.hand_over(ssd, endpoint);
    }

    /// Passes the first event to the call that waits for it, if there are both.
    fn hand_over(&mut self, ssd: &mut Ssd, endpoint: EndpointId) {
        let Some(inbox) = self.inboxes.get_mut(&endpoint).filter(|inbox| !inbox.events.is_empty()) else {
            return;
        };
        let Some(waiter) = inbox.waiter.take() else { return };
        let event = inbox.events.pop_front().expect("there is one");
        self.deadlines.remove(&waiter.deadline);
        match &event {
            Event::Request { body, .. } if body.len() > waiter.room => {
                let bytes = body.len();
                inbox.events.push_front(event);
                return (waiter.received)(Err(ReceiveError::TooLong { bytes }));
            }
            Event::Request { .. } => ssd.host.release(&event),
            _ => inbox.notices -= 1,
        }
        (waiter.received)(Ok(Some(event)));
    }

    /// Fails all requests and waits, because power was lost.
    pub fn fail_all(&mut self, ssd: &mut Ssd) {
        self.deadlines.clear();
        for (_, sent) in std::mem::take(&mut self.sent) {
            (sent.answered)(Err(SpuError::PowerLost));
        }
        for inbox in self.inboxes.values_mut() {
            inbox.notices = 0;
            for event in inbox.events.drain(..) {
                ssd.host.release(&event);
            }
            if let Some(waiter) = inbox.waiter.take() {
                (waiter.received)(Err(SpuError::PowerLost.into()));
            }
        }
    }
}
