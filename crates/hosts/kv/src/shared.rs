//! What the clones of a store and its transactions share: the drive, the names, the cache, the locks, and whether the store
//! has stopped.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use tantalum::{Device, Footprint, NamespaceId, Nanoseconds, Status};
use tantalum_image::Process;

use crate::age::Age;
use crate::cache_padded::CachePadded;
use crate::catalog::{Catalog, Names, Uses};
use crate::commit::{Commits, Work};
use crate::error::Error;
use crate::failure::{Cause, Failure};
use crate::large::Stored;
use crate::large_values::LargeValues;
use crate::limits::Limits;
use crate::locks::Locks;
use crate::options::Options;
use crate::record::{Name, Order, Value};
use crate::record_store::RecordStore;
use crate::redo::Redo;
use crate::space::leave;
use crate::tree::is_node;
use crate::versions::AsOf;

/// What the clones of a store and its transactions share. The drive is shut down when it is dropped.
pub(crate) struct Shared {
    pub drive: RecordStore,
    pub options: Options,
    /// Bytes of the drive.
    pub capacity_bytes: u64,
    pub locks: Locks,
    commits: Commits,
    pub catalog: Mutex<Catalog>,
    /// What the catalog says that there may be.
    uses: SeenUses,
    /// The existing namespaces: the cache may have records of a deleted one.
    live: CachePadded<RwLock<BTreeMap<NamespaceId, (String, Order)>>>,
    next_age: CachePadded<AtomicU64>,
    /// The process that opened it.
    process: Process,
    /// Why it stopped.
    stopped: Mutex<Option<Cause>>,
    is_stopped: AtomicBool,
}

impl Shared {
    /// Takes over a drive whose catalog has been read.
    pub fn over(device: Device, catalog: Catalog, values: LargeValues, options: Options) -> Shared {
        let limits = Limits::of(&device);
        let commits = Commits::new(limits, Redo::new(catalog.first), values);
        if catalog.names.values().any(|(_, order)| *order == Order::Ordered) {
            commits.expect_leaves();
        }
        Shared {
            capacity_bytes: device.profile().capacity_bytes,
            drive: RecordStore::new(device, catalog.first, options.cache_bytes, options.snapshot_bytes),
            options,
            locks: Locks::default(),
            commits,
            uses: SeenUses::of(catalog.uses),
            live: RwLock::new(live(&catalog.names)).into(),
            catalog: Mutex::new(catalog),
            next_age: CachePadded::default(),
            process: Process::current(),
            stopped: Mutex::new(None),
            is_stopped: false.into(),
        }
    }

    /// Makes durable what opening the store has changed.
    pub fn begin(&self) -> Result<(), Error> {
        self.alone(|_| Ok(()))
    }

    /// The age of a new transaction.
    pub fn new_age(&self) -> Age {
        Age(self.next_age.fetch_add(1, Ordering::Relaxed))
    }

    /// Fails in a forked process.
    pub fn check_process(&self) -> Result<(), Error> {
        match self.process.is_current() {
            true => Ok(()),
            false => Err(Error::Forked { opened: self.process.number(), used: std::process::id() }),
        }
    }

    /// For changes: fails in a forked process, if the store was opened to be read, and after it has stopped.
    pub fn check(&self) -> Result<(), Error> {
        self.check_process()?;
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        if self.is_stopped.load(Ordering::Acquire) {
            let cause = self.stopped.lock().clone();
            return Err(cause.expect("it has one").into());
        }
        Ok(())
    }

    /// The kind of a namespace. Fails in a forked process, and if there is no such namespace.
    pub fn order_of(&self, namespace: NamespaceId) -> Result<Order, Error> {
        self.check_process()?;
        self.live.read().get(&namespace).map(|(_, order)| *order).ok_or(Error::NoSuchNamespace)
    }

    /// Fails if there is no such namespace, or if it is of the other kind.
    pub fn expect_order(&self, namespace: NamespaceId, order: Order) -> Result<(), Error> {
        match (self.order_of(namespace)?, order) {
            (Order::Hashed, Order::Ordered) => Err(Error::NotOrdered),
            (Order::Ordered, Order::Hashed) => Err(Error::NotListed),
            _ => Ok(()),
        }
    }

