//! A drive with processors whose endpoints are used by several threads, in the machine's time or without: what `tantalum
//! serve` gives its hosts.
//!
//! One thread lets everything in the drive's processors happen: in the machine's time what is due, otherwise at once. Who
//! uses an endpoint is answered by a function of its own.
//!
//! Invariants:
//! - Every request is answered once: by its handler, by the system, after [`PATIENCE`], or because power went or its endpoint
//!   was closed. Every wait for an event ends, too.
//! - Nothing is told after power went. Who notices the loss tells everybody.
//! - What waits for an endpoint is bounded, whatever programs send: requests by its queue, all else by [`NOTICES`].
//! - A process ends with its last endpoint, and takes its programs and rights along.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tantalum_drive::{Answers, Drive};

use crate::answer;
use crate::error::SpuError;
use crate::host::Event;
use crate::install::{InstallError, InstallOptions};
use crate::names::{EndpointId, ProcessId, ProgramId, SpuId};
use crate::system::Ssd;

/// How long a request may take in the machine's time. A later answer goes to nobody.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// While somebody waits, a loss of power is looked for at least this often.
const LOOK: Duration = Duration::from_millis(100);
/// Decisions about permissions and ends of programs that wait for an endpoint; further ones are not told.
pub const NOTICES: usize = 64;

/// Why there is no event.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The endpoint cannot be used.
    #[error(transparent)]
    Endpoint(#[from] SpuError),
    /// The body of the first request is longer than there is room for. The request stays.
    #[error("the body has {bytes} bytes, more than there is room for")]
    TooLong {
        /// Its bytes.
        bytes: usize,
    },
    /// Somebody else waits for events of the endpoint.
    #[error("somebody waits for events of the endpoint already")]
    Busy,
}

type Answered = Box<dyn FnOnce(Result<i32, SpuError>) + Send>;
type Received = Box<dyn FnOnce(Result<Option<Event>, ReceiveError>) + Send>;
type Job = Box<dyn FnOnce(&mut State) + Send>;

/// A drive with processors, and the thread in which everything in them happens. The thread ends with it.
pub struct SharedSsd(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    changed: Condvar,
    drive: Drive,
    answers: Answers,
    /// Set when the drive loses power, by whoever has it then.
    is_lost: AtomicBool,
}

struct State {
    ssd: Ssd,
    inboxes: BTreeMap<EndpointId, Inbox>,
    sent: BTreeMap<u64, Sent>,
    deadlines: BTreeMap<Deadline, Due>,
    last_deadline: u64,
    /// What the thread is to do first.
    jobs: VecDeque<Job>,
    is_closed: bool,
}

/// What waits for an endpoint, or who waits for it.
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

/// A request whose answer is waited for.
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

/// What the thread does next.
enum Turn {
    Now,
    At(Instant),
    Waits,
}

impl SharedSsd {
    /// Starts the processors of a drive, and their thread. `answers` has the drive's time.
    pub fn start(drive: Drive, answers: Answers) -> io::Result<SharedSsd> {
        let state = State {
            ssd: Ssd::new(drive.clone()),
            inboxes: BTreeMap::new(),
            sent: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            last_deadline: 0,
            jobs: VecDeque::new(),
            is_closed: false,
        };
        let is_lost = AtomicBool::new(!drive.lock().has_power());
        let state = Mutex::new(state);
        let inner = Arc::new(Inner { state, changed: Condvar::new(), drive, answers, is_lost });
        let (weak, running) = (Arc::downgrade(&inner), Arc::clone(&inner));
        let lose = move || weak.upgrade().map(|inner| inner.is_lost.store(true, Ordering::SeqCst)).is_some();
        inner.drive.on_power_loss(lose);
        thread::Builder::new().name("programs".to_owned()).spawn(move || running.run())?;
        Ok(SharedSsd(inner))
    }

    /// Uses the processors, while nothing happens in them.
    pub fn with<T>(&self, work: impl FnOnce(&mut Ssd) -> T) -> T {
        let result = work(&mut self.0.state.lock().ssd);
        self.0.changed.notify_one();
        result
    }

    /// Opens a further endpoint of a process, or the first one of a new process. The kernel needs no first one.
    pub fn open(&self, process: Option<ProcessId>) -> Result<EndpointId, SpuError> {
        let mut state = self.0.state.lock();
        if let Some(process) = process
            && !process.is_kernel()
            && !state.has_endpoint(process)
        {
            return Err(SpuError::NoEndpoint(process.number()));
        }
        let owner = process.unwrap_or_else(|| state.ssd.process());
        let opened = state.ssd.endpoint(owner);
        match &opened {
            Ok(endpoint) => drop(state.inboxes.insert(*endpoint, Inbox::default())),
            Err(_) if process.is_none() => state.ssd.end_process(owner),
            Err(_) => {}
        }
        opened
    }

