//! `tantalum compare sqlite`: the same workload in each mode, on identical, aged drives.
//!
//! - **Equal**: the database is loaded and the drive aged once, and each mode gets a copy. Everything else on the host
//!   is the same: SQLite's cache, the page cache, the number of frames between checkpoints.
//! - **Complete**: a measurement begins and ends with a checkpoint and a flush, so that no mode leaves work for later.
//! - **Checked**: afterwards power is cut, the drive recovers, and the whole database is read from flash and compared
//!   with what the workload wrote.

mod capacity;
mod colours;
mod configuration;
mod confinement;
mod contents;
mod database_copy;
mod determinism;
mod key_value;
mod outcome;
mod page;
mod pattern;
mod registered_volume;
mod run;
mod script;
mod session;
mod spread;
mod statements;
mod summary;
mod workload;

pub use key_value::KeyValue;
pub(crate) use outcome::INTACT;
pub use outcome::{Comparison, Run, WorkloadOutcome};
pub use page::write_report;
pub use pattern::Pattern;
pub(crate) use registered_volume::{DATABASE, RegisteredVolume};
pub use run::{Settings, compare};
pub use session::{HOST_NS_PER_STATEMENT, Session};
pub use statements::Statements;
pub use summary::of_comparison;
pub use workload::Workload;
