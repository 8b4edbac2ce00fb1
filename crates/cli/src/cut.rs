//! `tantalum cut`.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use tantalum_fuse::control::Control;
use tantalum_fuse::{MountPointError, image_mounted_on};

use crate::failure::Failure;
use crate::output;

/// `tantalum cut`.
#[derive(Args, Debug)]
pub struct CutOptions {
    /// The folder on which the volume is mounted
    pub folder: PathBuf,

    /// Cut at the Nth flash program or erase from now on, instead of at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub after_flash_ops: Option<u64>,

    /// Seed for the outcome of operations in flight [default: the time]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// Cuts power, or arms the cut.
pub fn run(options: &CutOptions) -> Result<(), Failure> {
    let path = options.folder.clone();
    let image = image_mounted_on(&path).ok_or(MountPointError::NotMounted { path })?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = options.seed.unwrap_or(since.as_nanos() as u64);
    let has_power = Control::connect(&image)?.cut(options.after_flash_ops, seed)?;
    let (image, folder) = (image.display(), options.folder.display());
    output::print(&match options.after_flash_ops {
        Some(operations) if has_power => {
            format!("{image} loses power at flash operation {operations} from now (seed {seed})\n")
        }
        _ => format!("{image} has no power; `tantalum unmount {folder}` and mount it again (seed {seed})\n"),
    })
}
