//! Power cuts, recovery, and failures of the flash.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyAny;
use tantalum_device::{Faults, InFlight, Operation, Outcome, PowerLoss};

use super::errors::{not_made, raised};
use super::figures::object;
use super::{LAST_NS, PyDevice};

/// The fates of operations in flight.
#[derive(FromPyObject)]
enum Fates {
    All(String),
    Each(Vec<String>),
}

/// An operation in flight: what, page or block, begin and end in ns.
type Described = (&'static str, Option<u64>, u64, u64);

fn outcome(name: &str) -> PyResult<Outcome> {
    match name {
        "not started" => Ok(Outcome::NotStarted),
        "torn" => Ok(Outcome::Torn),
        "completed" => Ok(Outcome::Completed),
        other => Err(PyValueError::new_err(format!(
            "{other:?} is not a fate of an operation; use \"not started\", \"torn\" or \"completed\""
        ))),
    }
}

fn loss(seed: u64, fates: Option<Fates>) -> PyResult<PowerLoss> {
    match fates {
        None => Ok(PowerLoss::seeded(seed)),
        Some(Fates::All(fate)) => outcome(&fate).map(PowerLoss::all),
        Some(Fates::Each(fates)) => {
            let fates: Vec<Outcome> = fates.iter().map(|fate| outcome(fate)).collect::<PyResult<_>>()?;
            Ok(PowerLoss::listed(&fates, seed))
        }
    }
}

/// What an operation does, to which page or block, from when to when.
fn described(flight: InFlight) -> Described {
    let (kind, number) = match flight.operation {
        Operation::Program(page) => ("program", Some(u64::from(page.0))),
        Operation::Erase(block) => ("erase", Some(u64::from(block.0))),
        Operation::Store => ("store", None),
    };
    (kind, number, flight.start_ns, flight.end_ns)
}

#[pymethods]
impl PyDevice {
    /// Whether the drive has power.
    #[getter]
    fn has_power(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |state| Ok(state.device.has_power()))
    }

    /// Flash operations so far, programs and erases: the points at which power can be cut.
    #[getter]
    fn flash_operations(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |state| Ok(state.device.flash_operations()))
    }

    /// Cuts power now, or at `at_ns`, but not before the last command was issued. Commands that are done by then have been
    /// acknowledged; acknowledged and flushed data survive.
    #[pyo3(signature = (at_ns = None))]
    fn cut_power(&self, py: Python<'_>, at_ns: Option<u64>) -> PyResult<()> {
        self.with(py, |state| {
            let at_ns = at_ns.unwrap_or(state.now_ns);
            if at_ns > LAST_NS {
                return Err(PyValueError::new_err(format!("at_ns is {at_ns}; it must be at most 2**61")));
            }
            state.device.cut_power(at_ns);
            Ok(())
        })
    }

    /// Arms a power cut at the Nth program or erase from now, 1 being the next; None disarms it. The command that reaches
    /// it raises PowerLostError. Without power it is the Nth operation of the next recovery.
    fn cut_after(&self, py: Python<'_>, flash_operations: Option<u64>) -> PyResult<()> {
        if flash_operations == Some(0) {
            return Err(PyValueError::new_err("flash operations are counted from 1"));
        }
        self.with(py, |state| {
            state.device.cut_after(flash_operations);
            Ok(())
        })
    }

    /// After a cut: the operations that had begun but were not done, as tuples (what, page or block, begin in ns, end in
    /// ns), in the order of issue; what is "program", "erase" or "store" (to non-volatile memory, without a number).
    fn in_flight(&self, py: Python<'_>) -> PyResult<Vec<Described>> {
        self.with(py, |state| Ok(state.device.in_flight().into_iter().map(described).collect()))
    }

    /// Turns power on again, and the drive recovers. Returns what recovery did, as `recovery` does.
    ///
    /// seed: draws how operations in flight ended. fates: "not started", "torn" or "completed" for all of them, or a list
    /// of these in the order of `in_flight`.
    ///
    /// PowerLostError if a cut armed for recovery has come: call it again. ValueError if the drive has power.
    #[pyo3(signature = (seed = 0, *, fates = None))]
    fn power_on(&self, py: Python<'_>, seed: u64, fates: Option<Fates>) -> PyResult<Py<PyAny>> {
        let mut loss = loss(seed, fates)?;
        let report = self.with(py, |state| {
            if state.device.has_power() {
                return Err(PyValueError::new_err("the drive has power; cut it first"));
            }
            let report = state.device.power_on(&mut loss).map_err(not_made)?;
            state.now_ns = state.now_ns.max(state.device.time_ns());
            Ok(report)
        })?;
        object(py, &report)
    }

    /// From now on, until the image is opened again, flash operations fail: programs, erases and reads at these rates
    /// per million, and erases beyond `endurance_cycles` of a block. The same seed gives the same failures.
    ///
    /// ValueError if all programs would fail, since the drive would retry for ever.
    #[pyo3(signature = (*, seed = 0, program_failure_ppm = 0, erase_failure_ppm = 0, read_failure_ppm = 0, endurance_cycles = None))]
    fn set_faults(
        &self,
        py: Python<'_>,
        seed: u64,
        program_failure_ppm: u32,
        erase_failure_ppm: u32,
        read_failure_ppm: u32,
        endurance_cycles: Option<u32>,
    ) -> PyResult<()> {
        if program_failure_ppm >= 1_000_000 {
            let text = format!("program_failure_ppm is {program_failure_ppm}; it must be below 1,000,000");
            return Err(PyValueError::new_err(text));
        }
        let faults =
            Faults { seed, program_failure_ppm, erase_failure_ppm, read_failure_ppm, endurance_cycles };
        self.with(py, |state| state.device.set_faults(faults).map_err(raised))
    }
}
