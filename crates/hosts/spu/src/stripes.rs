//! Which processor owns which part of the drive: stripes of 8 KiB, round robin (thesis, section 5.1.2).

use std::ops::Range;

use crate::names::SpuId;

pub use tantalum::STRIPE_BYTES;

/// How a drive is striped over its processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stripes {
    processors: u32,
    capacity_bytes: u64,
}

impl Stripes {
    pub(crate) fn new(processors: u32, capacity_bytes: u64) -> Stripes {
        Stripes { processors, capacity_bytes }
    }

    /// The processor that owns the byte at `address`.
    pub fn owner(self, address: u64) -> SpuId {
        SpuId((address / STRIPE_BYTES % u64::from(self.processors)) as u32)
    }

    /// Bytes of one stripe of each processor.
    pub fn row_bytes(self) -> u64 {
        STRIPE_BYTES * u64::from(self.processors)
    }

    /// The drive's capacity in bytes.
    pub fn capacity_bytes(self) -> u64 {
        self.capacity_bytes
    }

    /// Whether a range is not empty, and lies within one stripe of `spu` and within the drive.
    pub fn is_local(self, spu: SpuId, range: &Range<u64>) -> bool {
        range.start < range.end
            && range.end <= self.capacity_bytes
            && range.start / STRIPE_BYTES == (range.end - 1) / STRIPE_BYTES
            && self.owner(range.start) == spu
    }

    /// The pieces of a range that each lie in one stripe, with their owners.
    pub fn pieces(self, range: Range<u64>) -> impl Iterator<Item = (SpuId, Range<u64>)> {
        let mut start = range.start;
        std::iter::from_fn(move || {
            let end = (start - start % STRIPE_BYTES).saturating_add(STRIPE_BYTES).min(range.end);
            let piece = start..end;
            start = end;
            (!piece.is_empty()).then(|| (self.owner(piece.start), piece))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_are_dealt_out_in_turn() {
        let stripes = Stripes::new(3, 1 << 20);
        let owners: Vec<u32> = (0..5).map(|stripe| stripes.owner(stripe * STRIPE_BYTES + 8191).0).collect();
        assert_eq!(owners, [0, 1, 2, 0, 1]);
        let pieces: Vec<_> = stripes.pieces(8000..17_000).collect();
        assert_eq!(pieces, [(SpuId(0), 8000..8192), (SpuId(1), 8192..16_384), (SpuId(2), 16_384..17_000)]);
    }

    #[test]
    fn a_range_over_two_stripes_or_beyond_the_drive_is_local_to_nobody() {
        let stripes = Stripes::new(2, 32 << 10);
        assert!(stripes.is_local(SpuId(1), &(8192..16_384)));
        assert!(!stripes.is_local(SpuId(0), &(8192..16_384)));
        assert!(!stripes.is_local(SpuId(0), &(8191..8193)));
        assert!(!stripes.is_local(SpuId(1), &(24_576..32_769)));
        assert!(!stripes.is_local(SpuId(0), &(0..0)));
    }
}
