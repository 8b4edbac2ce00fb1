//! Power cuts of Python functions: `tantalum.crash_run`, whose types are in `tantalum/crash.py`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tantalum_crash_run::operation::Recording;
use tantalum_crash_run::{Acks, CheckFunction, CrashTest, Outcome, Profile, RunError, Sector, summary};
use tantalum_report::Monitor;

use crate::errors::TantalumError;

/// How often a waiting interpreter looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

fn raised(error: RunError) -> PyErr {
    match error {
        // a function gets no words
        RunError::NothingRecorded => TantalumError::new_err(
            "the program changed nothing in its folder, which is the first argument of the function",
        ),
        error => TantalumError::new_err(error.to_string()),
    }
}

/// Passed to a program, which calls it to acknowledge something.
#[pyclass(frozen)]
struct Ack(Acks);

#[pymethods]
impl Ack {
    fn __call__(&self, what: &str) {
        self.0.ack(what);
    }
}

/// Runs `program(folder, ack)` once, and `check(folder, acks)` on each outcome. Returns the outcome as JSON, and as text.
#[pyfunction]
#[pyo3(signature = (program, check, *, drive, sector, cuts, minutes, seed, capacity_bytes, save))]
#[expect(clippy::too_many_arguments, reason = "they are the options of the command")]
pub fn _crash_run(
    py: Python<'_>,
    program: Py<PyAny>,
    check: Py<PyAny>,
    drive: Option<String>,
    sector: u64,
    cuts: Option<u64>,
    minutes: Option<f64>,
    seed: u64,
    capacity_bytes: u64,
    save: Option<PathBuf>,
) -> PyResult<(String, String)> {
    let mut test = CrashTest::new().seed(seed).capacity_bytes(capacity_bytes).sector(match sector {
        512 => Sector::Bytes512,
        4096 => Sector::KiB4,
        other => return Err(PyValueError::new_err(format!("sector is {other}; use 512 or 4096"))),
    });
    if let Some(name) = drive {
        test = test.drive(Profile::load(&name).map_err(|error| PyValueError::new_err(error.to_string()))?);
    }
    if cuts == Some(0) {
        return Err(PyValueError::new_err("cuts is 0; use a number from 1, or None for all"));
    }
    if let Some(minutes) = minutes.filter(|minutes| !(minutes.is_finite() && *minutes > 0.0)) {
        return Err(PyValueError::new_err(format!(
            "minutes is {minutes}; use a number above 0, or None for no limit"
        )));
    }
    test = cuts.into_iter().fold(test, CrashTest::cuts);
    test = minutes.into_iter().fold(test, CrashTest::minutes);
    test = save.into_iter().fold(test, CrashTest::save);
    let recording = record(py, &test, &program)?;
    let outcome = check_all(py, &test, &recording, check)?;
    let json = serde_json::to_string(&outcome).expect("it has string keys only");
    Ok((json, summary::of(&outcome)))
}

/// The program runs in this thread, because Ctrl-C goes to the main thread.
fn record(py: Python<'_>, test: &CrashTest, program: &Py<PyAny>) -> PyResult<Recording> {
    let mut ended = Ok(());
    let recording = py.detach(|| {
        test.record(|folder, acks| {
            ended = Python::attach(|py| program.call1(py, (folder, Ack(acks.clone()))).map(drop));
        })
    });
    ended?;
    recording.map_err(raised)
}

/// Checks run in threads; this one looks for Ctrl-C meanwhile.
fn check_all(py: Python<'_>, test: &CrashTest, recording: &Recording, check: Py<PyAny>) -> PyResult<Outcome> {
    let function: Arc<CheckFunction> = Arc::new(move |folder: &Path, acks: &[String]| {
        Python::attach(|py| match check.call1(py, (folder, acks)) {
            Ok(_) => Ok(()),
            Err(error) => Err(text_of(py, &error)),
        })
    });
    let cancelled = Arc::new(AtomicBool::new(false));
    let monitor = Monitor::new(Arc::clone(&cancelled));
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let _ = sender.send(test.check(recording, function, &monitor));
        });
        let receiver = std::sync::Mutex::new(receiver);
        let mut interrupted = None;
        loop {
            let next = py.detach(|| receiver.lock().expect("nobody else has it").recv_timeout(LOOK));
            match (next, interrupted.take()) {
                (Ok(outcome), None) => return outcome.map_err(raised),
                (Ok(_), Some(error)) => return Err(error),
                (Err(mpsc::RecvTimeoutError::Timeout), earlier) => {
                    interrupted = earlier.or(py.check_signals().err());
                    cancelled.store(interrupted.is_some(), Ordering::Relaxed);
                }
                (Err(mpsc::RecvTimeoutError::Disconnected), _) => {
                    return Err(TantalumError::new_err("the thread that runs the checks has ended"));
                }
            }
        }
    })
}

/// An exception as Python would print it.
fn text_of(py: Python<'_>, error: &PyErr) -> String {
    let lines = py.import("traceback").and_then(|traceback| {
        let parts = (error.get_type(py), error.value(py), error.traceback(py));
        traceback.call_method1("format_exception", parts)?.extract::<Vec<String>>()
    });
    lines.map_or_else(|_| error.to_string(), |lines| lines.concat().trim_end().to_owned())
}
