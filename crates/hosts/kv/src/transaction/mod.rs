//! A transaction: locks, and changes that are private until it commits.

mod scan;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tantalum::{NamespaceId, Nanoseconds};

use crate::age::{Age, Mode, Requester, Thread};
use crate::commit::Work;
use crate::error::Error;
use crate::failure::Failure;
use crate::keys::{hashed_key, ordered_key};
use crate::large::{PART_BYTES, Stored};
use crate::locks::LockId;
use crate::ordered_key::OrderedKey;
use crate::record::{Name, Namespace, Order, OrderedChanges, Value};
use crate::shared::Shared;
use crate::spans::Extent;
use crate::tree::{Place, find, value_name};
use crate::wake::Refusal;

/// A transaction. Dropping it without [`Transaction::commit`] aborts it.
pub struct Transaction {
    shared: Arc<Shared>,
    age: Age,
    locks: FxHashMap<LockId, Mode>,
    changes: FxHashMap<Name, Option<Value>>,
    /// The keys that it has locked in ordered namespaces. It may also have locked ranges in a namespace listed here.
    ordered: BTreeMap<NamespaceId, BTreeMap<OrderedKey, Held>>,
    /// Whether one of its values is large.
    has_large: bool,
    gave_way: bool,
    /// Whether no other thread ends it than the one that uses it.
    ends_here: bool,
    /// The client's time, if it runs in the drive's.
    now_ns: Option<Nanoseconds>,
}

/// A key of an ordered namespace that a transaction has locked.
struct Held {
    mode: Mode,
    /// What it becomes, if it changes: its value, or none if it is deleted.
    change: Option<Option<Value>>,
}

/// Whether a key is locked at least like this.
fn is_held(entry: &Entry<'_, OrderedKey, Held>, mode: Mode) -> bool {
    matches!(entry, Entry::Occupied(held) if held.get().mode >= mode)
}

/// Notes that a key is locked at least like this.
fn note(entry: Entry<'_, OrderedKey, Held>, mode: Mode) -> &mut Held {
    let held = entry.or_insert(Held { mode, change: None });
    held.mode = held.mode.max(mode);
    held
}

/// Why a transaction does not get the lock of a key, or of a range that begins there; notes whether it has to give way.
fn refused(why: Refusal, key: &[u8], gave_way: &mut bool) -> Error {
    match why {
        Refusal::GiveWay => {
            *gave_way = true;
            Error::Deadlock
        }
        Refusal::OwnThread => Error::SelfDeadlock { key: key.into() },
    }
}

/// Where a record must be so that it is changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Present,
    Missing,
    Anywhere,
}

impl Where {
    /// Whether a record that is there, or is not, is changed.
    fn allows(self, is_there: bool) -> bool {
        match self {
            Where::Present => is_there,
            Where::Missing => !is_there,
            Where::Anywhere => true,
        }
    }
}

/// A record, and the lock that covers it.
enum Target {
    Hashed(Name, LockId),
    Ordered(NamespaceId, OrderedKey),
}

impl Target {
    fn key(&self) -> Box<[u8]> {
        match self {
            Target::Hashed((_, key), _) => key.as_bytes().into(),
            Target::Ordered(_, key) => key[..].into(),
        }
    }
}

impl Transaction {
    pub(crate) fn new(shared: Arc<Shared>, age: Age) -> Transaction {
        Transaction {
            shared,
            age,
            locks: FxHashMap::default(),
            changes: FxHashMap::default(),
            ordered: BTreeMap::new(),
            has_large: false,
            gave_way: false,
            ends_here: false,
            now_ns: None,
        }
    }

    /// Promises that the thread which uses the transaction ends it too. If it waits for one of its locks in another
    /// transaction, it then gets [`Error::SelfDeadlock`] at once; otherwise, after a second. [`crate::Store::transact`] does
    /// this for its callers.
    pub fn stay_in_thread(&mut self) {
        self.ends_here = true;
    }

    /// From now on the client runs in the drive's time, or has waited until `now_ns`.
    pub fn wait_until(&mut self, now_ns: Nanoseconds) {
        self.now_ns = Some(now_ns);
    }

