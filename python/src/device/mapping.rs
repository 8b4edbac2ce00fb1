//! Commands that change several units in one step: share, remap, atomic writes and batches.

use pyo3::prelude::*;
use tantalum_device::{Command, KvRecord, ShareRange};

use super::PyDevice;
use super::buffer::Source;
use super::errors::raised;
use super::key_value::{Put, records};

/// A unit and its data.
type Write<'py> = (u64, Bound<'py, PyAny>);

/// Units and their buffers.
fn sources(writes: &[Write<'_>]) -> PyResult<Vec<(u64, Source)>> {
    writes.iter().map(|(lpn, data)| Ok((*lpn, Source::get(data)?))).collect()
}

#[pymethods]
impl PyDevice {
    /// Maps each range `dst` to what its range `src` holds, without moving data, all or nothing (SHARE). Ranges are
    /// tuples (dst, src, units). It is durable when it is done; with deferred=True by the next flush.
    ///
    /// UnmappedError if a unit of `src` was never written, LimitError beyond the drive's limit, ValueError if ranges overlap.
    #[pyo3(signature = (ranges, *, deferred = false, queued = false))]
    fn share(
        &self,
        py: Python<'_>,
        ranges: Vec<(u64, u64, u64)>,
        deferred: bool,
        queued: bool,
    ) -> PyResult<u64> {
        self.with(py, |state| {
            let mut checked = Vec::with_capacity(ranges.len());
            for (dst, src, units) in ranges {
                let (src, _) = state.range(src, units)?;
                let (dst, units) = state.range(dst, units)?;
                checked.push(ShareRange { dst, src, units });
            }
            state.run(Command::Share { ranges: &checked, deferred }, queued).map_err(raised)
        })
    }

    /// Moves the contents of units from `src` to `dst` in one step without moving data; `src` is unmapped afterwards
    /// (SW-WAL). It is durable when it is done.
    ///
    /// UnmappedError, LimitError and ValueError as `share`.
    #[pyo3(signature = (src, dst, units = 1, *, queued = false))]
    fn remap(&self, py: Python<'_>, src: u64, dst: u64, units: u64, queued: bool) -> PyResult<u64> {
        self.with(py, |state| {
            let (src, _) = state.range(src, units)?;
            let (dst, units) = state.range(dst, units)?;
            state.run(Command::Remap { src, dst, units }, queued).map_err(raised)
        })
    }

    /// Writes scattered units, tuples (lpn, data) of one unit each, all or nothing. It is durable when it is done.
    ///
    /// LimitError for more than `limits()["atomic_units"]`, ValueError if a unit occurs twice.
    #[pyo3(signature = (writes, *, queued = false))]
    fn write_atomic(&self, py: Python<'_>, writes: Vec<Write<'_>>, queued: bool) -> PyResult<u64> {
        self.batch(py, &writes, Vec::new(), queued)
    }

    /// Writes scattered units, tuples (lpn, data), and puts or deletes records of any namespaces, tuples (namespace, key,
    /// value) where the value None deletes; all or nothing. It is durable when it is done.
    ///
    /// LimitError and ValueError as `write_atomic` and `kv_put`.
    #[pyo3(signature = (writes, records, *, queued = false))]
    fn write_batch(
        &self,
        py: Python<'_>,
        writes: Vec<Write<'_>>,
        records: Vec<Put>,
        queued: bool,
    ) -> PyResult<u64> {
        self.batch(py, &writes, records, queued)
    }
}

impl PyDevice {
    fn batch(&self, py: Python<'_>, writes: &[Write<'_>], puts: Vec<Put>, queued: bool) -> PyResult<u64> {
        let (sources, values) = (sources(writes)?, records(puts)?);
        self.with(py, |state| {
            let mut writes = Vec::with_capacity(sources.len());
            for (lpn, source) in &sources {
                writes.push((state.lpn(*lpn)?, source.bytes()));
            }
            let records: Vec<KvRecord<'_>> = values.iter().map(|put| put.record()).collect();
            let writes = writes.as_slice();
            let command = match records.as_slice() {
                [] => Command::WriteAtomic { writes },
                records => Command::WriteBatch { writes, records },
            };
            state.run(command, queued).map_err(raised)
        })
    }
}
