//! Tasks of the host in virtual time, and the drive that they use.
//!
//! A task is a future. It waits only in [`Host::until`], for something that other tasks or the drive's answers bring about.
//! All tasks run as far as they can before time advances, in the order in which they were given, so runs repeat exactly.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tantalum::Nanoseconds;
use tantalum_spu::atomic_writes::{AtomicWrites, Outcome, Transaction};
use tantalum_spu::{EndpointId, Event, ProgramId, Ssd, answer};

use crate::error::StoreError;
use crate::host::RequestCost;

/// Handlers of Base-IO and Direct-IO.
const READ: u32 = 0;
const WRITE: u32 = 1;

/// Bytes before the data of a request, and of what comes back.
const HEAD_BYTES: usize = 16;

/// How long a task waits before it resends what found no room.
const AGAIN_NS: Nanoseconds = 5_000;

/// Something that runs concurrently with others.
pub(crate) type Task = Pin<Box<dyn Future<Output = Result<(), StoreError>>>>;

/// How requests get to the drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub endpoint: EndpointId,
    pub program: ProgramId,
    pub cost: RequestCost,
}

/// The host, shared by its tasks.
#[derive(Clone)]
pub(crate) struct Host(Rc<World>);

struct World {
    ssd: RefCell<Ssd>,
    now_ns: Cell<Nanoseconds>,
    alarms: RefCell<BinaryHeap<Reverse<Nanoseconds>>>,
    /// Answers not taken yet, by request.
    answers: RefCell<BTreeMap<u64, i32>>,
    /// Data that programs sent and nobody took yet, by tag.
    data: RefCell<BTreeMap<u32, Vec<u8>>>,
    commits: RefCell<BTreeMap<EndpointId, (Transaction, Option<Outcome>)>>,
    tags: Cell<u32>,
    /// How often a task was resumed.
    steps: Cell<u64>,
    /// Total computing time of all threads.
    busy_ns: Cell<Nanoseconds>,
    /// How many times longer than `host.rs` says work takes.
    times: u64,
    has_power: Cell<bool>,
}

impl Host {
    pub fn new(ssd: Ssd, times: u64) -> Host {
        Host(Rc::new(World {
            now_ns: Cell::new(ssd.now_ns()),
            ssd: RefCell::new(ssd),
            alarms: RefCell::default(),
            answers: RefCell::default(),
            data: RefCell::default(),
            commits: RefCell::default(),
            tags: Cell::new(0),
            steps: Cell::new(0),
            busy_ns: Cell::new(0),
            times,
            has_power: Cell::new(true),
        }))
    }

    pub fn now_ns(&self) -> Nanoseconds {
        self.0.now_ns.get()
    }

    pub fn busy_ns(&self) -> Nanoseconds {
        self.0.busy_ns.get()
    }

    pub fn has_power(&self) -> bool {
        self.0.has_power.get()
    }

    pub fn with_ssd<T>(&self, work: impl FnOnce(&mut Ssd) -> T) -> T {
        work(&mut self.0.ssd.borrow_mut())
    }

    /// The drive, once no task is left.
    ///
    /// # Panics
    /// If a task still has the host.
    pub fn into_ssd(self) -> Ssd {
        let world = Rc::try_unwrap(self.0).unwrap_or_else(|_| panic!("a task still has the host"));
        world.ssd.into_inner()
    }

    // -- running ------------------------------------------------------------------------------------------------

    /// Runs tasks until those of `clients` have ended, or power is lost. The others are helpers, which never end.
    pub fn run(&self, clients: Vec<Task>, helpers: Vec<Task>) -> Result<(), StoreError> {
        self.run_all(clients, helpers).or_else(|error| {
            // a task may notice before the host does
            self.0.has_power.set(self.with_ssd(|ssd| ssd.drive().lock().has_power()));
            if self.has_power() { Err(error) } else { Ok(()) }
        })
    }

