//! `tantalum ack`.

use std::io;
use std::path::PathBuf;

use clap::Args;
use tantalum_control::{Control, ControlError};

use crate::failure::Failure;

/// `tantalum ack`.
#[derive(Args, Debug)]
pub struct AckOptions {
    /// The image that is served with --record
    pub image: PathBuf,
}

/// Notes each line of standard input in the recording, as soon as it has come.
pub fn run(options: &AckOptions) -> Result<(), Failure> {
    let mut control = Control::connect(&options.image).map_err(|error| match error {
        ControlError::NotInUse { .. } => Failure::NotInUse { path: options.image.clone() },
        error => error.into(),
    })?;
    for line in io::stdin().lines() {
        control.acknowledge(&line.map_err(Failure::Input)?)?;
    }
    Ok(())
}
