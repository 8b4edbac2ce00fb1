//! Statuses of the drive as exceptions.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tantalum_device::Status;

use crate::{PowerLostError, StatusError};

/// The exception of a status: its name and values are attributes.
pub(super) fn raised(py: Python<'_>, status: Status) -> PyErr {
    let text = status.to_string();
    let error = match status {
        Status::PowerLost => PowerLostError::new_err(text),
        _ => StatusError::new_err(text),
    };
    let value = error.value(py);
    let set = value
        .setattr("status", name_of(&status))
        .and_then(|()| value.setattr("values", values_of(py, &status)?))
        .and_then(|()| value.setattr("leaves_doubt", status.leaves_doubt()));
    set.err().unwrap_or(error)
}

/// The variant's name.
fn name_of(status: &Status) -> String {
    let debug = format!("{status:?}");
    let end = debug.find(|character: char| !character.is_alphanumeric()).unwrap_or(debug.len());
    debug[..end].to_owned()
}

fn values_of<'py>(py: Python<'py>, status: &Status) -> PyResult<Bound<'py, PyDict>> {
    let values = PyDict::new(py);
    match status {
        Status::OutOfRange { lpn, units, capacity_units } => {
            values.set_item("lpn", lpn.0)?;
            values.set_item("units", units)?;
            values.set_item("capacity_units", capacity_units)?;
        }
        Status::DataLength { bytes, .. } => values.set_item("bytes", bytes)?,
        Status::Unmapped { lpn } | Status::Unreadable { lpn } => values.set_item("lpn", lpn.0)?,
        Status::OverLimit { what, asked, limit } => {
            values.set_item("what", what)?;
            values.set_item("asked", asked)?;
            values.set_item("limit", limit)?;
        }
        Status::UnknownTransaction(tx) => values.set_item("tx", tx.0)?,
        Status::OutOfBuffers { buffers } => values.set_item("buffers", buffers)?,
        _ => {}
    }
    Ok(values)
}
