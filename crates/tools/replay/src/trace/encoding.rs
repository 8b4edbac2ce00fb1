//! Encodings of text: UTF-8, and UTF-16 with a byte-order mark, as Windows' shells write it.

use std::io::{self, BufRead, BufReader, Read};

const UTF_8: &[u8] = &[0xef, 0xbb, 0xbf];
const UTF_16_LITTLE: &[u8] = &[0xff, 0xfe];
const UTF_16_BIG: &[u8] = &[0xfe, 0xff];

/// Units of 16 bits decoded at once.
const UNITS: usize = 4096;

/// The text without its byte-order mark, as UTF-8. `head` is its beginning.
pub(super) fn text(head: &[u8], mut reader: Box<dyn BufRead>) -> Box<dyn BufRead> {
    if head.starts_with(UTF_8) {
        reader.consume(UTF_8.len());
        return reader;
    }
    let little = head.starts_with(UTF_16_LITTLE);
    if little || head.starts_with(UTF_16_BIG) {
        reader.consume(UTF_16_BIG.len());
        let high = None;
        return Box::new(BufReader::new(Utf16 { reader, little, high, text: Vec::new(), at: 0 }));
    }
    reader
}

/// UTF-16 as UTF-8. What is no character becomes a replacement character.
struct Utf16<R> {
    reader: R,
    little: bool,
    /// The first half of a character.
    high: Option<u16>,
    text: Vec<u8>,
    at: usize,
}

impl<R: BufRead> Utf16<R> {
    fn decode(&mut self) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(2 * UNITS);
        Read::take(&mut self.reader, 2 * UNITS as u64).read_to_end(&mut bytes)?;
        let at_end = bytes.len() < 2 * UNITS;
        let unit = |pair: &[u8]| match (pair, self.little) {
            ([low, high], true) | ([high, low], false) => u16::from_be_bytes([*high, *low]),
            _ => 0xfffd,
        };
        let mut units: Vec<u16> = self.high.into_iter().chain(bytes.chunks(2).map(unit)).collect();
        self.high = units.pop_if(|last| !at_end && (0xd800..0xdc00).contains(last));
        self.text = String::from_utf16_lossy(&units).into_bytes();
        self.at = 0;
        Ok(())
    }
}

impl<R: BufRead> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.text.len() {
            self.decode()?;
        }
        let read = (&self.text[self.at..]).read(buffer)?;
        self.at += read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn decoded(bytes: Vec<u8>) -> String {
        let head = bytes[..bytes.len().min(4)].to_vec();
        let mut all = String::new();
        text(&head, Box::new(Cursor::new(bytes))).read_to_string(&mut all).unwrap();
        all
    }

    #[test]
    fn marks_are_dropped_and_both_orders_of_bytes_are_read() {
        // characters of two units on both sides of where a buffer ends
        let text = format!("{}{}", "a".repeat(UNITS - 3), "\u{1f4be}".repeat(20));
        let units = |order: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(order).collect::<Vec<u8>>();
        assert_eq!(decoded([UTF_16_LITTLE, &units(u16::to_le_bytes)].concat()), text);
        assert_eq!(decoded([UTF_16_BIG, &units(u16::to_be_bytes)].concat()), text);
        assert_eq!(decoded([UTF_8, text.as_bytes()].concat()), text);
        assert_eq!(decoded(text.clone().into_bytes()), text);
        assert_eq!(decoded(b"\xff\xfea\0\x3d\xd8b".to_vec()), "a\u{fffd}\u{fffd}");
        assert_eq!(decoded(Vec::new()), "");
    }
}
