//! Power is cut while several clients use one drive, and its contents afterwards are compared with what its promises (D1
//! to D5 of ARCHITECTURE.md) allow.
//!
//! - The clients share the units, the records and the time. Each has a way in of its own: a queue, a client that sees the
//!   drive as a block device, or a program in the drive. Each may have several commands in flight.
//! - One thread draws whose turn it is, what that client submits, and how long everybody waits afterwards. Turn `i` of a
//!   seed depends only on the seed, on `i` and on what is open, so turns can be left out to minimise a failure.
//! - The oracle knows what the clients know: in which order the commands were submitted, and which were answered before
//!   power went. Its time is a count of these events, not the drive's. The drive takes commands in the order of their
//!   submission, and what is read while it runs must agree with that order. After a cut any command that was in flight may
//!   have happened, or not, whatever else was in flight; what was answered, and flushed where that is needed, has happened.
//! - With [`SetupChoice::free`] threads use the drive in whatever order they come, which no seed repeats (`free_run.rs`).
//! - What is answered although power went before the answer was due is a broken promise, and so is a panic, or a refusal without a reason
//!   (`refusals.rs`).

mod case;
mod commands;
mod compare;
mod coverage;
mod every_cut;
mod free_run;
mod host;
mod kinds;
mod namespaces;
mod pending;
mod programs;
mod random_cuts;
mod refusals;
mod run;
mod setup;
mod summary;
mod torture;

pub use case::Plan;
pub use coverage::Coverage;
pub use kinds::{Kind, Weights};
pub use setup::{Setup, SetupChoice};
pub use summary::of_clients_crash;
pub use torture::{ClientsCrash, Settings, torture};
