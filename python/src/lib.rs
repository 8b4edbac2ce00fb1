//! Tantalum for Python: the compiled part of the package in `tantalum/`. `tantalum/tantalum.pyi` has the types.

#[cfg(target_os = "linux")]
mod crash;
mod device;
mod documents;
mod errors;
mod programs;
mod ranges;
mod store;
mod store_snapshot;

use pyo3::prelude::*;

use errors::{DeadlockError, PowerLostError, SelfDeadlockError, TantalumError};

#[pymodule]
fn tantalum(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<store::PyStore>()?;
    module.add_class::<store::PyTransaction>()?;
    module.add_class::<store_snapshot::PyStoreSnapshot>()?;
    module.add_class::<ranges::PyRange>()?;
    module.add_function(wrap_pyfunction!(store::restore, module)?)?;
    module.add_function(wrap_pyfunction!(store::rebuild, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<documents::Documents>()?;
    module.add_class::<documents::PySnapshot>()?;
    #[cfg(target_os = "linux")]
    module.add_function(wrap_pyfunction!(crash::_crash_run, module)?)?;
    module.add_class::<programs::ssd::PySsd>()?;
    module.add_class::<programs::endpoint::Endpoint>()?;
    module.add_class::<programs::event::PyEvent>()?;
    module.add_function(wrap_pyfunction!(programs::shipped_module, module)?)?;
    module.add_class::<device::PyDevice>()?;
    module.add_class::<device::PyDeviceTransaction>()?;
    module.add("UNIT_BYTES", tantalum_device::UNIT_BYTES)?;
    module.add("METADATA_BYTES", tantalum_device::METADATA_BYTES)?;
    let py = module.py();
    module.add("LimitError", py.get_type::<device::LimitError>())?;
    module.add("UnmappedError", py.get_type::<device::UnmappedError>())?;
    module.add("CapacityError", py.get_type::<device::CapacityError>())?;
    module.add("ReadOnlyError", py.get_type::<device::ReadOnlyError>())?;
    module.add("UnreadableError", py.get_type::<device::UnreadableError>())?;
    module.add("DamagedError", py.get_type::<device::DamagedError>())?;
    module.add("HostError", py.get_type::<device::HostError>())?;
    module.add("PowerLostError", py.get_type::<PowerLostError>())?;
    module.add("TantalumError", py.get_type::<TantalumError>())?;
    module.add("SelfDeadlockError", py.get_type::<SelfDeadlockError>())?;
    module.add("DeadlockError", py.get_type::<DeadlockError>())
}