    /// The namespace of that name, of the wanted kind, or of any. If it does not exist it is created; ordered, unless another
    /// kind is wanted.
    pub fn open_namespace(&self, name: &str, wanted: Option<Order>) -> Result<NamespaceId, Error> {
        let mut catalog = self.catalog.lock();
        match catalog.names.get(name) {
            Some((namespace, found)) if wanted.is_none_or(|wanted| wanted == *found) => {
                return Ok(*namespace);
            }
            Some((_, found)) => return Err(Error::OtherOrder { name: name.to_owned(), order: *found }),
            None => self.check()?,
        }
        let order = wanted.unwrap_or(Order::Ordered);
        let namespace = self.alone(|device| catalog.create(device, name, order))?;
        if order == Order::Ordered {
            self.commits.expect_leaves();
        }
        self.live.write().insert(namespace, (name.to_owned(), order));
        self.assert_live(&catalog);
        Ok(namespace)
    }

    /// Deletes a namespace with all its records. If it fails and the store goes on, the namespace is as it was.
    pub fn delete_namespace(&self, name: &str) -> Result<(), Error> {
        let mut catalog = self.catalog.lock();
        let (namespace, order) = *catalog.names.get(name).ok_or(Error::NoSuchNamespace)?;
        // before it is gone: the cache may have records of it
        self.live.write().remove(&namespace);
        let deleted = self
            .commits
            .delete_namespace(&self.drive, namespace, |device| catalog.delete(device, name, namespace));
        let deleted = deleted.map_err(|failure| self.failed(failure));
        if catalog.names.contains_key(name) {
            self.live.write().insert(namespace, (name.to_owned(), order));
        }
        self.assert_live(&catalog);
        deleted
    }

    /// The namespaces that can be used are those that have names, unless nobody knows what is on the drive.
    fn assert_live(&self, catalog: &Catalog) {
        debug_assert!(
            self.is_stopped.load(Ordering::Acquire) || *self.live.read() == live(&catalog.names),
            "{:?} can be used, and names are {:?}",
            self.live.read(),
            catalog.names
        );
    }

    /// The value of a record that nobody can change meanwhile, as it is stored.
    pub fn stored(&self, name: Name, now_ns: &mut Option<Nanoseconds>) -> Result<Option<Stored>, Error> {
        self.drive.stored(name, now_ns).map_err(|failure| self.failed(failure))
    }

    /// The same of a record of a scan.
    pub fn stored_in_scan(
        &self,
        name: Name,
        now_ns: &mut Option<Nanoseconds>,
    ) -> Result<Option<Stored>, Error> {
        self.drive.stored_in_scan(name, now_ns).map_err(|failure| self.failed(failure))
    }

    /// The whole of a value that nobody can change meanwhile.
    pub fn whole(&self, stored: Stored, now_ns: &mut Option<Nanoseconds>) -> Result<Value, Error> {
        let whole = stored.whole(|large, part| self.drive.part(large, part, now_ns));
        whole.map_err(|failure| self.failed(failure))
    }

    /// Does the work of a transaction; returns when it is done.
    pub fn commit(&self, work: Work) -> Result<Nanoseconds, Error> {
        let uses = Uses { large: work.has_large, leaves: work.has_values_in_leaves() };
        if !self.uses.have(uses) {
            self.expect(uses)?;
        }
        self.commits.commit(&self.drive, work).map_err(|failure| self.failed(failure))
    }

    /// Before the first of these is put: notes that there may be some, so that versions which do not know them refuse the image.
    fn expect(&self, uses: Uses) -> Result<(), Error> {
        let mut catalog = self.catalog.lock();
        let before = catalog.uses;
        let after = Uses { large: before.large || uses.large, leaves: before.leaves || uses.leaves };
        match after == before {
            true => Ok(()),
            false => self.alone(|device| catalog.expect(device, after)),
        }?;
        self.uses.add(after);
        Ok(())
    }

    /// What only deletes may use.
    pub fn reserve(&self) -> Footprint {
        self.commits.limits().reserve
    }

