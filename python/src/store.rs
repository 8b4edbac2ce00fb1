//! The key-value store.
//!
//! A transaction is a context manager: it commits when its block ends, and aborts when the block raises.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tantalum_kv::{Error, Namespace, Store, Sync, Transaction};

use crate::{DeadlockError, TantalumError};

fn raised(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Deadlock => DeadlockError::new_err(text),
        Error::Key { .. }
        | Error::ValueTooLarge { .. }
        | Error::Name { .. }
        | Error::Option { .. }
        | Error::OtherOrder { .. }
        | Error::NotOrdered
        | Error::NotListed
        | Error::Capacity { .. } => PyValueError::new_err(text),
        _ => TantalumError::new_err(text),
    }
}

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

    /// Changes or creates a record.
    fn put(&self, py: Python<'_>, namespace: u32, key: &[u8], value: &[u8]) -> PyResult<()> {
        self.with(py, |tx| tx.put(Namespace::from_number(namespace), key, value))
    }

    /// Deletes a record; returns whether it existed.
    fn delete(&self, py: Python<'_>, namespace: u32, key: &[u8]) -> PyResult<bool> {
        self.with(py, |tx| tx.delete(Namespace::from_number(namespace), key))
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
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
