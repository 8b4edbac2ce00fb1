//! The document store.

use std::collections::VecDeque;
use std::ops::Bound as Limit;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMapping};
use tantalum_couch::{Batch, Document, Error, Folder, Options, Snapshot, Store, Way};

use crate::device::ReadOnlyError;
use crate::device::buffer::Source;
use crate::errors::{TantalumError, host};

/// Documents that an iterator reads ahead.
const AHEAD: usize = 64;

fn raised(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::BadKey { .. } | Error::ValueTooLarge { .. } => PyValueError::new_err(text),
        Error::Io(error) => host(error.kind(), text),
        Error::ReadOnly { .. } => ReadOnlyError::new_err(text),
        _ => TantalumError::new_err(text),
    }
}

fn bytes(py: Python<'_>, found: Option<Document>) -> Option<Bound<'_, PyBytes>> {
    found.map(|document| PyBytes::new(py, document.value()))
}

/// A document store: a file of that name in a folder, which is created if it does not exist.
///
/// In a folder whose file system takes no changes, being mounted read-only or failing, it is opened to be read, and changes raise
/// ReadOnlyError.
#[pyclass(frozen)]
pub struct Documents {
    store: Mutex<Option<Store<Folder>>>,
}

impl Documents {
    fn get_store(&self) -> PyResult<Store<Folder>> {
        let store = self.store.lock().expect("nothing panics with it").clone();
        store.ok_or_else(|| TantalumError::new_err("the store is closed"))
    }
}

#[pymethods]
impl Documents {
    #[new]
    #[pyo3(signature = (folder, name = "app.couch", *, share = true, cache_bytes = None))]
    fn new(
        py: Python<'_>,
        folder: PathBuf,
        name: &str,
        share: bool,
        cache_bytes: Option<usize>,
    ) -> PyResult<Documents> {
        let way = if share { Way::Share } else { Way::Original };
        let mut options = Options { way, ..Options::default() };
        if let Some(bytes) = cache_bytes {
            options.cache_bytes = bytes;
        }
        let folder = Folder::new(folder)?;
        let store = py.detach(|| Store::open(folder, name, options)).map_err(raised)?;
        Ok(Documents { store: Mutex::new(Some(store)) })
    }

    /// The value of a key, or None.
    fn get<'py>(&self, py: Python<'py>, key: Source) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let store = self.get_store()?;
        Ok(bytes(py, py.detach(|| store.get(key.bytes())).map_err(raised)?))
    }

    /// Creates, updates and deletes (None) documents, all or nothing, durably. Returns the number of the last change.
    fn commit(&self, py: Python<'_>, changes: &Bound<'_, PyMapping>) -> PyResult<u64> {
        let store = self.get_store()?;
        let mut changes: Vec<(Source, Option<Source>)> = changes.items()?.extract()?;
        // so that the same changes make the same file
        changes.sort_unstable_by(|(a, _), (b, _)| a.bytes().cmp(b.bytes()));
        py.detach(|| {
            let mut batch = Batch::new();
            for (key, value) in &changes {
                match value {
                    Some(value) => batch.put(key.bytes(), value.bytes())?,
                    None => batch.delete(key.bytes())?,
                }
            }
            store.commit(&batch)
        })
        .map_err(raised)
    }

    /// A snapshot of the current documents, which stays until it is closed.
    fn snapshot(&self) -> PyResult<PySnapshot> {
        Ok(PySnapshot { snapshot: Mutex::new(Some(Arc::new(self.get_store()?.snapshot()))) })
    }

    /// Writes the index and the live documents to a new file, and removes the old one. Others can read and write
    /// meanwhile.
    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.get_store()?;
        py.detach(|| store.compact()).map_err(raised)
    }

    /// The part of the file, in percent, that a compaction would free.
    fn garbage_percent(&self) -> PyResult<f64> {
        Ok(self.get_store()?.statistics().garbage_percent())
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.get_store()?.statistics().documents as usize)
    }

    /// Closes the store; its folder can be opened again when its snapshots are closed as well.
    fn close(&self) {
        self.store.lock().expect("nothing panics with it").take();
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(&self, _type: Py<PyAny>, _value: Py<PyAny>, _trace: Py<PyAny>) -> bool {
        self.close();
        false
    }
}

/// The documents as of one point in time.
#[pyclass(name = "Snapshot", frozen)]
pub struct PySnapshot {
    snapshot: Mutex<Option<Arc<Snapshot<Folder>>>>,
}

