//! `tantalum access`.

use std::path::PathBuf;

use clap::Args;
use tantalum_control::{Control, ControlError};
use tantalum_nvme::ports::PortAccess;

use crate::failure::Failure;
use crate::output;

/// `tantalum access`.
#[derive(Args, Debug)]
pub struct AccessOptions {
    /// An image that is served
    pub image: PathBuf,

    /// The port, by its number: 1 is the first address of --listen
    pub port: u16,

    /// optimized, non-optimized, inaccessible or change
    pub access: PortAccess,
}

/// Sets how well hosts reach a served drive through a port.
pub fn run(options: &AccessOptions) -> Result<(), Failure> {
    let AccessOptions { image, port, access } = options;
    let mut control = match Control::connect(image) {
        Err(ControlError::NotInUse { .. }) => return Err(Failure::NotInUse { path: image.clone() }),
        connected => connected?,
    };
    control.set_access(*port, &access.to_string())?;
    output::print(&format!("{} is {access} through port {port}\n", image.display()))
}
