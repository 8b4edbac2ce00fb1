//! Iterators over ranges of ordered namespaces, of a transaction or a snapshot.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tantalum_kv::{Bytes, Part, Range, Value};

use crate::device::buffer::Source;
use crate::errors::raised;

/// Records that are read at once.
const AHEAD: usize = 64;

pub type Bounds = (Bound<Bytes>, Bound<Bytes>);

/// Reads records of a range.
type Read = Box<dyn Fn(Python<'_>, Bounds) -> PyResult<Part> + Send + Sync>;

pub type Record = (Bytes, Value);

/// From a key up to but not including another.
pub fn bounds(start: Option<&Source>, end: Option<&Source>) -> Bounds {
    let owned = |key: &Source| Bytes::from(key.bytes());
    (
        start.map_or(Bound::Unbounded, |key| Bound::Included(owned(key))),
        end.map_or(Bound::Unbounded, |key| Bound::Excluded(owned(key))),
    )
}

struct State {
    /// None: nothing is left.
    bounds: Option<Bounds>,
    ahead: VecDeque<Record>,
    /// What is raised after these.
    failed: Option<PyErr>,
}

/// The next records of a range, from its end if it is reversed.
pub fn ahead(range: Range<'_>, bounds: Bounds, reverse: bool) -> Part {
    range.part(bounds, AHEAD, reverse)
}

/// An iterator over keys and values. After UnreadableError or DamagedError, which say what is lost, it goes on behind that.
#[pyclass(name = "Range", frozen)]
pub struct PyRange {
    read: Read,
    state: Mutex<State>,
}

impl PyRange {
    /// The records within these bounds, which `read` reads with [`ahead`].
    pub fn new(
        bounds: Bounds,
        read: impl Fn(Python<'_>, Bounds) -> PyResult<Part> + Send + Sync + 'static,
    ) -> PyRange {
        let state = Mutex::new(State { bounds: Some(bounds), ahead: VecDeque::new(), failed: None });
        PyRange { read: Box::new(read), state }
    }
}

#[pymethods]
impl PyRange {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<(Object<'py>, Object<'py>)>> {
        loop {
            let bounds = {
                let mut state = self.state.lock().expect("nothing panics with it");
                if let Some(record) = state.ahead.pop_front() {
                    return Ok(Some(objects(py, record)));
                }
                if let Some(failed) = state.failed.take() {
                    return Err(failed);
                }
                state.bounds.take()
            };
            let Some(bounds) = bounds else { return Ok(None) };
            let Part { records, error, rest } = (self.read)(py, bounds)?;
            let mut state = self.state.lock().expect("nothing panics with it");
            state.ahead.extend(records);
            state.failed = error.map(raised);
            state.bounds = rest;
        }
    }
}

type Object<'py> = pyo3::Bound<'py, PyBytes>;

fn objects<'py>(py: Python<'py>, (key, value): Record) -> (Object<'py>, Object<'py>) {
    (PyBytes::new(py, &key), PyBytes::new(py, &value))
}
