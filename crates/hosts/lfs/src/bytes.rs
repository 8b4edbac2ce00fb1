//! Little-endian numbers in units, and checksums of units.

use tantalum::UNIT_BYTES;
use tantalum_image::checksum_of;

use crate::error::Damage;

/// The bytes of one unit.
pub(crate) type Page = [u8; UNIT_BYTES];

/// A unit of zeros.
pub(crate) fn zeros() -> Box<Page> {
    Box::new([0; UNIT_BYTES])
}

pub(crate) fn get16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn get32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("four bytes"))
}

pub(crate) fn get64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("eight bytes"))
}

pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Stores the checksum of the rest in the first four bytes. Call it last.
pub(crate) fn seal(bytes: &mut [u8]) {
    let checksum = checksum_of(&bytes[4..]);
    put32(bytes, 0, checksum);
}

/// Checks that the contents are those that were sealed.
pub(crate) fn verify(bytes: &[u8]) -> Result<(), Damage> {
    let (found, computed) = (get32(bytes, 0), checksum_of(&bytes[4..]));
    if found == computed { Ok(()) } else { Err(Damage::Checksum { found, computed }) }
}
