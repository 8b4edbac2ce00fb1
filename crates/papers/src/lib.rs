//! What papers print, measured here and set beside it; and what that takes: comparisons of SQLite's modes, recovery
//! cost, private database servers.
//!
//! An experiment runs in virtual time: what it reports depends on its settings and its seed, and not on the machine. The
//! exceptions say so ([`tantalum_report::Time::Real`]). Whoever starts one hands in a [`tantalum_report::Monitor`], which
//! shows progress and can stop it.

pub mod compare;
mod error;
pub mod experiments;
pub mod recovery_cost;
#[cfg(feature = "rocksdb")]
pub mod rocks;
pub mod servers;

pub use error::ExperimentError;
