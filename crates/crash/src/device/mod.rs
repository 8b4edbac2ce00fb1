//! Power is cut while a drive executes a random mix of every command, and its contents afterwards are compared with
//! what its promises (D1 to D5 of ARCHITECTURE.md) allow.
//!
//! - The drive is so small that garbage collection, wear levelling, journal and checkpoints happen all the time.
//! - Command `i` of a seed depends only on the seed and on `i`. Commands can be left out without changing the others;
//!   that is how a failure is minimised.
//! - Findings depend on the settings and the seed, not on the machine or the number of threads. The exception is
//!   `minutes`.
//! - A drive that panics or refuses a command has broken a promise too.

mod answers;
mod batches;
mod case;
mod commands;
mod compare;
mod compare_lists;
mod cut_point;
mod draw;
mod drive;
mod every_cut;
mod guard;
mod hinted;
mod hints;
mod history;
mod host;
mod killed;
mod lists;
mod log_host;
mod oracle;
mod progress;
mod random;
mod random_cuts;
mod record_host;
mod records;
mod run;
mod shrink;
mod skip;
mod stop;
mod summary;
mod tally;
mod tide;
mod torture;
mod trace;
mod weights;

pub use case::{Cuts, Plan};
pub use cut_point::{CutPoint, CutPointError};
pub use drive::{Drive, DriveChoice, Flash, Medium};
pub use skip::{Skip, SkipError};
pub use summary::of_device_crash;
pub use tally::Reached;
pub use torture::{DeviceCrash, DriveCounts, Settings, torture};
pub use weights::{Weights, WeightsError};
