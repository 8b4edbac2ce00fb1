//! A SQLite VFS on a Tantalum volume: SQLite, unmodified, on what the drive can do.
//!
//! A [`Drive`] is a mounted volume that connections share. Its [`Mode`] says what transactions become: files as on
//! any file system (`rollback`, `wal`), transactions of the drive (`x-ftl`), atomic writes (`atomic`), or a
//! write-ahead log whose frames are shared with the database instead of being copied into it (`share`, `sw-wal`).
//! Every mode reads what every other wrote.
//!
//! What the VFS promises, on a drive that keeps D1 to D5 and a volume that keeps V1 to V5:
//!
//! - **S1** What SQLite synced is there after a power cut, and SQLite's transactions stay atomic, in every mode.
//! - **S2** What SQLite would recover from a log and what the drive has brought home are one state.
//! - **S3** Connections of this process lock one another out as SQLite's own VFS would have it; other processes are
//!   kept out by the image's lock.
//! - **S4** Nothing panics into SQLite.
//!
//! A request's way through it: `vfs` and `file` are SQLite's C interface, and `handle` is the same without it. A
//! handle's database (`database`) has the file, its locks (`lock`), the log's index (`shm`) and the log
//! (`log_file`); a log laid out in units is a `framed_log`, which `log_sender` sends, numbered for the drive by
//! `numbering`, and `checkpoint` takes home through a `share_queue`.

mod api;
mod batch;
#[cfg(feature = "bundled")]
mod bundled;
mod checkpoint;
mod database;
mod drive;
mod entropy;
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
mod libraries;
mod lock;
mod log_file;
mod log_sender;
mod mode;
mod numbering;
mod share_queue;
mod shm;
mod synchronous;
mod temporary;
mod transaction;
mod vfs;

pub use api::{Api, ApiRoutines};
pub use drive::{Drive, DriveError, VolumeGuard};
pub use extension::{EXTENSION_VFS, register_extension};
pub use mode::{Mode, UnknownMode};
#[cfg(feature = "bundled")]
pub use rusqlite;
pub use synchronous::Synchronous;
pub use vfs::Registration;
