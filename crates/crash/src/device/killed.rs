//! A drive in an image, whose process is killed between any two stores to the file.

use std::path::PathBuf;

use tantalum::{Device, DeviceError, Life, Profile};
use tempfile::TempDir;

use super::stop::Stop;

/// An image in a folder that is removed with this value.
pub(crate) struct ImageFile {
    path: PathBuf,
    /// The life of the process that has it open.
    pub life: Life,
    _folder: TempDir,
}

impl ImageFile {
    /// A new image of a drive, and the drive in it.
    pub fn create(profile: &Profile) -> Result<(ImageFile, Device), Stop> {
        let failed = |error: &dyn std::error::Error| Stop::broken("refused", error.to_string());
        let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
        let path = folder.path().join("tortured.tant");
        drop(Device::create(&path, profile).map_err(|error| failed(&error))?);
        let image = ImageFile { path, life: Life::default(), _folder: folder };
        let device = image.open().map_err(|error| failed(&error))?;
        Ok((image, device))
    }

    /// Opens the image, after the process that had it open was killed.
    pub fn open(&self) -> Result<Device, DeviceError> {
        Device::open_for(&self.path, &self.life)
    }
}
