//! Traces of block devices as other tools write them, read entry by entry: lines of text, or binary records.
//!
//! Bytes come from files and pipes ([`input`]), are unpacked ([`compressed`]) and decoded ([`encoding`]), and become entries
//! ([`entries`]) in one of the formats ([`format`](mod@format)).
//!
//! - A line that is not understood is an error that names it and says what was expected; none is skipped in silence.
//! - A trace is streamed: only the requests that may have to be sorted by time are in memory ([`reader`]).
//! - Sizes and times of a trace are only read here. Nothing of it is allocated by what a line claims.

mod alibaba;
mod blkparse;
mod blkparse_format;
mod blktrace;
mod cloudphysics;
mod columns;
mod compression;
mod encoding;
mod entries;
mod error;
mod etw;
mod fields;
mod fio;
mod fio_one;
mod format;
mod input;
mod lines;
mod mqsim;
mod msr;
mod open;
mod reader;
mod source;
mod spc;
mod systor;
mod tencent;

pub use blkparse::Action;
pub use blkparse_format::BlkparseFormat;
pub use columns::{ColumnNames, Columns, OffsetUnit, OperationNames, TimeUnit};
pub use error::TraceError;
pub use format::Format;
pub(crate) use input::Input;
pub(crate) use reader::Trace;
pub use source::Source;

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
    /// The line that it is on, or the number of its record, from 1.
    pub line: u64,
    /// The volume, by the order in which volumes appear.
    pub volume: u32,
    /// Whether it reads, writes, flushes or deallocates.
    pub operation: Operation,
    /// The first byte; 0 of a flush.
    pub offset: u64,
    /// How many bytes; 0 of a flush.
    pub bytes: u64,
}

/// What an entry of a trace says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parsed<'a> {
    /// Nothing that a drive sees.
    Nothing,
    /// Something that a drive may have seen, but of which too little is known. It is counted.
    LeftOut,
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

    /// Whether a line is a comment.
    fn is_comment(&self, line: &str) -> bool {
        line.starts_with('#')
    }

    /// Fails if the end of the trace shows that it was read in the wrong way.
    fn end(&self) -> Result<(), Expected> {
        Ok(())
    }

    /// What a reader of the report must know about the lines so far.
    fn note(&self) -> Option<String> {
        None
    }
}
