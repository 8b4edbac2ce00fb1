//! The checksum at the start of every metadata unit: CRC-32C of everything after it.

use tantalum_image::checksum_of;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::error::Damage;

/// A unit of metadata, whose first four bytes are its checksum.
pub(crate) trait Checksummed: FromBytes + IntoBytes + Immutable + KnownLayout {
    /// Sets the checksum. Call it last.
    fn seal(&mut self) {
        let crc = U32::new(checksum_of(&self.as_bytes()[4..]));
        self.as_mut_bytes()[..4].copy_from_slice(crc.as_bytes());
    }
}

/// Whether a unit's contents are what was sealed.
pub(crate) fn verify(unit: &[u8]) -> Result<(), Damage> {
    let found = U32::read_from_bytes(&unit[..4]).expect("four bytes").get();
    let computed = checksum_of(&unit[4..]);
    if found == computed { Ok(()) } else { Err(Damage::Checksum { found, computed }) }
}
