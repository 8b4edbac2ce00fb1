//! `tantalum compare sqlite`: the same workload through each interface, over equal, aged drives.
//!
//! - **Equal**: the database is loaded and the drive aged once; each mode gets a copy. What the host does besides
//!   is the same: SQLite's cache, the page cache, the number of frames between checkpoints.
//! - **Whole**: a measurement begins and ends with a checkpoint and a flush, so that no mode leaves work for later.
//! - **Checked**: after it, power is cut, the drive recovers, and all of the database is read from flash and
//!   compared with what the workload wrote.

mod colours;
mod confined;
mod contents;
mod database_copy;
mod key_value;
mod outcome;
mod page;
mod run;
mod session;
mod statements;
mod summary;
mod working_drive;
mod workload;

pub use key_value::{KeyValue, Pattern};
pub(crate) use outcome::INTACT;
pub use outcome::{Comparison, Run, WorkloadOutcome};
pub use page::write_report;
pub use run::{Settings, compare};
pub use session::{HOST_NS_PER_STATEMENT, Session};
pub use statements::Statements;
pub use summary::of_comparison;
pub(crate) use working_drive::WorkingDrive;
pub(crate) use workload::DATABASE;
pub use workload::Workload;
