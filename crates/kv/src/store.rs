//! The store: a drive, its names, the cache and the locks, shared by all threads.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use tantalum::{Command, Device, Key, KeyValueLimits, NamespaceId, Nanoseconds, Status};

use crate::cache::{Cache, Name};
use crate::catalog::{Catalog, check_name};
use crate::commit::{Commits, Failure, PutLimits};
use crate::error::Error;
use crate::locks::{Age, Locks};
use crate::options::Options;
use crate::transaction::{Transaction, Value};

/// A namespace of a store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Namespace(pub(crate) NamespaceId);

impl Namespace {
    /// Its number, for callers that cannot hold a `Namespace`.
    pub fn number(self) -> u32 {
        self.0.0
    }

    /// The namespace of a number. Using one that does not exist fails.
    pub fn from_number(number: u32) -> Namespace {
        Namespace(NamespaceId(number))
    }
}

/// Counters of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Times that a transaction found a lock taken: it waited, or [`Transaction::try_lock`] returned false.
    pub conflicts: u64,
    /// Times that a transaction had to give way.
    pub deadlocks: u64,
    /// Bytes of records in the cache.
    pub cached_bytes: u64,
}

/// A store. Clones are the same store; the drive is shut down when the last clone and its transactions are gone.
#[derive(Clone)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    /// Taken out when the store is closed.
    device: Option<Mutex<Device>>,
    pub options: Options,
    pub limits: KeyValueLimits,
    pub cache: Cache,
    pub locks: Locks,
    commits: Commits,
    catalog: Mutex<Catalog>,
    /// The existing namespaces: the cache may have records of a deleted one.
    live: RwLock<BTreeSet<NamespaceId>>,
    next_age: AtomicU64,
    /// The process that opened it.
    process: u32,
    /// Why it stopped.
    stopped: Mutex<Option<String>>,
    is_stopped: std::sync::atomic::AtomicBool,
}

impl Store {
    /// Opens the store in an image, which is created if it does not exist: 1 GiB, synced, a cache of 64 MiB.
    pub fn open(path: impl AsRef<Path>) -> Result<Store, Error> {
        Store::options().open(path)
    }

    /// Options for opening a store.
    pub fn options() -> Options {
        Options::default()
    }

    /// A store on a drive that was created or opened elsewhere, such as one in memory. The drive must have no
    /// namespaces, or have been a store's; a namespace that no store created is deleted.
    pub fn over(mut device: Device, options: Options) -> Result<Store, Error> {
        options.check()?;
        let catalog = Catalog::open(&mut device)?;
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
        Ok(Store { shared: Arc::new(shared) })
    }

    /// Shuts the drive down, and returns whether that succeeded. Nothing is lost if it did not, or if this is not
    /// called. If there are other clones or open transactions, the drive is shut down when the last one is gone.
    pub fn close(self) -> Result<(), Error> {
        self.shared.check()?;
        match Arc::into_inner(self.shared) {
            Some(mut shared) => shared.shut_down(),
            None => Ok(()),
        }
    }

    /// The namespace of that name, which is created if it does not exist.
    pub fn namespace(&self, name: &str) -> Result<Namespace, Error> {
        self.shared.check()?;
        check_name(name)?;
        let mut catalog = self.shared.catalog.lock();
        if let Some(&namespace) = catalog.names.get(name) {
            return Ok(Namespace(namespace));
        }
        let namespace = self.shared.alone(|device| catalog.create(device, name))?;
        self.shared.live.write().insert(namespace);
        Ok(Namespace(namespace))
    }

    /// The names of all namespaces.
    pub fn namespaces(&self) -> Result<Vec<String>, Error> {
        self.shared.check()?;
        Ok(self.shared.catalog.lock().names.keys().cloned().collect())
    }

