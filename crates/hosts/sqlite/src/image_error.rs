//! Why an image that the extension opens failed.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use tantalum::{DeviceError, HostError, ProfileError, SizeError, Status};
use tantalum_volume::VolumeError;

use crate::mode::{Mode, UnknownMode};

/// Why an image could not be opened or closed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    /// The image or its drive failed.
    #[error("{}", of_image(path, error))]
    Device { path: PathBuf, error: Box<DeviceError> },
    /// The volume on it failed.
    #[error("{}", of_image(path, error))]
    Volume { path: PathBuf, error: VolumeError },
    /// It could not be shut down.
    #[error("{}", of_image(path, error))]
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
    /// An `interface=` other than that of the open image.
    #[error("image {path} is already open with interface {open}; it cannot be opened with {asked}", path = path.display())]
    OtherMode { path: PathBuf, open: Mode, asked: Mode },
    /// An unknown parameter of the URI.
    #[error("the URI has an unknown parameter {name:?}; this VFS has {known}", known = known.join(", "))]
    Parameter { name: String, known: &'static [&'static str] },
    /// There is no image, and the database may not be created.
    #[error("there is no image {path}, and the database was opened without permission to create it (mode=rwc)", path = path.display())]
    NoImage { path: PathBuf },
    /// The name is taken.
    #[error("{name:?} is open from image {path}; close it first, or use another name", path = path.display())]
    OtherImage { name: String, path: PathBuf },
}

impl ImageError {
    /// How the host failed, if that is why an image could not be opened.
    pub fn host(&self) -> Option<&HostError> {
        match self {
            ImageError::Device { error, .. } => error.host(),
            ImageError::Volume { error: VolumeError::Device(Status::Host(error)), .. } => Some(error),
            _ => None,
        }
    }
}

/// An error of an image, which names it once: errors about its file already do.
fn of_image(path: &Path, error: &impl Display) -> String {
    let (image, error) = (path.display().to_string(), error.to_string());
    if error.starts_with(&image) { error } else { format!("image {image}: {error}") }
}

#[cfg(test)]
mod tests {
    use tantalum::{Device, Profile};

    use super::*;

    #[test]
    fn an_image_is_named_once() {
        let path = PathBuf::from("/nonexistent/x.tant");
        let profile = Profile::load("tlc-nvme").unwrap();
        let error = Box::new(Device::create(&path, &profile).unwrap_err());
        let said = ImageError::Device { path: path.clone(), error }.to_string();
        assert_eq!(said.matches("x.tant").count(), 1, "{said}");
        let said = ImageError::Shutdown { path, error: Status::PowerLost }.to_string();
        assert!(said.starts_with("image /nonexistent/x.tant: "), "{said}");
    }
}
