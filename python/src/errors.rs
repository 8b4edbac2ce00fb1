//! The exceptions.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyError, PyValueError};
use pyo3::prelude::*;
use tantalum_kv::Error;

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
        _ => TantalumError::new_err(text),
    }
}
