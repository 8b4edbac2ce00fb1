//! Iterators over ranges of ordered namespaces, of a transaction or a snapshot.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tantalum_kv::{Bytes, Error, Range, Value};

/// Records that are read at once.
const AHEAD: usize = 64;

pub type Bounds = (Bound<Bytes>, Bound<Bytes>);

/// Reads records of a range.
type Read = Box<dyn Fn(Python<'_>, Bounds) -> PyResult<Vec<Record>> + Send + Sync>;

pub type Record = (Bytes, Value);

/// From a key up to but not including another.
pub fn bounds(start: Option<&[u8]>, end: Option<&[u8]>) -> Bounds {
    let owned = |key: &[u8]| Bytes::from(key);
    (
        start.map_or(Bound::Unbounded, |key| Bound::Included(owned(key))),
        end.map_or(Bound::Unbounded, |key| Bound::Excluded(owned(key))),
    )
}

struct State {
    /// None: nothing is left.
    bounds: Option<Bounds>,
    ahead: VecDeque<Record>,
}

/// The next records of a range, from its end if it is reversed.
pub fn ahead(range: Range<'_>, reverse: bool) -> Result<Vec<Record>, Error> {
    if reverse { range.rev().take(AHEAD).collect() } else { range.take(AHEAD).collect() }
}

/// An iterator over keys and values.
#[pyclass(name = "Range", frozen)]
pub struct PyRange {
    read: Read,
    reverse: bool,
    state: Mutex<State>,
}

impl PyRange {
    /// The records within these bounds, which `read` reads with [`ahead`].
    pub fn new(
        bounds: Bounds,
        reverse: bool,
        read: impl Fn(Python<'_>, Bounds) -> PyResult<Vec<Record>> + Send + Sync + 'static,
    ) -> PyRange {
        let state = Mutex::new(State { bounds: Some(bounds), ahead: VecDeque::new() });
        PyRange { read: Box::new(read), reverse, state }
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
        let records = (self.read)(py, (from.clone(), to.clone()))?;
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
