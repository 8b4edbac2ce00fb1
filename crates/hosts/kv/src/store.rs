//! The store, as its users see it: opening and closing, namespaces, and running transactions.

use std::path::Path;
use std::sync::Arc;

use tantalum::{Access, Device, HostError, Key, Nanoseconds, Status};

use crate::catalog::{Catalog, check_name};
use crate::error::Error;
use crate::keys::hashed_key;
use crate::large_values::LargeValues;
use crate::options::Options;
use crate::record::{Namespace, Order};
use crate::shared::Shared;
use crate::snapshot::Snapshot;
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
    /// Bytes of memory for overwritten records that snapshots see.
    pub snapshot_bytes: u64,
}

impl Counters {
    /// What was counted since an earlier look at them. Bytes are as they are now.
    #[must_use]
    pub fn since(&self, earlier: &Counters) -> Counters {
        Counters {
            conflicts: self.conflicts.saturating_sub(earlier.conflicts),
            deadlocks: self.deadlocks.saturating_sub(earlier.deadlocks),
            ..*self
        }
    }
}

/// A store. Clones are the same store; the drive is shut down when the last clone and its transactions are gone.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

impl Options {
    /// Opens a store; creates its image if there is none.
    ///
    /// If the host has no room for what opening changes, the store is opened to be read: changes fail with
    /// [`Error::Stopped`], which says why.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Store, Error> {
        let path = path.as_ref();
        self.ensure_image(path)?;
        self.store_or_read(|access| self.open_drive(path, access))
    }

    /// A store on the drive that `open` opens; to be read, if the host has no room for what opening either of them changes.
    fn store_or_read(&self, open: impl Fn(Access) -> Result<Device, Error>) -> Result<Store, Error> {
        let open = |access| Store::over_or_why(open(access), self);
        let (store, why) =
            Device::or_read(self.access(), open, |(_, host)| host.as_deref()).map_err(|(error, _)| error)?;
        if let Some(why) = why {
            store.refuse_changes(why);
        }
        Ok(store)
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
    /// namespaces, or have belonged to a store; a namespace that no store created is deleted.
    pub fn over(device: Device, options: Options) -> Result<Store, Error> {
        Store::over_or_back(device, options).map_err(|(error, _)| error)
    }

    /// A store on a drive that was opened, or why not; with the failure of the host, if that is the reason.
    fn over_or_why(
        device: Result<Device, Error>,
        options: &Options,
    ) -> Result<Store, (Error, Option<Box<HostError>>)> {
        let device = match device {
            Ok(device) => device,
            Err(Error::Device(error)) => {
                let host = error.host().cloned().map(Box::new);
                return Err((error.into(), host));
            }
            Err(error) => return Err((error, None)),
        };
        Store::over_or_back(device, options.clone()).map_err(|(error, device)| {
            match device.refuses_changes() {
                Some(Status::Host(host)) => (error, Some(Box::new(host.clone()))),
                _ => (error, None),
            }
        })
    }

    /// The same; returns the drive unchanged if that fails.
    pub fn over_or_back(mut device: Device, options: Options) -> Result<Store, (Error, Box<Device>)> {
        let catalog = options.check().and_then(|()| Catalog::open(&mut device));
        let opened = catalog.and_then(|catalog| Ok((LargeValues::open(&mut device, &catalog)?, catalog)));
        let (values, catalog) = match opened {
            Ok(opened) => opened,
            Err(error) => return Err((error, Box::new(device))),
        };
        let mut shared = Shared::over(device, catalog, values, options);
        match shared.begin() {
            Ok(()) => Ok(Store { shared: Arc::new(shared) }),
            Err(error) => {
                let device = shared.drive.take_device().expect("nobody took it");
                Err((error, Box::new(device)))
            }
        }
    }

    /// Takes no changes from now on: for a store on a drive of which [`Device::open_or_read`] says that it must only be read.
    pub fn refuse_changes(&self, why: Status) {
        self.shared.stop((&why).into());
        self.shared.drive.device().lock().refuse_changes(why);
    }

    /// Why the store takes no more changes, if it does not: the host failed, or has no room, or the store was opened to be
    /// read. Everything can be read, but for
    /// records that a commit which failed was to change. Reopen the store once the host is well.
    pub fn refuses_changes(&self) -> Option<String> {
        self.shared.stopped()
    }

    /// Shuts the drive down, and returns whether that succeeded. Nothing is lost if it did not, or if this is not
    /// called. A store that could only be opened to be read has nothing to shut down. If there are other clones or open
    /// transactions, the drive is shut down when the last one is gone.
    pub fn close(self) -> Result<(), Error> {
        match self.shared.check() {
            // nothing is to be written; the file is released with the last clone
            Err(Error::ReadOnly | Error::Stopped { only_read: true, .. }) => return Ok(()),
            checked => checked?,
        }
        match Arc::into_inner(self.shared) {
            Some(mut shared) => shared.shut_down(),
            None => Ok(()),
        }
    }

    /// The namespace of that name. If it does not exist, an ordered one is created: its keys have 1 to 1,024 bytes, and
    /// transactions and snapshots scan them in their order ([`Transaction::range`]). One that exists is opened whatever its
    /// kind is ([`Store::order_of`] tells it).
    pub fn namespace(&self, name: &str) -> Result<Namespace, Error> {
        self.open_namespace(name, None)
    }

    /// The hashed namespace of that name, which is created if it does not exist. Its keys have 1 to 16 bytes, and no order; a
    /// new record writes nothing beside itself. Fails if the namespace is ordered.
    pub fn hashed_namespace(&self, name: &str) -> Result<Namespace, Error> {
        self.open_namespace(name, Some(Order::Hashed))
    }

    fn open_namespace(&self, name: &str, wanted: Option<Order>) -> Result<Namespace, Error> {
        self.shared.check_process()?;
        check_name(name)?;
        Ok(Namespace(self.shared.open_namespace(name, wanted)?))
    }

    /// The kind of a namespace.
    pub fn order_of(&self, namespace: Namespace) -> Result<Order, Error> {
        self.shared.order_of(namespace.0)
    }

    /// The names of all namespaces.
    pub fn namespaces(&self) -> Result<Vec<String>, Error> {
        self.shared.check_process()?;
        Ok(self.shared.catalog.lock().names.keys().cloned().collect())
    }

    /// A namespace that exists, by its name.
    pub(crate) fn named(&self, name: &str) -> Result<Namespace, Error> {
        let catalog = self.shared.catalog.lock();
        catalog.names.get(name).map(|(namespace, _)| Namespace(*namespace)).ok_or(Error::NoSuchNamespace)
    }

    pub(crate) fn mend_index(&self, namespace: Namespace) -> Result<(), Error> {
        self.shared.mend_index(namespace.0)
    }

    /// Deletes a namespace with all its records. Transactions that use it fail with [`Error::NoSuchNamespace`].
    pub fn delete_namespace(&self, name: &str) -> Result<(), Error> {
        self.shared.check()?;
        self.shared.delete_namespace(name)
    }

    /// At most `limit` keys of a hashed namespace, in the drive's own order, which is stable while other keys come and
    /// go: starting at `from`, or at the key that would follow it. Not part of any transaction: these are committed
    /// keys.
    pub fn list(&self, namespace: Namespace, from: Option<&[u8]>, limit: usize) -> Result<Vec<Key>, Error> {
        self.shared.expect_order(namespace.0, Order::Hashed)?;
        let from = from.map(hashed_key).transpose()?;
        let listed = self.shared.drive.list(namespace.0, from.as_ref(), limit);
        listed.map_err(|failure| self.shared.failed(failure))
    }

    /// A snapshot of the committed state. It waits for the commit being synced, if there is one, but for no
    /// transaction; nobody waits for it.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        self.shared.check_process()?;
        Snapshot::open(self.shared.clone())
    }

    /// Begins a transaction. Dropping it aborts it.
    pub fn begin(&self) -> Result<Transaction, Error> {
        self.shared.check_process()?;
        Ok(Transaction::new(self.shared.clone(), self.shared.new_age()))
    }

    /// Begins a transaction of a client that runs in the drive's time, as in an experiment: its commands are issued at
    /// [`Transaction::now_ns`], which advances with them. Other transactions wait only for the drive's time.
    pub fn begin_in_time(&self, now_ns: Nanoseconds) -> Result<Transaction, Error> {
        let mut tx = self.begin()?;
        tx.wait_until(now_ns);
        Ok(tx)
    }

    /// Runs a transaction and commits it, and retries whenever it has to give way to others. If `work` fails, the
    /// transaction is aborted. A transaction within `work` is another one: what it requests of the records that this one
    /// has locked fails with [`Error::SelfDeadlock`].
    pub fn transact<T, E: From<Error>>(
        &self,
        mut work: impl FnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut tx = self.begin()?;
        tx.stay_in_thread();
        loop {
            let done = work(&mut tx);
            if tx.gave_way() {
                tx = tx.restart()?;
                std::thread::yield_now();
                continue;
            }
            let done = done?;
            tx.commit()?;
            return Ok(done);
        }
    }

    /// Bytes of the drive. How much fits depends on the records: see [`Store::room_for`].
    pub fn capacity_bytes(&self) -> u64 {
        self.shared.drive.device().lock().profile().capacity_bytes
    }

    /// How many records with values of this many bytes still fit, at least: in a hashed namespace, in transactions of
    /// one record. In an ordered namespace the keys take room as well. 0 if the store takes no changes.
    ///
    /// The drive stores a record with 40 bytes more in multiples of 64 bytes, and none that is smaller than a unit of
    /// 4 KiB lies in two of them: of 984 bytes four fit in a unit, of 985 bytes three.
    pub fn room_for(&self, value_bytes: usize) -> Result<u64, Error> {
        self.shared.check_process()?;
        Ok(if self.shared.stopped().is_some() {
            0
        } else {
            self.shared.drive.room_for(value_bytes, self.shared.reserve())
        })
    }

    /// Returns space to the host's file system that overwritten and deleted records take: as much as can be returned. The
    /// store does it by itself between commits as far as it costs little, and at the latest when it is closed; this collects
    /// the rest of the garbage, which moves what is still needed. Others use the store meanwhile, and commits wait for a few
    /// milliseconds at a time. Nothing with [`crate::Sync::None`], on a drive in memory, or if the file system cannot make
    /// holes in a file.
    pub fn compact(&self) -> Result<(), Error> {
        self.shared.compact()
    }

    /// The store's counters.
    pub fn counters(&self) -> Counters {
        let (conflicts, deadlocks) = self.shared.locks.counters();
        let drive = &self.shared.drive;
        let (cached_bytes, snapshot_bytes) = (drive.cache.bytes() as u64, drive.snapshot_bytes() as u64);
        Counters { conflicts, deadlocks, cached_bytes, snapshot_bytes }
    }

    /// Accesses the drive below, or cuts its power. The caller is responsible for changes that it makes there.
    pub fn with_drive<T>(&self, look: impl FnOnce(&mut Device) -> T) -> Result<T, Error> {
        self.shared.check_process()?;
        Ok(look(&mut self.shared.drive.device().lock()))
    }

    /// Returns the drive as it is; `None` if there are other clones or open transactions.
    pub fn into_drive(self) -> Option<Device> {
        let mut shared = Arc::into_inner(self.shared).filter(|shared| shared.check_process().is_ok())?;
        shared.drive.take_device()
    }
}

