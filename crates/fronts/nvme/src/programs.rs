//! Endpoints of programs in the drive, as hosts have them over the wire.
//!
//! Invariants:
//! - An endpoint is named by a key of 64 random bits, and only in commands of the controller that opened it. So the origin of
//!   a request is its sender: neither another host nor another process of the same host can name the endpoint.
//! - Opening an endpoint without naming another one creates a process. It ends with its last endpoint, and all endpoints of
//!   a controller are closed when the controller ends.
//! - Only hosts named as trusted may open endpoints of the kernel.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tantalum_drive::Queue;
use tantalum_spu::shared_ssd::SharedSsd;
use tantalum_spu::{EndpointId, Event, ProcessId, SpuError};

use crate::controller::Controller;
use crate::failure::Failure;

/// Maximum number of endpoints of a controller.
pub const ENDPOINTS: usize = 64;

/// Called when a program has ended.
type OnEnd = dyn Fn(&Event) + Send + Sync;

/// The processors of a drive, which start when the first endpoint is opened.
#[derive(Default)]
pub struct Programs {
    ssd: OnceLock<Option<SharedSsd>>,
    endpoints: Mutex<FxHashMap<u64, Endpoint>>,
    /// The reason for the last refusal of a command of each endpoint. Written while the processors are locked, so no other
    /// lock is taken while holding it.
    refusals: Mutex<FxHashMap<u64, String>>,
    on_end: OnceLock<Arc<OnEnd>>,
}

#[derive(Clone, Copy)]
struct Endpoint {
    id: EndpointId,
    controller: u16,
}

/// The process to which a new endpoint will belong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// A new process.
    New,
    /// The process that has the endpoint with this key.
    SameAs(u64),
    /// The kernel.
    Kernel,
}

impl Programs {
    fn start(&self, queue: &Queue) -> Result<&SharedSsd, Failure> {
        let start = || {
            let ssd = SharedSsd::start(queue.drive().clone(), queue.answers().clone()).ok()?;
            if let Some(told) = self.on_end.get().cloned() {
                ssd.on_end(move |event| told(event));
            }
            Some(ssd)
        };
        self.ssd.get_or_init(start).as_ref().ok_or(Failure::INTERNAL)
    }

    /// Calls `told` with the event of every program that is ended. It must be called before the first endpoint is
    /// opened.
    pub fn on_end(&self, told: impl Fn(&Event) + Send + Sync + 'static) {
        // the first callback stays
        let _ = self.on_end.set(Arc::new(told));
    }

    /// The processors, if an endpoint was ever opened.
    pub fn ssd(&self) -> Result<&SharedSsd, Failure> {
        self.ssd.get().and_then(Option::as_ref).ok_or(Failure::UNKNOWN_ENDPOINT)
    }

    /// Opens an endpoint for a controller: its key and its number. `has_ended` says whether the controller has ended.
    pub fn open(
        &self,
        queue: &Queue,
        controller: &Controller,
        owner: Owner,
        has_ended: impl Fn() -> bool,
    ) -> Result<(u64, EndpointId), Failure> {
        let process = match owner {
            Owner::New => None,
            Owner::SameAs(key) => Some(self.endpoint(controller, key)?.process()),
            Owner::Kernel => Some(ProcessId::KERNEL),
        };
        let ssd = self.start(queue)?;
        let mut endpoints = self.endpoints.lock();
        let open = endpoints.values().filter(|endpoint| endpoint.controller == controller.id).count();
        if open >= ENDPOINTS {
            return Err(Failure::NO_QUEUE_PAIR);
        }
        // checked under the lock: either the end of the controller sees this endpoint, or this sees that the controller
        // has ended
        if has_ended() {
            return Err(Failure::SEQUENCE);
        }
        let id = ssd.open(process).map_err(failure_of)?;
        let mut key = random_key();
        while key == 0 || endpoints.contains_key(&key) {
            key = random_key();
        }
        endpoints.insert(key, Endpoint { id, controller: controller.id });
        self.refusals.lock().insert(key, String::new());
        Ok((key, id))
    }

    /// The endpoint of a controller with this key.
    pub fn endpoint(&self, controller: &Controller, key: u64) -> Result<EndpointId, Failure> {
        let endpoints = self.endpoints.lock();
        let found = endpoints.get(&key).filter(|endpoint| endpoint.controller == controller.id);
        found.map(|endpoint| endpoint.id).ok_or(Failure::UNKNOWN_ENDPOINT)
    }

    /// Closes an endpoint of a controller.
    pub fn close(&self, controller: &Controller, key: u64) -> Result<(), Failure> {
        let id = self.endpoint(controller, key)?;
        self.endpoints.lock().remove(&key);
        self.refusals.lock().remove(&key);
        self.ssd()?.close(id);
        Ok(())
    }

    /// A controller has ended, and no command of it opens endpoints any more.
    pub fn end(&self, controller: &Controller) {
        let ended: Vec<(u64, Endpoint)> = {
            let mut endpoints = self.endpoints.lock();
            endpoints.extract_if(|_, endpoint| endpoint.controller == controller.id).collect()
        };
        let Ok(ssd) = self.ssd() else { return };
        for (key, endpoint) in ended {
            self.refusals.lock().remove(&key);
            ssd.close(endpoint.id);
        }
    }

    /// Records why a command of an endpoint was refused, for later queries.
    pub fn note_refusal(&self, key: u64, refusal: String) {
        if let Some(last) = self.refusals.lock().get_mut(&key) {
            *last = refusal;
        }
    }

    /// The reason for the last refusal of a command of an endpoint.
    pub fn refusal(&self, key: u64) -> String {
        self.refusals.lock().get(&key).cloned().unwrap_or_default()
    }

    /// Stops the processors: they send the drive no more commands.
    pub fn stop(&self) {
        if let Ok(ssd) = self.ssd() {
            ssd.stop();
        }
    }

    /// The drive has power again.
    pub fn power_on(&self) {
        if let Ok(ssd) = self.ssd() {
            // power may already have gone again, and then this is called again
            let _ = ssd.power_on();
        }
    }
}

fn random_key() -> u64 {
    getrandom::u64().expect("the system gives random bytes")
}

/// How a command ends that the processors refused.
pub fn failure_of(error: SpuError) -> Failure {
    match error {
        SpuError::PowerLost => Failure::POWER_LOSS,
        SpuError::NoQueuePair { .. } => Failure::NO_QUEUE_PAIR,
        SpuError::NoEndpoint(_) => Failure::UNKNOWN_ENDPOINT,
        SpuError::NoProgram(_) => Failure::UNKNOWN_PROGRAM,
        SpuError::NoProcessor { .. } | SpuError::BodyTooLong { .. } | SpuError::NotGrantable { .. } => {
            Failure::INVALID_FIELD
        }
    }
}
