//! Endpoints: sending, waiting, serving; and the methods of the host's kernel and of programs' owners.

use std::collections::BTreeMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tantalum_spu::{BlockClient, EndpointId, InstallOptions, ProcessId, ProgramId, Rights, SpuId};

use super::event::PyEvent;
use super::shared::{Shared, install_raised, io_raised, raised, refused, with};
use crate::device::buffer::Source;

fn bytes_of(body: Option<&Source>) -> Vec<u8> {
    body.map_or_else(Vec::new, |body| body.bytes().to_vec())
}

/// An endpoint of a process: it sends requests to programs and receives theirs.
#[pyclass(frozen)]
pub struct Endpoint {
    pub(super) ssd: Shared,
    pub(super) id: EndpointId,
}

#[pymethods]
impl Endpoint {
    /// Its number, as programs see it.
    #[getter]
    fn number(&self) -> u32 {
        self.id.number()
    }

    /// Its process, to which rights are granted.
    #[getter]
    fn process(&self) -> u32 {
        self.id.process().number()
    }

    /// Closes it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        with(py, &self.ssd, |ssd| {
            ssd.close(self.id);
            Ok(())
        })
    }

    /// Ends its process: all its endpoints are closed, its programs removed, its rights revoked.
    fn end_process(&self, py: Python<'_>) -> PyResult<()> {
        with(py, &self.ssd, |ssd| {
            ssd.end_process(self.id.process());
            Ok(())
        })
    }

    /// Installs a module on all processors, and returns the program. The program owns its region; only the kernel can
    /// give one.
    #[pyo3(signature = (module, *, is_open = false, region = None))]
    fn install(
        &self,
        py: Python<'_>,
        module: Source,
        is_open: bool,
        region: Option<(u64, u64)>,
    ) -> PyResult<u32> {
        let options = InstallOptions { is_open, region: region.map(|(start, end)| start..end) };
        with(py, &self.ssd, |ssd| {
            ssd.install(self.id.process(), module.bytes(), options).map_err(install_raised)
        })
        .map(|id| id.0)
    }

    /// Removes a program.
    fn uninstall(&self, py: Python<'_>, program: u32) -> PyResult<()> {
        with(py, &self.ssd, |ssd| ssd.uninstall(ProgramId(program)).map_err(raised))
    }

    /// Lets a program call handlers of another.
    fn allow_calls(&self, py: Python<'_>, program: u32, called: u32, handlers: Vec<u32>) -> PyResult<()> {
        with(py, &self.ssd, |ssd| {
            ssd.allow_calls(ProgramId(program), ProgramId(called), &handlers).map_err(raised)
        })
    }

    /// Sets a process's rights to a range, replacing those it had there: 1 to read, 2 to write, 0 revokes them. Only an
    /// endpoint of the kernel can grant.
    fn grant(&self, py: Python<'_>, process: u32, start: u64, end: u64, rights: u32) -> PyResult<()> {
        if !self.id.process().is_kernel() {
            return Err(refused("only the kernel grants rights"));
        }
        let invalid = || PyValueError::new_err(format!("process {process:#x} or rights {rights}"));
        let process = ProcessId::from_number(process).ok_or_else(invalid)?;
        let rights = Rights::from_bits(rights).ok_or_else(invalid)?;
        with(py, &self.ssd, |ssd| ssd.grant(process, start..end, rights).map_err(raised))
    }

    /// Sends a request to a handler at a time, or now, and returns its number. Its answer is an event.
    #[pyo3(signature = (processor, program, handler, body = None, *, at_ns = 0))]
    fn send(
        &self,
        py: Python<'_>,
        processor: u32,
        program: u32,
        handler: u32,
        body: Option<Source>,
        at_ns: u64,
    ) -> PyResult<u64> {
        let to = (ProgramId(program), handler);
        with(py, &self.ssd, |ssd| {
            ssd.send(self.id, SpuId(processor), to, bytes_of(body.as_ref()), at_ns).map_err(raised)
        })
    }

    /// Sends a request to a handler, waits, and returns the answer. Events wait for `receive`.
    #[pyo3(signature = (processor, program, handler, body = None))]
    fn ask(
        &self,
        py: Python<'_>,
        processor: u32,
        program: u32,
        handler: u32,
        body: Option<Source>,
    ) -> PyResult<i32> {
        let to = (ProgramId(program), handler);
        with(py, &self.ssd, |ssd| {
            ssd.ask(self.id, SpuId(processor), to, bytes_of(body.as_ref())).map_err(raised)
        })
    }

    /// Waits for the next event; None if nothing is in flight.
    fn receive(&self, py: Python<'_>) -> PyResult<Option<PyEvent>> {
        let event = with(py, &self.ssd, |ssd| Ok(ssd.receive(self.id)))?;
        Ok(event.map(|event| PyEvent::of(py, &event)))
    }

    /// Waits for the next event; if it is a request, calls the handler of its number with it. Returns the event.
    fn serve(&self, py: Python<'_>, handlers: BTreeMap<u32, Py<PyAny>>) -> PyResult<Option<Py<PyEvent>>> {
        let Some(event) = self.receive(py)? else { return Ok(None) };
        let event = Py::new(py, event)?;
        if event.get().kind == "request"
            && let Some(handler) = handlers.get(&event.get().handler)
        {
            handler.call1(py, (&event,))?;
        }
        Ok(Some(event))
    }

    /// A program's counters, and what it wrote to the serial port of a processor; also of the program that faulted last.
    fn output<'py>(
        &self,
        py: Python<'py>,
        program: u32,
        processor: usize,
    ) -> PyResult<(Vec<u64>, Bound<'py, PyBytes>)> {
        let output = with(py, &self.ssd, |ssd| ssd.output(ProgramId(program)).map_err(raised))?;
        let port = output.serial.get(processor);
        let port = port.ok_or_else(|| PyValueError::new_err(format!("there is no processor {processor}")))?;
        Ok((output.counters.to_vec(), PyBytes::new(py, port)))
    }

    /// Reads a range through Base-IO or Direct-IO.
    fn read<'py>(
        &self,
        py: Python<'py>,
        program: u32,
        address: u64,
        length: u32,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let client = BlockClient::new(self.id, ProgramId(program));
        let data = with(py, &self.ssd, |ssd| {
            let mut data = vec![0; length as usize];
            client.read(ssd, address, &mut data).map_err(io_raised)?;
            Ok(data)
        })?;
        Ok(PyBytes::new(py, &data))
    }

    /// Writes a range in the same way. It is durable with the next `flush`.
    fn write(&self, py: Python<'_>, program: u32, address: u64, data: Source) -> PyResult<()> {
        let client = BlockClient::new(self.id, ProgramId(program));
        with(py, &self.ssd, |ssd| client.write(ssd, address, data.bytes()).map_err(io_raised))
    }

    /// Makes everything written durable.
    fn flush(&self, py: Python<'_>, program: u32) -> PyResult<()> {
        let client = BlockClient::new(self.id, ProgramId(program));
        with(py, &self.ssd, |ssd| client.flush(ssd).map_err(io_raised))
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
