//! A transaction: locks, and changes that are private until it commits.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tantalum::{Key, Nanoseconds};

use crate::error::Error;
use crate::locks::{Age, LockId, Mode};
use crate::record::{Name, Namespace, Value};
use crate::shared::Shared;

/// A transaction. Dropping it without [`Transaction::commit`] aborts it.
pub struct Transaction {
    shared: Arc<Shared>,
    age: Age,
    locks: FxHashMap<LockId, Mode>,
    changes: FxHashMap<Name, Option<Value>>,
    bytes: usize,
    gave_way: bool,
    /// The client's time, if it lives in the drive's.
    now_ns: Option<Nanoseconds>,
}

impl Transaction {
    pub(crate) fn new(shared: Arc<Shared>, age: Age) -> Transaction {
        Transaction {
            shared,
            age,
            locks: FxHashMap::default(),
            changes: FxHashMap::default(),
            bytes: 0,
            gave_way: false,
            now_ns: None,
        }
    }

    /// From now on the client lives in the drive's time, or has waited until `now_ns`.
    pub fn wait_until(&mut self, now_ns: Nanoseconds) {
        self.now_ns = Some(now_ns);
    }

    /// The client's time, if it lives in the drive's ([`crate::Store::begin_in_time`]).
    pub fn now_ns(&self) -> Option<Nanoseconds> {
        self.now_ns
    }

    /// Reads a record; none if it does not exist.
    pub fn read(&mut self, namespace: Namespace, key: impl AsRef<[u8]>) -> Result<Option<Value>, Error> {
        let name = self.lock(namespace, key.as_ref(), Mode::Shared)?;
        self.current(name)
    }

