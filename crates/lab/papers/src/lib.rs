//! Experiments from papers, with their printed figures next to ours; and what they need: comparisons of SQLite's modes,
//! recovery cost, the use of PebbleSSD's memory, private database servers.
//!
//! An experiment runs in virtual time: its results depend on its settings and its seed, not on the machine. The
//! exceptions say so ([`tantalum_report::Time::Real`]). The caller passes in a [`tantalum_report::Monitor`], which
//! shows progress and can stop the experiment.

pub mod compare;
mod error;
pub mod experiments;
mod feature;
pub mod pebblessd_memory;
pub mod recovery_cost;
#[cfg(feature = "rocksdb")]
pub mod rocks;
pub mod servers;

pub use error::ExperimentError;
pub use feature::Feature;
