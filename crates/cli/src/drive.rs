//! Selects the drive: a profile, and the command line's changes to it.

use std::path::Path;

use clap::Args;
use tantalum::{Device, DeviceError, Profile, Size};

use crate::failure::Failure;

/// The options that select a drive's profile.
#[derive(Args, Debug)]
pub struct ProfileOptions {
    /// The drive: tlc-nvme, tlc-nvme-plp, femu-2021, openssd-barefoot, durassd, kaml-board, pebblessd, willow, or a TOML file
    #[arg(long, value_name = "NAME|FILE", default_value = "tlc-nvme")]
    pub profile: String,

    /// Logical capacity, such as 512M, 1GiB or 1TiB [default: the profile's]
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<Size>,
}

impl ProfileOptions {
    /// The profile, changed and checked.
    pub fn load(
        &self,
        default_capacity: Option<Size>,
        over_provisioning_percent: Option<f64>,
    ) -> Result<Profile, Failure> {
        let mut profile = Profile::load(&self.profile)?;
        if let Some(Size(bytes)) = self.capacity.or(default_capacity) {
            profile.capacity_bytes = bytes;
            check(&profile, "--capacity")?;
        }
        if let Some(percent) = over_provisioning_percent {
            profile.over_provisioning_percent = percent;
            check(&profile, "--over-provisioning-percent")?;
        }
        Ok(profile)
    }
}

/// The options that create the image of a drive before it is used.
#[derive(Args, Debug)]
pub struct ImageOptions {
    /// Create the image first; it must not exist
    #[arg(long)]
    pub create: bool,

    /// The drive to create: a name that `tantalum create --help` lists, or a TOML file [default: tlc-nvme]
    #[arg(long, value_name = "NAME|FILE", requires = "create")]
    profile: Option<String>,

    /// Its logical capacity, such as 512M, 1GiB or 1TiB [default: the profile's]
    #[arg(long, value_name = "SIZE", requires = "create")]
    capacity: Option<Size>,
}

impl ImageOptions {
    /// The drive in the image file, created or opened.
    pub fn device(&self, path: &Path) -> Result<Device, Failure> {
        let image_failure = |error: DeviceError| Failure::Image { path: path.to_path_buf(), error };
        if !self.create {
            return Device::open(path).map_err(image_failure);
        }
        let profile = self.profile.clone().unwrap_or_else(|| "tlc-nvme".to_owned());
        let profile = ProfileOptions { profile, capacity: self.capacity }.load(None, None)?;
        Device::create(path, &profile).map_err(image_failure)
    }
}

/// Checks a profile that an option has changed.
pub fn check(profile: &Profile, option: &'static str) -> Result<(), Failure> {
    profile.validate().map_err(|invalid| Failure::Override { option, invalid })
}
