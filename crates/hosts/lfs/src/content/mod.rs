//! The contents of files: access through the page cache, past it, and operations on ranges.

mod direct_io;
mod pages;
mod ranges;
mod read_write;

/// Bytes of one unit.
pub(crate) const UNIT: u64 = tantalum::UNIT_BYTES as u64;

/// The number of units that hold this many bytes.
pub(crate) fn units_of(bytes: u64) -> u64 {
    bytes.div_ceil(UNIT)
}
