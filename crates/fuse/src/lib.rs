//! A volume, mounted: programs use its files as they use any others.
//!
//! The kernel sends requests over `/dev/fuse`; several threads take them and call the [`tantalum_volume::Volume`],
//! which one mutex holds. What is kept true:
//!
//! - **Answers wait, the volume does not.** With [`Pacing::Real`] an answer is held back until the drive would have
//!   given it, outside the mutex and in no thread of its own: commands overlap as they do in a drive's queue.
//! - **A file that the kernel knows is there.** The kernel's references keep a file without a name alive, so that no
//!   inode number means another file before the kernel has forgotten the first.
//! - **Nothing is durable before it is asked for.** Buffered writes wait in the volume's page cache for `fsync`, or
//!   a few seconds; `O_DIRECT` writes are the drive's when they return. `fsync` is the volume's sync.
//! - **Without power every request fails.** After a power cut the answer is `EIO` until the volume is mounted again. So it
//!   is when the host's file below the drive has failed.
//! - **Whoever mounts learns of the end.** That the drive stopped, and whether the volume could be closed, is told to the
//!   caller of [`Mounted::wait`] and to whoever asked at the control socket.

mod answer;
mod control;
mod convert;
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
mod users;

pub use mount_point::{MountPointError, image_mounted_on, mount_point_of, unmount};
pub use session::{Ending, MountError, Mounted, Notice, Options, Stopper};
pub use tantalum_drive::Pacing;
