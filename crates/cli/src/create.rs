//! `tantalum create`.

use tantalum::Size;
use tantalum::{Device, DeviceError};
use tantalum_report::table::bytes;

use crate::arguments::CreateOptions;
use crate::drive::check;
use crate::failure::Failure;
use crate::output;

/// Creates an image, shut down and ready to be opened.
pub fn run(options: &CreateOptions) -> Result<(), Failure> {
    let mut profile = options.drive.load(None, options.over_provisioning_percent)?;
    if let Some(Size(bytes)) = options.index_dram {
        profile.limits.index_dram_bytes = Some(bytes);
        check(&profile, "--index-dram")?;
    }
    let path = options.image.clone();
    let device = Device::create(&path, &profile)
        .map_err(|error: DeviceError| Failure::Image { path: path.clone(), error })?;
    let now_ns = device.time_ns();
    device.shutdown(now_ns).map_err(|status| Failure::Shutdown { path, status })?;
    output::print(&format!(
        "{}: {}, {} with {} % over-provisioning\n",
        options.image.display(),
        profile.name,
        bytes(profile.capacity_bytes),
        profile.over_provisioning_percent,
    ))
}