    /// The client's time, if it runs in the drive's ([`crate::Store::begin_in_time`]).
    pub fn now_ns(&self) -> Option<Nanoseconds> {
        self.now_ns
    }

    /// Reads a record; none if it does not exist.
    pub fn read(&mut self, namespace: Namespace, key: impl AsRef<[u8]>) -> Result<Option<Value>, Error> {
        let target = self.lock(namespace, key.as_ref(), Mode::Shared)?;
        self.current(&target)
    }

    /// The number of bytes of a record's value; none if it does not exist.
    pub fn value_bytes(&mut self, namespace: Namespace, key: impl AsRef<[u8]>) -> Result<Option<u64>, Error> {
        let target = self.lock(namespace, key.as_ref(), Mode::Shared)?;
        Ok(self.stored(&target)?.map(|stored| stored.bytes()))
    }

    /// Copies the bytes of a record's value from an offset on into a buffer, for values that are not to be in memory as
    /// a whole. Returns how many bytes there were: fewer than the buffer has only at the value's end. None if the record does
    /// not exist.
    pub fn read_at(
        &mut self,
        namespace: Namespace,
        key: impl AsRef<[u8]>,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<Option<usize>, Error> {
        let target = self.lock(namespace, key.as_ref(), Mode::Shared)?;
        let Some(stored) = self.stored(&target)? else { return Ok(None) };
        let (shared, now_ns) = (&self.shared, &mut self.now_ns);
        let read = stored.read_at(offset, buffer, |large, part| shared.drive.part(large, part, now_ns));
        read.map(Some).map_err(|failure| shared.failed(failure).of_key(&target.key()))
    }

    /// Reads a record that is about to be changed: two transactions that do this wait for each other here, instead of
    /// giving way when they change it.
    pub fn read_for_update(
        &mut self,
        namespace: Namespace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Value>, Error> {
        let target = self.lock(namespace, key.as_ref(), Mode::Exclusive)?;
        self.current(&target)
    }

    /// Locks a record that is to be changed, if it need not wait; returns whether the record is locked. If not, nothing
    /// has changed, and this transaction continues as if it had not tried.
    pub fn try_lock(&mut self, namespace: Namespace, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        match self.target(namespace, key.as_ref())? {
            Target::Hashed(_, id) => {
                if self.locks.get(&id) == Some(&Mode::Exclusive) {
                    return Ok(true);
                }
                let has = self.shared.locks.try_acquire(self.requester(), id, Mode::Exclusive);
                if has {
                    self.locks.insert(id, Mode::Exclusive);
                }
                Ok(has)
            }
            Target::Ordered(namespace, key) => {
                let by = self.requester();
                let extent = Extent::Point(key.clone());
                let entry = self.ordered.entry(namespace).or_default().entry(key);
                if is_held(&entry, Mode::Exclusive) {
                    return Ok(true);
                }
                let has = self.shared.locks.try_acquire_span(by, namespace, &extent, Mode::Exclusive);
                if has {
                    note(entry, Mode::Exclusive);
                }
                Ok(has)
            }
        }
    }

    /// Reads the records of these keys, in that order.
    pub fn scan<K: AsRef<[u8]>>(
        &mut self,
        namespace: Namespace,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Value>>, Error> {
        keys.into_iter().map(|key| self.read(namespace, key)).collect()
    }

    /// Changes or creates a record.
    pub fn put(
        &mut self,
        namespace: Namespace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.change(namespace, key.as_ref(), Where::Anywhere, Some(value.as_ref())).map(drop)
    }

    /// Creates a record; [`Error::KeyExists`] if it already exists.
    pub fn insert(
        &mut self,
        namespace: Namespace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        match self.change(namespace, key.as_ref(), Where::Missing, Some(value.as_ref()))? {
            true => Ok(()),
            false => Err(Error::KeyExists { key: key.as_ref().into() }),
        }
    }

    /// Changes a record; [`Error::NoSuchKey`] if it does not exist.
    pub fn update(
        &mut self,
        namespace: Namespace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        match self.change(namespace, key.as_ref(), Where::Present, Some(value.as_ref()))? {
            true => Ok(()),
            false => Err(Error::NoSuchKey { key: key.as_ref().into() }),
        }
    }

    /// Deletes a record; returns whether it existed.
    pub fn delete(&mut self, namespace: Namespace, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        self.change(namespace, key.as_ref(), Where::Present, None)
    }

    /// Makes the changes visible and durable, all or nothing.
    pub fn commit(self) -> Result<(), Error> {
        self.commit_in_time().map(drop)
    }

    /// The same; returns when it is done, if the client runs in the drive's time.
    pub fn commit_in_time(mut self) -> Result<Option<Nanoseconds>, Error> {
        self.finish()
    }

    /// The same for a client that follows the drive's time as it passes: `wait` is called with the time until which it
    /// must wait. Others do not get its locks before then.
    pub fn commit_then_wait(mut self, wait: impl FnOnce(Nanoseconds)) -> Result<(), Error> {
        if let Some(done_ns) = self.finish()? {
            wait(done_ns);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Option<Nanoseconds>, Error> {
        if self.gave_way {
            return Err(Error::Deadlock);
        }
        self.assert_changes();
        let records: Vec<_> = self.changes.drain().collect();
        let ordered: Vec<_> = self.take_ordered();
        if records.is_empty() && ordered.is_empty() {
            return Ok(self.now_ns);
        }
        self.shared.check()?;
        let done_ns =
            self.shared.commit(Work { records, ordered, has_large: self.has_large, at_ns: self.now_ns })?;
        Ok(self.now_ns.map(|_| done_ns))
    }

    /// What it changes in ordered namespaces. The keys stay locked.
    fn take_ordered(&mut self) -> Vec<(NamespaceId, OrderedChanges)> {
        let namespaces = self.ordered.iter_mut().map(|(namespace, keys)| {
            let keys = keys.iter_mut();
            let changes = keys.filter_map(|(key, held)| Some((key.clone(), held.change.take()?)));
            (*namespace, changes.collect::<OrderedChanges>())
        });
        namespaces.filter(|(_, changes)| !changes.is_empty()).collect()
    }

    /// Each changed record is locked alone, and values are large only if that is known.
    fn assert_changes(&self) {
        let ordered =
            || self.ordered.values().flat_map(BTreeMap::values).filter(|held| held.change.is_some());
        debug_assert!(
            ordered().all(|held| held.mode == Mode::Exclusive),
            "{:?} commits a change of a key that it has not locked",
            self.age
        );
        let records = self.shared.options.records_per_lock;
        debug_assert!(
            self.changes.keys().all(|(of, key)| {
                self.locks.get(&LockId::of(*of, *key, records)) == Some(&Mode::Exclusive)
            }),
            "{:?} commits a change of a record that it has not locked",
            self.age
        );
        let mut values =
            self.changes.values().chain(ordered().filter_map(|held| held.change.as_ref())).flatten();
        debug_assert!(
            self.has_large || values.all(|value| value.len() <= PART_BYTES),
            "{:?} commits a large value without knowing",
            self.age
        );
    }

    /// Whether a record is locked at least like this.
    fn has_locked(&self, target: &Target, mode: Mode) -> bool {
        let held = match target {
            Target::Hashed(_, id) => self.locks.get(id),
            Target::Ordered(namespace, key) => self.held(*namespace, key).map(|held| &held.mode),
        };
        held.is_some_and(|held| *held >= mode)
    }

    /// A key of an ordered namespace, if it is locked.
    fn held(&self, namespace: NamespaceId, key: &OrderedKey) -> Option<&Held> {
        self.ordered.get(&namespace)?.get(key)
    }

    /// Discards the changes.
    pub fn abort(self) {}

    /// Aborts this transaction and begins another one of the same age: a transaction that always retries like this
    /// eventually is the oldest, and then no longer gives way. [`crate::Store::transact`] does this for its callers.
    pub fn restart(self) -> Result<Transaction, Error> {
        let (shared, age, ends_here) = (self.shared.clone(), self.age, self.ends_here);
        self.abort();
        shared.check_process()?;
        let mut again = Transaction::new(shared, age);
        again.ends_here = ends_here;
        Ok(again)
    }

    /// Whether it had to give way: then everything it does fails with [`Error::Deadlock`].
    pub fn gave_way(&self) -> bool {
        self.gave_way
    }

    /// Locks a record.
    fn lock(&mut self, namespace: Namespace, key: &[u8], mode: Mode) -> Result<Target, Error> {
        let target = self.target(namespace, key)?;
        match &target {
            Target::Hashed(_, id) if self.locks.get(id).is_some_and(|held| *held >= mode) => {}
            Target::Hashed(_, id) => {
                let acquired = self.shared.locks.acquire(self.requester(), *id, mode);
                acquired.map_err(|why| self.refused(why, key))?;
                self.locks.insert(*id, mode);
            }
            Target::Ordered(namespace, key) => {
                self.lock_key(*namespace, key.clone(), mode)?;
            }
        }
        Ok(target)
    }

    /// Locks a key of an ordered namespace.
    fn lock_key(
        &mut self,
        namespace: NamespaceId,
        key: OrderedKey,
        mode: Mode,
    ) -> Result<(&mut Held, &Shared), Error> {
        let by = self.requester();
        let Transaction { ordered, shared, gave_way, .. } = self;
        let entry = ordered.entry(namespace).or_default().entry(key);
        if !is_held(&entry, mode) {
            let extent = Extent::Point(entry.key().clone());
            let acquired = shared.locks.acquire_span(by, namespace, extent, mode);
            acquired.map_err(|why| refused(why, entry.key(), gave_way))?;
        }
        Ok((note(entry, mode), shared))
    }

    /// Who requests its locks.
    fn requester(&self) -> Requester {
        Requester { age: self.age, thread: Thread::current(self.ends_here) }
    }

    /// Why it does not get the lock of a key, or of a range that begins there.
    fn refused(&mut self, why: Refusal, key: &[u8]) -> Error {
        refused(why, key, &mut self.gave_way)
    }

    /// Fails if the transaction had to give way, or there is no such namespace.
    fn check_open(&self, namespace: NamespaceId) -> Result<Order, Error> {
        let order = self.shared.order_of(namespace)?;
        if self.gave_way { Err(Error::Deadlock) } else { Ok(order) }
    }

    /// A record, and the lock that covers it.
    fn target(&self, namespace: Namespace, key: &[u8]) -> Result<Target, Error> {
        match self.check_open(namespace.0)? {
            Order::Hashed => {
                let key = hashed_key(key)?;
                let id = LockId::of(namespace.0, key, self.shared.options.records_per_lock);
                Ok(Target::Hashed((namespace.0, key), id))
            }
            Order::Ordered => Ok(Target::Ordered(namespace.0, ordered_key(key)?)),
        }
    }

    /// The record as seen by this transaction, which has locked it.
    fn current(&mut self, target: &Target) -> Result<Option<Value>, Error> {
        let Some(stored) = self.stored(target)? else { return Ok(None) };
        let whole = self.shared.whole(stored, &mut self.now_ns);
        whole.map(Some).map_err(|error| error.of_key(&target.key()))
    }

    /// The same as it is stored.
    fn stored(&mut self, target: &Target) -> Result<Option<Stored>, Error> {
        assert!(self.has_locked(target, Mode::Shared), "{:?} reads what it has not locked", self.age);
        let (name, must_be_there) = match target {
            Target::Hashed(name, _) => match self.changes.get(name) {
                Some(changed) => return Ok(changed.clone().map(Stored::Whole)),
                None => (*name, false),
            },
            Target::Ordered(namespace, key) => {
                if let Some(changed) = self.held(*namespace, key).and_then(|held| held.change.clone()) {
                    return Ok(changed.map(Stored::Whole));
                }
                let found = find(&self.shared.drive.stable(), *namespace, key, |value| value.into());
                match found.map_err(|failure| self.shared.failed(failure))? {
                    Some(Place::Here(value)) => return Ok(Some(Stored::Whole(value))),
                    Some(Place::Apart(number)) => (value_name(*namespace, number), true),
                    None => return Ok(None),
                }
            }
        };
        match self.shared.stored(name, &mut self.now_ns) {
            Ok(None) if must_be_there => {
                Err(self.shared.failed(Failure::missing(name)).of_key(&target.key()))
            }
            read => read.map_err(|error| error.of_key(&target.key())),
        }
    }

    /// Whether the record exists for this transaction, which has locked it. Its value may be lost.
    fn exists(&mut self, target: &Target) -> Result<bool, Error> {
        match self.stored(target) {
            Err(Error::Damaged { .. }) => Ok(true),
            read => Ok(read?.is_some()),
        }
    }

    /// Locks a record, and changes it if it is where it must be; returns whether it does.
    fn change(
        &mut self,
        namespace: Namespace,
        key: &[u8],
        must_be: Where,
        value: Option<&[u8]>,
    ) -> Result<bool, Error> {
        if self.check_open(namespace.0)? == Order::Ordered {
            return self.change_key(namespace.0, key, must_be, value);
        }
        let target = self.lock(namespace, key, Mode::Exclusive)?;
        if must_be != Where::Anywhere && !must_be.allows(self.exists(&target)?) {
            return Ok(false);
        }
        self.check_bytes(key, value)?;
        self.has_large |= is_large(value);
        if let Target::Hashed(name, id) = target {
            let is_alone = self.locks.get(&id) == Some(&Mode::Exclusive);
            assert!(is_alone, "{:?} changes what others may read", self.age);
            self.changes.insert(name, value.map(Value::from));
        }
        Ok(true)
    }

    /// The same in an ordered namespace. The key is looked for once among those that are locked.
    fn change_key(
        &mut self,
        namespace: NamespaceId,
        key: &[u8],
        must_be: Where,
        value: Option<&[u8]>,
    ) -> Result<bool, Error> {
        let ordered = ordered_key(key)?;
        // if it is too large, the key is locked for nothing
        let checked = self.check_bytes(key, value);
        let (held, shared) = self.lock_key(namespace, ordered, Mode::Exclusive)?;
        if must_be != Where::Anywhere {
            let is_there = match &held.change {
                Some(changed) => changed.is_some(),
                None => {
                    let found = find(&shared.drive.stable(), namespace, key, |_| ());
                    found.map_err(|failure| shared.failed(failure))?.is_some()
                }
            };
            if !must_be.allows(is_there) {
                return Ok(false);
            }
        }
        checked?;
        held.change = Some(value.map(Value::from));
        self.has_large |= is_large(value);
        Ok(true)
    }

    /// Fails if a value is larger than the drive.
    fn check_bytes(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        let (bytes, limit) = (value.map_or(0, <[u8]>::len) as u64, self.shared.capacity_bytes);
        match bytes > limit {
            true => Err(Error::ValueTooLarge { key: key.into(), bytes, limit }),
            false => Ok(()),
        }
    }
}

fn is_large(value: Option<&[u8]>) -> bool {
    value.is_some_and(|value| value.len() > PART_BYTES)
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // a forked process must not touch the parent's locks
        if self.shared.check_process().is_ok() {
            self.shared.locks.release(self.age, self.locks.drain().map(|(id, _)| id));
            for (namespace, keys) in std::mem::take(&mut self.ordered) {
                self.shared.locks.release_spans(self.age, namespace, keys.keys());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use crate::{Options, Sync};

    /// Who opens one has the catalog, and waits for the commit that is in progress.
    #[test]
    fn a_commit_of_small_values_does_not_wait_for_who_opens_a_snapshot() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::default().capacity_bytes(16 << 20).sync(Sync::None);
        let store = options.open(folder.path().join("app.tant")).unwrap();
        let namespace = store.namespace("a").unwrap();
        store.transact(|tx| tx.put(namespace, b"a", b"1")).unwrap();
        let mut tx = store.begin().unwrap();
        tx.put(namespace, b"a", b"2").unwrap();
        let shared = tx.shared.clone();
        let catalog = shared.catalog.lock();
        let (done, is_done) = channel();
        std::thread::spawn(move || done.send(tx.commit().is_ok()));
        assert_eq!(is_done.recv_timeout(Duration::from_secs(60)), Ok(true));
        drop(catalog);
    }
}