    /// Reads a record that is about to be changed: two transactions that do so wait for each other here, instead of
    /// giving way when they change it.
    pub fn read_for_update(
        &mut self,
        namespace: Namespace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Value>, Error> {
        let name = self.lock(namespace, key.as_ref(), Mode::Exclusive)?;
        self.current(name)
    }

    /// Locks a record that is to be changed, if that needs no waiting; returns whether it is locked. If it is not,
    /// nothing has changed, and this transaction goes on as if it had not asked.
    pub fn try_lock(&mut self, namespace: Namespace, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        let (_, id) = self.lock_of(namespace, key.as_ref())?;
        if self.locks.get(&id) == Some(&Mode::Exclusive) {
            return Ok(true);
        }
        let has = self.shared.locks.try_acquire(self.age, id, Mode::Exclusive);
        if has {
            self.locks.insert(id, Mode::Exclusive);
        }
        Ok(has)
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
        let name = self.lock(namespace, key.as_ref(), Mode::Exclusive)?;
        self.change(name, Some(value.as_ref()))
    }

    /// Creates a record; [`Error::KeyExists`] if it already exists.
    pub fn insert(
        &mut self,
        namespace: Namespace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        let name = self.lock(namespace, key.as_ref(), Mode::Exclusive)?;
        match self.current(name)? {
            Some(_) => Err(Error::KeyExists { key: name.1 }),
            None => self.change(name, Some(value.as_ref())),
        }
    }

    /// Changes a record; [`Error::NoSuchKey`] if it does not exist.
    pub fn update(
        &mut self,
        namespace: Namespace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        let name = self.lock(namespace, key.as_ref(), Mode::Exclusive)?;
        match self.current(name)? {
            Some(_) => self.change(name, Some(value.as_ref())),
            None => Err(Error::NoSuchKey { key: name.1 }),
        }
    }

    /// Deletes a record; returns whether it existed.
    pub fn delete(&mut self, namespace: Namespace, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        let name = self.lock(namespace, key.as_ref(), Mode::Exclusive)?;
        let was_there = self.current(name)?.is_some();
        if was_there {
            self.change(name, None)?;
        }
        Ok(was_there)
    }

    /// Makes the changes visible and durable, all or nothing.
    pub fn commit(self) -> Result<(), Error> {
        self.commit_in_time().map(drop)
    }

    /// The same; returns when that is done, if the client lives in the drive's time.
    pub fn commit_in_time(mut self) -> Result<Option<Nanoseconds>, Error> {
        self.finish()
    }

    /// The same for a client that lives in the drive's time as it passes: `wait` is called with the time that it must
    /// wait for. Others do not get its locks before that.
    pub fn commit_then_wait(mut self, wait: impl FnOnce(Nanoseconds)) -> Result<(), Error> {
        if let Some(done_ns) = self.finish()? {
            wait(done_ns);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Option<Nanoseconds>, Error> {
        self.shared.check()?;
        if self.gave_way {
            return Err(Error::Deadlock);
        }
        let records: Vec<_> = self.changes.drain().collect();
        if records.is_empty() {
            return Ok(self.now_ns);
        }
        let done_ns = self.shared.put(records.clone(), self.now_ns)?;
        for (name, value) in records {
            match value {
                Some(value) => self.shared.cache.put(name, value),
                None => self.shared.cache.remove(&name),
            }
        }
        Ok(self.now_ns.map(|_| done_ns))
    }

    /// Discards the changes.
    pub fn abort(self) {}

    pub(crate) fn gave_way(&self) -> bool {
        self.gave_way
    }

    /// Locks a record.
    fn lock(&mut self, namespace: Namespace, key: &[u8], mode: Mode) -> Result<Name, Error> {
        let (name, id) = self.lock_of(namespace, key)?;
        if self.locks.get(&id).is_none_or(|held| *held < mode) {
            if self.shared.locks.acquire(self.age, id, mode).is_err() {
                self.gave_way = true;
                return Err(Error::Deadlock);
            }
            self.locks.insert(id, mode);
        }
        Ok(name)
    }

    /// A record's name, and its lock.
    fn lock_of(&self, namespace: Namespace, key: &[u8]) -> Result<(Name, LockId), Error> {
        self.shared.check_namespace(namespace.0)?;
        if self.gave_way {
            return Err(Error::Deadlock);
        }
        let key = Key::new(key)?;
        Ok(((namespace.0, key), LockId::of(namespace.0, key, self.shared.options.records_per_lock)))
    }

    /// The record as this transaction, which has locked it, sees it.
    fn current(&mut self, name: Name) -> Result<Option<Value>, Error> {
        if let Some(changed) = self.changes.get(&name) {
            return Ok(changed.clone());
        }
        if let Some(value) = self.shared.cache.get(&name) {
            return Ok(Some(value));
        }
        let found = self.shared.get(name, &mut self.now_ns)?;
        if let Some(value) = &found {
            self.shared.cache.put(name, value.clone());
        }
        Ok(found)
    }

    fn change(&mut self, name: Name, value: Option<&[u8]>) -> Result<(), Error> {
        let limits = self.shared.put_limits();
        let length = value.map_or(0, <[u8]>::len);
        if length as u64 > self.shared.limits.value_bytes {
            let (bytes, limit) = (length as u64, self.shared.limits.value_bytes);
            return Err(Error::ValueTooLarge { key: name.1, bytes, limit });
        }
        let old = self.changes.get(&name);
        let records = self.changes.len() + usize::from(old.is_none());
        let bytes = self.bytes + length - old.and_then(Option::as_ref).map_or(0, |old| old.len());
        let too_large = |what, asked: usize, limit: usize| {
            Err(Error::TransactionTooLarge { what, asked: asked as u64, limit: limit as u64 })
        };
        if records > limits.records {
            return too_large("changed records", records, limits.records);
        }
        if bytes > limits.bytes {
            return too_large("bytes of values", bytes, limits.bytes);
        }
        self.bytes = bytes;
        self.changes.insert(name, value.map(Value::from));
        Ok(())
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // a forked process has no part in the parent's locks
        if !matches!(self.shared.check(), Err(Error::Forked { .. })) {
            self.shared.locks.release(self.age, self.locks.drain().map(|(id, _)| id));
        }
    }
}
