//! Lines of text, none of them longer than a bound.

use std::io::{self, BufRead, Read};

/// Longer lines are in no trace: Windows' has command lines, of up to 32,767 characters. The bound holds memory against a file
/// without any end of a line.
const MOST_BYTES: u64 = 128 << 10;

/// Reads line by line.
pub(super) struct Lines {
    reader: Box<dyn BufRead>,
    buffer: Vec<u8>,
    text: String,
    number: u64,
}

/// What comes next.
#[derive(Debug)]
pub(super) enum Next {
    Line,
    TooLong,
    End,
}

impl Lines {
    pub(super) fn new(reader: Box<dyn BufRead>) -> Lines {
        Lines { reader, buffer: Vec::new(), text: String::new(), number: 0 }
    }

    /// Goes to the next line.
    pub(super) fn advance(&mut self) -> io::Result<Next> {
        self.buffer.clear();
        self.text.clear();
        let read = Read::take(&mut self.reader, MOST_BYTES).read_until(b'\n', &mut self.buffer)? as u64;
        if read == 0 {
            return Ok(Next::End);
        }
        self.number += 1;
        self.text.push_str(&String::from_utf8_lossy(self.buffer.trim_ascii()));
        let is_whole = self.buffer.last() == Some(&b'\n') || read < MOST_BYTES;
        Ok(if is_whole { Next::Line } else { Next::TooLong })
    }

    /// The line without its end. Bytes that are not text become question marks in boxes.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Its number, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(bytes: &[u8]) -> Lines {
        Lines::new(Box::new(io::Cursor::new(bytes.to_vec())))
    }

    #[test]
    fn lines_end_in_any_way_and_are_counted() {
        let mut lines = lines_of(b"one\r\n\n two \xff");
        let mut found = Vec::new();
        while let Next::Line = lines.advance().unwrap() {
            found.push((lines.number(), lines.text().to_owned()));
        }
        let expected = [(1, "one"), (2, ""), (3, "two \u{fffd}")];
        assert_eq!(found, expected.map(|(number, line)| (number, line.to_owned())));
    }

    /// An event of Windows has the command line of its process.
    #[test]
    fn the_longest_command_line_of_windows_is_a_line() {
        let mut lines = lines_of(&[&vec![b'x'; 3 * 32_767][..], b"\nnext"].concat());
        assert!(matches!(lines.advance().unwrap(), Next::Line));
        assert!(matches!(lines.advance().unwrap(), Next::Line) && lines.text() == "next");
    }

    #[test]
    fn a_line_without_end_takes_no_more_memory_than_the_bound() {
        let mut lines = lines_of(&vec![b'x'; 1 << 20]);
        assert!(matches!(lines.advance().unwrap(), Next::TooLong));
        assert!(lines.buffer.capacity() <= 2 * MOST_BYTES as usize);
    }
}
