//! Zones: blocks that the host fills in order.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tantalum_device::{result_of, Command, UNIT_BYTES, ZoneAction, ZoneId};

use super::PyDevice;
use super::buffer::Source;
use super::errors::raised;

#[pymethods]
impl PyDevice {
    /// The zones as they are: tuples (state, write pointer in units of 4 KiB), in order.
    fn zones(&self, py: Python<'_>) -> PyResult<Vec<(String, u32)>> {
        self.with(py, |state| {
            let zones = state.device.zones();
            Ok(zones.iter().map(|zone| (zone.condition.to_string(), zone.written)).collect())
        })
    }

    /// Reads units of a zone; those that were not written read as zeros.
    fn zone_read<'py>(
        &self,
        py: Python<'py>,
        zone: u32,
        offset: u32,
        units: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        PyBytes::new_with(py, units * UNIT_BYTES, |data| {
            self.with(py, |state| {
                let command = Command::ZoneRead { zone: ZoneId(zone), offset, data };
                state.submit(command).map(drop).map_err(raised)
            })
        })
    }

    /// Writes units at the write pointer of a zone, `offset` units from its beginning.
    #[pyo3(signature = (zone, offset, data, *, fua = false, queued = false))]
    fn zone_write(
        &self,
        py: Python<'_>,
        zone: u32,
        offset: u32,
        data: &Bound<'_, PyAny>,
        fua: bool,
        queued: bool,
    ) -> PyResult<u64> {
        let source = Source::get(data)?;
        self.with(py, |state| {
            let command = Command::ZoneWrite { zone: ZoneId(zone), offset, data: source.bytes(), fua };
            state.run(command, queued).map_err(raised)
        })
    }

    /// Writes units wherever the write pointer of a zone is, and returns that.
    #[pyo3(signature = (zone, data, *, fua = false))]
    fn zone_append(&self, py: Python<'_>, zone: u32, data: &Bound<'_, PyAny>, fua: bool) -> PyResult<u32> {
        let source = Source::get(data)?;
        self.with(py, |state| {
            let data = source.bytes();
            let append = |offset: &mut _| {
                state.submit(Command::ZoneAppend { zone: ZoneId(zone), data, fua, offset })
            };
            result_of(append).map_err(raised)
        })
    }

    /// Opens, closes, finishes or resets a zone, or all to which that applies. A finish and a reset are durable when this returns.
    #[pyo3(signature = (action, zone = None))]
    fn zone_manage(&self, py: Python<'_>, action: &str, zone: Option<u32>) -> PyResult<u64> {
        let action = match action {
            "open" => ZoneAction::Open,
            "close" => ZoneAction::Close,
            "finish" => ZoneAction::Finish,
            "reset" => ZoneAction::Reset,
            other => {
                let text = format!("{other:?} is no action; use \"open\", \"close\", \"finish\" or \"reset\"");
                return Err(PyValueError::new_err(text));
            }
        };
        let zone = zone.map(ZoneId);
        self.with(py, |state| state.run(Command::ZoneManage { zone, action }, false).map_err(raised))
    }
}
