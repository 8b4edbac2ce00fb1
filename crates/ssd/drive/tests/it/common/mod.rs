//! Contents of units that can be distinguished.

use tantalum::{Profile, UNIT_BYTES};

/// CRC-32C's polynomial without its highest term.
const POLYNOMIAL: u32 = 0x1edc_6f41;

/// Where a twin differs.
const DIFFERENCE_AT: usize = 1000;

/// A drive with a capacity in MiB, and a cache to match.
pub fn small(name: &str, mebibytes: u64) -> Profile {
    let mut profile = Profile { capacity_bytes: mebibytes << 20, ..Profile::load(name).unwrap() };
    profile.cache.bytes = 512 << 10;
    profile.power.dump_bytes = profile.power.dump_bytes.min(2 << 20);
    profile
}

/// Contents by their number, which is not 0.
pub fn unit(number: u64) -> Vec<u8> {
    let mut unit = vec![number as u8 | 1; UNIT_BYTES];
    unit[..8].copy_from_slice(&number.to_le_bytes());
    unit[8..16].copy_from_slice(&(!number).to_le_bytes());
    unit
}

/// Other contents with the same checksum: they differ by the polynomial itself.
pub fn twin(number: u64) -> Vec<u8> {
    let mut unit = unit(number);
    let terms = 1 << 32 | u64::from(POLYNOMIAL);
    for bit in 0..33 {
        // The checksum takes the lowest bit of a byte first.
        unit[DIFFERENCE_AT + bit / 8] ^= ((terms >> (32 - bit) & 1) as u8) << (bit % 8);
    }
    unit
}
