//! The key-value store.
//!
//! A transaction is a context manager: it commits when its block ends, and aborts when the block raises.

use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tantalum_device::Counters as DriveCounters;
use tantalum_kv::{Counters, Error, Namespace, Options, Order, Store, Sync, Transaction, prefix_range};

use crate::device::buffer::Source;
use crate::device::figures::object;
use crate::errors::{TantalumError, raised};
use crate::ranges::{Bounds, PyRange, ahead, bounds};
use crate::store_snapshot::PyStoreSnapshot;

/// A store in an image, which is created if it does not exist.
#[pyclass(name = "Store", frozen)]
pub struct PyStore {
    store: Mutex<Option<Store>>,
    /// The counters of the store and its drive when they were last reset.
    counted: Mutex<(Counters, DriveCounters)>,
}

impl PyStore {
    fn get(&self) -> PyResult<Store> {
        let store = self.store.lock().expect("nothing panics with it").clone();
        store.ok_or_else(|| TantalumError::new_err("the store is closed"))
    }
}

#[pymethods]
impl PyStore {
    #[new]
    #[pyo3(signature = (path, *, synced = true, cache_bytes = None, capacity_bytes = None, snapshot_bytes = None, profile = None, records_per_lock = 1, read_only = false))]
    #[expect(clippy::too_many_arguments, reason = "they are options, by name")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        synced: bool,
        cache_bytes: Option<usize>,
        capacity_bytes: Option<u64>,
        snapshot_bytes: Option<usize>,
        profile: Option<&str>,
        records_per_lock: u32,
        read_only: bool,
    ) -> PyResult<PyStore> {
        let mut options = Store::options().sync(if synced { Sync::Host } else { Sync::None });
        options = options.records_per_lock(records_per_lock).read_only(read_only);
        if let Some(bytes) = snapshot_bytes {
            options = options.snapshot_bytes(bytes);
        }
        if let Some(name) = profile {
            options = options.profile(name);
        }
        if let Some(bytes) = cache_bytes {
            options = options.cache_bytes(bytes);
        }
        if let Some(bytes) = capacity_bytes {
            options = options.capacity_bytes(bytes);
        }
        let store = py.detach(|| options.open(path)).map_err(raised)?;
        Ok(PyStore { store: Mutex::new(Some(store)), counted: Mutex::default() })
    }

    /// The namespace of that name: a number for the methods of a transaction. If it does not exist, it is created, ordered: keys of
    /// 1 to 1,024 bytes, with ranges. One that exists is opened whatever its kind is.
    fn namespace(&self, py: Python<'_>, name: &str) -> PyResult<u32> {
        let store = self.get()?;
        py.detach(|| store.namespace(name)).map(Namespace::number).map_err(raised)
    }

    /// The hashed namespace of that name, created if it does not exist: keys of 1 to 16 bytes, without an order.
    fn hashed_namespace(&self, py: Python<'_>, name: &str) -> PyResult<u32> {
        let store = self.get()?;
        py.detach(|| store.hashed_namespace(name)).map(Namespace::number).map_err(raised)
    }

    /// The names of all namespaces, with their kinds: "hashed" or "ordered".
    fn namespaces<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let store = self.get()?;
        let snapshot = py.detach(|| store.snapshot()).map_err(raised)?;
        let all = PyDict::new(py);
        for (name, _, order) in snapshot.namespaces() {
            all.set_item(name, if order == Order::Ordered { "ordered" } else { "hashed" })?;
        }
        Ok(all)
    }

    /// Bytes of the drive. How much fits depends on the records: `room_for`.
    #[getter]
    fn capacity_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        let store = self.get()?;
        Ok(py.detach(|| store.capacity_bytes()))
    }

    /// How many more records with values of this many bytes fit, at least.
    fn room_for(&self, py: Python<'_>, value_bytes: usize) -> PyResult<u64> {
        let store = self.get()?;
        py.detach(|| store.room_for(value_bytes)).map_err(raised)
    }

    /// The profile of its drive, as TOML.
    #[getter]
    fn profile(&self, py: Python<'_>) -> PyResult<String> {
        let store = self.get()?;
        py.detach(|| store.with_drive(|device| device.profile().to_toml())).map_err(raised)
    }

    /// Why the store takes no more changes, or None: the machine failed or has no room, or it was opened to be read.
    #[getter]
    fn refuses_changes(&self) -> PyResult<Option<String>> {
        Ok(self.get()?.refuses_changes())
    }

    /// How often a transaction found a lock taken ("conflicts") and had to give way ("deadlocks"), since the store was
    /// opened; and bytes of memory: for records, and for overwritten ones that snapshots see.
    ///
    /// since_reset: what was counted since `reset_counters`; bytes are as they are now.
    #[pyo3(signature = (*, since_reset = false))]
    fn counters<'py>(&self, py: Python<'py>, since_reset: bool) -> PyResult<Bound<'py, PyDict>> {
        let mut counters = self.get()?.counters();
        if since_reset {
            counters = counters.since(&self.counted.lock().expect("nothing panics with it").0);
        }
        let Counters { conflicts, deadlocks, cached_bytes, snapshot_bytes } = counters;
        let dict = PyDict::new(py);
        dict.set_item("conflicts", conflicts)?;
        dict.set_item("deadlocks", deadlocks)?;
        dict.set_item("cached_bytes", cached_bytes)?;
        dict.set_item("snapshot_bytes", snapshot_bytes)?;
        Ok(dict)
    }

    /// Counters of its drive since it was created, and its wear, as `Device.counters` has them.
    #[pyo3(signature = (*, since_reset = false))]
    fn drive_counters(&self, py: Python<'_>, since_reset: bool) -> PyResult<Py<PyAny>> {
        let store = self.get()?;
        let mut smart = py.detach(|| store.with_drive(|device| device.smart())).map_err(raised)?;
        if since_reset {
            let counted = self.counted.lock().expect("nothing panics with it").1;
            smart.counters = smart.counters.since(&counted);
        }
        object(py, &smart)
    }

    /// Begins an interval, for `counters(since_reset=True)` and `drive_counters(since_reset=True)`.
    fn reset_counters(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.get()?;
        let drive = py.detach(|| store.with_drive(|device| device.smart().counters)).map_err(raised)?;
        *self.counted.lock().expect("nothing panics with it") = (store.counters(), drive);
        Ok(())
    }

    /// At most `limit` committed keys of a hashed namespace, in an order the drive chooses, starting at a key.
    #[pyo3(signature = (namespace, start = None, limit = 1000))]
    fn list<'py>(
        &self,
        py: Python<'py>,
        namespace: u32,
        start: Option<Source>,
        limit: usize,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let store = self.get()?;
        let start = start.as_ref().map(Source::bytes);
        let keys =
            py.detach(|| store.list(Namespace::from_number(namespace), start, limit)).map_err(raised)?;
        Ok(keys.iter().map(|key| PyBytes::new(py, key.as_bytes())).collect())
    }

    /// Calls a function with a transaction, and commits it; aborts it if the function raises. If the transaction has to
    /// give way to others, the function is called again. Returns the function's result.
    fn transact(&self, py: Python<'_>, work: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let mut tx = self.get()?.begin().map_err(raised)?;
        tx.stay_in_thread();
        loop {
            let given = Py::new(py, PyTransaction { tx: Mutex::new(Some(tx)) })?;
            let done = work.call1((given.clone_ref(py),));
            let ended = || TantalumError::new_err("the transaction has ended");
            let left = given.get().tx.lock().expect("nothing panics with it").take().ok_or_else(ended);
            if left.as_ref().is_ok_and(Transaction::gave_way) {
                tx = left?.restart().map_err(raised)?;
                py.check_signals()?;
                continue;
            }
            let (done, left) = (done?, left?);
            py.detach(|| left.commit()).map_err(raised)?;
            return Ok(done.unbind());
        }
    }

    /// A snapshot of all committed records: it blocks no transaction and waits for none.
    fn snapshot(&self, py: Python<'_>) -> PyResult<PyStoreSnapshot> {
        let store = self.get()?;
        py.detach(|| store.snapshot()).map(PyStoreSnapshot::new).map_err(raised)
    }

    /// Writes all committed records to a file, which must not exist, while others read and write. Returns the number of
    /// records.
    fn back_up(&self, py: Python<'_>, path: PathBuf) -> PyResult<u64> {
        let store = self.get()?;
        py.detach(|| store.back_up(path)).map(|copied| copied.records).map_err(raised)
    }

    /// Returns the space of overwritten and deleted records to the file system, as much as can be returned, while others use the store.
    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.get()?;
        py.detach(|| store.compact()).map_err(raised)
    }

    /// Reads every record. Returns what is lost, as errors: UnreadableError for each key without its value, DamagedError
    /// for keys that cannot be found.
    fn find_damage(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let store = self.get()?;
        let damage = py.detach(|| store.find_damage()).map_err(raised)?;
        Ok(damage.into_iter().map(|error| raised(error).into_value(py).into_any()).collect())
    }

    /// Drops what is lost, and returns it as `find_damage` does. Snapshots go on to see what they saw, without what is lost of it.
    fn drop_damaged(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let store = self.get()?;
        let dropped = || {
            let damage = store.find_damage()?;
            store.drop_damaged(&damage).map(|()| damage)
        };
        let damage = py.detach(dropped).map_err(raised)?;
        Ok(damage.into_iter().map(|error| raised(error).into_value(py).into_any()).collect())
    }

    /// Deletes a namespace with all its records.
    fn delete_namespace(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let store = self.get()?;
        py.detach(|| store.delete_namespace(name)).map_err(raised)
    }

    /// Begins a transaction, for `with`.
    fn transaction(&self) -> PyResult<PyTransaction> {
        let tx = self.get()?.begin().map_err(raised)?;
        Ok(PyTransaction { tx: Mutex::new(Some(tx)) })
    }

    /// Shuts the store down.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.store.lock().expect("nothing panics with it").take();
        store.map_or(Ok(()), |store| py.detach(|| store.close())).map_err(raised)
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _type: Py<PyAny>,
        _value: Py<PyAny>,
        _trace: Py<PyAny>,
    ) -> PyResult<bool> {
        self.close(py).map(|()| false)
    }
}

