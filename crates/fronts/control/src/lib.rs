//! Looking at a drive that is in use, and controlling it. This crate knows neither mounts nor servers.
//!
//! - [`Look`] is a drive at a glance, of whoever has a [`tantalum_drive::WeakDrive`]; [`DriveReport`] is its statistics.
//! - The process that uses an image answers at a socket beside it: it is a [`Subject`], and calls [`serve`].
//! - [`Control`] is the asking side of that socket.
//! - [`path`] is how paths are written in JSON, here and in the reports of other crates.
//! - [`FileWrites`] says what is written to each file of what is on the drive, if that has files.

mod control;
mod ending;
mod file_writes;
mod look;
pub mod path;
mod process;
mod report;
mod socket;
mod zones;

pub use control::{Control, ControlError, EndWatch, Request, Response, Subject, serve};
pub use ending::{End, Ended};
pub use file_writes::{Count, FileWrites};
pub use look::{BLOCK_CHARACTERS, LatencyCounts, Look, PIECE, Shape};
pub use report::{DriveReport, HandleReport, Latencies, Latency};
pub use socket::{Socket, socket_path};
pub use zones::ZonesReport;