#[cfg(test)]
mod tests {
    use tantalum::{Command, HostFailure, HostFault, Mapping, NamespaceAttributes, TestHost};

    use super::*;

    /// The drive opened, but the store's own recovery had no room: the store could not be opened at all.
    #[test]
    fn a_store_is_opened_to_be_read_wherever_the_disk_becomes_full() {
        let folder = tempfile::tempdir().unwrap();
        let (made, image) = (folder.path().join("made.tant"), folder.path().join("app.tant"));
        let options = Store::options().capacity_bytes(16 << 20);
        let store = options.clone().open(&made).unwrap();
        let namespace = store.namespace("all").unwrap();
        for number in 0..40_u32 {
            store.transact(|tx| tx.put(namespace, number.to_be_bytes(), [7; 2000])).unwrap();
        }
        store
            .transact(|tx| (0..2000_u32).try_for_each(|n| tx.put(namespace, n.to_be_bytes(), [8; 100])))
            .unwrap();
        store.close().unwrap();
        // a namespace that no store created: the next one deletes it
        let mut device = Device::open(&made).unwrap();
        let attributes = NamespaceAttributes::default();
        let namespace = &mut tantalum::NamespaceId::default();
        device.submit(Command::CreateNamespace { attributes, namespace }, device.time_ns()).unwrap();
        device.submit(Command::Flush, device.time_ns()).unwrap();
        // the process is killed
        std::mem::forget(device);
        std::fs::copy(&made, &image).unwrap();
        let as_killed = std::fs::read(&image).unwrap();
        let (mut read, mut written) = (0, 0);
        let mut after = 0;
        loop {
            std::fs::write(&image, &as_killed).unwrap();
            let host = TestHost::new(Mapping::Never, after);
            host.faults.fail(HostFault { after, failure: HostFailure::NoSpace, lasts: true });
            let open = |access| Ok(Device::open_on(&image, access, &host)?);
            let store = options.store_or_read(open).unwrap();
            let why = store.refuses_changes();
            let (namespace, mut tx) = (store.namespace("all").unwrap(), store.begin().unwrap());
            for number in 0..2000_u32 {
                let value = tx.read(namespace, number.to_be_bytes()).unwrap();
                assert_eq!(value.as_deref(), Some(&[8; 100][..]), "record {number}, call {after}");
            }
            let added = store.transact(|tx| tx.put(namespace, b"more", b"data"));
            assert!(added.is_err() || why.is_none(), "call {after}");
            (read, written) = (read + u32::from(why.is_some()), written + u32::from(why.is_none()));
            host.life.end();
            drop(tx);
            if why.is_some() {
                // nothing was changed, so nothing failed
                store.close().unwrap();
            } else {
                drop(store);
            }
            if host.faults.failed().is_none() {
                break;
            }
            after += 1 + after / 8;
        }
        assert!(read > 3 && written > 0, "{read} stores could only be read, {written} could be written");
    }
}
