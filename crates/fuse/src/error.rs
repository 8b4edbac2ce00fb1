//! Why a mount failed.

use std::io;
use std::path::PathBuf;

use tantalum::{DeviceError, Status};
use tantalum_drive::control::socket_path;
use tantalum_filesystem::UnmountFailure;

use crate::mount_point::MountPointError;

/// The kernel's device for FUSE.
pub(crate) const DEVICE: &str = "/dev/fuse";

/// Why a volume could not be mounted, or its image could not be closed.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The folder cannot be used.
    #[error(transparent)]
    MountPoint(#[from] MountPointError),
    /// The kernel has no FUSE, or this user may not use it.
    #[error("{DEVICE}: {0}; mounting needs Linux with FUSE (modprobe fuse) and access to {DEVICE}")]
    NoDevice(io::Error),
    /// An ordinary user needs the helper.
    #[error("fusermount3 is not installed: install the package fuse3, or mount as root")]
    NoHelper,
    /// The system refused.
    #[error("could not mount on {}: {error}", folder.display())]
    System {
        /// The folder.
        folder: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Atomic writes were requested, and the file system does not have them.
    #[error("this file system has no all-or-nothing writes; mount it without atomic writes")]
    NoWholeWrites,
    /// The control socket could not be created.
    #[error("{}: {error}", socket_path(image).display())]
    Socket {
        /// The image.
        image: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The volume could not be closed.
    #[error("the volume could not be closed: {0}")]
    Volume(UnmountFailure),
    /// The drive could not be shut down.
    #[error("the drive could not be shut down: {0}")]
    Shutdown(Status),
    /// The image of a drive that lost power could not be closed in that state.
    #[error("the image of the drive without power could not be closed: {0}")]
    PowerLoss(DeviceError),
}
