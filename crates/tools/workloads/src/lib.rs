//! Workloads for a drive, a volume, or a database server: the load of experiments and comparisons.
//!
//! A workload draws from its own seed, so it does the same on every machine and every system. A workload in virtual time
//! ([`closed_loop`], [`mod@bench`], [`ageing`]) reports figures that do not depend on the machine; [`clients`] run in real
//! time. Loads on database servers are in builds with the feature `servers`.

pub mod ageing;
pub mod bench;
pub mod binds;
pub mod capacity;
pub mod clients;
pub mod closed_loop;
#[cfg(feature = "servers")]
mod database;
pub mod distributions;
mod error;
pub mod filebench;
pub mod fsync_writes;
mod handle_costs;
#[cfg(feature = "servers")]
mod inserts;
pub mod kaml;
mod life;
#[cfg(feature = "servers")]
pub mod linkbench;
#[cfg(feature = "servers")]
mod mariadb_retry;
pub mod memory;
pub mod open_loop;
mod processors;
pub mod queue;
pub mod steady_state;
#[cfg(feature = "servers")]
pub mod tpcb;
#[cfg(feature = "servers")]
pub mod tpcc;
pub mod two_tenants;
pub mod ycsb;

pub use error::{OutOfMemory, TooSmall, WorkloadError, WrongData};
pub use handle_costs::{HandleCost, handle_costs, handle_table};
pub use life::{Life, unit_bytes};
