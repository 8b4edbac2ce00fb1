//! What does a program write, down to the flash? The program runs once on a mounted drive, or a mount is watched while
//! programs work on it, and everything done to files there is recorded.
//!
//! - [`run`] runs a program on a new drive ([`DriveSetup`]), fresh or aged; [`attach`] watches a mount of another process. Both
//!   use the mount's control socket: the recording starts, a mark is set before and after what is measured, and the
//!   drive's counters at both are compared.
//! - What was asked for, by path and kind, is counted from the recording (`tally.rs`, `write_purpose.rs`, `names.rs`).
//! - Which file each unit of the drive was written for is found by replaying the recording on an identical drive
//!   (`replay.rs`, `tap.rs`, `owners.rs`). The operations are the same in the same order, so the file system sends the same
//!   writes; [`Measurement`] reports both figures.
//! - What atomic writes, sharing of duplicates or a capacitor would have saved is measured by further replays. For atomic
//!   writes, images of pages are left out of logs (`images.rs`, `postgres_wal.rs`), and of data files what only passes
//!   them (`passing.rs`).

mod attach;
mod drive;
mod error;
mod evaluate;
mod images;
mod measurement;
mod names;
mod owners;
mod page;
mod passing;
mod postgres_wal;
mod recording;
mod replay;
mod run;
mod shorter_logs;
mod sqlite_logs;
mod stop;
mod tally;
mod tap;
pub mod text;
mod write_purpose;

pub use attach::{Watched, attach};
pub use drive::DriveSetup;
pub use error::MeasureError;
pub use measurement::{
    Amplification, Asked, DriveAbout, Flushes, FolderWrites, KindWrites, Measurement, PathWrites,
    ReplayFigures, Rewritten,
};
pub use page::write_report;
pub use run::{Task, run};
pub use stop::Stop;
pub use tantalum_record::left_behind;
pub use tantalum_workloads::Life;
pub use write_purpose::WritePurpose;