/// A transaction.
#[pyclass(name = "Transaction", frozen)]
pub struct PyTransaction {
    tx: Mutex<Option<Transaction>>,
}

impl PyTransaction {
    /// Uses the transaction while other threads of Python run: it may wait for a lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Transaction) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        py.detach(|| {
            let mut tx = self.tx.lock().expect("nothing panics with it");
            tx.as_mut().map(work)
        })
        .ok_or_else(|| TantalumError::new_err("the transaction has ended"))?
        .map_err(raised)
    }
}

#[pymethods]
impl PyTransaction {
    /// The value of a key, or None.
    fn read<'py>(
        &self,
        py: Python<'py>,
        namespace: u32,
        key: Source,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = self.with(py, |tx| tx.read(Namespace::from_number(namespace), key.bytes()))?;
        Ok(found.map(|value| PyBytes::new(py, &value)))
    }

    /// The value of a key that is about to be changed, or None: others that do the same wait here instead of giving way
    /// later.
    fn read_for_update<'py>(
        &self,
        py: Python<'py>,
        namespace: u32,
        key: Source,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = self.with(py, |tx| tx.read_for_update(Namespace::from_number(namespace), key.bytes()))?;
        Ok(found.map(|value| PyBytes::new(py, &value)))
    }

    /// At most `length` bytes of a value, from an offset on, or None: for values that are not to be in memory as a whole.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        namespace: u32,
        key: Source,
        offset: u64,
        length: usize,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let namespace = Namespace::from_number(namespace);
        let found = self.with(py, |tx| {
            let Some(bytes) = tx.value_bytes(namespace, key.bytes())? else { return Ok(None) };
            let mut piece = vec![0; length.min(bytes.saturating_sub(offset) as usize)];
            tx.read_at(namespace, key.bytes(), offset, &mut piece)?;
            Ok(Some(piece))
        })?;
        Ok(found.map(|piece| PyBytes::new(py, &piece)))
    }

    /// The number of bytes of a value, or None.
    fn value_bytes(&self, py: Python<'_>, namespace: u32, key: Source) -> PyResult<Option<u64>> {
        self.with(py, |tx| tx.value_bytes(Namespace::from_number(namespace), key.bytes()))
    }

    /// Creates a record; KeyError if it already exists.
    fn insert(&self, py: Python<'_>, namespace: u32, key: Source, value: Source) -> PyResult<()> {
        self.with(py, |tx| tx.insert(Namespace::from_number(namespace), key.bytes(), value.bytes()))
    }

    /// Changes a record; KeyError if it does not exist.
    fn update(&self, py: Python<'_>, namespace: u32, key: Source, value: Source) -> PyResult<()> {
        self.with(py, |tx| tx.update(Namespace::from_number(namespace), key.bytes(), value.bytes()))
    }

    /// The records of an ordered namespace from `start` up to but not including `end`.
    #[pyo3(signature = (namespace, start = None, end = None, *, reverse = false, for_update = false))]
    fn range(
        this: Py<Self>,
        namespace: u32,
        start: Option<Source>,
        end: Option<Source>,
        reverse: bool,
        for_update: bool,
    ) -> PyRange {
        range_of(this, namespace, bounds(start.as_ref(), end.as_ref()), reverse, for_update)
    }

    /// The records of an ordered namespace whose keys begin with these bytes.
    #[pyo3(signature = (namespace, prefix, *, reverse = false, for_update = false))]
    fn prefix(this: Py<Self>, namespace: u32, prefix: Source, reverse: bool, for_update: bool) -> PyRange {
        range_of(this, namespace, prefix_range(prefix.bytes()), reverse, for_update)
    }

    /// Changes or creates a record.
    fn put(&self, py: Python<'_>, namespace: u32, key: Source, value: Source) -> PyResult<()> {
        self.with(py, |tx| tx.put(Namespace::from_number(namespace), key.bytes(), value.bytes()))
    }

    /// Deletes a record; returns whether it existed.
    fn delete(&self, py: Python<'_>, namespace: u32, key: Source) -> PyResult<bool> {
        self.with(py, |tx| tx.delete(Namespace::from_number(namespace), key.bytes()))
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        // the thread that begins the block ends it
        if let Some(tx) = this.get().tx.lock().expect("nothing panics with it").as_mut() {
            tx.stay_in_thread();
        }
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<Py<PyAny>>,
        _value: Py<PyAny>,
        _trace: Py<PyAny>,
    ) -> PyResult<bool> {
        let tx = self.tx.lock().expect("nothing panics with it").take();
        match (tx, kind) {
            (Some(tx), None) => py.detach(|| tx.commit()).map_err(raised)?,
            (tx, _) => drop(tx),
        }
        Ok(false)
    }
}