    /// Deletes a namespace with all its records. Transactions that use it fail with [`Error::NoSuchNamespace`].
    pub fn delete_namespace(&self, name: &str) -> Result<(), Error> {
        self.shared.check()?;
        let mut catalog = self.shared.catalog.lock();
        let namespace = *catalog.names.get(name).ok_or(Error::NoSuchNamespace)?;
        self.shared.live.write().remove(&namespace);
        self.shared.alone(|device| catalog.delete(device, name, namespace))
    }

    /// At most `limit` keys of a namespace, in an order of the drive that is stable while other keys come and go: from
    /// `from` on, or from the key that would follow it. Not part of any transaction: these are committed keys.
    pub fn list(&self, namespace: Namespace, from: Option<&[u8]>, limit: usize) -> Result<Vec<Key>, Error> {
        self.shared.check_namespace(namespace.0)?;
        let (from, mut keys) = (from.map(Key::new).transpose()?, Vec::new());
        let command = Command::KvList { namespace: namespace.0, from: from.as_ref(), keys: &mut keys, limit };
        self.shared.submit(command)?;
        Ok(keys)
    }

    /// Begins a transaction. Dropping it aborts it.
    pub fn begin(&self) -> Result<Transaction, Error> {
        self.begin_at(self.new_age())
    }

    /// Begins a transaction of a client that lives in the drive's time, as in an experiment: its commands are issued at
    /// [`Transaction::now_ns`], which advances with them. Other transactions wait for nobody's time but the drive's.
    pub fn begin_in_time(&self, now_ns: Nanoseconds) -> Result<Transaction, Error> {
        let mut tx = self.begin()?;
        tx.wait_until(now_ns);
        Ok(tx)
    }

    fn new_age(&self) -> Age {
        Age(self.shared.next_age.fetch_add(1, Ordering::Relaxed))
    }

    fn begin_at(&self, age: Age) -> Result<Transaction, Error> {
        self.shared.check()?;
        Ok(Transaction::new(self.shared.clone(), age))
    }

    /// Runs a transaction and commits it, and retries as long as it has to give way to others. If `work` fails, the
    /// transaction is aborted.
    pub fn transact<T, E: From<Error>>(
        &self,
        mut work: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let age = self.new_age();
        loop {
            let mut tx = self.begin_at(age)?;
            let done = work(&mut tx);
            if tx.gave_way() {
                tx.abort();
                std::thread::yield_now();
                continue;
            }
            let done = done?;
            tx.commit()?;
            return Ok(done);
        }
    }

    /// The store's counters.
    pub fn counters(&self) -> Counters {
        let (conflicts, deadlocks) = self.shared.locks.counters();
        Counters { conflicts, deadlocks, cached_bytes: self.shared.cache.bytes() as u64 }
    }

    /// Accesses the drive below, or cuts its power. The caller is responsible for changes that it makes there.
    pub fn with_drive<T>(&self, look: impl FnOnce(&mut Device) -> T) -> Result<T, Error> {
        self.shared.check_process()?;
        Ok(look(&mut self.shared.device().lock()))
    }

    /// Returns the drive as it is; none if there are other clones or open transactions.
    pub fn into_drive(self) -> Option<Device> {
        let mut shared = Arc::into_inner(self.shared).filter(|shared| shared.check_process().is_ok())?;
        shared.device.take().map(Mutex::into_inner)
    }
}

impl Shared {
    fn device(&self) -> &Mutex<Device> {
        self.device.as_ref().expect("the drive is there until the store is gone")
    }

    fn check_process(&self) -> Result<(), Error> {
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

    fn submit(&self, command: Command<'_>) -> Result<(), Error> {
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

    pub fn put_limits(&self) -> PutLimits {
        PutLimits { records: self.limits.put_records as usize, bytes: self.limits.put_bytes as usize }
    }

    fn alone<T>(&self, work: impl FnOnce(&mut Device) -> Result<T, Status>) -> Result<T, Error> {
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

    fn shut_down(&mut self) -> Result<(), Error> {
        let Some(device) = self.device.take() else { return Ok(()) };
        let device = device.into_inner();
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
