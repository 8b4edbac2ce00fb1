//! Files whose bytes others (programs in the drive, with permissions that come from here) access directly, by their
//! place on the drive.
//!
//! Invariant: those who may access a place learn that it will no longer be the file's before it is trimmed, belongs to
//! another file, or is exchanged with another place. Otherwise a late write would be seen in another file (V3; hazard 27).

use std::ops::Range;

use tantalum::UNIT_BYTES;

use crate::extents::Extent;

/// A run of a file's bytes that is in one piece on the drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LentExtent {
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// Where it is on the drive, in bytes; whole units.
    pub place: Range<u64>,
}

impl From<Extent> for LentExtent {
    fn from(extent: Extent) -> LentExtent {
        let offset = u64::from(extent.unit) * UNIT_BYTES as u64;
        LentExtent { offset, place: extent.range().bytes() }
    }
}
