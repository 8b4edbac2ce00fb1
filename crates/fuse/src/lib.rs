//! A mounted volume: programs use its files like any others.
//!
//! The kernel sends requests over `/dev/fuse`; several threads handle them and call the [`tantalum_volume::Volume`],
//! which one mutex protects. Invariants:
//!
//! - **Answers wait, the volume does not.** With [`Pacing::Real`] an answer is held back until the drive would have
//!   given it, without holding the mutex or a thread: commands overlap as in a drive's queue.
//! - **A file that the kernel knows exists.** The kernel's references keep a file without a name alive, so that no
//!   inode number is reused before the kernel has forgotten its first file.
//! - **Nothing is durable before that is requested.** Buffered writes wait in the volume's page cache for `fsync`, or a
//!   few seconds; `O_DIRECT` writes have reached the drive when they return. `fsync` is the volume's sync.
//! - **Without power every request fails.** After a power cut the answer is `EIO` until the volume is mounted again.
//!   The same holds once the host's file below the drive has failed.
//! - **The end is reported.** The caller of [`Mounted::wait`] and whoever asked at the control socket are told whether
//!   the drive stopped, and whether the volume could be closed.

mod answer;
pub mod control;
mod convert;
mod ending;
mod filesystem;
mod front;
mod handles;
mod host;
mod ioctl;
mod known;
mod mount_point;
mod refusal;
pub mod report;
mod session;
mod socket;
mod users;

pub use ending::Ended;
pub use mount_point::{MountPointError, image_mounted_on, mount_point_of, unmount};
pub use session::{Ending, MountError, Mounted, Notice, Options, Stopper};
pub use socket::socket_path;
pub use tantalum_drive::Pacing;
