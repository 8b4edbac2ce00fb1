//! The key-value store.
//!
//! A transaction is a context manager: it commits when its block ends, and aborts when the block raises.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tantalum_kv::{Error, Namespace, Options, Store, Sync, Transaction, prefix_range};

use crate::errors::{TantalumError, raised};
use crate::ranges::{Bounds, PyRange, ahead, bounds};
use crate::store_snapshot::PyStoreSnapshot;

/// A store in an image, which is created if it does not exist.
#[pyclass(name = "Store", frozen)]
pub struct PyStore {
    store: std::sync::Mutex<Option<Store>>,
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
    #[pyo3(signature = (path, *, synced = true, cache_bytes = None, capacity_bytes = None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        synced: bool,
        cache_bytes: Option<usize>,
        capacity_bytes: Option<u64>,
    ) -> PyResult<PyStore> {
        let mut options = Store::options().sync(if synced { Sync::Host } else { Sync::None });
        if let Some(bytes) = cache_bytes {
            options = options.cache_bytes(bytes);
        }
        if let Some(bytes) = capacity_bytes {
            options = options.capacity_bytes(bytes);
        }
        let store = py.detach(|| options.open(path)).map_err(raised)?;
        Ok(PyStore { store: std::sync::Mutex::new(Some(store)) })
    }

    /// The namespace of that name, created if it does not exist: a number for the methods of a transaction.
    fn namespace(&self, py: Python<'_>, name: &str) -> PyResult<u32> {
        let store = self.get()?;
        py.detach(|| store.namespace(name)).map(Namespace::number).map_err(raised)
    }

    /// The ordered namespace of that name, created if it does not exist: keys of 1 to 1,024 bytes, with ranges.
    fn ordered(&self, py: Python<'_>, name: &str) -> PyResult<u32> {
        let store = self.get()?;
        py.detach(|| store.ordered(name)).map(Namespace::number).map_err(raised)
    }

    /// At most `limit` committed keys of a hashed namespace, in an order the drive chooses, starting at a key.
    #[pyo3(signature = (namespace, start = None, limit = 1000))]
    fn list<'py>(
        &self,
        py: Python<'py>,
        namespace: u32,
        start: Option<&[u8]>,
        limit: usize,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let store = self.get()?;
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
            let given = Py::new(py, PyTransaction { tx: std::sync::Mutex::new(Some(tx)) })?;
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

    /// Deletes a namespace with all its records.
    fn delete_namespace(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let store = self.get()?;
        py.detach(|| store.delete_namespace(name)).map_err(raised)
    }

    /// Begins a transaction, for `with`.
    fn transaction(&self) -> PyResult<PyTransaction> {
        let tx = self.get()?.begin().map_err(raised)?;
        Ok(PyTransaction { tx: std::sync::Mutex::new(Some(tx)) })
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
    tx: std::sync::Mutex<Option<Transaction>>,
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
        key: &[u8],
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = self.with(py, |tx| tx.read(Namespace::from_number(namespace), key))?;
        Ok(found.map(|value| PyBytes::new(py, &value)))
    }

    /// The value of a key that is about to be changed, or None: others that do the same wait here instead of giving way
    /// later.
    fn read_for_update<'py>(
        &self,
        py: Python<'py>,
        namespace: u32,
        key: &[u8],
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = self.with(py, |tx| tx.read_for_update(Namespace::from_number(namespace), key))?;
        Ok(found.map(|value| PyBytes::new(py, &value)))
    }

    /// Creates a record; KeyError if it already exists.
    fn insert(&self, py: Python<'_>, namespace: u32, key: &[u8], value: &[u8]) -> PyResult<()> {
        self.with(py, |tx| tx.insert(Namespace::from_number(namespace), key, value))
    }

    /// Changes a record; KeyError if it does not exist.
    fn update(&self, py: Python<'_>, namespace: u32, key: &[u8], value: &[u8]) -> PyResult<()> {
        self.with(py, |tx| tx.update(Namespace::from_number(namespace), key, value))
    }

    /// The records of an ordered namespace from `start` up to but not including `end`.
    #[pyo3(signature = (namespace, start = None, end = None, *, reverse = false, for_update = false))]
    fn range(
        this: Py<Self>,
        namespace: u32,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
        reverse: bool,
        for_update: bool,
    ) -> PyRange {
        range_of(this, namespace, bounds(start, end), reverse, for_update)
    }

    /// The records of an ordered namespace whose keys begin with these bytes.
    #[pyo3(signature = (namespace, prefix, *, reverse = false, for_update = false))]
    fn prefix(this: Py<Self>, namespace: u32, prefix: &[u8], reverse: bool, for_update: bool) -> PyRange {
        range_of(this, namespace, prefix_range(prefix), reverse, for_update)
    }

    /// Changes or creates a record.
    fn put(&self, py: Python<'_>, namespace: u32, key: &[u8], value: &[u8]) -> PyResult<()> {
        self.with(py, |tx| tx.put(Namespace::from_number(namespace), key, value))
    }

    /// Deletes a record; returns whether it existed.
    fn delete(&self, py: Python<'_>, namespace: u32, key: &[u8]) -> PyResult<bool> {
        self.with(py, |tx| tx.delete(Namespace::from_number(namespace), key))
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
    PyRange::new(bounds, reverse, move |py, bounds| {
        tx.get().with(py, |tx| {
            let range = tx.range(namespace, bounds)?;
            ahead(if for_update { range.for_update() } else { range }, reverse)
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
