//! Selects the drive: a profile, and the command line's changes to it.

use clap::Args;
use tantalum::Profile;

use crate::failure::Failure;
use tantalum::Size;

/// The options that select a drive's profile.
#[derive(Args, Debug)]
pub struct ProfileOptions {
    /// The drive: tlc-nvme, tlc-nvme-plp, femu-2021, openssd-barefoot, durassd, kaml-board, pebblessd, or a TOML file
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

/// Checks a profile that an option has changed.
pub fn check(profile: &Profile, option: &'static str) -> Result<(), Failure> {
    profile.validate().map_err(|invalid| Failure::Override { option, invalid })
}
