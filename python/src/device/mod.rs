//! `tantalum.Device`: the commands of a drive, its counters, and power cuts, in virtual time.
//!
//! - A method that is given no time issues its command at `now_ns` and waits: `now_ns` is then when it was done. One that is
//!   given `at_ns` issues it then and does not wait; its `done_ns` says when it was done. Times never go back.
//! - Data come from any object with a contiguous buffer, and are not copied on the way to the drive ([`buffers`]).
//! - A refusal is a [`crate::StatusError`] with the status's name and values ([`status`]).

mod buffers;
mod report;
mod status;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tantalum_device::{
    Command, Completion, Device, Lpn, Nanoseconds, PowerLoss, Profile, ShareRange, Status, TxId, UNIT_BYTES,
};

use buffers::{Readable, Writable};
use status::raised;

use crate::{PowerLostError, TantalumError};

/// A drive of its own, in memory or in an image.
#[pyclass(name = "Device", frozen)]
pub struct PyDevice {
    state: Mutex<State>,
}

/// The drive and its host's clock.
struct State {
    device: Option<Device>,
    now_ns: Nanoseconds,
}

fn failed(error: impl std::fmt::Display) -> PyErr {
    TantalumError::new_err(error.to_string())
}

impl State {
    fn device(&mut self) -> PyResult<&mut Device> {
        self.device.as_mut().ok_or_else(|| TantalumError::new_err("the drive is closed"))
    }

    /// Executes a command at that time, or now; then the clock is where it was done.
    fn submit(&mut self, py: Python<'_>, command: Command<'_>, at_ns: Option<u64>) -> PyResult<Completion> {
        let now_ns = self.now_ns;
        let device = self.device()?;
        let issued_ns = device.issued_ns();
        let issue_ns = at_ns.unwrap_or(now_ns.max(issued_ns));
        if issue_ns < issued_ns {
            let text = format!("at_ns is {issue_ns}, but the command before was issued at {issued_ns}");
            return Err(PyValueError::new_err(text));
        }
        let completion = device.submit(command, issue_ns).map_err(|status| raised(py, status))?;
        if at_ns.is_none() {
            self.now_ns = completion.done_ns;
        }
        Ok(completion)
    }
}

impl PyDevice {
    fn lock(&self) -> MutexGuard<'_, State> {
        // a panic is a broken invariant of the drive, whose state nobody should go on with
        self.state.lock().expect("nothing panics with it")
    }

    fn done_ns(&self, py: Python<'_>, command: Command<'_>, at_ns: Option<u64>) -> PyResult<u64> {
        self.lock().submit(py, command, at_ns).map(|completion| completion.done_ns)
    }

    fn of(device: Device) -> PyDevice {
        let now_ns = device.time_ns();
        PyDevice { state: Mutex::new(State { device: Some(device), now_ns }) }
    }
}

fn profile_of(
    name: &str,
    toml: Option<&str>,
    capacity_bytes: Option<u64>,
    over_provisioning_percent: Option<f64>,
) -> PyResult<Profile> {
    let invalid = |error: &dyn std::fmt::Display| PyValueError::new_err(error.to_string());
    let mut profile = match toml {
        Some(text) => Profile::from_toml(text, "profile_toml").map_err(|error| invalid(&error))?,
        None => Profile::load(name).map_err(|error| invalid(&error))?,
    };
    profile.capacity_bytes = capacity_bytes.unwrap_or(profile.capacity_bytes);
    profile.over_provisioning_percent = over_provisioning_percent.unwrap_or(profile.over_provisioning_percent);
    profile.validate().map_err(|error| invalid(&error))?;
    Ok(profile)
}

