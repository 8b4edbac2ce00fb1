//! Does a program survive power loss? It runs once, on a mounted drive, and everything it does to its files is recorded. Then
//! power is cut after each of its operations, in every way that can make a difference, and the user's check runs on what is
//! left.
//!
//! - [`record`] runs the program; the drive's mount sees each operation (`recorder.rs`, [`operation`]).
//! - What may be lost is either the worst that POSIX allows (`posix.rs`, `choices.rs`), or what a drive loses: the recorded
//!   operations are replayed on a drive that loses power at each of its flash operations (`drive.rs`).
//! - [`check`] makes each outcome (`outcomes.rs`), writes its files to a folder and runs the check there; equal outcomes are
//!   checked once.
//! - A failed check is reduced to what must be lost for it to fail, and explained (`explain.rs`, `findings.rs`).
//! - [`check_blocks`] does the same for what a served drive's hosts did to its blocks: a machine with its file systems, whose
//!   check gets a disk (`blocks/`).
//! - [`CrashTest`] does all of that in a test, with functions as program and check.
//! - Findings can be saved, and their files mounted or checked again ([`mount_finding`], [`check_again`]).

mod acks;
mod blocks;
mod campaign;
mod check;
mod choices;
mod commands;
mod drive;
mod error;
mod explain;
mod finding;
mod findings;
pub mod operation;
mod outcomes;
mod page;
mod parallel;
mod paths;
mod posix;
mod program;
mod recorder;
mod remedies;
mod replay;
mod saved_finding;
mod sector;
mod settings;
pub mod summary;
mod test;
mod tree;

pub use blocks::{BlockFinding, BlockOutcome, BlockSettings, check_blocks, recorded_profile, text_of};
pub use campaign::{Outcome, check};
pub use check::{Check, CheckFunction, ended};
pub use error::RunError;
pub use finding::{Finding, WithoutLoss};
pub use page::write_report;
pub use program::{Task, record};
pub use replay::{Again, MountedFinding, check_again, mount_finding};
pub use saved_finding::SavedFinding;
pub use sector::Sector;
pub use settings::{Losses, Settings};
pub use tantalum::Profile;
pub use test::{Acks, CrashTest};
