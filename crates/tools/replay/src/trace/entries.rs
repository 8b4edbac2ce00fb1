//! The entries of a trace in the order of its files: lines of text here, binary records in other files.

use std::io::BufRead;
use std::path::PathBuf;

use super::error::{TraceError, beginning};
use super::lines::{Lines, Next};
use super::{Expected, Parsed, Parser};

/// Reads entries one after the other.
pub(super) trait Entries {
    /// The next entry; none at the end.
    fn advance(&mut self) -> Result<Option<Entry<'_>>, TraceError>;

    /// Whether its requests have times; known after the first one.
    fn has_times(&self) -> bool {
        true
    }

    /// Fails if the end of the trace shows that it was read in the wrong way.
    fn end(&self) -> Result<(), Expected> {
        Ok(())
    }

    /// What a reader of the report must know about the trace as it was read so far.
    fn note(&self) -> Option<String> {
        None
    }
}

/// One entry.
pub(super) struct Entry<'a> {
    /// The number of its line, or of the record, from 1.
    pub number: u64,
    pub parsed: Parsed<'a>,
}

/// Lines, and what understands them. Empty lines and comments are skipped.
pub(super) struct Text {
    path: PathBuf,
    lines: Lines,
    parser: Box<dyn Parser>,
}

impl Text {
    pub(super) fn new(path: PathBuf, reader: Box<dyn BufRead>, parser: Box<dyn Parser>) -> Text {
        Text { path, lines: Lines::new(reader), parser }
    }

    fn wrong(&self, expected: Expected) -> TraceError {
        let (line, found) = (self.lines.number(), beginning(self.lines.text()));
        TraceError::Line { path: self.path.clone(), line, expected, found }
    }
}

impl Entries for Text {
    fn advance(&mut self) -> Result<Option<Entry<'_>>, TraceError> {
        loop {
            let next = self.lines.advance();
            match next.map_err(|error| TraceError::File { path: self.path.clone(), error })? {
                Next::End => return Ok(None),
                Next::TooLong => return Err(self.wrong("a line of less than 128 KiB")),
                Next::Line => {}
            }
            let line = self.lines.text();
            if !line.is_empty() && !self.parser.is_comment(line) {
                break;
            }
        }
        match self.parser.parse(self.lines.text()) {
            Ok(parsed) => Ok(Some(Entry { number: self.lines.number(), parsed })),
            Err(expected) => Err(self.wrong(expected)),
        }
    }

    fn has_times(&self) -> bool {
        self.parser.has_times()
    }

    fn end(&self) -> Result<(), Expected> {
        self.parser.end()
    }

    fn note(&self) -> Option<String> {
        self.parser.note()
    }
}
