//! Programs in the drive: a drive with its storage processors in this process, in virtual time.

pub mod endpoint;
pub mod event;
mod shared;
pub mod ssd;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tantalum_spu::shipped;

/// The module of a shipped program, such as "base_io".
#[pyfunction]
#[pyo3(name = "shipped")]
pub fn shipped_module<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
    let module = shipped::named(name);
    let module =
        module.ok_or_else(|| PyValueError::new_err(format!("no program named {name} is shipped")))?;
    Ok(PyBytes::new(py, module))
}
