//! Selects the drive: a profile, and the command line's changes to it.

use std::path::Path;

use clap::Args;
use tantalum::{
    Access, Device, DeviceError, Effective, FdpProfile, FormatError, Isolation, MediumError, Profile, Size,
    Status, UNIT_BYTES,
};
use tantalum_control::Control;
use tantalum_ftl::LayoutError;
use tantalum_report::table;
use tantalum_workloads::ageing::small_fill;
use tantalum_workloads::capacity::sufficient_flash;

use crate::baseline;
use crate::failure::Failure;
use crate::output::complain;

/// The options that select a drive's profile.
#[derive(Args, Debug)]
pub struct ProfileOptions {
    /// The drive: tlc-nvme, tlc-nvme-plp, fast, femu-2021, openssd-barefoot, durassd, kaml-board, pebblessd, willow, zns, or a TOML file
    #[arg(long, value_name = "NAME|FILE", default_value = "tlc-nvme")]
    pub profile: String,

    /// Logical capacity, such as 512M, 1GiB or 1TiB [default: the profile's]
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<Size>,
}

/// The help of `--capacity` for a command that has its own default; [`ProfileOptions`] has that of the others.
pub fn capacity_help(default: Size) -> String {
    let default = table::bytes(default.0).replace(' ', "");
    format!("Logical capacity, such as 512M, 1GiB or 1TiB [default: {default}]")
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
    /// First create the image, which must not exist
    #[arg(long)]
    pub create: bool,

    /// The drive to create: a name that `tantalum create --help` lists, or a TOML file [default: tlc-nvme]
    #[arg(long, value_name = "NAME|FILE")]
    profile: Option<String>,

    /// Its logical capacity, such as 512M, 1GiB or 1TiB [default: the profile's]
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Size>,

    /// Up to which size its writes are all or nothing, wherever they lie: 4KiB to 256KiB [default: the profile's]
    #[arg(long, value_name = "SIZE")]
    atomic_write: Option<Size>,

    /// Reclaim unit handles with which hosts place data, 1 to 128 [default: the profile's]
    #[arg(long, value_name = "N")]
    handles: Option<u32>,
}

impl ImageOptions {
    /// Refuses options of a new drive for one that exists.
    pub fn check(&self) -> Result<(), Failure> {
        let options = [
            ("--profile", self.profile.is_some()),
            ("--capacity", self.capacity.is_some()),
            ("--atomic-write", self.atomic_write.is_some()),
            ("--handles", self.handles.is_some()),
        ];
        match options.into_iter().find(|(_, is_given)| *is_given && !self.create) {
            Some((option, _)) => Err(Failure::OptionOfNewDrives { option }),
            None => Ok(()),
        }
    }

    /// What belongs in an image could not be created: an image that was created for it goes too.
    pub fn forget(&self, path: &Path) {
        if self.create {
            // the error that is reported matters more
            let _ = std::fs::remove_file(path);
        }
    }

    /// The drive in the image file, created, or opened as `access` says. `verb` says what the command does with it.
    pub fn device(&self, path: &Path, access: Access, verb: &'static str) -> Result<Device, Failure> {
        self.check()?;
        if !self.create {
            return opened_as(path, access);
        }
        let profile = self.profile.clone().unwrap_or_else(|| "tlc-nvme".to_owned());
        let mut profile = ProfileOptions { profile, capacity: self.capacity }.load(None, None)?;
        promise_atomic_writes(&mut profile, self.atomic_write)?;
        give_handles(&mut profile, self.handles)?;
        if path.exists() {
            return Err(Failure::CreateOfExisting { path: path.to_path_buf(), verb });
        }
        created(path, &profile)
    }
}

/// Opens an image.
pub fn opened_as(path: &Path, access: Access) -> Result<Device, Failure> {
    Device::open_as(path, access).map_err(|error| Failure::Image { path: path.to_path_buf(), error })
}

