//! Why a mount failed.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use tantalum::{DeviceError, Status};
use tantalum_control::socket_path;
use tantalum_filesystem::UnmountFailure;

use crate::mount_point::MountPointError;

/// The kernel's device for FUSE.
pub(crate) const DEVICE: &str = "/dev/fuse";

/// Why a volume could not be mounted, or its image could not be closed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The folder cannot be used.
    #[error(transparent)]
    MountPoint(#[from] MountPointError),
    /// The kernel has no FUSE, or this user may not use it.
    #[error("{DEVICE}: {}; mounting needs Linux with FUSE{}", .0, device_hint(.0))]
    NoDevice(io::Error),
    /// An ordinary user needs the helper.
    #[error("{}, or mount as root", helper_hint(elsewhere.as_deref()))]
    NoHelper {
        /// Where it is, although nothing looks for it there.
        elsewhere: Option<PathBuf>,
    },
    /// The system refused.
    #[error("could not mount on {}: {error}{}", folder.display(), right_hint(error))]
    System {
        /// The folder.
        folder: PathBuf,
        /// The system's error.
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
        /// The system's error.
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

/// What a container needs; as in docs/crash-run.md.
const CONTAINER: &str = "in a container `docker run --device /dev/fuse --cap-add SYS_ADMIN`";

fn helper_hint(elsewhere: Option<&Path>) -> String {
    match elsewhere {
        Some(helper) => format!("{} is not in PATH: add its folder to PATH", helper.display()),
        None => "fusermount3 is not installed: install the package fuse3".to_owned(),
    }
}

fn device_hint(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            format!(
                " and the right to open it: as root `chmod 666 {DEVICE}`, which is its usual mode; {CONTAINER}"
            )
        }
        _ => format!(": `modprobe fuse` as root; {CONTAINER}"),
    }
}

/// What helps if the system does not let this process mount. The library has only the text of what fusermount3 said.
fn right_hint(error: &io::Error) -> String {
    let is_refused =
        error.kind() == ErrorKind::PermissionDenied || error.to_string().contains("not permitted");
    match is_refused {
        true => format!(
            "; this process has no right to mount: {CONTAINER}, and an ordinary user needs fusermount3 with its setuid bit and no \
             no-new-privileges"
        ),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_that_nothing_looks_for_is_not_called_missing() {
        let elsewhere = Some(PathBuf::from("/usr/local/bin/fusermount3"));
        let told = MountError::NoHelper { elsewhere }.to_string();
        assert!(
            told.contains("/usr/local/bin/fusermount3 is not in PATH") && !told.contains("install"),
            "{told}"
        );
        let told = MountError::NoHelper { elsewhere: None }.to_string();
        assert!(told.contains("install the package fuse3"), "{told}");
    }
}
