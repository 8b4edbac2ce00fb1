//! A drive that threads of Python share, and its errors.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tantalum_spu::{InstallError, IoError, SpuError, Ssd};

use crate::errors::{PowerLostError, TantalumError};

pub fn refused(error: impl std::fmt::Display) -> PyErr {
    TantalumError::new_err(error.to_string())
}

pub fn raised(error: SpuError) -> PyErr {
    let text = error.to_string();
    match error {
        SpuError::PowerLost => PowerLostError::new_err(text),
        SpuError::NoProcessor { .. } | SpuError::BodyTooLong { .. } | SpuError::NotGrantable { .. } => {
            PyValueError::new_err(text)
        }
        _ => TantalumError::new_err(text),
    }
}

pub fn install_raised(error: InstallError) -> PyErr {
    let text = error.to_string();
    match error {
        InstallError::PowerLost => PowerLostError::new_err(text),
        InstallError::Module(_) | InstallError::Region { .. } => PyValueError::new_err(text),
        _ => TantalumError::new_err(text),
    }
}

pub fn io_raised(error: IoError) -> PyErr {
    match error {
        IoError::Sending(error) => raised(error),
        error => refused(error),
    }
}

/// A drive that its endpoints share; None once it is closed.
pub type Shared = Arc<Mutex<Option<Ssd>>>;

/// Uses a drive while other threads of Python run.
pub fn with<T: Send>(
    py: Python<'_>,
    ssd: &Shared,
    work: impl FnOnce(&mut Ssd) -> PyResult<T> + Send,
) -> PyResult<T> {
    py.detach(|| {
        let mut ssd = ssd.lock().expect("nothing panics with it");
        match ssd.as_mut() {
            Some(ssd) => work(ssd),
            None => Err(refused("the drive is closed")),
        }
    })
}
