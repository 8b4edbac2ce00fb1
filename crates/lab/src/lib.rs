//! Workloads, experiments, comparisons and reports.
//!
//! An experiment runs in virtual time: what it reports depends on its settings and its seed, and not on the
//! machine. The exceptions say so in their names (`wall_seconds`). Whoever starts an experiment hands in a
//! [`Monitor`], which shows progress and can stop it.

mod ageing;
pub mod bench;
pub mod check;
pub mod compare;
mod confined;
mod contents;
pub mod crash;
mod database_copy;
mod error;
pub mod experiments;
mod key_value;
mod latency;
mod memcpy;
mod memory;
mod monitor;
mod outcome;
mod processors;
mod queue;
pub mod recovery_cost;
pub mod report;
#[cfg(feature = "rocksdb")]
pub mod rocks;
pub mod servers;
mod session;
mod statements;
mod steady;
pub mod summary;
pub mod table;
mod workload;
mod workloads;

pub use error::LabError;
pub use key_value::{KeyValue, Pattern};
pub use latency::LatencyUs;
pub use monitor::Monitor;
pub use outcome::{Comparison, Run, WorkloadOutcome};
pub use session::{HOST_NS_PER_STATEMENT, Synchronous};
pub use statements::Statements;
pub use workload::Workload;
