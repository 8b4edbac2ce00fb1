//! Python's buffers as slices of bytes, in place.
//!
//! This is the only unsafe code of the package. A copy would be safe, but each byte would move twice; PyO3's access
//! without a copy (`&[Cell<u8>]`) is for a thread that holds the interpreter, and the drive works without it.

use std::slice;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

/// Items that any bytes are valid for, in the notation of Python's `struct`: integers, floats and bytes.
const PLAIN: &[u8] = b"cbBhHiIlLqQnNefdgs";

/// A buffer to be read.
pub struct Source(PyUntypedBuffer);

/// A buffer to be filled.
pub struct Target(PyUntypedBuffer);

impl Source {
    /// The object's buffer, which stays where it is as long as this lives.
    pub fn get(object: &Bound<'_, PyAny>) -> PyResult<Source> {
        plain(object).map(Source)
    }

    pub fn bytes(&self) -> &[u8] {
        let length = self.0.len_bytes();
        if length == 0 {
            return &[];
        }
        // SAFETY: the buffer is C-contiguous, so these are `length` bytes from `buf_ptr` on. They are there until it is
        // released, which is after `self`. Bytes have no alignment and no invalid values. Nobody may change them
        // meanwhile, as for Python's own `file.write`, which also releases the interpreter; the documentation says so. A
        // program that does it anyway writes units that mix old and new bytes.
        #[allow(unsafe_code)]
        unsafe {
            slice::from_raw_parts(self.0.buf_ptr().cast_const().cast(), length)
        }
    }
}

/// Arguments that are bytes-like: a method takes them where they are.
impl<'py> FromPyObject<'_, 'py> for Source {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Source> {
        Source::get(&object)
    }
}

impl Target {
    /// The object's buffer, which stays where it is as long as this lives; BufferError if it is read-only.
    pub fn get(object: &Bound<'_, PyAny>) -> PyResult<Target> {
        let buffer = plain(object)?;
        if buffer.readonly() {
            return Err(PyBufferError::new_err("the buffer is read-only; a bytearray can be filled"));
        }
        Ok(Target(buffer))
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        let length = self.0.len_bytes();
        if length == 0 {
            return &mut [];
        }
        // SAFETY: as in `Source::bytes`, and the buffer is writable. Any bytes are valid values of its items. Nobody may
        // use it meanwhile, as for Python's own `file.readinto`.
        #[allow(unsafe_code)]
        unsafe {
            slice::from_raw_parts_mut(self.0.buf_ptr().cast(), length)
        }
    }
}

/// The object's buffer, if it is contiguous and without pointers.
fn plain(object: &Bound<'_, PyAny>) -> PyResult<PyUntypedBuffer> {
    let buffer = PyUntypedBuffer::get(object)?;
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err(
            "the buffer is not contiguous; numpy.ascontiguousarray copies it",
        ));
    }
    let format = buffer.format();
    let items = format.to_bytes().trim_ascii_start();
    let items = items.strip_prefix(b"Z").unwrap_or(items);
    let order_or_count = |byte: &u8| b"@=<>!^0123456789".contains(byte);
    let item: Vec<u8> = items.iter().copied().filter(|byte| !order_or_count(byte)).collect();
    let is_plain = item.len() == 1 && PLAIN.contains(&item[0]);
    if !is_plain {
        let text = format!("the buffer's items are {format:?}; use bytes or numbers, as numpy's view('u1')");
        return Err(PyBufferError::new_err(text));
    }
    Ok(buffer)
}
