//! Power is cut while a drive executes a random mix of every command, and its contents afterwards are compared with
//! what its promises (D1 to D5 of ARCHITECTURE.md) allow.
//!
//! - The drive is so small that garbage collection, wear levelling, journal and checkpoints happen all the time.
//! - Command `i` of a seed depends only on the seed and on `i`. Commands can be left out without changing the others;
//!   that is how a failure is minimised.
//! - Findings depend on the settings and the seed, not on the machine or the number of threads. The exception is
//!   `minutes`.
//! - A drive that panics or refuses a command has broken a promise too.

pub(crate) mod answers;
pub(crate) mod batches;
mod case;
mod commands;
mod compare;
mod compare_lists;
mod cut_point;
pub(crate) mod draw;
pub(crate) mod drive;
pub(crate) mod every_cut;
pub(crate) mod guard;
mod hinted_logs;
pub(crate) mod hints;
pub(crate) mod history;
pub(crate) mod host;
pub(crate) mod image_file;
pub(crate) mod lists;
mod log_host;
pub(crate) mod oracle;
pub(crate) mod progress;
pub(crate) mod random;
mod random_cuts;
pub(crate) mod record_host;
pub(crate) mod records;
pub(crate) mod run;
pub(crate) mod skip;
pub(crate) mod stop;
mod summary;
pub(crate) mod tally;
pub(crate) mod tide;
mod torture;
pub(crate) mod trace;
mod weights;

pub use crate::cases::Cuts;
pub use crate::weights::WeightsError;
pub use case::Plan;
pub use cut_point::{CutPoint, CutPointError};
pub use drive::{DriveChoice, DriveKind, Flash, Handles, Medium};
pub use skip::{Skip, SkipError};
pub use summary::of_device_crash;
pub use tally::Reached;
pub use torture::{DeviceCrash, Settings, torture};
pub use weights::Weights;