fn range_of(
    tx: Py<PyTransaction>,
    namespace: u32,
    bounds: Bounds,
    reverse: bool,
    for_update: bool,
) -> PyRange {
    let namespace = Namespace::from_number(namespace);
    PyRange::new(bounds, move |py, bounds| {
        tx.get().with(py, |tx| {
            let range = tx.range(namespace, bounds.clone())?;
            Ok(ahead(if for_update { range.for_update() } else { range }, bounds, reverse))
        })
    })
}

fn with_capacity(capacity_bytes: Option<u64>) -> Options {
    match capacity_bytes {
        Some(bytes) => Store::options().capacity_bytes(bytes),
        None => Store::options(),
    }
}

/// Restores a store from a backup, into an image that must not exist. Returns the number of records.
#[pyfunction]
#[pyo3(signature = (backup, image, *, capacity_bytes = None))]
pub fn restore(
    py: Python<'_>,
    backup: PathBuf,
    image: PathBuf,
    capacity_bytes: Option<u64>,
) -> PyResult<u64> {
    py.detach(|| with_capacity(capacity_bytes).restore(backup, image))
        .map(|copied| copied.records)
        .map_err(raised)
}

/// Copies a store that is not open into a new image, which replaces the old one: with another capacity, or to return
/// the space of deleted records. Returns the number of records.
#[pyfunction]
#[pyo3(signature = (image, *, capacity_bytes = None))]
pub fn rebuild(py: Python<'_>, image: PathBuf, capacity_bytes: Option<u64>) -> PyResult<u64> {
    py.detach(|| with_capacity(capacity_bytes).rebuild(image)).map(|copied| copied.records).map_err(raised)
}
