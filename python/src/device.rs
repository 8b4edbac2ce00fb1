//! The drive for Python, `tantalum.Device`: its commands, counters and power.
//!
//! - Time is the drive's own. A command is issued at [`State::now_ns`], which then moves to its completion, unless the
//!   caller queues it.
//! - Other threads of Python run while the drive works. Its mutex is taken only after the interpreter has been
//!   released.
//! - Buffers are read and filled in place ([`buffer`]).
//! - Numbers are checked before they reach the drive, and its refusals become exceptions ([`errors`]).

pub mod buffer;
mod commands;
mod errors;
pub mod figures;
mod key_value;
mod mapping;
mod overrides;
mod power;
mod tagged;
mod transaction;
mod zones;

use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::prelude::*;
use tantalum_device::{Access, Command, Completion, Counters, Device, Lpn, Status};

use crate::TantalumError;
use errors::NumberError;

pub use errors::{
    CapacityError, DamagedError, HostError, LimitError, ReadOnlyError, UnmappedError, UnreadableError,
    not_made, raised,
};
pub use transaction::PyDeviceTransaction;

/// No time is later than this: 73 years, so that sums of times never overflow.
const LAST_NS: u64 = 1 << 61;

/// A drive: flash, FTL and controller, in memory or in an image.
///
/// Its unit is 4,096 bytes, and `lpn` is the number of a unit, from 0. Data are bytes-like objects of whole units: bytes,
/// bytearray, memoryview, contiguous numpy arrays of numbers. They are read and filled in place, so no other thread may
/// change them until the method returns.
///
/// Time is virtual, in nanoseconds. A command is issued at `now_ns`, and `now_ns` then moves to the time at which it is
/// done. With `queued=True` it stays, so that the next command is issued while this one is in flight. Commands that
/// return nothing else return the time at which they are done.
///
/// Every command raises PowerLostError without power, ReadOnlyError at the end of the drive's life, and IndexError
/// for units beyond the capacity; ValueError for other wrong values.
#[pyclass(name = "Device", frozen)]
pub struct PyDevice {
    state: Mutex<Option<State>>,
}

/// The drive and its client's time.
struct State {
    device: Device,
    now_ns: u64,
    /// The counters when they were last reset.
    counted: Counters,
}

impl State {
    fn new(device: Device) -> State {
        State { now_ns: device.time_ns(), device, counted: Counters::default() }
    }

    /// Submits a command now, and waits for it.
    fn submit(&mut self, command: Command<'_>) -> Result<Completion, Status> {
        let completion = self.submit_queued(command)?;
        self.now_ns = self.now_ns.max(completion.done_ns);
        Ok(completion)
    }

    /// Submits a command now.
    fn submit_queued(&mut self, command: Command<'_>) -> Result<Completion, Status> {
        self.now_ns = self.now_ns.max(self.device.issued_ns());
        if self.now_ns > LAST_NS {
            return Err(Status::InvalidField("the drive's time has come to its end, 2**61 ns".to_owned()));
        }
        self.device.submit(command, self.now_ns)
    }

    /// Submits a command now; returns when it is done.
    fn run(&mut self, command: Command<'_>, queued: bool) -> Result<u64, Status> {
        let completion = if queued { self.submit_queued(command) } else { self.submit(command) };
        completion.map(|completion| completion.done_ns)
    }

    /// A unit's number; the caller's may be larger than the drive can represent.
    fn lpn(&self, number: u64) -> Result<Lpn, NumberError> {
        let capacity_units = self.device.limits().capacity_units;
        match u32::try_from(number) {
            Ok(lpn) if number < capacity_units => Ok(Lpn(lpn)),
            _ => Err(NumberError::Unit { number, capacity_units }),
        }
    }

    /// A unit's number, and how many units the drive has from there on.
    fn range(&self, number: u64, units: u64) -> Result<(Lpn, u32), PyErr> {
        let lpn = self.lpn(number)?;
        self.device.check_range(lpn, units).map_err(raised)?;
        let units = u32::try_from(units).map_err(|_| NumberError::Count { what: "units", number: units })?;
        Ok((lpn, units))
    }
}

