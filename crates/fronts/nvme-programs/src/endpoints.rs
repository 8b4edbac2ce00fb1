//! Endpoints of programs in the drive, as hosts have them over the wire.
//!
//! Invariants:
//! - An endpoint is named by a key of 64 random bits, and only in commands of the controller that opened it. So the origin of
//!   a request is its sender: neither another host nor another process of the same host can name the endpoint.
//! - Opening an endpoint without naming another one creates a process. It ends with its last endpoint, and all endpoints of
//!   a controller are closed when the controller ends.
//! - Only hosts named as trusted may open endpoints of the kernel.

use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tantalum_drive::Queue;
use tantalum_nvme::controller::Controller;
use tantalum_nvme::failure::Failure;
use tantalum_nvme::io::Transfer;
use tantalum_nvme::programs::{Caller, Programs};
use tantalum_nvme::wire::command::Submission;
use tantalum_spu::shared_ssd::SharedSsd;
use tantalum_spu::{EndpointId, ProcessId, SpuError};

use crate::commands::Addressed;

/// Maximum number of endpoints of a controller.
pub const ENDPOINTS: usize = 64;

/// Called when a program has ended.
type OnEnd = dyn Fn(String) + Send + Sync;

/// The processors of a drive, which start when the first endpoint is opened.
#[derive(Default)]
pub struct DrivePrograms {
    ssd: OnceLock<Option<SharedSsd>>,
    endpoints: Mutex<FxHashMap<u64, Endpoint>>,
    refusals: Arc<Refusals>,
    on_end: Arc<OnceLock<Box<OnEnd>>>,
}

/// The reason for the last refusal of a command of each endpoint. Written while the processors are locked, so no other lock
/// is taken while holding it.
#[derive(Default)]
pub struct Refusals(Mutex<FxHashMap<u64, String>>);

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

impl DrivePrograms {
    fn start(&self, queue: &Queue) -> Result<&SharedSsd, Failure> {
        let start = || {
            let ssd = SharedSsd::start(queue.drive().clone(), queue.answers().clone()).ok()?;
            let on_end = Arc::clone(&self.on_end);
            ssd.on_end(move |event| {
                if let Some(told) = on_end.get() {
                    told(event.to_string());
                }
            });
            Some(ssd)
        };
        self.ssd.get_or_init(start).as_ref().ok_or(Failure::INTERNAL)
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
        self.refusals.0.lock().insert(key, String::new());
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
        self.refusals.0.lock().remove(&key);
        self.ssd()?.close(id);
        Ok(())
    }

    /// Why commands were refused.
    pub fn refusals(&self) -> &Arc<Refusals> {
        &self.refusals
    }
}

impl Refusals {
    /// Records why a command of an endpoint was refused, for later queries.
    pub fn note(&self, key: u64, refusal: String) {
        if let Some(last) = self.0.lock().get_mut(&key) {
            *last = refusal;
        }
    }

    /// The reason for the last refusal of a command of an endpoint; empty if there was none.
    pub fn of(&self, key: u64) -> String {
        self.0.lock().get(&key).cloned().unwrap_or_default()
    }
}

impl Programs for DrivePrograms {
    fn check(&self, command: &Submission) -> Result<Transfer, Failure> {
        Ok(Addressed::decode(command)?.transfer())
    }

    fn start(&self, command: &Submission, caller: &Caller<'_>, data: Vec<u8>) {
        let started = Addressed::decode(command).and_then(|addressed| addressed.start(self, caller, data));
        if let Err(failure) = started {
            caller.answer(Err(failure));
        }
    }

    fn on_end(&self, told: Box<OnEnd>) {
        // the first callback stays
        let _ = self.on_end.set(told);
    }

    fn end(&self, controller: &Controller) {
        let ended: Vec<(u64, Endpoint)> = {
            let mut endpoints = self.endpoints.lock();
            endpoints.extract_if(|_, endpoint| endpoint.controller == controller.id).collect()
        };
        let Ok(ssd) = self.ssd() else { return };
        for (key, endpoint) in ended {
            self.refusals.0.lock().remove(&key);
            ssd.close(endpoint.id);
        }
    }

    fn stop(&self) {
        if let Ok(ssd) = self.ssd() {
            ssd.stop();
        }
    }

    fn power_on(&self) {
        if let Ok(ssd) = self.ssd() {
            // power may already have gone again, and then this is called again
            let _ = ssd.power_on();
        }
    }
}

impl fmt::Debug for DrivePrograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DrivePrograms").finish_non_exhaustive()
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