#[pymethods]
impl PyDevice {
    #[new]
    #[pyo3(signature = (profile = "tlc-nvme", *, path = None, capacity_bytes = None, over_provisioning_percent = None, profile_toml = None))]
    fn new(
        py: Python<'_>,
        profile: &str,
        path: Option<PathBuf>,
        capacity_bytes: Option<u64>,
        over_provisioning_percent: Option<f64>,
        profile_toml: Option<&str>,
    ) -> PyResult<PyDevice> {
        if let Some(path) = path.as_ref().filter(|path| path.exists()) {
            let device = py.detach(|| Device::open(path));
            return device.map(PyDevice::of).map_err(failed);
        }
        let profile = profile_of(profile, profile_toml, capacity_bytes, over_provisioning_percent)?;
        let made = py.detach(|| match &path {
            Some(path) => Device::create(path, &profile),
            None => Device::in_memory(&profile),
        });
        made.map(PyDevice::of).map_err(failed)
    }

    // -- commands -----------------------------------------------------------------------------------------------

    /// The bytes of units.
    #[pyo3(signature = (lpn, units = 1, *, at_ns = None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        lpn: u32,
        units: u32,
        at_ns: Option<u64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut state = self.lock();
        // checked before the bytes are made: a program's mistake must not take all memory
        let device = state.device()?;
        device.check_range(Lpn(lpn), units.into()).map_err(|status| raised(py, status))?;
        PyBytes::new_with(py, units as usize * UNIT_BYTES, |data| {
            state.submit(py, Command::Read { lpn: Lpn(lpn), data }, at_ns).map(drop)
        })
    }

    /// Reads into a writable buffer of whole units, such as a numpy array. Returns when that was done.
    #[pyo3(signature = (lpn, buffer, *, at_ns = None))]
    fn read_into(&self, py: Python<'_>, lpn: u32, buffer: &Bound<'_, PyAny>, at_ns: Option<u64>) -> PyResult<u64> {
        let mut buffer = Writable::of(buffer)?;
        let command = Command::Read { lpn: Lpn(lpn), data: buffer.bytes(py) };
        self.done_ns(py, command, at_ns)
    }

    /// Writes whole units from any buffer. With `fua` they are on flash when it is done. Returns when that was.
    #[pyo3(signature = (lpn, data, *, fua = false, at_ns = None))]
    fn write(
        &self,
        py: Python<'_>,
        lpn: u32,
        data: &Bound<'_, PyAny>,
        fua: bool,
        at_ns: Option<u64>,
    ) -> PyResult<u64> {
        let data = Readable::of(data)?;
        self.done_ns(py, Command::Write { lpn: Lpn(lpn), data: data.bytes(py), fua }, at_ns)
    }

    /// Makes everything acknowledged before it durable.
    #[pyo3(signature = (*, at_ns = None))]
    fn flush(&self, py: Python<'_>, at_ns: Option<u64>) -> PyResult<u64> {
        self.done_ns(py, Command::Flush, at_ns)
    }

    /// Deallocates units: they read as zeros.
    #[pyo3(signature = (lpn, units = 1, *, at_ns = None))]
    fn trim(&self, py: Python<'_>, lpn: u32, units: u32, at_ns: Option<u64>) -> PyResult<u64> {
        self.done_ns(py, Command::Trim { lpn: Lpn(lpn), units }, at_ns)
    }

    /// Makes units read as zeros.
    #[pyo3(signature = (lpn, units = 1, *, at_ns = None))]
    fn write_zeroes(&self, py: Python<'_>, lpn: u32, units: u32, at_ns: Option<u64>) -> PyResult<u64> {
        self.done_ns(py, Command::WriteZeroes { lpn: Lpn(lpn), units }, at_ns)
    }

    /// Maps each `(dst, src, units)` of `ranges` to what its source is mapped to, all or nothing.
    #[pyo3(signature = (ranges, *, deferred = false, at_ns = None))]
    fn share(
        &self,
        py: Python<'_>,
        ranges: Vec<(u32, u32, u32)>,
        deferred: bool,
        at_ns: Option<u64>,
    ) -> PyResult<u64> {
        let range = |(dst, src, units): (u32, u32, u32)| ShareRange { dst: Lpn(dst), src: Lpn(src), units };
        let ranges: Vec<ShareRange> = ranges.into_iter().map(range).collect();
        self.done_ns(py, Command::Share { ranges: &ranges, deferred }, at_ns)
    }

    /// A share, after which the source is unmapped; one step.
    #[pyo3(signature = (dst, src, units = 1, *, at_ns = None))]
    fn remap(&self, py: Python<'_>, dst: u32, src: u32, units: u32, at_ns: Option<u64>) -> PyResult<u64> {
        self.done_ns(py, Command::Remap { src: Lpn(src), dst: Lpn(dst), units }, at_ns)
    }

    /// Writes scattered units `(lpn, data)`, all or nothing, durable when it is done.
    #[pyo3(signature = (writes, *, at_ns = None))]
    fn write_atomic(
        &self,
        py: Python<'_>,
        writes: Vec<(u32, Bound<'_, PyAny>)>,
        at_ns: Option<u64>,
    ) -> PyResult<u64> {
        let data = writes.iter().map(|(_, data)| Readable::of(data)).collect::<PyResult<Vec<_>>>()?;
        let lpns = writes.iter().map(|(lpn, _)| Lpn(*lpn));
        let writes: Vec<(Lpn, &[u8])> = lpns.zip(data.iter().map(|data| data.bytes(py))).collect();
        self.done_ns(py, Command::WriteAtomic { writes: &writes }, at_ns)
    }

    /// Opens a transaction, and returns its number.
    fn begin(&self, py: Python<'_>) -> PyResult<u64> {
        let completion = self.lock().submit(py, Command::Begin, None)?;
        completion.tx.map(|tx| tx.0).ok_or_else(|| TantalumError::new_err("the drive opened no transaction"))
    }

    /// Writes one unit in a transaction; others see the old one until it commits.
    #[pyo3(signature = (tx, lpn, data, *, at_ns = None))]
    fn tx_write(
        &self,
        py: Python<'_>,
        tx: u64,
        lpn: u32,
        data: &Bound<'_, PyAny>,
        at_ns: Option<u64>,
    ) -> PyResult<u64> {
        let data = Readable::of(data)?;
        self.done_ns(py, Command::TxWrite { tx: TxId(tx), lpn: Lpn(lpn), data: data.bytes(py) }, at_ns)
    }

    /// One unit as a transaction sees it.
    #[pyo3(signature = (tx, lpn, *, at_ns = None))]
    fn tx_read<'py>(
        &self,
        py: Python<'py>,
        tx: u64,
        lpn: u32,
        at_ns: Option<u64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        PyBytes::new_with(py, UNIT_BYTES, |data| {
            self.done_ns(py, Command::TxRead { tx: TxId(tx), lpn: Lpn(lpn), data }, at_ns).map(drop)
        })
    }

    /// Makes a transaction's writes visible and durable, all or nothing.
    #[pyo3(signature = (tx, *, at_ns = None))]
    fn commit(&self, py: Python<'_>, tx: u64, at_ns: Option<u64>) -> PyResult<u64> {
        self.done_ns(py, Command::Commit { tx: TxId(tx) }, at_ns)
    }

    /// Discards a transaction's writes.
    #[pyo3(signature = (tx, *, at_ns = None))]
    fn abort(&self, py: Python<'_>, tx: u64, at_ns: Option<u64>) -> PyResult<u64> {
        self.done_ns(py, Command::Abort { tx: TxId(tx) }, at_ns)
    }

    // -- time and power -----------------------------------------------------------------------------------------

    /// The host's clock.
    #[getter]
    fn now_ns(&self) -> u64 {
        self.lock().now_ns
    }

    /// Lets time pass.
    fn wait_until(&self, ns: u64) {
        let mut state = self.lock();
        state.now_ns = state.now_ns.max(ns);
    }

    /// When everything submitted so far is done.
    #[getter]
    fn done_at_ns(&self) -> PyResult<u64> {
        self.lock().device().map(|device| device.time_ns())
    }

    /// Whether the drive has power.
    #[getter]
    fn has_power(&self) -> PyResult<bool> {
        self.lock().device().map(|device| device.has_power())
    }

    /// Cuts the power now, or at a later time.
    #[pyo3(signature = (*, at_ns = None))]
    fn cut_power(&self, at_ns: Option<u64>) -> PyResult<()> {
        let mut state = self.lock();
        let now_ns = state.now_ns;
        state.device()?.cut_power(at_ns.unwrap_or(now_ns));
        Ok(())
    }

    /// Arms a cut: the Nth program or erase of flash from now finds no power. None disarms it. Without power it is armed for
    /// the next recovery.
    fn cut_after(&self, flash_operations: Option<u64>) -> PyResult<()> {
        self.lock().device()?.cut_after(flash_operations);
        Ok(())
    }

    /// Programs and erases of flash so far.
    #[getter]
    fn flash_operations(&self) -> PyResult<u64> {
        self.lock().device().map(|device| device.flash_operations())
    }

    /// Gives the drive power again, and recovers. `seed` decides how operations that were under way ended. Returns what
    /// recovery did.
    #[pyo3(signature = (seed = 0))]
    fn power_on<'py>(&self, py: Python<'py>, seed: u64) -> PyResult<Bound<'py, PyDict>> {
        let mut state = self.lock();
        let device = state.device()?;
        if device.has_power() {
            return Err(PyValueError::new_err("the drive has power"));
        }
        let recovered = device.power_on(&mut PowerLoss::seeded(seed));
        let has_power = device.has_power();
        let report = match recovered {
            Ok(report) => report,
            Err(error) if !has_power => return Err(PowerLostError::new_err(error.to_string())),
            Err(error) => return Err(failed(error)),
        };
        let now_ns = device.time_ns();
        state.now_ns = state.now_ns.max(now_ns);
        report::recovery(py, &report)
    }

    // -- what it has done ---------------------------------------------------------------------------------------

    /// The drive's capacity in units of 4096 bytes.
    #[getter]
    fn capacity_units(&self) -> PyResult<u64> {
        self.lock().device().map(|device| device.limits().capacity_units)
    }

    /// Its limits for one step.
    #[getter]
    fn limits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        report::limits(py, &self.lock().device()?.limits())
    }

    /// Its counters since it was made, with state and wear, as `tantalum stat --json` names them.
    #[getter]
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        report::counters(py, &self.lock().device()?.smart())
    }

    /// Latencies of commands by kind, in nanoseconds.
    #[getter]
    fn latencies<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        report::latencies(py, self.lock().device()?.latencies())
    }

    /// What the drive's parts have done, in nanoseconds.
    #[getter]
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        report::usage(py, &self.lock().device()?.usage())
    }

    /// Its profile as TOML.
    #[getter]
    fn profile_toml(&self) -> PyResult<String> {
        self.lock().device().map(|device| device.profile().to_toml())
    }

    /// A copy of a drive in memory, with everything that is under way.
    fn copy(&self) -> PyResult<PyDevice> {
        let mut state = self.lock();
        let now_ns = state.now_ns;
        let copy = state.device()?.try_clone();
        let copy = copy.ok_or_else(|| PyValueError::new_err("a drive in an image cannot be copied"))?;
        Ok(PyDevice { state: Mutex::new(State { device: Some(copy), now_ns }) })
    }

    /// Shuts the drive down. What was written is in its image, if it has one.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = self.lock();
        let now_ns = state.now_ns;
        let Some(mut device) = state.device.take() else { return Ok(()) };
        match device.put_away(now_ns.max(device.time_ns())) {
            // a drive without power is left as the loss left it
            Ok(()) | Err(Status::PowerLost) => Ok(()),
            Err(status) => Err(raised(py, status)),
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
