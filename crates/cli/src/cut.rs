//! `tantalum cut`.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use tantalum_control::{Control, ControlError};
use tantalum_fuse::image_mounted_on;

use crate::failure::Failure;
use crate::output;

/// `tantalum cut`.
#[derive(Args, Debug)]
pub struct CutOptions {
    /// The folder on which the volume is mounted, or an image that is served
    pub target: PathBuf,

    /// Cut at the Nth flash program or erase from now on, instead of immediately
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub after_flash_ops: Option<u64>,

    /// Seed for the outcome of operations in flight [default: the time]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// Cuts power, or arms the cut.
pub fn run(options: &CutOptions) -> Result<(), Failure> {
    let mounted = image_mounted_on(&options.target);
    let image = mounted.as_ref().unwrap_or(&options.target);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = options.seed.unwrap_or(since.as_nanos() as u64);
    let mut control = match Control::connect(image) {
        Err(ControlError::NotInUse { .. }) if mounted.is_none() => {
            return Err(Failure::NotInUse { path: options.target.clone() });
        }
        Err(ControlError::NotInUse { .. }) => {
            return Err(Failure::MountDied { image: image.clone(), folder: options.target.clone() });
        }
        connected => connected?,
    };
    let has_power = control.cut(options.after_flash_ops, seed)?;
    let (image, target) = (image.display(), options.target.display());
    output::print(&match (options.after_flash_ops, &mounted) {
        (Some(operations), _) if has_power => {
            format!("{image} loses power at flash operation {operations} from now (seed {seed})\n")
        }
        (_, Some(_)) => {
            format!("{image} has no power; `tantalum unmount {target}` and mount it again (seed {seed})\n")
        }
        (_, None) => {
            format!("{image} has lost power; it recovers, and hosts may attach again (seed {seed})\n")
        }
    })
}
