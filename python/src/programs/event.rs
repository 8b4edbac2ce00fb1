//! Events of endpoints.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tantalum_spu::Event;

/// An event of an endpoint: `kind` is "answer", "request", "permission", "ended" or "power lost".
#[pyclass(name = "Event", frozen, get_all)]
pub struct PyEvent {
    pub(super) kind: &'static str,
    /// The processor.
    processor: u32,
    /// The program.
    program: u32,
    /// Of a request of a program, the host's handler that it is for; of a program that was ended, the program's.
    pub(super) handler: u32,
    /// Of an answer, the request as `send` returned it.
    request: u64,
    /// Of an answer, the handler's status, or a negative one of the drive.
    status: i32,
    /// Of a permission, whether it was granted. If so, the failed request can be sent again.
    is_granted: bool,
    /// Of a permission, its range.
    range: (u64, u64),
    /// When the host learns of it, in the drive's time.
    at_ns: u64,
    /// Of a request, its body; of a program that was ended, why, and in which function.
    body: Py<PyBytes>,
}

impl PyEvent {
    pub(super) fn of(py: Python<'_>, event: &Event) -> PyEvent {
        let why = event.why_ended().unwrap_or_default();
        let mut told = PyEvent {
            kind: "power lost",
            processor: 0,
            program: 0,
            handler: 0,
            request: 0,
            status: 0,
            is_granted: false,
            range: (0, 0),
            at_ns: event.at_ns(),
            body: PyBytes::new(py, why.as_bytes()).unbind(),
        };
        match event {
            Event::Answer { request, status, .. } => {
                (told.kind, told.request, told.status) = ("answer", *request, *status);
            }
            Event::Request { spu, program, handler, body, .. } => {
                (told.kind, told.processor, told.program) = ("request", spu.0, program.0);
                (told.handler, told.body) = (*handler, PyBytes::new(py, body).unbind());
            }
            Event::Permission { spu, range, granted, .. } => {
                (told.kind, told.processor, told.is_granted) = ("permission", spu.0, *granted);
                told.range = (range.start, range.end);
            }
            Event::Ended { program, spu, handler, .. } => {
                (told.kind, told.processor) = ("ended", spu.0);
                (told.program, told.handler) = (program.0, *handler);
            }
            Event::PowerLost { .. } => {}
        }
        told
    }
}

#[pymethods]
impl PyEvent {
    fn __repr__(&self, py: Python<'_>) -> String {
        let bytes = self.body.bind(py).as_bytes().len();
        format!(
            "<Event {}: program {}, processor {}, {bytes} bytes>",
            self.kind, self.program, self.processor
        )
    }
}
