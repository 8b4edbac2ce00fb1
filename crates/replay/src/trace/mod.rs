//! Traces of block devices as other tools write them, read line by line.
//!
//! - A line that is not understood is an error that names it and says what was expected; none is skipped in silence.
//! - A trace is streamed: only the requests that may have to be sorted by time are in memory ([`reader`]).
//! - Sizes and times of a trace are only read here. Nothing of it is allocated by what a line claims.

mod alibaba;
mod blkparse;
mod error;
mod fields;
mod fio;
mod format;
mod lines;
mod msr;
mod reader;

pub use blkparse::Action;
pub use error::TraceError;
pub use format::Format;
pub use reader::{Source, Trace};

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Operation {
    /// Reads.
    Read,
    /// Writes.
    Write {
        /// The drive flushes before the write.
        preflush: bool,
        /// The write is on flash before it is done.
        fua: bool,
    },
    /// Makes durable what was written before.
    Flush,
    /// Deallocates.
    Trim,
}

/// One request of a trace. Those of an earlier time are less, and of those of one time the ones on an earlier line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Request {
    /// When it was issued, by the trace's own clock, whose zero is anywhere.
    pub at_ns: u64,
    /// The line that it is on, from 1.
    pub line: u64,
    /// The volume, by the order in which volumes appear.
    pub volume: u32,
    /// What it does.
    pub operation: Operation,
    /// The first byte; 0 of a flush.
    pub offset: u64,
    /// How many bytes; 0 of a flush.
    pub bytes: u64,
}

/// What a line of a trace says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parsed<'a> {
    /// Nothing that a drive sees.
    Nothing,
    /// A request of a volume.
    Request { volume: &'a str, at_ns: u64, operation: Operation, offset: u64, bytes: u64 },
}

/// What was expected where something else stands.
pub(crate) type Expected = &'static str;

/// Understands the lines of a format, one after the other.
pub(crate) trait Parser {
    /// What the next line says; the first one is included.
    fn parse<'a>(&mut self, line: &'a str) -> Result<Parsed<'a>, Expected>;

    /// Whether its requests have times.
    fn has_times(&self) -> bool {
        true
    }

    /// Fails if the end of the trace shows that it was read in the wrong way.
    fn end(&self) -> Result<(), Expected> {
        Ok(())
    }
}
