//! Reads, writes and flushes.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tantalum_device::{Command, Handle, UNIT_BYTES};

use super::PyDevice;
use super::buffer::{Source, Target};
use super::errors::raised;

#[pymethods]
impl PyDevice {
    /// Reads `units` units from `lpn` on; units that were never written, or were trimmed, read as zeros.
    ///
    /// UnreadableError if the flash page of one of them is uncorrectable.
    #[pyo3(signature = (lpn, units = 1))]
    fn read<'py>(&self, py: Python<'py>, lpn: u64, units: u64) -> PyResult<Bound<'py, PyBytes>> {
        // checked before memory is taken for it
        let (lpn, units) = self.with(py, |state| state.range(lpn, units))?;
        PyBytes::new_with(py, units as usize * UNIT_BYTES, |data| {
            self.with(py, |state| state.run(Command::Read { lpn, data }, false).map(drop).map_err(raised))
        })
    }

    /// Fills the buffer with units from `lpn` on. Returns when that is done.
    ///
    /// UnreadableError as `read`; BufferError if the buffer is read-only or not contiguous.
    #[pyo3(signature = (lpn, buffer, *, queued = false))]
    fn read_into(&self, py: Python<'_>, lpn: u64, buffer: &Bound<'_, PyAny>, queued: bool) -> PyResult<u64> {
        let mut target = Target::get(buffer)?;
        self.with(py, |state| {
            let lpn = state.lpn(lpn)?;
            state.run(Command::Read { lpn, data: target.bytes() }, queued).map_err(raised)
        })
    }

    /// Writes units from `lpn` on. When it is done they are acknowledged: they survive a power cut after the next flush,
    /// or at once with fua=True (force unit access) or a capacitor.
    ///
    /// With a reclaim unit handle they lie only with others of it, on a drive whose profile has [fdp].
    ///
    /// CapacityError if no flash is left.
    #[pyo3(signature = (lpn, data, *, fua = false, handle = None, queued = false))]
    fn write(
        &self,
        py: Python<'_>,
        lpn: u64,
        data: &Bound<'_, PyAny>,
        fua: bool,
        handle: Option<u8>,
        queued: bool,
    ) -> PyResult<u64> {
        let source = Source::get(data)?;
        self.with(py, |state| {
            let lpn = state.lpn(lpn)?;
            let handle = handle.map(Handle);
            state.run(Command::Write { lpn, data: source.bytes(), fua, handle }, queued).map_err(raised)
        })
    }

    /// Makes all acknowledged writes durable.
    #[pyo3(signature = (*, queued = false))]
    fn flush(&self, py: Python<'_>, queued: bool) -> PyResult<u64> {
        self.with(py, |state| state.run(Command::Flush, queued).map_err(raised))
    }

    /// Deallocates units, which read as zeros from now on.
    #[pyo3(signature = (lpn, units = 1, *, queued = false))]
    fn trim(&self, py: Python<'_>, lpn: u64, units: u64, queued: bool) -> PyResult<u64> {
        self.with(py, |state| {
            let (lpn, units) = state.range(lpn, units)?;
            state.run(Command::Trim { lpn, units }, queued).map_err(raised)
        })
    }

    /// Makes units read as zeros (NVMe Write Zeroes).
    #[pyo3(signature = (lpn, units = 1, *, queued = false))]
    fn write_zeroes(&self, py: Python<'_>, lpn: u64, units: u64, queued: bool) -> PyResult<u64> {
        self.with(py, |state| {
            let (lpn, units) = state.range(lpn, units)?;
            state.run(Command::WriteZeroes { lpn, units }, queued).map_err(raised)
        })
    }

    /// Whether a unit is mapped: written, and not trimmed since. It is not a command and takes no time.
    fn is_mapped(&self, py: Python<'_>, lpn: u64) -> PyResult<bool> {
        self.with(py, |state| {
            let lpn = state.lpn(lpn)?;
            Ok(state.device.is_mapped(lpn))
        })
    }
}
