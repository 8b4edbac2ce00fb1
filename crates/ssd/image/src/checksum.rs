//! The checksum of everything stored: CRC-32C, of anything from a head of 20 bytes to the units. Every unit read or
//! written passes through it, so it is computed in the fastest way available.

use crc_fast::{CrcAlgorithm, Digest};

use crate::geometry::UNIT_BYTES;

const REVERSED_POLYNOMIAL: u32 = 0x82f6_3b78;

/// The checksum of `data`.
pub fn checksum_of(data: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, data) as u32
}

/// The checksum of bytes whose own is `checksum`, followed by `data`.
pub fn checksum_with(checksum: u32, data: &[u8]) -> u32 {
    // what is finalized is the state with all bits inverted
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!checksum));
    digest.update(data);
    digest.finalize() as u32
}

/// The checksum of bytes whose own is `checksum`, followed by a unit whose own is `unit`: CRC-32C is linear, so bytes that follow
/// turn what there was into something that depends on their number alone.
pub fn checksum_joined(checksum: u32, unit: u32) -> u32 {
    let bytes = checksum.to_le_bytes();
    bytes.iter().zip(&BEFORE_A_UNIT).fold(unit, |joined, (byte, table)| joined ^ table[usize::from(*byte)])
}

/// What becomes of each byte of a checksum when a unit follows.
static BEFORE_A_UNIT: [[u32; 256]; 4] = before_a_unit();

const fn before_a_unit() -> [[u32; 256]; 4] {
    let of_bits = followed_by_zeros();
    let mut tables = [[0; 256]; 4];
    let mut index = 0;
    while index < 4 * 256 {
        let (byte, value) = (index / 256, index % 256);
        let mut bit = 0;
        while bit < 8 {
            if value >> bit & 1 == 1 {
                tables[byte][value] ^= of_bits[8 * byte + bit];
            }
            bit += 1;
        }
        index += 1;
    }
    tables
}

/// What a unit of zeros turns each bit of a state into: the operator for one bit, squared as often as one doubles to the bits of
/// a unit.
const fn followed_by_zeros() -> [u32; 32] {
    let mut operator = [0; 32];
    operator[0] = REVERSED_POLYNOMIAL;
    let mut bit = 1;
    while bit < 32 {
        operator[bit] = 1 << (bit - 1);
        bit += 1;
    }
    let mut doublings = (UNIT_BYTES * 8).trailing_zeros();
    while doublings > 0 {
        let mut squared = [0; 32];
        let mut bit = 0;
        while bit < 32 {
            squared[bit] = applied(&operator, operator[bit]);
            bit += 1;
        }
        operator = squared;
        doublings -= 1;
    }
    operator
}

const fn applied(operator: &[u32; 32], state: u32) -> u32 {
    let (mut result, mut bit) = (0, 0);
    while bit < 32 {
        if state >> bit & 1 == 1 {
            result ^= operator[bit];
        }
        bit += 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit, as the polynomial defines it: stored checksums must not depend on how they are computed.
    fn slowly(data: &[u8]) -> u32 {
        let step = |state: u32| (state >> 1) ^ if state & 1 == 1 { REVERSED_POLYNOMIAL } else { 0 };
        !data.iter().fold(!0, |state, byte| (0..8).fold(state ^ u32::from(*byte), |state, _| step(state)))
    }

    #[test]
    fn checksums_are_crc_32c_of_any_length() {
        let data: Vec<u8> = (0..5000_u32).map(|byte| (byte * byte % 251) as u8).collect();
        assert_eq!(checksum_of(b"123456789"), 0xe306_9283);
        for bytes in (0..300).chain([508, 767, 1020, 2047, 4092, 4095, 4096, 5000]) {
            assert_eq!(checksum_of(&data[..bytes]), slowly(&data[..bytes]), "{bytes} bytes");
        }
    }

    #[test]
    fn a_checksum_goes_on_where_one_ended() {
        let data: Vec<u8> = (0..5000_u32).map(|byte| (byte * 7 % 253) as u8).collect();
        for bytes in [0, 1, 31, 300, 4096, 5000] {
            for first in [0, 1, 16, 17, 255, 4096].into_iter().filter(|first| *first <= bytes) {
                let (head, rest) = data[..bytes].split_at(first);
                assert_eq!(
                    checksum_with(checksum_of(head), rest),
                    checksum_of(&data[..bytes]),
                    "{first} of {bytes}"
                );
            }
        }
    }
    #[test]
    fn checksums_of_units_are_joined() {
        let data: Vec<u8> = (0..4 * UNIT_BYTES as u32).map(|byte| (byte * byte % 241) as u8).collect();
        let units = data.chunks_exact(UNIT_BYTES).map(checksum_of);
        assert_eq!(units.fold(0, checksum_joined), checksum_of(&data));
        assert_eq!(
            checksum_joined(checksum_of(&data[..77]), checksum_of(&data[77..][..UNIT_BYTES])),
            checksum_of(&data[..77 + UNIT_BYTES])
        );
    }
}