    /// Closes an endpoint. Who waits for it is told so.
    pub fn close(&self, endpoint: EndpointId) {
        let mut state = self.0.state.lock();
        let Some(inbox) = state.inboxes.remove(&endpoint) else { return };
        let closed = SpuError::NoEndpoint(endpoint.number());
        if let Some(waiter) = inbox.waiter {
            state.deadlines.remove(&waiter.deadline);
            (waiter.received)(Err(closed.clone().into()));
        }
        let open = state.sent.iter().filter(|(_, sent)| sent.endpoint == endpoint);
        for request in open.map(|(&request, _)| request).collect::<Vec<_>>() {
            state.answer(request, Err(closed.clone()));
        }
        state.ssd.close(endpoint);
        if !state.has_endpoint(endpoint.process()) {
            state.ssd.end_process(endpoint.process());
        }
        self.0.changed.notify_one();
    }

    /// Sends a request. `answered` is called with the answer, perhaps before this returns.
    pub fn send(
        &self,
        endpoint: EndpointId,
        spu: SpuId,
        to: (ProgramId, u32),
        body: Vec<u8>,
        answered: impl FnOnce(Result<i32, SpuError>) + Send + 'static,
    ) {
        let mut state = self.0.state.lock();
        let at_ns = self.0.answers.now_ns().unwrap_or_else(|| self.0.drive.lock().time_ns());
        match state.ssd.send(endpoint, spu, to, body, at_ns) {
            Ok(request) => {
                let deadline = state.deadline(PATIENCE, Due::Request(request));
                let answered = Box::new(answered);
                state.sent.insert(request, Sent { endpoint, deadline, answered });
                self.0.changed.notify_one();
            }
            Err(error) => answered(Err(error)),
        }
    }

    /// Waits for the next event of an endpoint that is not an answer. `received` is called with it, or with none if there is
    /// none within `wait`. A request's body must fit into `room` bytes.
    pub fn receive(
        &self,
        endpoint: EndpointId,
        room: usize,
        wait: Duration,
        received: impl FnOnce(Result<Option<Event>, ReceiveError>) + Send + 'static,
    ) {
        let mut state = self.0.state.lock();
        if let Err(error) = state.ssd.check_power() {
            return received(Err(error.into()));
        }
        match state.inboxes.get(&endpoint) {
            None => return received(Err(SpuError::NoEndpoint(endpoint.number()).into())),
            Some(Inbox { waiter: Some(_), .. }) => return received(Err(ReceiveError::Busy)),
            Some(inbox) if inbox.events.is_empty() && wait.is_zero() => return received(Ok(None)),
            Some(_) => {}
        }
        let deadline = state.deadline(wait, Due::Wait(endpoint));
        let waiter = Waiter { room, deadline, received: Box::new(received) };
        let inbox = state.inboxes.get_mut(&endpoint).expect("it was there");
        inbox.waiter = Some(waiter);
        state.hand_over(endpoint);
        self.0.changed.notify_one();
    }

    /// Installs a program for the process of an endpoint. `installed` is called with it.
    pub fn install(
        &self,
        endpoint: EndpointId,
        module: Vec<u8>,
        options: InstallOptions,
        installed: impl FnOnce(Result<ProgramId, InstallError>) + Send + 'static,
    ) {
        let job = move |state: &mut State| {
            // who is gone would leave its program behind
            let result = match state.inboxes.contains_key(&endpoint) {
                true => state.ssd.install(endpoint.process(), &module, options),
                false => Err(InstallError::NoEndpoint(endpoint.number())),
            };
            installed(result);
        };
        self.0.state.lock().jobs.push_back(Box::new(job));
        self.0.changed.notify_one();
    }

    /// Stops the processors: when this returns, they give the drive no more commands. Who waits is told that power went.
    pub fn stop(&self) {
        self.0.state.lock().lose_power();
    }

    /// The drive has power again: the processors start with nothing installed.
    ///
    /// # Errors
    /// [`SpuError::PowerLost`] if the drive has none.
    pub fn power_on(&self) -> Result<(), SpuError> {
        let mut state = self.0.state.lock();
        state.lose_power();
        // first, so that the next loss is not overlooked
        self.0.is_lost.store(false, Ordering::SeqCst);
        state.ssd.power_on()
    }
}

