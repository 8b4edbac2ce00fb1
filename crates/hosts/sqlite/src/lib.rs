//! A SQLite VFS on a Tantalum volume: unmodified SQLite on the drive's features.
//!
//! A [`SharedVolume`] is a mounted volume that connections share. Its [`Mode`] decides how transactions are stored: as files
//! as on any file system (`rollback`, `wal`), as drive transactions (`x-ftl`), as atomic writes (`atomic`), or in a
//! write-ahead log whose frames are shared with the database instead of being copied into it (`share`, `sw-wal`). Every
//! mode can read what any other has written.
//!
//! Promises, on a drive that keeps D1 to D5 and a volume that keeps V1 to V5:
//!
//! - **S1** What SQLite synced survives a power cut, and SQLite's transactions stay atomic, in every mode.
//! - **S2** What SQLite would recover from a log and what the drive has brought home are the same state.
//! - **S3** Connections of this process exclude one another as with SQLite's own VFS; the image's lock keeps other
//!   processes out.
//! - **S4** No panic reaches SQLite.
//!
//! The path of a request: `vfs` and `file` are SQLite's C interface, and `handle` is the same without C. A handle's
//! database (`database`) has the file, its locks (`lock`), the log's index (`shm`) and the log (`log_file`). A log laid
//! out in units is a `framed_log`: `log_sender` sends it, `numbering` numbers it for the drive, and `checkpoint` takes
//! it home through a `share_queue`.

mod api;
mod batch;
#[cfg(feature = "bundled")]
mod bundled;
#[cfg(feature = "canaries")]
pub mod canaries;
mod checkpoint;
mod database;
mod entropy;
mod error_function;
mod extension;
mod fault;
mod ffi;
mod file;
mod frame;
mod framed_log;
mod handle;
mod handle_batch;
mod handle_locks;
mod host;
mod hosts;
mod image;
mod image_error;
mod libraries;
mod lock;
mod log_file;
mod log_sender;
mod mode;
mod numbering;
mod recent_frames;
mod registration;
mod share_queue;
mod shared_volume;
mod shm;
mod synchronous;
mod temporary;
mod transaction;
mod vfs;
mod vfs_methods;

pub use api::{Api, ApiRoutines};
pub use extension::{EXTENSION_VFS, register_extension};
pub use mode::{Mode, UnknownMode};
pub use registration::Registration;
#[cfg(feature = "bundled")]
pub use rusqlite;
pub use shared_volume::{SharedVolume, SharedVolumeError, VolumeGuard};
pub use synchronous::Synchronous;
