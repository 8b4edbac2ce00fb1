//! What is done to a mounted file system: recorded while it is done, kept in a file, done again on another drive.
//!
//! - [`Recorder`] is a file system in front of another. While its [`Tape`] runs, a [`Sink`] is told of every operation that
//!   changes something or makes it durable, as an [`Event`], in the order in which the file system did them. Otherwise it
//!   costs one look at a flag.
//! - A recording that starts on files that are there begins with these: their names, and how many bytes they hold.
//! - [`Spool`] is a sink that writes a file, and [`Events`] reads it, so that a recording may be larger than memory.
//! - [`Performer`] does operations again.
//! - [`program_in`] is a program that works in a recorded folder.
//!
//! Reads are not recorded.

mod event;
pub mod operation;
mod performer;
mod program;
mod recorder;
mod spool;
mod tape;

pub use event::{Event, Place, Stamped, WriteKind};
pub use performer::Performer;
pub use program::{found_from_here, program_in};
pub use recorder::Recorder;
pub use spool::{Events, Spool, SpoolError};
pub use tape::{Sink, Tape};
