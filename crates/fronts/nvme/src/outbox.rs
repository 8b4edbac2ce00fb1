//! What waits to be sent on a connection.
//!
//! Headers and small data are gathered in one buffer; large data go out from where the drive put them, without another
//! copy. Each piece knows how many bytes of the connection's budget it releases.
//!
//! Invariant, which `assert_invariants` checks: the bytes counted are those of the pieces, without what was sent of the first.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};

/// Data of at least this many bytes are sent from where they are, without a copy.
const LARGE_BYTES: usize = 16 << 10;

/// Pieces that are sent with one call.
const PIECES: usize = 32;

/// A gathered piece does not grow beyond this.
const GATHERED_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
struct Piece {
    bytes: Vec<u8>,
    /// Whether more may be added.
    is_open: bool,
    /// Bytes of the budget.
    held: usize,
}

/// The pieces.
#[derive(Debug, Default)]
pub struct Outbox {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that have been sent.
    sent: usize,
    /// Unsent bytes of all pieces.
    bytes: usize,
    /// A spare buffer to gather in.
    spare: Vec<u8>,
    /// Buffers of data that have been sent.
    emptied: Vec<Vec<u8>>,
}

impl Outbox {
    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the budget that the pieces hold.
    pub fn held(&self) -> usize {
        self.pieces.iter().map(|piece| piece.held).sum()
    }

    /// Checks the invariant, if assertions of debug builds are on.
    fn assert_invariants(&self) {
        if cfg!(debug_assertions) {
            let bytes: usize = self.pieces.iter().map(|piece| piece.bytes.len()).sum();
            debug_assert_eq!(
                self.bytes + self.sent,
                bytes,
                "bytes that wait or were sent, and those of all pieces"
            );
            let first = self.pieces.front().map_or(0, |piece| piece.bytes.len());
            debug_assert!(self.sent <= first, "{} bytes were sent of a piece of {first}", self.sent);
        }
    }

    /// Adds a few bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.open().bytes.extend_from_slice(bytes);
        self.assert_invariants();
    }

    /// Adds data that hold `held` bytes of the budget until they are sent.
    pub fn push_data(&mut self, data: Vec<u8>, held: usize) {
        if data.len() < LARGE_BYTES {
            self.push(&data);
            self.open().held += held;
            self.emptied.push(data);
        } else {
            self.bytes += data.len();
            self.pieces.push_back(Piece { bytes: data, is_open: false, held });
            self.assert_invariants();
        }
    }

    fn open(&mut self) -> &mut Piece {
        let has_room = |piece: &Piece| piece.is_open && piece.bytes.len() < GATHERED_BYTES;
        if !self.pieces.back().is_some_and(has_room) {
            let bytes = std::mem::take(&mut self.spare);
            assert!(bytes.is_empty(), "a buffer to gather in still holds {} bytes", bytes.len());
            self.pieces.push_back(Piece { bytes, is_open: true, held: 0 });
        }
        self.pieces.back_mut().expect("a piece was added if there was none")
    }

    /// A buffer of data that no longer need it.
    pub fn emptied(&mut self) -> Option<Vec<u8>> {
        self.emptied.pop()
    }

    /// Sends as much as the other side takes. Returns the bytes of the budget that are free again.
    pub fn send(&mut self, to: &mut impl Write) -> io::Result<usize> {
        let mut freed = 0;
        while !self.pieces.is_empty() {
            match self.send_some(to) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => freed += self.forget(sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(freed)
    }

    fn send_some(&self, to: &mut impl Write) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); PIECES];
        let mut used = 0;
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            let from = if used == 0 { self.sent } else { 0 };
            *slice = IoSlice::new(&piece.bytes[from..]);
            used += 1;
        }
        to.write_vectored(&slices[..used])
    }

    fn forget(&mut self, sent: usize) -> usize {
        assert!(sent <= self.bytes, "{sent} bytes were sent, but {} waited", self.bytes);
        self.bytes -= sent;
        self.sent += sent;
        let mut freed = 0;
        while let Some(first) = self.pieces.front_mut().filter(|first| self.sent >= first.bytes.len()) {
            self.sent -= first.bytes.len();
            freed += first.held;
            let mut piece = self.pieces.pop_front().expect("it was there a line before");
            if !piece.is_open {
                self.emptied.push(piece.bytes);
            } else if self.spare.capacity() == 0 {
                piece.bytes.clear();
                self.spare = piece.bytes;
            }
        }
        let left = (self.bytes, self.sent);
        assert!(
            !self.pieces.is_empty() || left == (0, 0),
            "no piece is left, but bytes and sent bytes are {left:?}"
        );
        self.assert_invariants();
        freed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes this many bytes at a time, and every other time none.
    struct Slow(Vec<u8>, usize, bool);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.2 = !self.2;
            if self.2 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let taken = bytes.len().min(self.1);
            self.0.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_slow_receiver_gets_everything_in_order_and_frees_what_it_got() {
        let mut outbox = Outbox::default();
        outbox.push(b"head");
        outbox.push_data(vec![1; 100], 100);
        outbox.push_data(vec![2; LARGE_BYTES], LARGE_BYTES);
        outbox.push(b"tail");
        let (mut slow, mut freed) = (Slow(Vec::new(), 7, false), 0);
        while outbox.bytes() > 0 {
            freed += outbox.send(&mut slow).unwrap();
        }
        let expected = [&b"head"[..], &[1; 100], &[2; LARGE_BYTES], b"tail"].concat();
        assert!(slow.0 == expected);
        assert_eq!(freed, 100 + LARGE_BYTES);
    }
}
