//! The checksum of everything stored: CRC-32C, of anything from a head of 20 bytes to the units. Every unit read or
//! written passes through it, so it is computed in the fastest way available.

use crc_fast::{CrcAlgorithm, Digest};

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit, as the polynomial defines it: stored checksums must not depend on how they are computed.
    fn slowly(data: &[u8]) -> u32 {
        const REVERSED_POLYNOMIAL: u32 = 0x82f6_3b78;
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
}
