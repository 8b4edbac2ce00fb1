//! Why an image that the extension opens failed.

use std::path::PathBuf;

use tantalum::{DeviceError, ProfileError, SizeError, Status};
use tantalum_volume::VolumeError;

use crate::mode::{Mode, UnknownMode};

/// Why an image could not be opened or closed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    /// The image or its drive failed.
    #[error("image {path}: {error}", path = path.display())]
    Device { path: PathBuf, error: Box<DeviceError> },
    /// The volume on it failed.
    #[error("image {path}: {error}", path = path.display())]
    Volume { path: PathBuf, error: VolumeError },
    /// It could not be shut down.
    #[error("image {path}: {error}", path = path.display())]
    Shutdown { path: PathBuf, error: Status },
    /// `profile=` is invalid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// `capacity=` is invalid.
    #[error("capacity={text}: {error}")]
    Capacity { text: String, error: SizeError },
    /// `interface=` is invalid.
    #[error("interface: {0}")]
    Mode(#[from] UnknownMode),
    /// `time=` is invalid.
    #[error("time: {0:?} is neither `none` (answer at once) nor `real` (keep the drive's latencies)")]
    Time(String),
    /// Another `interface=` than that of the open image.
    #[error("image {path} is already open with interface {open}; it cannot be opened with {asked}", path = path.display())]
    OtherMode { path: PathBuf, open: Mode, asked: Mode },
    /// A parameter of the URI that nobody knows.
    #[error("the URI has an unknown parameter {name:?}; this VFS has {known}", known = known.join(", "))]
    Parameter { name: String, known: &'static [&'static str] },
    /// There is no image, and the database may not be created.
    #[error("there is no image {path}, and the database was opened without permission to create it (mode=rwc)", path = path.display())]
    NoImage { path: PathBuf },
    /// The name is taken.
    #[error("{name:?} is open from image {path}; close it first, or use another name", path = path.display())]
    OtherImage { name: String, path: PathBuf },
}
