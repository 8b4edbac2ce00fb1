//! A further name of a file: a hard link. The first name is in the file's inode.

use tantalum::UNIT_BYTES;
use tantalum_filesystem::{FileId, NAME_BYTES};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::Checksummed;
use crate::error::Damage;
use crate::name::{NamePlace, is_valid_name};

pub(crate) const LINK_MAGIC: [u8; 4] = *b"LINK";

/// A link as it is stored on the drive, in a slot of the inode table.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct LinkUnit {
    crc: U32,
    magic: [u8; 4],
    folder: U32,
    /// The number of the file that it names.
    file: U32,
    name_bytes: u8,
    name: [u8; NAME_BYTES],
    zeros: [u8; UNIT_BYTES - 272],
}

impl Checksummed for LinkUnit {}

/// A further name of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    pub place: NamePlace,
    pub file: FileId,
    /// The name that the drive knows; none if it knows none.
    pub stored: Option<NamePlace>,
}

impl Link {
    pub fn encode(&self) -> Box<LinkUnit> {
        let mut unit = Box::new(LinkUnit::new_zeroed());
        unit.magic = LINK_MAGIC;
        unit.folder = U32::new(self.place.folder.0);
        unit.file = U32::new(self.file.0);
        let name = &self.place.name;
        unit.name_bytes = name.len() as u8;
        unit.name[..name.len()].copy_from_slice(name);
        unit.seal();
        debug_assert_eq!(
            Link::decode(&unit).map(|link| (link.place, link.file)),
            Ok((self.place.clone(), self.file)),
            "a link as it is written, and as it is"
        );
        unit
    }

    /// Reads a link whose unit has a valid checksum.
    pub fn decode(unit: &LinkUnit) -> Result<Link, Damage> {
        let name = &unit.name[..usize::from(unit.name_bytes)];
        if !is_valid_name(name) {
            return Err(Damage::Name);
        }
        let place = NamePlace { folder: FileId(unit.folder.get()), name: name.into() };
        Ok(Link { stored: Some(place.clone()), place, file: FileId(unit.file.get()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_one_unit_of_a_pinned_layout_and_reads_back() {
        assert_eq!(size_of::<LinkUnit>(), UNIT_BYTES);
        let place = NamePlace { folder: FileId(2), name: b"name"[..].into() };
        let link = Link { stored: Some(place.clone()), place, file: FileId(9) };
        let mut unit = link.encode();
        assert_eq!(unit.as_bytes()[4..22], *b"LINK\x02\0\0\0\x09\0\0\0\x04name\0");
        assert_eq!(Link::decode(&unit), Ok(link));
        unit.name_bytes = 0;
        assert_eq!(Link::decode(&unit), Err(Damage::Name));
    }
}
