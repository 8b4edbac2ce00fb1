//! The exceptions.

use std::io::ErrorKind;

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyFileNotFoundError, PyKeyError, PyPermissionError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tantalum_kv::Error;

use crate::device::{DamagedError, HostError, ReadOnlyError, UnreadableError, not_made, raised as refused};

create_exception!(tantalum, TantalumError, PyException, "The store or the drive refused.");
create_exception!(tantalum, PowerLostError, TantalumError, "The drive has no power.");
create_exception!(
    tantalum,
    DeadlockError,
    TantalumError,
    "The transaction gave way to an older one: try again."
);
create_exception!(
    tantalum,
    SelfDeadlockError,
    TantalumError,
    "Another open transaction of the same thread has the lock: a transaction within another one."
);

/// The exception for an error of the key-value store.
pub fn raised(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Deadlock => DeadlockError::new_err(text),
        Error::SelfDeadlock { .. } => SelfDeadlockError::new_err(text),
        Error::Key { .. }
        | Error::ValueTooLarge { .. }
        | Error::Name { .. }
        | Error::Option { .. }
        | Error::OtherOrder { .. }
        | Error::NotOrdered
        | Error::NotListed
        | Error::Capacity { .. }
        | Error::Exists { .. } => PyValueError::new_err(text),
        Error::KeyExists { .. } | Error::NoSuchKey { .. } => PyKeyError::new_err(text),
        Error::ReadOnly => ReadOnlyError::new_err(text),
        Error::Damaged { namespace, key } => {
            with_place(UnreadableError::new_err(text), &namespace, &key, None)
        }
        Error::DamagedIndex { namespace, from, to } => {
            with_place(DamagedError::new_err(text), &namespace, &from, Some(to.as_deref()))
        }
        Error::Stopped { is_host: true, .. } => HostError::new_err(text),
        Error::Drive(status) => refused(status),
        Error::Device(error) => match error.host().map(|host| host.kind) {
            None | Some(ErrorKind::NotFound | ErrorKind::PermissionDenied) => not_made(error),
            Some(_) => HostError::new_err(text),
        },
        Error::Io { source, .. } => host(source.kind(), text),
        _ => TantalumError::new_err(text),
    }
}

/// The exception for what the machine refused below a store.
pub fn host(kind: ErrorKind, text: String) -> PyErr {
    match kind {
        ErrorKind::NotFound => PyFileNotFoundError::new_err(text),
        ErrorKind::PermissionDenied => PyPermissionError::new_err(text),
        _ => HostError::new_err(text),
    }
}

/// An exception with the attributes `namespace` and `key`, or `start` and `end` of a range whose end may be open.
fn with_place(error: PyErr, namespace: &str, key: &[u8], end: Option<Option<&[u8]>>) -> PyErr {
    Python::attach(|py| {
        let value = error.value(py);
        let attributes = || {
            value.setattr("namespace", namespace)?;
            let Some(end) = end else { return value.setattr("key", PyBytes::new(py, key)) };
            value.setattr("start", PyBytes::new(py, key))?;
            value.setattr("end", end.map(|end| PyBytes::new(py, end)))
        };
        match attributes() {
            Ok(()) => error.clone_ref(py),
            Err(other) => other,
        }
    })
}
