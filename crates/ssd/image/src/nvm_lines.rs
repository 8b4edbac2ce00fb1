//! Non-volatile memory in an image file: lines of 512 bytes, each with a checksum of its own.
//!
//! A line is written in one piece and crosses no page of the host's cache, so a killed process leaves it old or new. The
//! checksum covers its number. A line of zeros was never written and holds zeros. Nothing detects a line that was
//! replaced by an older version of itself: what is stored there must detect that.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{checksum_of, checksum_with};
use crate::geometry::UNIT_BYTES;

/// Bytes of a line in the file.
pub(super) const LINE_BYTES: u64 = 512;

/// Bytes of memory in a line.
pub(super) const LINE_DATA_BYTES: u64 = 504;

const _: () =
    assert!((UNIT_BYTES as u64).is_multiple_of(LINE_BYTES), "no line crosses a page of the host's cache");

/// A line as it is stored.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Line {
    checksum: U32,
    /// 1, so that a line of zeros that was written differs from one that never was.
    written: U32,
    pub data: [u8; LINE_DATA_BYTES as usize],
}

impl Line {
    /// A line that was never written.
    pub fn fresh() -> Line {
        Line::new_zeroed()
    }

    /// Gives line `number` its checksum.
    pub fn seal(&mut self, number: u64) {
        self.written = 1.into();
        self.checksum = self.computed_checksum(number).into();
    }

    /// The stored checksum and the right one, if they differ.
    pub fn damage(&self, number: u64) -> Option<(u32, u32)> {
        let computed = self.computed_checksum(number);
        let is_fresh = || self.as_bytes().iter().all(|byte| *byte == 0);
        let stored = self.checksum.get();
        (stored != computed && !is_fresh()).then_some((stored, computed))
    }

    fn computed_checksum(&self, number: u64) -> u32 {
        checksum_with(checksum_of(&number.to_le_bytes()), &self.as_bytes()[size_of::<U32>()..])
    }
}

/// Bytes in the file of a memory of this size.
pub(super) fn file_bytes(nvm_bytes: u64) -> u64 {
    line_count(nvm_bytes) * LINE_BYTES
}

/// Lines of a memory of this size.
pub(super) fn line_count(nvm_bytes: u64) -> u64 {
    nvm_bytes.div_ceil(LINE_DATA_BYTES)
}

/// The parts of a range that each lie in one line: the line's number, the first byte in it, and the number of bytes.
pub(super) fn lines_of(at: u64, bytes: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = at + bytes as u64;
    let mut next = at;
    std::iter::from_fn(move || {
        let (number, first) = (next / LINE_DATA_BYTES, next % LINE_DATA_BYTES);
        let count = (LINE_DATA_BYTES - first).min(end - next);
        next += count;
        (count > 0).then_some((number, first as usize, count as usize))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_on_the_image_is_fixed_and_any_damage_shows() {
        assert_eq!(size_of::<Line>() as u64, LINE_BYTES);
        let mut line = Line::fresh();
        assert_eq!(line.damage(3), None);
        line.seal(3);
        assert_eq!(line.damage(3), None);
        assert!(line.damage(4).is_some(), "a line at another place");
        for byte in 0..LINE_BYTES as usize {
            let mut bytes = [0; LINE_BYTES as usize];
            bytes.copy_from_slice(line.as_bytes());
            bytes[byte] ^= 0x20;
            assert!(Line::read_from_bytes(&bytes).unwrap().damage(3).is_some(), "byte {byte}");
        }
    }

    #[test]
    fn a_range_falls_into_lines() {
        assert_eq!(lines_of(0, 8).collect::<Vec<_>>(), [(0, 0, 8)]);
        assert_eq!(lines_of(500, 520).collect::<Vec<_>>(), [(0, 500, 4), (1, 0, 504), (2, 0, 12)]);
        assert_eq!(lines_of(504, 0).count(), 0);
        assert_eq!((line_count(0), line_count(504), line_count(505)), (0, 1, 2));
    }
}