    /// Makes another change to the drive, durably.
    fn alone<T>(&self, work: impl FnOnce(&mut Device) -> Result<T, Status>) -> Result<T, Error> {
        self.commits.alone(&self.drive, work).map_err(|failure| self.failed(failure))
    }

    /// Opens a snapshot of the committed state, and of the names.
    pub fn open_snapshot(&self) -> Result<(AsOf, Names), Error> {
        let catalog = self.catalog.lock();
        // what a commit that failed has changed is in doubt
        let at = self.commits.at_rest(|| self.drive.open_snapshot());
        Ok((at, catalog.names.clone()))
    }

    /// Takes no changes, for this reason.
    pub fn stop(&self, cause: Cause) {
        self.stopped.lock().get_or_insert(cause);
        self.is_stopped.store(true, Ordering::Release);
    }

    /// Why it takes no changes, if it does not.
    pub fn stopped(&self) -> Option<String> {
        let why = self.stopped.lock().as_ref().map(|cause| match cause.only_read {
            true => format!("it can only be read: {}", cause.reason),
            false => cause.reason.clone(),
        });
        why.or_else(|| self.options.read_only.then(|| Error::ReadOnly.to_string()))
    }

    /// Stops the store if it is unknown what is on the drive (K4).
    pub fn failed(&self, failure: Failure) -> Error {
        if let Some(cause) = failure.stops() {
            self.stop(cause);
        }
        self.error_of(failure)
    }

    fn error_of(&self, failure: Failure) -> Error {
        let live = self.live.read();
        let failure = match failure {
            Failure::Drive(Status::RecordUnreadable { namespace, key })
                if is_node((namespace, key))
                    && live.get(&namespace).is_some_and(|(_, order)| *order == Order::Ordered) =>
            {
                Failure::Node { namespace }
            }
            failure => failure,
        };
        failure.in_store(|namespace| live.get(&namespace).map_or_else(String::new, |(name, _)| name.clone()))
    }

    /// Takes out of the index of an ordered namespace what cannot be read of it.
    pub fn mend_index(&self, namespace: NamespaceId) -> Result<(), Error> {
        self.check()?;
        self.commits.mend_index(&self.drive, namespace).map_err(|failure| self.failed(failure))
    }

    /// Gives space back that nobody needs.
    pub fn compact(&self) -> Result<(), Error> {
        self.check()?;
        self.commits.compact(&self.drive).map_err(|failure| self.failed(failure))
    }

    /// Shuts the drive down, if it is still there.
    pub fn shut_down(&mut self) -> Result<(), Error> {
        let Some(mut device) = self.drive.take_device() else { return Ok(()) };
        // a drive that fails here says so below
        let _ = leave(&mut device);
        let now_ns = device.time_ns();
        Ok(device.shutdown(now_ns)?)
    }
}

/// What the catalog says that there may be, for those who do not wait for it: whoever has it waits for commits.
struct SeenUses {
    large: AtomicBool,
    leaves: AtomicBool,
}

impl SeenUses {
    fn of(uses: Uses) -> SeenUses {
        SeenUses { large: uses.large.into(), leaves: uses.leaves.into() }
    }

    /// Whether it says so of all of these.
    fn have(&self, uses: Uses) -> bool {
        let has = |seen: &AtomicBool, uses: bool| !uses || seen.load(Ordering::Acquire);
        has(&self.large, uses.large) && has(&self.leaves, uses.leaves)
    }

    /// It is durable that there may be these.
    fn add(&self, uses: Uses) {
        self.large.fetch_or(uses.large, Ordering::Release);
        self.leaves.fetch_or(uses.leaves, Ordering::Release);
    }
}

fn live(names: &Names) -> BTreeMap<NamespaceId, (String, Order)> {
    let all = names.iter();
    all.map(|(name, (namespace, order))| (*namespace, (name.clone(), *order))).collect()
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            // the image is the parent's; nothing of it may be written or unlocked here
            self.drive.forget_device();
            return;
        }
        if self.check().is_ok() {
            // There is nobody to report to, and nothing to lose: every commit is on flash.
            let _ = self.shut_down();
        }
    }
}
