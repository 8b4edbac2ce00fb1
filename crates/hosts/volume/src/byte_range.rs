//! Ranges of a file's bytes, in terms of units.

use std::ops::Range;

use tantalum::UNIT_BYTES;

/// Bytes of one unit.
pub(crate) const UNIT: u64 = UNIT_BYTES as u64;

/// The part of a byte range within one unit.
pub(crate) struct Piece {
    pub unit: u32,
    /// Its position in the unit.
    pub bytes: Range<usize>,
}

/// The pieces of `offset..offset + bytes`, in order. The end must have been checked.
pub(crate) fn pieces(offset: u64, bytes: usize) -> impl Iterator<Item = Piece> {
    let end = offset + bytes as u64;
    let units = offset / UNIT..end.div_ceil(UNIT).max(offset / UNIT);
    units.map(move |unit| {
        let start = offset.max(unit * UNIT) - unit * UNIT;
        let stop = end.min((unit + 1) * UNIT) - unit * UNIT;
        Piece { unit: unit as u32, bytes: start as usize..stop as usize }
    })
}

/// A range of bytes as whole units, and what these leave of it. A unit's part beyond the file's end need not be covered,
/// because it is not seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Edges {
    /// Bytes of the range before its first whole unit.
    pub first: Option<Range<u64>>,
    pub units: Range<u32>,
    /// Bytes of the range behind its last whole unit, unless they are among the first.
    pub last: Option<Range<u64>>,
}

impl Edges {
    /// The edges of a range in a file of `size` bytes.
    pub fn of(bytes: Range<u64>, size: u64) -> Edges {
        let Range { start, mut end } = bytes;
        let mut last = (end / UNIT) as u32;
        if end >= size {
            (end, last) = (size, end.div_ceil(UNIT).min(u64::from(u32::MAX)) as u32);
        }
        let first = start.div_ceil(UNIT).min(u64::from(u32::MAX)) as u32;
        let (first_byte, last_byte) = (u64::from(first) * UNIT, u64::from(last) * UNIT);
        let has_first = start < end && start < first_byte;
        let has_last = last >= first && last_byte < end && last_byte >= start;
        Edges {
            first: has_first.then(|| start..first_byte.min(end)),
            units: first..last.max(first),
            last: has_last.then_some(last_byte..end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(offset: u64, bytes: usize) -> Vec<(u32, Range<usize>)> {
        pieces(offset, bytes).map(|piece| (piece.unit, piece.bytes)).collect()
    }

    #[test]
    fn pieces_are_cut_at_units() {
        assert_eq!(list(0, 0), []);
        assert_eq!(list(4096, 0), []);
        assert_eq!(list(4096, 4096), [(1, 0..4096)]);
        assert_eq!(list(4000, 200), [(0, 4000..4096), (1, 0..104)]);
        assert_eq!(list(100, 8192), [(0, 100..4096), (1, 0..4096), (2, 0..100)]);
    }

    #[test]
    fn edges_are_what_whole_units_leave() {
        let edges = |bytes: Range<u64>, size| Edges::of(bytes, size);
        let (first, last) = (Some(100..4096), Some(8192..8200));
        assert_eq!(edges(100..8200, 1 << 20), Edges { first: first.clone(), units: 1..2, last });
        // What is behind the end of the file is not seen.
        assert_eq!(edges(100..8200, 8200), Edges { first, units: 1..3, last: None });
        assert_eq!(edges(4096..8192, 1 << 20), Edges { first: None, units: 1..2, last: None });
        assert_eq!(edges(10..20, 1 << 20), Edges { first: Some(10..20), units: 1..1, last: None });
        assert_eq!(edges(8192..9000, 100), Edges { first: None, units: 2..3, last: None });
    }
}
