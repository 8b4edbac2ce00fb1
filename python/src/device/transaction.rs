//! Transactions of the drive (X-FTL).

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tantalum_device::{result_of, Command, TxId, UNIT_BYTES};

use super::PyDevice;
use super::buffer::Source;
use super::errors::raised;

/// A transaction of a drive: others see nothing of what it writes until it commits. As a context manager it commits when
/// its block ends, and aborts when the block raises.
#[pyclass(name = "DeviceTransaction", frozen)]
pub struct PyDeviceTransaction {
    device: Py<PyDevice>,
    tx: TxId,
}

#[pymethods]
impl PyDevice {
    /// Begins a transaction; LimitError if too many are open.
    fn begin(this: Py<Self>, py: Python<'_>) -> PyResult<PyDeviceTransaction> {
        let tx = this.get().with(py, |state| {
            result_of(|tx| state.submit(Command::Begin { tx })).map_err(raised)
        })?;
        Ok(PyDeviceTransaction { device: this, tx })
    }
}

#[pymethods]
impl PyDeviceTransaction {
    /// Its number.
    #[getter]
    fn number(&self) -> u64 {
        self.tx.0
    }

    /// Reads one unit as the transaction sees it; KeyError if the transaction has ended.
    fn read<'py>(&self, py: Python<'py>, lpn: u64) -> PyResult<Bound<'py, PyBytes>> {
        let tx = self.tx;
        PyBytes::new_with(py, UNIT_BYTES, |data| {
            self.device.get().with(py, |state| {
                let lpn = state.lpn(lpn)?;
                state.submit(Command::TxRead { tx, lpn, data }).map(drop).map_err(raised)
            })
        })
    }

    /// Writes one unit; KeyError if the transaction has ended, LimitError if all open ones together hold too much.
    #[pyo3(signature = (lpn, data, *, queued = false))]
    fn write(&self, py: Python<'_>, lpn: u64, data: &Bound<'_, PyAny>, queued: bool) -> PyResult<u64> {
        let (tx, source) = (self.tx, Source::get(data)?);
        self.device.get().with(py, |state| {
            let lpn = state.lpn(lpn)?;
            state.run(Command::TxWrite { tx, lpn, data: source.bytes() }, queued).map_err(raised)
        })
    }

    /// Makes the writes visible and durable, all or nothing; KeyError if the transaction has ended.
    fn commit(&self, py: Python<'_>) -> PyResult<u64> {
        let tx = self.tx;
        self.device.get().with(py, |state| state.run(Command::Commit { tx }, false).map_err(raised))
    }

    /// Discards the writes; KeyError if the transaction has ended.
    fn abort(&self, py: Python<'_>) -> PyResult<u64> {
        let tx = self.tx;
        self.device.get().with(py, |state| state.run(Command::Abort { tx }, false).map_err(raised))
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
        match kind {
            None => self.commit(py).map(|_| false),
            // the block's exception is reported, even if the drive lost the transaction with its power
            Some(_) => self.abort(py).map(|_| false).or(Ok(false)),
        }
    }
}
