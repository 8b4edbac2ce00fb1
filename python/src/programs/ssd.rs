//! The drive itself: opening, shutdown, power loss.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tantalum_device::{Access, Device, PowerLoss, Profile, Status};
use tantalum_drive::Drive;
use tantalum_spu::{ProcessId, STRIPE_BYTES, Ssd};

use super::endpoint::Endpoint;
use super::shared::{Shared, raised, refused, with};

/// A drive with storage processors, in memory or in an image. Everything happens in virtual time, while a method waits.
#[pyclass(name = "Ssd", frozen)]
pub struct PySsd {
    ssd: Shared,
}

#[pymethods]
impl PySsd {
    #[new]
    #[pyo3(signature = (profile = "tlc-nvme", *, path = None, capacity_bytes = None))]
    fn new(
        py: Python<'_>,
        profile: &str,
        path: Option<PathBuf>,
        capacity_bytes: Option<u64>,
    ) -> PyResult<PySsd> {
        let made = py.detach(|| {
            if let Some(path) = path.as_ref().filter(|path| path.exists()) {
                let (mut device, why) = Device::open_or_read(path, Access::Write).map_err(refused)?;
                why.into_iter().for_each(|why| device.refuse_changes(why));
                return Ok(device);
            }
            let mut profile =
                Profile::load(profile).map_err(|error| PyValueError::new_err(error.to_string()))?;
            profile.capacity_bytes = capacity_bytes.unwrap_or(profile.capacity_bytes);
            match &path {
                Some(path) => Device::create(path, &profile).map_err(refused),
                None => Device::in_memory(&profile).map_err(refused),
            }
        })?;
        Ok(PySsd { ssd: Arc::new(Mutex::new(Some(Ssd::new(Drive::new(made))))) })
    }

    /// Opens an endpoint of a new process; with `of`, another one of that endpoint's process; or one of the kernel.
    #[pyo3(signature = (*, is_kernel = false, of = None))]
    fn endpoint(&self, py: Python<'_>, is_kernel: bool, of: Option<&Endpoint>) -> PyResult<Endpoint> {
        if of.is_some_and(|endpoint| is_kernel || !Arc::ptr_eq(&endpoint.ssd, &self.ssd)) {
            let text = "an endpoint is of the kernel, of another endpoint's process on the same drive, or of a new process";
            return Err(PyValueError::new_err(text));
        }
        let same = if is_kernel { Some(ProcessId::KERNEL) } else { of.map(|endpoint| endpoint.id.process()) };
        let id = with(py, &self.ssd, |ssd| {
            let process = same.unwrap_or_else(|| ssd.process());
            ssd.endpoint(process).map_err(raised)
        })?;
        Ok(Endpoint { ssd: Arc::clone(&self.ssd), id })
    }

    /// Why the drive refuses every change until it is opened again, as text; None if it does not.
    #[getter]
    fn refuses_changes(&self, py: Python<'_>) -> PyResult<Option<String>> {
        with(py, &self.ssd, |ssd| Ok(ssd.drive().lock().refuses_changes().map(Status::to_string)))
    }

    /// The time of the last event, in nanoseconds.
    #[getter]
    fn now_ns(&self, py: Python<'_>) -> PyResult<u64> {
        with(py, &self.ssd, |ssd| Ok(ssd.now_ns()))
    }

    /// Storage processors.
    #[getter]
    fn processors(&self, py: Python<'_>) -> PyResult<u32> {
        with(py, &self.ssd, |ssd| Ok(ssd.processors()))
    }

    /// Bytes that follow each other at one processor.
    #[getter]
    fn stripe_bytes(&self) -> u64 {
        STRIPE_BYTES
    }

    /// The drive's capacity.
    #[getter]
    fn capacity_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        with(py, &self.ssd, |ssd| Ok(ssd.stripes().capacity_bytes()))
    }

    /// Bytes that the link has carried to the drive and to the host.
    #[getter]
    fn link_bytes(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        with(py, &self.ssd, |ssd| Ok(ssd.link_bytes()))
    }

    /// The processor that owns an address.
    fn owner(&self, py: Python<'_>, address: u64) -> PyResult<u32> {
        with(py, &self.ssd, |ssd| Ok(ssd.stripes().owner(address).0))
    }

    /// Cuts the power now. All programs are removed, and data that are not durable may be lost.
    fn cut_power(&self, py: Python<'_>) -> PyResult<()> {
        with(py, &self.ssd, |ssd| {
            ssd.cut_power();
            Ok(())
        })
    }

    /// Turns the power on again, and recovers. `seed` decides the outcome of operations that were in flight.
    #[pyo3(signature = (seed = 0))]
    fn power_on(&self, py: Python<'_>, seed: u64) -> PyResult<()> {
        with(py, &self.ssd, |ssd| {
            if ssd.drive().lock().has_power() {
                return Ok(());
            }
            ssd.drive().lock().power_on(&mut PowerLoss::seeded(seed)).map_err(refused)?;
            ssd.power_on().map_err(raised)
        })
    }

    /// Shuts the drive down. Written data are in its image, if it has one.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let put_away = py.detach(|| {
            let Some(ssd) = self.ssd.lock().expect("nothing panics with it").take() else { return Ok(()) };
            let mut device = ssd.drive().lock();
            let now_ns = device.time_ns();
            device.put_away(now_ns)
        });
        match put_away {
            // a drive without power is left as the loss left it
            Ok(()) | Err(Status::PowerLost) => Ok(()),
            Err(status) => Err(refused(status)),
        }
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _type: Py<PyAny>,
        _value: Py<PyAny>,
        _trace: Py<PyAny>,
    ) -> PyResult<bool> {
        self.close(py).map(|()| false)
    }
}