impl Drop for SharedSsd {
    fn drop(&mut self) {
        self.0.state.lock().is_closed = true;
        self.0.changed.notify_one();
    }
}

impl Inner {
    /// The thread.
    fn run(&self) {
        let mut state = self.state.lock();
        while !state.is_closed {
            if self.is_lost.load(Ordering::SeqCst) {
                state.lose_power();
            }
            if let Some(job) = state.jobs.pop_front() {
                job(&mut state);
            }
            state.expire(Instant::now());
            match self.turn(&state) {
                Turn::Now => {
                    state.ssd.advance();
                    // a loss of power is noticed first
                    if !self.is_lost.load(Ordering::SeqCst) {
                        state.deliver();
                    }
                    MutexGuard::bump(&mut state);
                }
                Turn::At(at) => drop(self.changed.wait_until(&mut state, at)),
                Turn::Waits => self.changed.wait(&mut state),
            }
        }
        // nobody is left waiting
        state.lose_power();
    }

    fn turn(&self, state: &State) -> Turn {
        if !state.jobs.is_empty() {
            return Turn::Now;
        }
        let happens = state.ssd.next_ns().map(|next_ns| match self.answers.now_ns() {
            Some(now_ns) => Duration::from_nanos(next_ns.saturating_sub(now_ns)),
            None => Duration::ZERO,
        });
        let ends = state.deadlines.first_key_value().map(|((at, _), _)| (*at).min(Instant::now() + LOOK));
        match (happens, ends) {
            (Some(Duration::ZERO), _) => Turn::Now,
            (Some(after), Some(ends)) => Turn::At(ends.min(Instant::now() + after)),
            (Some(after), None) => Turn::At(Instant::now() + after),
            (None, Some(ends)) => Turn::At(ends),
            (None, None) => Turn::Waits,
        }
    }
}

impl State {
    fn has_endpoint(&self, process: ProcessId) -> bool {
        self.inboxes.keys().any(|endpoint| endpoint.process() == process)
    }

    fn deadline(&mut self, after: Duration, due: Due) -> Deadline {
        self.last_deadline += 1;
        let deadline = (Instant::now() + after, self.last_deadline);
        self.deadlines.insert(deadline, due);
        deadline
    }

    /// Ends waits whose time is over.
    fn expire(&mut self, now: Instant) {
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

    /// Tells everybody what there is to tell.
    fn deliver(&mut self) {
        while let Some(event) = self.ssd.host.pass_on() {
            let to = match &event {
                Event::Answer { request, status, .. } => {
                    self.answer(*request, Ok(*status));
                    continue;
                }
                Event::PowerLost { .. } => {
                    self.fail_all();
                    continue;
                }
                Event::Request { endpoint, .. } | Event::Permission { endpoint, .. } => Some(*endpoint),
                Event::Ended { owner, .. } => {
                    self.inboxes.keys().find(|endpoint| endpoint.process() == *owner).copied()
                }
            };
            if let Some(endpoint) = to {
                self.put(endpoint, event);
            }
        }
    }

    fn put(&mut self, endpoint: EndpointId, event: Event) {
        let Some(inbox) = self.inboxes.get_mut(&endpoint) else { return };
        if !matches!(event, Event::Request { .. }) {
            if inbox.notices >= NOTICES {
                return;
            }
            inbox.notices += 1;
        }
        inbox.events.push_back(event);
        self.hand_over(endpoint);
    }

    /// Gives the first event to who waits for it.
    fn hand_over(&mut self, endpoint: EndpointId) {
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
            Event::Request { .. } => self.ssd.host.release(&event),
            _ => inbox.notices -= 1,
        }
        (waiter.received)(Ok(Some(event)));
    }

    fn lose_power(&mut self) {
        self.ssd.lose_power();
        while self.ssd.host.pass_on().is_some() {}
        self.fail_all();
    }

    /// Nobody is answered any more.
    fn fail_all(&mut self) {
        self.deadlines.clear();
        for (_, sent) in std::mem::take(&mut self.sent) {
            (sent.answered)(Err(SpuError::PowerLost));
        }
        for inbox in self.inboxes.values_mut() {
            inbox.notices = 0;
            for event in inbox.events.drain(..) {
                self.ssd.host.release(&event);
            }
            if let Some(waiter) = inbox.waiter.take() {
                (waiter.received)(Err(SpuError::PowerLost.into()));
            }
        }
    }
}
