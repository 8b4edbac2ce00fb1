//! `tantalum watch`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc;

use clap::Args;
use tantalum_control::ControlError;
use tantalum_fuse::image_mounted_on;
use tantalum_watch::{Options, WatchError, Watching};

use crate::failure::Failure;
use crate::output;

/// `tantalum watch`.
#[derive(Args, Debug)]
pub struct WatchOptions {
    /// The folder on which a volume is mounted, an image that is served, or the NAME of `--watch` of compare, lab run, recovery-cost, replay, bench or crash
    pub target: PathBuf,

    /// Address and port of the page, on this machine only: 127.0.0.1 or [::1]. Port 0 picks a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,

    /// Add a button to the page that cuts the power and shows what recovery finds
    #[arg(long)]
    pub control: bool,
}

/// Serves the page until Ctrl-C.
pub fn run(options: &WatchOptions) -> Result<(), Failure> {
    let mounted = image_mounted_on(&options.target);
    let is_mounted = mounted.is_some();
    if !is_mounted && options.target.is_dir() {
        return Err(Failure::NotMounted { path: options.target.clone() });
    }
    let image = mounted.unwrap_or_else(|| options.target.clone());
    let watch = Options { image: image.clone(), listen: options.listen, control: options.control };
    let watching = Watching::start(&watch).map_err(|error| match error {
        WatchError::Control(ControlError::NotInUse { .. }) if is_mounted => {
            Failure::MountDied { image: image.clone(), folder: options.target.clone() }
        }
        WatchError::Control(ControlError::NotInUse { .. }) => Failure::NotInUse { path: image.clone() },
        WatchError::Control(error) => error.into(),
        error => Failure::Watch(error),
    })?;
    let (sender, ended) = mpsc::channel();
    // Without a handler Ctrl-C ends the process, which is what it asks for.
    let _ = ctrlc::set_handler(move || {
        let _ = sender.send(());
    });
    output::print(&format!(
        "{} can be watched until Ctrl-C at\n  {}\n",
        options.target.display(),
        watching.url()
    ))?;
    let _ = ended.recv();
    Ok(())
}
