//! `tantalum stop`.

use std::path::PathBuf;

use clap::Args;
use tantalum_control::{Control, Ended};

use crate::failure::Failure;
use crate::log::existing_log;
use crate::output;

/// `tantalum stop`.
#[derive(Args, Debug)]
pub struct StopOptions {
    /// The image that is served
    pub image: PathBuf,
}

/// Ends the server, waits until the image can be opened again and its process is gone, and reports how it ended.
pub fn run(options: &StopOptions) -> Result<(), Failure> {
    let end = Control::connect(&options.image)?.watch_end()?;
    Control::connect(&options.image)?.stop()?;
    match end.wait()? {
        Ended::Closed => Ok(()),
        Ended::PowerLost => {
            output::complain("the drive had lost power; the next start recovers");
            Ok(())
        }
        Ended::Failed(message) => {
            let image = options.image.clone();
            let log = existing_log(&image);
            Err(Failure::NotStopped { image, message, log })
        }
    }
}