/// Opens an image for a command that reads. If the host cannot store what opening changes, that is said, and the drive
/// refuses changes.
pub fn opened_or_read(path: &Path) -> Result<Device, Failure> {
    let opened = Device::or_read(Access::Write, |access| opened_as(path, access), Failure::host);
    let (mut device, why) = opened?;
    if let Some(why) = why {
        complain(&only_read(path, &why));
        device.refuse_changes(why);
    }
    Ok(device)
}

/// An image that a mount or a server has open, with the command that asks its drive.
pub fn in_use(failure: Failure) -> Failure {
    match failure {
        Failure::Image { path, error: error @ DeviceError::Medium(MediumError::Locked { .. }) }
            if Control::connect(&path).is_ok() =>
        {
            Failure::InUse { path, error }
        }
        other => other,
    }
}

/// One line about an image that can only be read.
pub fn only_read(path: &Path, why: &Status) -> String {
    format!("warning: image {}: {why}", path.display())
}

/// Says where a drive differs much from what its profile asks for.
pub fn note_rounding(profile: &Profile) {
    Effective::of(profile).warnings().iter().for_each(|line| complain(&format!("note: {line}")));
}

/// Says that a drive is filled less than others before it is aged. `instead` continues the advice.
pub fn note_small_fill(profile: &Profile, instead: &str) {
    if let Some(line) = small_fill(profile.capacity_bytes) {
        complain(&format!("note: {line}{instead}"));
    }
}

/// Creates an image.
pub fn created(path: &Path, profile: &Profile) -> Result<Device, Failure> {
    let device = Device::create(path, profile).map_err(|error| match error {
        DeviceError::Ftl(FormatError::Layout(
            error @ (LayoutError::TooLittleFlash { .. } | LayoutError::TooLittleForHandles { .. }),
        )) => {
            let sufficient_bytes = sufficient_flash(profile, &error);
            Failure::TooLittleFlash { path: path.to_path_buf(), error, sufficient_bytes }
        }
        error => Failure::Image { path: path.to_path_buf(), error },
    })?;
    baseline::forget(path);
    note_rounding(profile);
    Ok(device)
}

/// More than any drive makes all or nothing.
const MOST_UNITS_TRIED: u64 = 1024;

/// Changes up to which size writes are all or nothing, if `--atomic-write` says so.
pub fn promise_atomic_writes(profile: &mut Profile, size: Option<Size>) -> Result<(), Failure> {
    let Some(Size(wanted)) = size else { return Ok(()) };
    let unit = UNIT_BYTES as u64;
    if wanted.is_multiple_of(unit) && promises(profile, wanted / unit) {
        return Ok(());
    }
    // what is possible depends on the cache and other limits, which the profile's own check knows
    let most = (1..=MOST_UNITS_TRIED).rev().find(|&units| promises(profile, units)).unwrap_or(1);
    Err(Failure::AtomicWrite { wanted, most: most * unit })
}

/// Has writes of so many units be all or nothing, and returns whether the drive can.
fn promises(profile: &mut Profile, units: u64) -> bool {
    profile.limits.atomic_write_units = units.try_into().unwrap_or(u32::MAX);
    profile.validate().is_ok()
}

/// Gives a drive reclaim unit handles, if `--handles` says so; always kept apart, unless its profile isolates them in another way.
pub fn give_handles(profile: &mut Profile, handles: Option<u32>) -> Result<(), Failure> {
    let Some(handles) = handles else { return Ok(()) };
    let isolation = profile.fdp.map_or(Isolation::Persistently, |fdp| fdp.isolation);
    profile.fdp = Some(FdpProfile { handles, isolation });
    check(profile, "--handles")
}

/// Checks a profile that an option has changed.
pub fn check(profile: &Profile, option: &'static str) -> Result<(), Failure> {
    profile.validate().map_err(|invalid| Failure::Override { option, invalid })
}
