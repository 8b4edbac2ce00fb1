//! Buffers of Python objects as slices: bytes, bytearray, memoryview, array, numpy arrays. They are not copied.
//!
//! This is the one place of this package with `unsafe`. A buffer is pinned while it is exported, so its memory stays where it
//! is. Its bytes may be changed by others, so a slice lives only while this thread is attached to the interpreter
//! (`py`), and no code of Python runs meanwhile: no method of the drive calls back.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;

/// The memory of an object, whatever its items are.
fn exported(object: &Bound<'_, PyAny>) -> PyResult<PyBuffer<u8>> {
    // items of any type are bytes: a memoryview casts those that are not
    let buffer = match PyBuffer::<u8>::get(object) {
        Ok(buffer) => buffer,
        Err(error) if error.is_instance_of::<PyBufferError>(object.py()) => {
            let view = object.py().import("builtins")?.getattr("memoryview")?.call1((object,))?;
            let contiguous: bool = view.getattr("c_contiguous")?.extract()?;
            if !contiguous {
                return Err(not_contiguous());
            }
            PyBuffer::<u8>::get(&view.call_method1("cast", ("B",))?)?
        }
        Err(error) => return Err(error),
    };
    if buffer.is_c_contiguous() { Ok(buffer) } else { Err(not_contiguous()) }
}

fn not_contiguous() -> PyErr {
    PyValueError::new_err("the buffer is not contiguous; pass a contiguous copy of it")
}

/// A buffer that is read from.
pub(super) struct Readable(PyBuffer<u8>);

impl Readable {
    pub(super) fn of(object: &Bound<'_, PyAny>) -> PyResult<Readable> {
        exported(object).map(Readable)
    }

    pub(super) fn bytes(&self, _py: Python<'_>) -> &[u8] {
        if self.0.len_bytes() == 0 {
            return &[];
        }
        // Sound: the buffer is contiguous, initialised, and pinned as long as `self`; nothing else of this process writes to it
        // while this thread is attached and in the drive.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast::<u8>(), self.0.len_bytes()) }
    }
}

/// A buffer that is written to.
pub(super) struct Writable(PyBuffer<u8>);

impl Writable {
    pub(super) fn of(object: &Bound<'_, PyAny>) -> PyResult<Writable> {
        let buffer = exported(object)?;
        match buffer.readonly() {
            true => Err(PyValueError::new_err("the buffer is read-only")),
            false => Ok(Writable(buffer)),
        }
    }

    pub(super) fn bytes(&mut self, _py: Python<'_>) -> &mut [u8] {
        if self.0.len_bytes() == 0 {
            return &mut [];
        }
        // Sound as above, and it is writable. A method takes at most one such buffer and no other beside it.
        unsafe { std::slice::from_raw_parts_mut(self.0.buf_ptr().cast::<u8>(), self.0.len_bytes()) }
    }
}
