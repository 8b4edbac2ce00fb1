//! Iterators over ranges of ordered namespaces, of a transaction or a snapshot.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tantalum_kv::{Bytes, Error, Namespace, Range, Value};

use crate::store::{PyTransaction, raised};
use crate::store_snapshot::PyStoreSnapshot;

/// Records that are read before they are asked for.
const AHEAD: usize = 64;

pub type Bounds = (Bound<Bytes>, Bound<Bytes>);

type Record = (Bytes, Value);

/// From a key on, up to and without another.
pub fn bounds(start: Option<&[u8]>, end: Option<&[u8]>) -> Bounds {
    let owned = |key: &[u8]| Bytes::from(key);
    (
        start.map_or(Bound::Unbounded, |key| Bound::Included(owned(key))),
        end.map_or(Bound::Unbounded, |key| Bound::Excluded(owned(key))),
    )
}

enum Source {
    Transaction(Py<PyTransaction>),
    Snapshot(Py<PyStoreSnapshot>),
}

struct State {
    /// None: nothing is left.
    bounds: Option<Bounds>,
    ahead: VecDeque<Record>,
}

/// An iterator over keys and values.
#[pyclass(name = "Range", frozen)]
pub struct PyRange {
    source: Source,
    namespace: Namespace,
    reverse: bool,
    for_update: bool,
    state: Mutex<State>,
}

impl PyRange {
    pub fn of_transaction(
        tx: Py<PyTransaction>,
        namespace: u32,
        bounds: Bounds,
        reverse: bool,
        for_update: bool,
    ) -> PyRange {
        PyRange::new(Source::Transaction(tx), namespace, bounds, reverse, for_update)
    }

    pub fn of_snapshot(
        snapshot: Py<PyStoreSnapshot>,
        namespace: u32,
        bounds: Bounds,
        reverse: bool,
    ) -> PyRange {
        PyRange::new(Source::Snapshot(snapshot), namespace, bounds, reverse, false)
    }

    fn new(source: Source, namespace: u32, bounds: Bounds, reverse: bool, for_update: bool) -> PyRange {
        let state = Mutex::new(State { bounds: Some(bounds), ahead: VecDeque::new() });
        PyRange { source, namespace: Namespace::from_number(namespace), reverse, for_update, state }
    }

    fn some(&self, range: Range<'_>) -> Result<Vec<Record>, Error> {
        let range = if self.for_update { range.for_update() } else { range };
        if self.reverse { range.rev().take(AHEAD).collect() } else { range.take(AHEAD).collect() }
    }

    fn read(&self, py: Python<'_>, bounds: Bounds) -> PyResult<Vec<Record>> {
        match &self.source {
            Source::Transaction(tx) => {
                tx.get().with(py, |tx| tx.range(self.namespace, bounds).and_then(|range| self.some(range)))
            }
            Source::Snapshot(snapshot) => {
                let snapshot = snapshot.get().get()?;
                let read = || snapshot.range(self.namespace, bounds).and_then(|range| self.some(range));
                py.detach(read).map_err(raised)
            }
        }
    }
}

#[pymethods]
impl PyRange {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<(Object<'py>, Object<'py>)>> {
        let taken = {
            let mut state = self.state.lock().expect("nothing panics with it");
            match state.ahead.pop_front() {
                Some(record) => return Ok(Some(objects(py, record))),
                None => state.bounds.take(),
            }
        };
        let Some((from, to)) = taken else { return Ok(None) };
        let records = self.read(py, (from.clone(), to.clone()))?;
        let mut state = self.state.lock().expect("nothing panics with it");
        if let Some((last, _)) = records.last().filter(|_| records.len() == AHEAD) {
            let rest = Bound::Excluded(last.clone());
            state.bounds = Some(if self.reverse { (from, rest) } else { (rest, to) });
        }
        state.ahead.extend(records);
        Ok(state.ahead.pop_front().map(|record| objects(py, record)))
    }
}

type Object<'py> = pyo3::Bound<'py, PyBytes>;

fn objects<'py>(py: Python<'py>, (key, value): Record) -> (Object<'py>, Object<'py>) {
    (PyBytes::new(py, &key), PyBytes::new(py, &value))
}
