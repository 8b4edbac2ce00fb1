//! Tantalum for Python: the compiled part of the package in `tantalum/`.

#[cfg(target_os = "linux")]
mod crash;
mod documents;
mod store;

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(tantalum, TantalumError, PyException, "The store refused.");
create_exception!(tantalum, DeadlockError, TantalumError, "The transaction gave way to an older one: try again.");

#[pymodule]
fn tantalum(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<store::PyStore>()?;
    module.add_class::<store::PyTransaction>()?;
    module.add_class::<documents::Documents>()?;
    module.add_class::<documents::PySnapshot>()?;
    #[cfg(target_os = "linux")]
    module.add_function(wrap_pyfunction!(crash::_crash_run, module)?)?;
    module.add("TantalumError", module.py().get_type::<TantalumError>())?;
    module.add("DeadlockError", module.py().get_type::<DeadlockError>())
}
