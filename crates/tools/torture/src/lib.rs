//! The torture tests: power is cut while something works on a drive, and what is left is checked against what was
//! promised.

mod cases;
pub mod clients;
pub mod couch;
mod counts;
pub mod device;
mod error;
pub mod kv;
mod minimise;
mod outcome;
mod program;
mod results;
mod seeds;
mod small_flash;
pub mod sqlite;
pub mod summary;
mod weights;
pub mod zones;

pub use cases::Plan;
pub use counts::DriveCounts;
pub use error::CrashError;
pub use outcome::{CrashOutcome, Violation};
pub use program::Cuts;
pub use seeds::Seeds;
pub use weights::{Kinds, Weights};
