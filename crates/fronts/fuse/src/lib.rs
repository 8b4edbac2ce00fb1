//! A file system on a Tantalum drive, mounted: programs use its files as they use any others.
//!
//! The kernel sends requests over `/dev/fuse`; several threads take them and call the
//! [`tantalum_filesystem::FileSystem`], which one mutex holds: a `tantalum_volume::Volume`, or another. Invariants:
//!
//! - **Answers wait; the file system does not.** With [`Pacing::Real`] an answer is held back until the drive would
//!   have given it, outside the mutex and without occupying a thread: commands overlap as they do in a drive's queue.
//! - **A file that the kernel knows exists.** The kernel's references keep a file without a name alive, so that no
//!   inode number means another file before the kernel has forgotten the first.
//! - **Nothing is durable until requested.** Buffered writes wait in the file system's cache for `fsync`, or a few
//!   seconds; `O_DIRECT` writes have reached the drive when they return. `fsync` is the file system's sync.
//! - **Without power every request fails.** After a power cut the answer is `EIO` until it is mounted again.
//! - **Reading needs no room.** When the host's file below the drive has failed, changes and syncs fail until it is mounted
//!   again, and reads go on: of what the drive and the file system have, except what the failed command was to change.
//! - **Whoever mounts learns of the end.** The caller of [`Mounted::wait`] and clients of the control socket learn that
//!   the drive stopped, and whether the file system could be closed.

mod answer;
mod control;
mod convert;
mod error;
mod front;
mod handles;
mod helper;
mod host;
mod ioctl;
mod known_files;
mod mount_point;
mod options;
mod refusal;
pub mod report;
mod requests;
mod session;
mod system_call;
mod users;
pub mod watched_files;

pub use error::MountError;
pub use mount_point::{MountPointError, image_mounted_on, mount_point_of, unmount};
pub use options::{Options, SYNC_INTERVAL};
pub use session::{Ending, Mounted, Notice, Stopper};
pub use tantalum_drive::Pacing;