impl PyDevice {
    fn of(device: Device) -> PyDevice {
        PyDevice { state: Mutex::new(Some(State::new(device))) }
    }

    /// Uses the drive while other threads of Python run.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut State) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| {
            let mut state = self.state.lock().expect("nothing panics with it");
            match state.as_mut() {
                Some(state) => work(state),
                None => Err(TantalumError::new_err("the drive is closed")),
            }
        })
    }
}

#[pymethods]
impl PyDevice {
    /// Creates a new drive.
    ///
    /// profile: a built-in drive such as "tlc-nvme" (`tantalum create --help` lists them), or the path of a TOML file.
    /// path: the image to create; None creates the drive in memory. FileExistsError if it exists. capacity_bytes: the
    /// capacity, a multiple of 4,096; None takes the profile's. overrides: fields of the profile, such as
    /// {"flash.program_ns": 500_000, "cache.mode": "off"}; None leaves one out.
    ///
    /// ValueError if there is no such profile, or no drive can be built from it.
    #[new]
    #[pyo3(signature = (profile = "tlc-nvme", *, path = None, capacity_bytes = None, overrides = None))]
    fn new(
        py: Python<'_>,
        profile: &str,
        path: Option<PathBuf>,
        capacity_bytes: Option<u64>,
        overrides: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyDevice> {
        let profile = overrides::profile(profile, capacity_bytes, overrides)?;
        let made = py.detach(|| match &path {
            Some(path) => Device::create(path, &profile),
            None => Device::in_memory(&profile),
        });
        made.map(PyDevice::of).map_err(not_made)
    }

    /// Opens an image, and recovers if it was not closed. With overlay=True the image is only read; writes stay in
    /// memory, and are lost when the drive is closed.
    ///
    /// If the disk has no room for what opening changes, the drive can only be read: see `refuses_changes`. Changes raise
    /// ReadOnlyError.
    ///
    /// FileNotFoundError or another OSError if the file cannot be opened, ValueError if it is not an image,
    /// TantalumError if it is in use, DamagedError if it is damaged.
    #[staticmethod]
    #[pyo3(signature = (path, *, overlay = false))]
    fn open(py: Python<'_>, path: PathBuf, overlay: bool) -> PyResult<PyDevice> {
        let access = if overlay { Access::Overlay } else { Access::Write };
        let opened = py.detach(|| Device::open_or_read(&path, access));
        let (mut device, why) = opened.map_err(not_made)?;
        if let Some(why) = why {
            device.refuse_changes(why);
        }
        Ok(PyDevice::of(device))
    }

    /// Why the drive refuses every change until it is opened again, as text; None if it does not.
    #[getter]
    fn refuses_changes(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.with(py, |state| Ok(state.device.refuses_changes().map(Status::to_string)))
    }

    /// A copy of a drive that is in memory, with everything in flight; None for an image.
    fn clone(&self, py: Python<'_>) -> PyResult<Option<PyDevice>> {
        self.with(py, |state| {
            let copy = state.device.try_clone();
            let (now_ns, counted) = (state.now_ns, state.counted);
            let of = |device| PyDevice { state: Mutex::new(Some(State { device, now_ns, counted })) };
            Ok(copy.map(of))
        })
    }

    /// Shuts the drive down cleanly: flushes, takes a checkpoint, closes the image. A drive without power is left as the
    /// loss left it. Later commands raise TantalumError.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let closed = py.detach(|| {
            let state = self.state.lock().expect("nothing panics with it").take();
            let Some(mut state) = state else { return Ok(()) };
            let now_ns = state.now_ns.max(state.device.issued_ns());
            state.device.put_away(now_ns)
        });
        match closed {
            Ok(()) | Err(Status::PowerLost) => Ok(()),
            Err(status) => Err(raised(status)),
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
