//! Lines of a file, none of them longer than a bound.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Longer lines are in no trace. The bound holds memory against a file without any end of a line.
const MOST_BYTES: u64 = 4096;

/// Reads a file line by line.
#[derive(Debug)]
pub(super) struct Lines {
    file: BufReader<File>,
    buffer: Vec<u8>,
    number: u64,
    bytes: u64,
}

/// What comes next.
#[derive(Debug)]
pub(super) enum Next {
    Line,
    TooLong,
    End,
}

impl Lines {
    pub(super) fn open(path: &Path) -> io::Result<Lines> {
        let file = BufReader::with_capacity(1 << 20, File::open(path)?);
        Ok(Lines { file, buffer: Vec::new(), number: 0, bytes: 0 })
    }

    /// Goes to the next line.
    pub(super) fn advance(&mut self) -> io::Result<Next> {
        self.buffer.clear();
        let read = Read::take(&mut self.file, MOST_BYTES).read_until(b'\n', &mut self.buffer)? as u64;
        if read == 0 {
            return Ok(Next::End);
        }
        self.number += 1;
        self.bytes += read;
        let is_whole = self.buffer.last() == Some(&b'\n') || read < MOST_BYTES;
        Ok(if is_whole { Next::Line } else { Next::TooLong })
    }

    /// The line without its end. Bytes that are not text become question marks in boxes.
    pub(super) fn line(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.buffer.trim_ascii())
    }

    /// Its number, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Bytes read so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn lines_of(bytes: &[u8]) -> Lines {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        Lines::open(file.path()).unwrap()
    }

    #[test]
    fn lines_end_in_any_way_and_are_counted() {
        let mut lines = lines_of(b"one\r\n\n two \xff");
        let mut found = Vec::new();
        while let Next::Line = lines.advance().unwrap() {
            found.push((lines.number(), lines.line().into_owned()));
        }
        let expected = [(1, "one"), (2, ""), (3, "two \u{fffd}")];
        assert_eq!(found, expected.map(|(number, line)| (number, line.to_owned())));
        assert_eq!(lines.bytes(), 12);
    }

    #[test]
    fn a_line_without_end_takes_no_more_memory_than_the_bound() {
        let mut lines = lines_of(&vec![b'x'; 1 << 20]);
        assert!(matches!(lines.advance().unwrap(), Next::TooLong));
        assert!(lines.buffer.capacity() <= 2 * MOST_BYTES as usize);
    }
}
