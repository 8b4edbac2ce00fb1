//! The store, as its users see it: opening and closing, namespaces, and running transactions.

use std::path::Path;
use std::sync::Arc;

use tantalum::{Command, Device, Key, Nanoseconds};

use crate::catalog::{Catalog, check_name};
use crate::error::Error;
use crate::locks::Age;
use crate::options::Options;
use crate::record::Namespace;
use crate::shared::Shared;
use crate::transaction::Transaction;

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
    shared: Arc<Shared>,
}

impl Options {
    /// Opens a store; creates its image if there is none.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Store, Error> {
        Store::over(self.open_drive(path.as_ref())?, self)
    }
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
        let shared = Shared::open(device, catalog, options)?;
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
        self.begin_at(self.shared.new_age())
    }

    /// Begins a transaction of a client that lives in the drive's time, as in an experiment: its commands are issued at
    /// [`Transaction::now_ns`], which advances with them. Other transactions wait for nobody's time but the drive's.
    pub fn begin_in_time(&self, now_ns: Nanoseconds) -> Result<Transaction, Error> {
        let mut tx = self.begin()?;
        tx.wait_until(now_ns);
        Ok(tx)
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
        let age = self.shared.new_age();
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
        shared.take_device()
    }
}
