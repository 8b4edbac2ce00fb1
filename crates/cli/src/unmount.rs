//! `tantalum unmount`.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tantalum_control::{Control, Ended};
use tantalum_fuse::{MountPointError, image_mounted_on, mount_point_of, unmount};

use crate::failure::Failure;
use crate::log::existing_log;
use crate::output;

/// How often unmounting is retried while programs use the folder.
const TRY_AGAIN: Duration = Duration::from_millis(50);

/// A wait shorter than this is not reported.
const SILENCE: Duration = Duration::from_millis(500);

/// `tantalum unmount`.
#[derive(Args, Debug)]
pub struct UnmountOptions {
    /// The folder on which the volume is mounted
    pub folder: PathBuf,

    /// Seconds to wait for programs that have files open there before giving up
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub wait: u32,
}

/// Unmounts, waits until the image can be opened again and its process is gone, and reports how the mount ended.
pub fn run(options: &UnmountOptions) -> Result<(), Failure> {
    let path = options.folder.clone();
    let image = image_mounted_on(&path).ok_or_else(|| not_mounted(path))?;
    // A killed process has left its mount behind, and does not answer.
    let end = Control::connect(&image).and_then(Control::watch_end).ok();
    unmount_when_idle(&options.folder, Duration::from_secs(options.wait.into()))?;
    match end.map(|end| end.wait()).transpose()? {
        Some(Ended::Closed) => {}
        Some(Ended::PowerLost) => output::complain("the drive had lost power; the next mount recovers"),
        Some(Ended::Failed(message)) => {
            let log = existing_log(&image);
            return Err(Failure::NotClosed { image, message, log });
        }
        None => output::complain(&format!(
            "{}: the process that had it mounted is already gone; the next mount recovers",
            image.display()
        )),
    }
    Ok(())
}

/// Nothing is mounted there. If it is an image: what would do.
fn not_mounted(path: PathBuf) -> Failure {
    if !path.is_file() {
        return MountPointError::NotMounted { path }.into();
    }
    let what = match mount_point_of(&path) {
        Some(folder) => format!("it is mounted on {0}; `tantalum unmount {0}` unmounts it", folder.display()),
        None if Control::connect(&path).is_ok() => {
            format!("it is served; `tantalum stop {}` closes it", path.display())
        }
        None => "it is neither mounted nor served".to_owned(),
    };
    Failure::UnmountImage { path, what }
}

/// Exiting programs and loop devices close their files a little later.
fn unmount_when_idle(folder: &Path, limit: Duration) -> Result<(), MountPointError> {
    let started = Instant::now();
    let mut is_silent = true;
    loop {
        match unmount(folder) {
            Err(MountPointError::Busy { path, users }) if started.elapsed() < limit => {
                if is_silent && started.elapsed() >= SILENCE {
                    is_silent = false;
                    let users = users.as_deref().unwrap_or("a program");
                    let seconds = limit.as_secs();
                    output::complain(&format!(
                        "{} is in use by {users}; waiting up to {seconds} s",
                        path.display()
                    ));
                }
                thread::sleep(TRY_AGAIN);
            }
            ended => return ended,
        }
    }
}
