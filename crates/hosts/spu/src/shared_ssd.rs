//! A drive with processors whose endpoints are used by several threads, as the hosts of `tantalum serve` do.
//!
//! One thread executes everything in the drive's processors: in real time when it is due, or in virtual time at once. Each request
//! and each wait has a callback for its result.
//!
//! Invariants:
//! - Every request is answered once: by its handler, by the system, after [`PATIENCE`], or because power was lost or its
//!   endpoint closed. Every wait for an event ends as well.
//! - After a loss of power there are no events and no answers. Whichever thread notices the loss first fails all waits.
//! - An endpoint's backlog is bounded, whatever programs send: requests by its queue, all other events by [`NOTICES`].
//! - A process ends with its last endpoint; its programs and rights are removed with it.

mod thread;
mod waiters;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tantalum_drive::{Answers, Drive};

use crate::error::SpuError;
use crate::host::Event;
use crate::install::{InstallError, InstallOptions};
use crate::names::{EndpointId, ProcessId, ProgramId, SpuId};
use crate::system::Ssd;
use thread::{Inner, State};
use waiters::Waiting;

pub use waiters::{NOTICES, ReceiveError};

/// How long a request may take in real time. A later answer is dropped.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A drive with processors, and the thread that executes everything in them. Dropping it ends the thread.
pub struct SharedSsd(Arc<Inner>);

impl SharedSsd {
    /// Starts the processors of a drive, and their thread. `answers` keeps the drive's time.
    pub fn start(drive: Drive, answers: Answers) -> io::Result<SharedSsd> {
        let ssd = Ssd::new(drive.clone());
        let state = State { ssd, waiting: Waiting::default(), jobs: VecDeque::new(), is_closed: false };
        let is_lost = AtomicBool::new(!drive.lock().has_power());
        let state = Mutex::new(state);
        let inner = Arc::new(Inner { state, changed: Condvar::new(), drive, answers, is_lost });
        let (weak, running) = (Arc::downgrade(&inner), Arc::clone(&inner));
        let lose = move || weak.upgrade().map(|inner| inner.is_lost.store(true, Ordering::SeqCst)).is_some();
        inner.drive.on_power_loss(lose);
        std::thread::Builder::new().name("programs".to_owned()).spawn(move || running.run())?;
        Ok(SharedSsd(inner))
    }

    /// Calls `work` with the processors, while their thread is paused.
    pub fn with<T>(&self, work: impl FnOnce(&mut Ssd) -> T) -> T {
        let result = work(&mut self.0.state.lock().ssd);
        self.0.changed.notify_one();
        result
    }

    /// Calls `told` with the event of every program that is ended, whoever owns it. `told` must not use the processors.
    pub fn on_end(&self, told: impl Fn(&Event) + Send + 'static) {
        self.0.state.lock().waiting.on_end(Box::new(told));
    }

    /// Opens another endpoint of a process that has one, or of the kernel; with `None`, the first endpoint of a new
    /// process.
    pub fn open(&self, process: Option<ProcessId>) -> Result<EndpointId, SpuError> {
        let mut state = self.0.state.lock();
        if let Some(process) = process
            && !process.is_kernel()
            && !state.waiting.has_endpoint(process)
        {
            return Err(SpuError::NoEndpoint(process.number()));
        }
        let owner = process.unwrap_or_else(|| state.ssd.process());
        let opened = state.ssd.endpoint(owner);
        match &opened {
            Ok(endpoint) => state.waiting.open(*endpoint),
            Err(_) if process.is_none() => state.ssd.end_process(owner),
            Err(_) => {}
        }
        opened
    }

    /// Closes an endpoint. Waits and requests of it fail.
    pub fn close(&self, endpoint: EndpointId) {
        let mut state = self.0.state.lock();
        if !state.waiting.close(endpoint) {
            return;
        }
        state.ssd.close(endpoint);
        if !state.waiting.has_endpoint(endpoint.process()) {
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
                state.waiting.sent(request, endpoint, PATIENCE, Box::new(answered));
                self.0.changed.notify_one();
            }
            Err(error) => answered(Err(error)),
        }
    }

    /// Waits for the next event of an endpoint other than an answer. `received` is called with it, or with `None` after
    /// `wait`. A request's body must fit into `room` bytes.
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
        let State { ssd, waiting, .. } = &mut *state;
        waiting.receive(ssd, endpoint, room, wait, Box::new(received));
        self.0.changed.notify_one();
    }

    /// Installs a program for the process of an endpoint. `installed` is called with the result.
    pub fn install(
        &self,
        endpoint: EndpointId,
        module: Vec<u8>,
        options: InstallOptions,
        installed: impl FnOnce(Result<ProgramId, InstallError>) + Send + 'static,
    ) {
        let job = move |state: &mut State| {
            // the endpoint may already be closed, and then nobody would ever remove the program
            let result = match state.waiting.is_open(endpoint) {
                true => state.ssd.install(endpoint.process(), &module, options),
                false => Err(InstallError::NoEndpoint(endpoint.number())),
            };
            installed(result);
        };
        self.0.state.lock().jobs.push_back(Box::new(job));
        self.0.changed.notify_one();
    }

    /// Stops the processors: when this returns, they send the drive no more commands. All waits end with [`SpuError::PowerLost`].
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
        // before power comes back, so that the next loss is not overlooked
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
