//! Snapshots of the key-value store.

use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tantalum_kv::{Error, Namespace, Snapshot, prefix_range};

use crate::device::buffer::Source;
use crate::errors::{TantalumError, raised};
use crate::ranges::{Bounds, PyRange, ahead, bounds};

/// The committed records as of one point in time. It keeps its store open until it is closed.
#[pyclass(name = "StoreSnapshot", frozen)]
pub struct PyStoreSnapshot {
    snapshot: Mutex<Option<Arc<Snapshot>>>,
}

impl PyStoreSnapshot {
    pub fn new(snapshot: Snapshot) -> PyStoreSnapshot {
        PyStoreSnapshot { snapshot: Mutex::new(Some(Arc::new(snapshot))) }
    }

    pub fn get(&self) -> PyResult<Arc<Snapshot>> {
        let snapshot = self.snapshot.lock().expect("nothing panics with it").clone();
        snapshot.ok_or_else(|| TantalumError::new_err("the snapshot is closed"))
    }
}

#[pymethods]
impl PyStoreSnapshot {
    /// The value of a key, or None.
    fn read<'py>(
        &self,
        py: Python<'py>,
        namespace: u32,
        key: Source,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let snapshot = self.get()?;
        let found =
            py.detach(|| snapshot.read(Namespace::from_number(namespace), key.bytes())).map_err(raised)?;
        Ok(found.map(|value| PyBytes::new(py, &value)))
    }

    /// At most `length` bytes of a value, from an offset on, or None.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        namespace: u32,
        key: Source,
        offset: u64,
        length: usize,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (snapshot, namespace) = (self.get()?, Namespace::from_number(namespace));
        let read = || -> Result<_, Error> {
            let Some(bytes) = snapshot.value_bytes(namespace, key.bytes())? else { return Ok(None) };
            let mut piece = vec![0; length.min(bytes.saturating_sub(offset) as usize)];
            snapshot.read_at(namespace, key.bytes(), offset, &mut piece)?;
            Ok(Some(piece))
        };
        let found = py.detach(read).map_err(raised)?;
        Ok(found.map(|piece| PyBytes::new(py, &piece)))
    }

    /// The number of bytes of a value, or None.
    fn value_bytes(&self, py: Python<'_>, namespace: u32, key: Source) -> PyResult<Option<u64>> {
        let snapshot = self.get()?;
        py.detach(|| snapshot.value_bytes(Namespace::from_number(namespace), key.bytes())).map_err(raised)
    }

    /// At most `limit` keys of a hashed namespace, in an order the drive chooses, starting at a key.
    #[pyo3(signature = (namespace, start = None, limit = 1000))]
    fn list<'py>(
        &self,
        py: Python<'py>,
        namespace: u32,
        start: Option<Source>,
        limit: usize,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let snapshot = self.get()?;
        let start = start.as_ref().map(Source::bytes);
        let keys = py.detach(|| snapshot.list(Namespace::from_number(namespace), start, limit));
        Ok(keys.map_err(raised)?.iter().map(|key| PyBytes::new(py, key.as_bytes())).collect())
    }

    /// The records of an ordered namespace from `start` up to but not including `end`.
    #[pyo3(signature = (namespace, start = None, end = None, *, reverse = false))]
    fn range(
        this: Py<Self>,
        namespace: u32,
        start: Option<Source>,
        end: Option<Source>,
        reverse: bool,
    ) -> PyRange {
        range_of(this, namespace, bounds(start.as_ref(), end.as_ref()), reverse)
    }

    /// The records of an ordered namespace whose keys begin with these bytes.
    #[pyo3(signature = (namespace, prefix, *, reverse = false))]
    fn prefix(this: Py<Self>, namespace: u32, prefix: Source, reverse: bool) -> PyRange {
        range_of(this, namespace, prefix_range(prefix.bytes()), reverse)
    }

    /// Releases the snapshot.
    fn close(&self) {
        self.snapshot.lock().expect("nothing panics with it").take();
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(&self, _type: Py<PyAny>, _value: Py<PyAny>, _trace: Py<PyAny>) -> bool {
        self.close();
        false
    }
}

fn range_of(snapshot: Py<PyStoreSnapshot>, namespace: u32, bounds: Bounds, reverse: bool) -> PyRange {
    let namespace = Namespace::from_number(namespace);
    PyRange::new(bounds, move |py, bounds| {
        let snapshot = snapshot.get().get()?;
        let read = || Ok(ahead(snapshot.range(namespace, bounds.clone())?, bounds, reverse));
        py.detach(read).map_err(raised)
    })
}
