//! `tantalum unmount`.

use std::path::PathBuf;

use clap::Args;
use tantalum_fuse::control::Control;
use tantalum_fuse::{MountPointError, image_mounted_on, unmount};

use crate::failure::Failure;

/// `tantalum unmount`.
#[derive(Args, Debug)]
pub struct UnmountOptions {
    /// The folder on which the volume is mounted
    pub folder: PathBuf,
}

/// Unmounts, and waits until the image can be opened again.
pub fn run(options: &UnmountOptions) -> Result<(), Failure> {
    let path = options.folder.clone();
    let image = image_mounted_on(&path).ok_or(MountPointError::NotMounted { path })?;
    // A process that was killed has left its mount behind, and does not answer.
    let control = Control::connect(&image).ok();
    unmount(&options.folder)?;
    if let Some(control) = control {
        control.wait_for_end();
    }
    Ok(())
}
