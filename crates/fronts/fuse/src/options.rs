//! How a volume is mounted.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::Duration;

use nix::unistd::geteuid;
use tantalum_drive::Pacing;

use crate::error::{DEVICE, MountError};
use crate::{helper, mount_point};

/// How often what nobody has synced becomes durable, unless something else is asked for; as on other file systems.
pub const SYNC_INTERVAL: Duration = Duration::from_secs(5);

/// Options for mounting a volume.
#[derive(Clone, Debug)]
pub struct Options {
    /// The image of the volume's drive.
    pub image: PathBuf,
    /// The folder on which it is mounted.
    pub folder: PathBuf,
    /// Whether programs see the drive's latencies.
    pub pacing: Pacing,
    /// Threads that handle requests.
    pub threads: usize,
    /// Whether each write of whole units is all or nothing if power fails; then the kernel caches nothing.
    pub atomic_writes: bool,
    /// Whether a flush follows each write, as if every file were opened with `O_DSYNC`.
    pub sync_writes: bool,
    /// Whether the kernel gathers writes in its cache and passes them on later: when a file is synced or closed, or by
    /// itself. A full volume is then noticed only there, and ranges cannot be committed or exchanged.
    pub write_back: bool,
    /// How often what nobody has synced becomes durable.
    pub sync_interval: Duration,
}

impl Options {
    /// Checks whether a volume can be mounted like this, before an image is opened for it.
    pub fn check(&self) -> Result<(), MountError> {
        mount_point::check(&self.folder)?;
        match std::fs::metadata(DEVICE) {
            Ok(metadata) if metadata.file_type().is_char_device() => {}
            Ok(_) => return Err(MountError::NoDevice(io::ErrorKind::InvalidInput.into())),
            Err(error) => return Err(MountError::NoDevice(error)),
        }
        let device = std::fs::File::options().read(true).write(true).open(DEVICE);
        device.map_err(MountError::NoDevice)?;
        if !geteuid().is_root() {
            helper::find().map_err(|elsewhere| MountError::NoHelper { elsewhere })?;
        }
        Ok(())
    }
}
