//! Errors as exceptions that a caller can tell apart.

use std::io;

use pyo3::create_exception;
use pyo3::exceptions::{
    PyFileExistsError, PyFileNotFoundError, PyIndexError, PyKeyError, PyOSError, PyPermissionError,
    PyValueError,
};
use pyo3::prelude::*;
use tantalum_device::{DeviceError, FormatError, MediumError, NandError, Status};

use crate::{PowerLostError, TantalumError};

create_exception!(tantalum, LimitError, TantalumError, "More than the drive takes in one step, or at once.");
create_exception!(tantalum, UnmappedError, TantalumError, "A unit that is to be shared has no contents.");
create_exception!(tantalum, CapacityError, TantalumError, "No flash is left, even after garbage collection.");
create_exception!(
    tantalum,
    ReadOnlyError,
    TantalumError,
    "Too few good blocks are left for writes, the machine has no room for them, or documents can only be read."
);
create_exception!(
    tantalum,
    UnreadableError,
    TantalumError,
    "The flash page of a unit or record cannot be read."
);
create_exception!(tantalum, DamagedError, TantalumError, "The drive's own data are damaged.");
create_exception!(
    tantalum,
    HostError,
    TantalumError,
    "The machine failed below the image. The drive takes no more changes until it is opened again."
);

/// A number too large for the drive.
pub enum NumberError {
    /// Of a unit.
    Unit { number: u64, capacity_units: u64 },
    /// Of anything else.
    Count { what: &'static str, number: u64 },
}

impl From<NumberError> for PyErr {
    fn from(error: NumberError) -> PyErr {
        match error {
            NumberError::Unit { number, capacity_units } => PyIndexError::new_err(format!(
                "unit {number} is out of range: the drive has {capacity_units} units"
            )),
            NumberError::Count { what, number } => {
                PyValueError::new_err(format!("{number} {what} are more than the drive can count to"))
            }
        }
    }
}

/// A command failed.
pub fn raised(status: Status) -> PyErr {
    let text = status.to_string();
    match status {
        Status::OutOfRange { .. } => PyIndexError::new_err(text),
        Status::InvalidField(_)
        | Status::DataLength { .. }
        | Status::SlotOutOfOrder(_)
        | Status::Zone(_)
        | Status::ValueTooLarge { .. } => PyValueError::new_err(text),
        Status::UnknownTransaction(_)
        | Status::UnknownLog(_)
        | Status::NoSuchNamespace { .. }
        | Status::NoSuchKey { .. } => PyKeyError::new_err(text),
        Status::Unmapped { .. } => UnmappedError::new_err(text),
        Status::OverLimit { .. } | Status::OutOfBuffers { .. } => LimitError::new_err(text),
        Status::CapacityExceeded => CapacityError::new_err(text),
        Status::Unreadable { .. } | Status::RecordUnreadable { .. } | Status::ZoneUnreadable { .. } => {
            UnreadableError::new_err(text)
        }
        Status::ReadOnly | Status::WriteProtected(_) => ReadOnlyError::new_err(text),
        Status::PowerLost => PowerLostError::new_err(text),
        Status::Host(_) => HostError::new_err(text),
        Status::Damaged(_) => DamagedError::new_err(text),
        Status::Unfinished(_) | Status::Internal(_) => TantalumError::new_err(text),
    }
}

/// A drive was not created or opened, or did not recover.
pub fn not_made(error: DeviceError) -> PyErr {
    let text = error.to_string();
    match error {
        DeviceError::Profile(_) | DeviceError::Invalid(_) => PyValueError::new_err(text),
        DeviceError::Medium(error) => medium(&error, text),
        DeviceError::Nand(error) => nand(&error, text),
        DeviceError::Ftl(FormatError::Layout(_)) => PyValueError::new_err(text),
        DeviceError::Ftl(FormatError::Ftl(error)) => raised(error.into()),
        DeviceError::Shutdown(status) => raised(status),
        DeviceError::Interrupted => TantalumError::new_err(text),
    }
}

fn medium(error: &MediumError, text: String) -> PyErr {
    match error {
        MediumError::Exists { .. } => PyFileExistsError::new_err(text),
        MediumError::Geometry(_)
        | MediumError::Timing { .. }
        | MediumError::DescriptionTooLong { .. }
        | MediumError::ProtectedTooLarge { .. }
        | MediumError::NotAnImage { .. }
        | MediumError::Version { .. } => PyValueError::new_err(text),
        MediumError::Locked { .. } => TantalumError::new_err(text),
        MediumError::Nand(error) => nand(error, text),
        _ => DamagedError::new_err(text),
    }
}

fn nand(error: &NandError, text: String) -> PyErr {
    match error {
        NandError::PowerLost => PowerLostError::new_err(text),
        NandError::Host(error) => host(error.kind, text),
        _ => DamagedError::new_err(text),
    }
}

fn host(kind: io::ErrorKind, text: String) -> PyErr {
    match kind {
        io::ErrorKind::NotFound => PyFileNotFoundError::new_err(text),
        io::ErrorKind::PermissionDenied => PyPermissionError::new_err(text),
        _ => PyOSError::new_err(text),
    }
}