    fn run_all(&self, mut clients: Vec<Task>, mut helpers: Vec<Task>) -> Result<(), StoreError> {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            loop {
                let before = self.0.steps.get();
                let mut ended = Vec::new();
                for (index, task) in clients.iter_mut().enumerate() {
                    if let Poll::Ready(result) = task.as_mut().poll(&mut context) {
                        result?;
                        ended.push(index);
                    }
                }
                ended.into_iter().rev().for_each(|index| drop(clients.remove(index)));
                for task in &mut helpers {
                    if let Poll::Ready(result) = task.as_mut().poll(&mut context) {
                        return result;
                    }
                }
                if self.0.steps.get() == before {
                    break;
                }
            }
            if clients.is_empty() || !self.has_power() {
                return Ok(());
            }
            self.advance(clients.len() + helpers.len())?;
        }
    }

    /// Time advances to the next event.
    fn advance(&self, tasks: usize) -> Result<(), StoreError> {
        let alarm = self.0.alarms.borrow().peek().map(|alarm| alarm.0);
        let mut ssd = self.0.ssd.borrow_mut();
        let event = match alarm {
            Some(at_ns) => ssd.next_event_until(at_ns),
            None => ssd.next_event(),
        };
        match (event, alarm) {
            (Some(event), _) => {
                self.0.now_ns.set(self.0.now_ns.get().max(event.at_ns()));
                self.take(&mut ssd, event)
            }
            (None, Some(at_ns)) => {
                self.0.now_ns.set(self.0.now_ns.get().max(at_ns));
                self.0.alarms.borrow_mut().pop();
                Ok(())
            }
            (None, None) => Err(StoreError::Stuck { at_ns: self.now_ns(), tasks }),
        }
    }

    fn take(&self, ssd: &mut Ssd, event: Event) -> Result<(), StoreError> {
        let endpoint = match &event {
            Event::PowerLost { .. } => {
                self.0.has_power.set(false);
                return Ok(());
            }
            Event::Answer { endpoint, .. } | Event::Permission { endpoint, .. } => *endpoint,
            Event::Request { body, .. } => {
                if let Some(tag) = body.get(12..HEAD_BYTES) {
                    let tag = u32::from_le_bytes(tag.try_into().expect("four bytes"));
                    self.0.data.borrow_mut().insert(tag, body[HEAD_BYTES..].to_vec());
                }
                return Ok(());
            }
            Event::Ended { .. } => return Ok(()),
        };
        let mut commits = self.0.commits.borrow_mut();
        match (commits.get_mut(&endpoint), &event) {
            (Some((transaction, outcome)), _) => {
                if let Some(ended) = transaction.take(ssd, &event)? {
                    *outcome = Some(ended);
                }
            }
            (None, Event::Answer { request, status, .. }) => {
                self.0.answers.borrow_mut().insert(*request, *status);
            }
            (None, _) => {}
        }
        Ok(())
    }

    // -- waiting ------------------------------------------------------------------------------------------------

    /// Waits until there is a result.
    pub async fn until<T>(&self, mut found: impl FnMut() -> Option<T>) -> T {
        poll_fn(|_| match found() {
            Some(found) => {
                self.0.steps.set(self.0.steps.get() + 1);
                Poll::Ready(found)
            }
            None => Poll::Pending,
        })
        .await
    }

    /// Time passes.
    pub async fn sleep(&self, ns: Nanoseconds) {
        let at_ns = self.now_ns() + ns;
        self.0.alarms.borrow_mut().push(Reverse(at_ns));
        self.until(|| (self.now_ns() >= at_ns).then_some(())).await;
    }

    /// A thread computes.
    pub async fn compute(&self, ns: Nanoseconds) {
        self.0.busy_ns.set(self.0.busy_ns.get() + ns);
        self.sleep(ns).await;
    }

    /// A thread does work of the store, which can be set to take longer.
    pub async fn work(&self, ns: Nanoseconds) {
        self.compute(ns * self.0.times).await;
    }

    // -- the drive ----------------------------------------------------------------------------------------------

    /// Reads within a stripe.
    pub async fn read(&self, path: Path, address: u64, bytes: usize) -> Result<Vec<u8>, StoreError> {
        self.compute(path.cost.submit_ns).await;
        let tag = self.next_tag();
        self.ask(path, READ, (address, bytes, tag), &[]).await?;
        let data = self.until(|| self.0.data.borrow_mut().remove(&tag)).await;
        self.compute(path.cost.complete_ns).await;
        Ok(data)
    }

    /// Writes any range. It is durable when this ends.
    pub async fn write(&self, path: Path, address: u64, data: &[u8]) -> Result<(), StoreError> {
        self.compute(path.cost.submit_ns).await;
        let stripes = self.with_ssd(|ssd| ssd.stripes());
        let end = address + data.len() as u64;
        let mut sent = Vec::new();
        for (_, piece) in stripes.pieces(address..end) {
            let part = (piece.start - address) as usize..(piece.end - address) as usize;
            let tag = self.next_tag();
            sent.push((
                piece.start,
                part.clone(),
                tag,
                self.send(path, WRITE, (piece.start, part.len(), tag), &data[part])?,
            ));
        }
        for (at, part, tag, request) in sent {
            if !self.is_done(request).await? {
                self.ask(path, WRITE, (at, part.len(), tag), &data[part]).await?;
            }
        }
        self.compute(path.cost.complete_ns).await;
        Ok(())
    }

    /// Commits writes in the slot of a client. Returns whether they are committed. The page in memory has them already, so they
    /// go to the drive together: a request for each processor.
    pub async fn commit(
        &self,
        path: Path,
        atomic: AtomicWrites,
        number: u64,
        writes: &[(u64, Vec<u8>)],
    ) -> Result<bool, StoreError> {
        let stripes = self.with_ssd(|ssd| ssd.stripes());
        let owners: BTreeSet<_> = writes.iter().map(|(address, _)| stripes.owner(*address)).collect();
        self.compute(path.cost.submit_ns * owners.len() as u64).await;
        let now_ns = self.now_ns();
        let begun = self
            .with_ssd(|ssd| Transaction::begin_batch(ssd, atomic, path.endpoint, number, writes, now_ns))?;
        self.0.commits.borrow_mut().insert(path.endpoint, (begun, None));
        let outcome = self
            .until(|| {
                let mut commits = self.0.commits.borrow_mut();
                let outcome = commits.get(&path.endpoint)?.1?;
                commits.remove(&path.endpoint);
                Some(outcome)
            })
            .await;
        // the participants' answers are handled together, then the coordinator's
        self.compute(path.cost.complete_ns * owners.len().min(2) as u64).await;
        match outcome {
            Outcome::Committed => Ok(true),
            Outcome::Aborted(_) => Ok(false),
            Outcome::InDoubt(status) => Err(StoreError::Refused { request: number, status }),
        }
    }

    fn next_tag(&self) -> u32 {
        self.0.tags.set(self.0.tags.get().wrapping_add(1));
        self.0.tags.get()
    }

    fn send(
        &self,
        path: Path,
        handler: u32,
        (address, bytes, tag): (u64, usize, u32),
        data: &[u8],
    ) -> Result<u64, StoreError> {
        let mut body = Vec::with_capacity(HEAD_BYTES + data.len());
        body.extend(address.to_le_bytes());
        body.extend((bytes as u32).to_le_bytes());
        body.extend(tag.to_le_bytes());
        body.extend(data);
        let now_ns = self.now_ns();
        self.with_ssd(|ssd| {
            let owner = ssd.stripes().owner(address);
            Ok(ssd.send(path.endpoint, owner, (path.program, handler), body, now_ns)?)
        })
    }

    /// Waits for an answer; false if there was no room for the request.
    async fn is_done(&self, request: u64) -> Result<bool, StoreError> {
        match self.until(|| self.0.answers.borrow_mut().remove(&request)).await {
            answer::OK => Ok(true),
            answer::NOT_DELIVERED | answer::NO_ROOM => {
                self.sleep(AGAIN_NS).await;
                Ok(false)
            }
            status => Err(StoreError::Refused { request, status }),
        }
    }

    async fn ask(
        &self,
        path: Path,
        handler: u32,
        what: (u64, usize, u32),
        data: &[u8],
    ) -> Result<(), StoreError> {
        loop {
            let request = self.send(path, handler, what, data)?;
            if self.is_done(request).await? {
                return Ok(());
            }
        }
    }
}
