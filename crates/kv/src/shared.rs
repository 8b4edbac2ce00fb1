//! What the clones of a store and its transactions share: the drive, the names, the cache, the locks, and whether the store
//! has stopped.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use tantalum::{Command, Device, KeyValueLimits, NamespaceId, Nanoseconds, Status};

use crate::cache::Cache;
use crate::catalog::Catalog;
use crate::commit::{Commits, Failure, PutLimits};
use crate::error::Error;
use crate::locks::{Age, Locks};
use crate::options::Options;
use crate::record::{Name, Value};

/// What the clones of a store and its transactions have in common. The drive is shut down when it is dropped.
pub(crate) struct Shared {
    /// Taken out when the store is closed.
    device: Option<Mutex<Device>>,
    pub options: Options,
    pub limits: KeyValueLimits,
    pub cache: Cache,
    pub locks: Locks,
    commits: Commits,
    pub catalog: Mutex<Catalog>,
    /// The existing namespaces: the cache may have records of a deleted one.
    pub live: RwLock<BTreeSet<NamespaceId>>,
    next_age: AtomicU64,
    /// The process that opened it.
    process: u32,
    /// Why it stopped.
    stopped: Mutex<Option<String>>,
    is_stopped: AtomicBool,
}

impl Shared {
    /// Takes over a drive whose catalog was read.
    pub fn open(device: Device, catalog: Catalog, options: Options) -> Result<Shared, Error> {
        let shared = Shared {
            limits: device.limits().key_value,
            device: Some(Mutex::new(device)),
            cache: Cache::new(options.cache_bytes),
            options,
            locks: Locks::default(),
            commits: Commits::default(),
            live: RwLock::new(catalog.names.values().copied().collect()),
            catalog: Mutex::new(catalog),
            next_age: AtomicU64::new(0),
            process: std::process::id(),
            stopped: Mutex::new(None),
            is_stopped: false.into(),
        };
        shared.commits.alone(shared.device(), |_| Ok(()))?;
        Ok(shared)
    }

    /// The drive.
    pub fn device(&self) -> &Mutex<Device> {
        self.device.as_ref().expect("the drive is there until the store is gone")
    }

    /// Takes the drive out: there is nothing left to shut down.
    pub fn take_device(&mut self) -> Option<Device> {
        self.device.take().map(Mutex::into_inner)
    }

    /// The age of a new transaction.
    pub fn new_age(&self) -> Age {
        Age(self.next_age.fetch_add(1, Ordering::Relaxed))
    }

    /// Fails in a forked process.
    pub fn check_process(&self) -> Result<(), Error> {
        match std::process::id() {
            used if used != self.process => Err(Error::Forked { opened: self.process, used }),
            _ => Ok(()),
        }
    }

    /// Fails in a forked process, and after the store has stopped.
    pub fn check(&self) -> Result<(), Error> {
        self.check_process()?;
        if self.is_stopped.load(Ordering::Acquire) {
            let reason = self.stopped.lock().clone().unwrap_or_default();
            return Err(Error::Stopped { reason });
        }
        Ok(())
    }

    /// Fails as [`Shared::check`] does, and if there is no such namespace.
    pub fn check_namespace(&self, namespace: NamespaceId) -> Result<(), Error> {
        self.check()?;
        if self.live.read().contains(&namespace) { Ok(()) } else { Err(Error::NoSuchNamespace) }
    }

    /// Executes a command at the time when all commands so far are done.
    pub fn submit(&self, command: Command<'_>) -> Result<(), Error> {
        let mut device = self.device().lock();
        let at_ns = device.time_ns();
        match device.submit(command, at_ns) {
            Ok(_) => Ok(()),
            Err(status) => Err(self.failed(Failure::Drive(status))),
        }
    }

    /// The drive's contents of a record.
    pub fn get(
        &self,
        (namespace, key): Name,
        now_ns: &mut Option<Nanoseconds>,
    ) -> Result<Option<Value>, Error> {
        let mut value = Vec::new();
        let mut device = self.device().lock();
        let at_ns = now_ns.unwrap_or(device.time_ns());
        match device.submit(Command::KvGet { namespace, key, value: &mut value }, at_ns) {
            Ok(done) => {
                *now_ns = now_ns.map(|_| done.done_ns);
                Ok(Some(value.into()))
            }
            Err(Status::NoSuchKey { .. }) => Ok(None),
            Err(status) => Err(self.failed(Failure::Drive(status))),
        }
    }

    /// Puts a transaction's records.
    pub fn put(
        &self,
        records: Vec<(Name, Option<Value>)>,
        at_ns: Option<Nanoseconds>,
    ) -> Result<Nanoseconds, Error> {
        let limits = self.put_limits();
        self.commits.commit(self.device(), limits, records, at_ns).map_err(|failure| self.failed(failure))
    }

    /// What one `put` may hold.
    pub fn put_limits(&self) -> PutLimits {
        PutLimits { records: self.limits.put_records as usize, bytes: self.limits.put_bytes as usize }
    }

    /// Makes another change to the drive, durably.
    pub fn alone<T>(&self, work: impl FnOnce(&mut Device) -> Result<T, Status>) -> Result<T, Error> {
        self.commits.alone(self.device(), work).map_err(|failure| self.failed(failure))
    }

    /// Stops the store if it is unknown what is on the drive (K4).
    fn failed(&self, failure: Failure) -> Error {
        if let Some(reason) = failure.stops() {
            self.stopped.lock().get_or_insert(reason);
            self.is_stopped.store(true, Ordering::Release);
        }
        failure.into()
    }

    /// Shuts the drive down, if it is still there.
    pub fn shut_down(&mut self) -> Result<(), Error> {
        let Some(device) = self.take_device() else { return Ok(()) };
        let now_ns = device.time_ns();
        Ok(device.shutdown(now_ns)?)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            // the image is the parent's; nothing of it may be written or unlocked here
            std::mem::forget(self.device.take());
            return;
        }
        if self.check().is_ok() {
            // There is nobody to report to, and nothing to lose: every commit is on flash.
            let _ = self.shut_down();
        }
    }
}