impl PySnapshot {
    fn get_snapshot(&self) -> PyResult<Arc<Snapshot<Folder>>> {
        let snapshot = self.snapshot.lock().expect("nothing panics with it").clone();
        snapshot.ok_or_else(|| TantalumError::new_err("the snapshot is closed"))
    }
}

#[pymethods]
impl PySnapshot {
    /// The value of a key, or None.
    fn get<'py>(&self, py: Python<'py>, key: Source) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let snapshot = self.get_snapshot()?;
        Ok(bytes(py, py.detach(|| snapshot.get(key.bytes())).map_err(raised)?))
    }

    /// Keys and values in the order of the keys, or against it, from a key up to but not including another.
    #[pyo3(signature = (start = None, end = None, *, reverse = false))]
    fn range(&self, start: Option<Source>, end: Option<Source>, reverse: bool) -> PyResult<Range> {
        let owned = |key: Source| key.bytes().to_vec();
        let from = start.map_or(Limit::Unbounded, |key| Limit::Included(owned(key)));
        let to = end.map_or(Limit::Unbounded, |key| Limit::Excluded(owned(key)));
        let walk = Walk { from, to, ahead: VecDeque::new() };
        Ok(Range { snapshot: self.get_snapshot()?, reverse, walk: Mutex::new(walk) })
    }

    /// The last change of each document after the change `since`, in their order: number, key, and value or None.
    fn changes(&self, since: u64) -> PyResult<Changes> {
        Ok(Changes { snapshot: self.get_snapshot()?, walk: Mutex::new((since, VecDeque::new())) })
    }

    /// The number of the last change that it sees.
    #[getter]
    fn seq(&self) -> PyResult<u64> {
        Ok(self.get_snapshot()?.seq())
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.get_snapshot()?.len() as usize)
    }

    fn __iter__(&self) -> PyResult<Range> {
        self.range(None, None, false)
    }

    /// Closes it: while it is open, the first update of each document takes more writes.
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

/// The keys that a walk has not reached.
struct Walk {
    from: Limit<Vec<u8>>,
    to: Limit<Vec<u8>>,
    ahead: VecDeque<Document>,
}

/// Keys and values.
#[pyclass(frozen)]
struct Range {
    snapshot: Arc<Snapshot<Folder>>,
    reverse: bool,
    walk: Mutex<Walk>,
}

impl Range {
    fn next_document(&self) -> Result<Option<Document>, Error> {
        let mut walk = self.walk.lock().expect("nothing panics with it");
        if walk.ahead.is_empty() {
            let range = self.snapshot.range::<Vec<u8>, _>((walk.from.as_ref(), walk.to.as_ref()))?;
            let ahead: VecDeque<Document> = match self.reverse {
                false => range.take(AHEAD).collect::<Result<_, _>>()?,
                true => range.rev().take(AHEAD).collect::<Result<_, _>>()?,
            };
            if let Some(last) = ahead.back() {
                let last = Limit::Excluded(last.key().to_vec());
                if self.reverse { walk.to = last } else { walk.from = last }
            }
            walk.ahead = ahead;
        }
        Ok(walk.ahead.pop_front())
    }
}

#[pymethods]
impl Range {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let next = py.detach(|| self.next_document()).map_err(raised)?;
        Ok(next.map(|document| (PyBytes::new(py, document.key()), PyBytes::new(py, document.value()))))
    }
}

/// A change: its number, key, and value or None.
type Change<'py> = (u64, Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>);

/// Changes of documents.
#[pyclass(frozen)]
struct Changes {
    snapshot: Arc<Snapshot<Folder>>,
    /// The last number that was read, and what was read ahead.
    walk: Mutex<(u64, VecDeque<Document>)>,
}

impl Changes {
    fn next_document(&self) -> Result<Option<Document>, Error> {
        let (since, ahead) = &mut *self.walk.lock().expect("nothing panics with it");
        if ahead.is_empty() {
            *ahead = self.snapshot.changes(*since)?.take(AHEAD).collect::<Result<_, _>>()?;
            *since = ahead.back().map_or(*since, Document::seq);
        }
        Ok(ahead.pop_front())
    }
}

#[pymethods]
impl Changes {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Change<'py>>> {
        let next = py.detach(|| self.next_document()).map_err(raised)?;
        Ok(next.map(|document| {
            let value = (!document.is_deleted()).then(|| PyBytes::new(py, document.value()));
            (document.seq(), PyBytes::new(py, document.key()), value)
        }))
    }
}
