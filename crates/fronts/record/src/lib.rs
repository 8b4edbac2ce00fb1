//! Operations on a mounted file system: recorded as they happen, stored in a file, repeated on another drive.
//!
//! - [`Recorder`] is a file system in front of another. While its [`Tape`] runs, a [`Sink`] receives every operation that
//!   changes something or makes it durable, as an [`Event`], in the order in which the file system executed them. Otherwise
//!   it only costs checking a flag.
//! - A recording that starts with existing files begins with these: their names and sizes.
//! - [`Spool`] is a sink that writes a file, and [`Events`] reads it, so that a recording may be larger than memory.
//! - [`Performer`] repeats operations.
//! - [`blocks`] is the same for a drive without files: what a host wrote to its blocks.
//! - [`program_in`] is a program that works in a recorded folder, and [`wait`] waits for it.
//!
//! Reads are not recorded.

pub mod blocks;
mod bytes;
mod event;
mod frames;
mod leftovers;
pub mod operation;
mod performer;
mod program;
mod recorder;
mod spool;
mod tape;

pub use event::{Event, FileOffset, Stamped, WriteKind};
pub use frames::SpoolError;
pub use leftovers::{end_in, folder_prefix, left_behind};
pub use performer::Performer;
pub use program::{found_from_here, program_in, wait};
pub use recorder::Recorder;
pub use spool::{Events, Spool};
pub use tape::{Sink, Tape};
