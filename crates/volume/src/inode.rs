//! What a volume stores of a file: one unit of the inode table, and continuations for the extents that do not
//! fit in it.
//!
//! An inode is replaced in place by an atomic batch. A continuation never is: a changed one goes to a free slot,
//! and the inode that names it takes effect later. So a batch holds one unit for each file, however many pieces
//! the file lies in.

use tantalum::{Lpn, UNIT_BYTES};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::Checksummed;
use crate::error::Damage;
use crate::extents::{Extent, ExtentMap};

/// Bytes of a file's attributes, which belong to the program that uses the volume.
pub const ATTRIBUTE_BYTES: usize = 64;

/// Bytes of the longest file name.
pub const NAME_BYTES: usize = 255;

/// Bytes of the largest file.
pub(crate) const MOST_FILE_BYTES: u64 = u32::MAX as u64 * UNIT_BYTES as u64;

/// Extents of the most fragmented file.
pub(crate) const MOST_EXTENTS: usize = INODE_EXTENTS + CONTINUATIONS * CONTINUATION_EXTENTS;

const INODE_EXTENTS: usize = 290;
const CONTINUATIONS: usize = 64;
const CONTINUATION_EXTENTS: usize = 340;

pub(crate) const INODE_MAGIC: [u8; 4] = *b"INOD";
pub(crate) const CONTINUATION_MAGIC: [u8; 4] = *b"CONT";

/// Units that hold `bytes` bytes.
pub(crate) fn units_of(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES as u64)).expect("sizes are checked against the largest file")
}

#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct ExtentRecord {
    unit: U32,
    lpn: U32,
    units: U32,
}

impl From<Extent> for ExtentRecord {
    fn from(extent: Extent) -> ExtentRecord {
        ExtentRecord {
            unit: U32::new(extent.unit),
            lpn: U32::new(extent.lpn.0),
            units: U32::new(extent.units),
        }
    }
}

/// An inode as it lies on the drive.
#[derive(PartialEq, Eq, Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct InodeUnit {
    crc: U32,
    magic: [u8; 4],
    size: U64,
    reserved_units: U32,
    /// Extents in this unit.
    extent_count: U16,
    continuation_count: U16,
    name_bytes: u8,
    zeros: [u8; 7],
    attributes: [u8; ATTRIBUTE_BYTES],
    name: [u8; NAME_BYTES + 1],
    /// Slots of the continuations.
    continuations: [U32; CONTINUATIONS],
    extents: [ExtentRecord; INODE_EXTENTS],
    more_zeros: [u8; 8],
}

impl Checksummed for InodeUnit {}

impl InodeUnit {
    pub fn name(&self) -> Result<&str, Damage> {
        let name = self.name.get(..usize::from(self.name_bytes)).ok_or(Damage::Name)?;
        let name = std::str::from_utf8(name).map_err(|_| Damage::Name)?;
        if is_valid_name(name) { Ok(name) } else { Err(Damage::Name) }
    }

    /// Changes the name and nothing else; seals.
    pub fn set_name(&mut self, name: &str) {
        self.name.fill(0);
        self.name[..name.len()].copy_from_slice(name.as_bytes());
        self.name_bytes = name.len() as u8;
        self.seal();
    }

    /// Slots of the continuations.
    pub fn continuation_slots(&self) -> Result<impl Iterator<Item = u32>, Damage> {
        let count = usize::from(self.continuation_count.get());
        check_count(count, CONTINUATIONS)?;
        Ok(self.continuations[..count].iter().map(|slot| slot.get()))
    }

    /// Names the continuations; seals.
    pub fn set_continuation_slots(&mut self, slots: impl Iterator<Item = u32>) {
        let mut count = 0;
        for (place, slot) in self.continuations.iter_mut().zip(slots) {
            place.set(slot);
            count += 1;
        }
        self.continuation_count = U16::new(count);
        self.seal();
    }
}

/// A continuation of an inode as it lies on the drive.
#[derive(PartialEq, Eq, Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct ContinuationUnit {
    crc: U32,
    magic: [u8; 4],
    /// The inode's slot.
    inode: U32,
    /// Its place among the inode's continuations.
    index: U16,
    extent_count: U16,
    extents: [ExtentRecord; CONTINUATION_EXTENTS],
}

impl Checksummed for ContinuationUnit {}

impl ContinuationUnit {
    fn new(inode: u32, index: usize, extents: &[Extent]) -> Box<ContinuationUnit> {
        let mut unit = Box::new(ContinuationUnit::new_zeroed());
        unit.magic = CONTINUATION_MAGIC;
        unit.inode = U32::new(inode);
        unit.index = U16::new(index as u16);
        unit.extent_count = U16::new(fill(&mut unit.extents, extents));
        unit.seal();
        unit
    }

    /// Whether it is the `index`th of the inode in slot `inode`.
    pub fn belongs_to(&self, inode: u32, index: usize) -> bool {
        self.magic == CONTINUATION_MAGIC
            && self.inode.get() == inode
            && usize::from(self.index.get()) == index
    }
}

fn fill(records: &mut [ExtentRecord], extents: &[Extent]) -> u16 {
    for (record, extent) in records.iter_mut().zip(extents) {
        *record = (*extent).into();
    }
    extents.len() as u16
}

fn check_count(count: usize, most: usize) -> Result<(), Damage> {
    if count > most { Err(Damage::Count { count: count as u32, most: most as u32 }) } else { Ok(()) }
}

/// Whether a file may have this name.
pub(crate) fn is_valid_name(name: &str) -> bool {
    (1..=NAME_BYTES).contains(&name.len()) && !name.contains('\0')
}

/// What a file is, apart from its content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Inode {
    pub name: String,
    pub size: u64,
    pub attributes: [u8; ATTRIBUTE_BYTES],
    /// The first units that have a place whatever the size is.
    pub reserved_units: u32,
    /// May go on beyond size and reservation; what does is not stored, and free again after a mount.
    pub extents: ExtentMap,
}

/// An inode made ready for the drive, before its continuations have their slots.
pub(crate) struct EncodedInode {
    pub unit: Box<InodeUnit>,
    pub continuations: Vec<Box<ContinuationUnit>>,
}

impl Inode {
    pub fn new(name: &str) -> Inode {
        Inode {
            name: name.to_owned(),
            size: 0,
            attributes: [0; ATTRIBUTE_BYTES],
            reserved_units: 0,
            extents: ExtentMap::default(),
        }
    }

    /// The units that the file keeps across mounts if its size is `size`: all below this one.
    pub fn kept_units(&self, size: u64) -> u32 {
        if size < self.size { units_of(size) } else { units_of(size).max(self.reserved_units) }
    }

    /// The inode, in table slot `slot`, as it will be when the size is `size`.
    pub fn encode(&self, slot: u32, size: u64) -> EncodedInode {
        let kept = self.kept_units(size);
        let extents: Vec<Extent> = self.extents.below(kept).collect();
        let (own, others) = extents.split_at(extents.len().min(INODE_EXTENTS));
        let mut unit = Box::new(InodeUnit::new_zeroed());
        unit.magic = INODE_MAGIC;
        unit.size = U64::new(size);
        unit.reserved_units = U32::new(self.reserved_units.min(kept));
        unit.attributes = self.attributes;
        unit.extent_count = U16::new(fill(&mut unit.extents, own));
        unit.set_name(&self.name);
        let continuations = others
            .chunks(CONTINUATION_EXTENTS)
            .enumerate()
            .map(|(index, extents)| ContinuationUnit::new(slot, index, extents))
            .collect();
        EncodedInode { unit, continuations }
    }

    /// Reads an inode whose units have right checksums and belong together.
    pub fn decode(
        unit: &InodeUnit,
        continuations: impl Iterator<Item = impl AsRef<ContinuationUnit>>,
    ) -> Result<Inode, Damage> {
        if unit.size.get() > MOST_FILE_BYTES {
            return Err(Damage::Kind);
        }
        let mut inode = Inode::new(unit.name()?);
        inode.size = unit.size.get();
        inode.attributes = unit.attributes;
        inode.reserved_units = unit.reserved_units.get();
        insert_records(&mut inode.extents, &unit.extents, unit.extent_count)?;
        for continuation in continuations {
            let continuation = continuation.as_ref();
            insert_records(&mut inode.extents, &continuation.extents, continuation.extent_count)?;
        }
        Ok(inode)
    }
}

/// Adds the records' extents behind those that the map has. Whether the drive has such units is not looked at.
fn insert_records(map: &mut ExtentMap, records: &[ExtentRecord], count: U16) -> Result<(), Damage> {
    let count = usize::from(count.get());
    check_count(count, records.len())?;
    for record in &records[..count] {
        let (unit, lpn, units) = (record.unit.get(), Lpn(record.lpn.get()), record.units.get());
        let fits = unit.checked_add(units).is_some() && lpn.0.checked_add(units).is_some();
        if units == 0 || unit < map.end() || !fits {
            return Err(Damage::Extent { lpn, units });
        }
        map.insert(Extent { unit, lpn, units });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragmented(extents: u32) -> Inode {
        let mut inode = Inode::new("a file");
        for i in 0..extents {
            inode.extents.insert(Extent { unit: 3 * i, lpn: Lpn(1000 + 5 * i), units: 2 });
        }
        inode.size = u64::from(3 * extents) * UNIT_BYTES as u64;
        inode.attributes = std::array::from_fn(|i| i as u8);
        inode
    }

    fn round_trip(inode: &Inode, size: u64) -> Inode {
        let encoded = inode.encode(7, size);
        crate::checksum::verify(encoded.unit.as_bytes()).unwrap();
        Inode::decode(&encoded.unit, encoded.continuations.into_iter()).unwrap()
    }

    #[test]
    fn units_have_the_size_of_a_unit() {
        assert_eq!(size_of::<InodeUnit>(), UNIT_BYTES);
        assert_eq!(size_of::<ContinuationUnit>(), UNIT_BYTES);
    }

    #[test]
    fn the_layout_is_pinned() {
        let mut inode = fragmented(2);
        inode.reserved_units = 9;
        let bytes = inode.encode(7, inode.size);
        let bytes = bytes.unit.as_bytes();
        assert_eq!(bytes[4..32], *b"INOD\0\x60\0\0\0\0\0\0\x09\0\0\0\x02\0\0\0\x06\0\0\0\0\0\0\0");
        assert_eq!(bytes[32..96], inode.attributes);
        assert_eq!(bytes[96..103], *b"a file\0");
        assert_eq!(bytes[608..632], *b"\0\0\0\0\xe8\x03\0\0\x02\0\0\0\x03\0\0\0\xed\x03\0\0\x02\0\0\0");
    }

    #[test]
    fn inodes_of_any_fragmentation_read_back() {
        for extents in [0, 1, 290, 291, 290 + 340, 290 + 341, MOST_EXTENTS as u32] {
            let inode = fragmented(extents);
            let continuations = inode.encode(7, inode.size).continuations.len();
            assert_eq!(continuations, (extents as usize).saturating_sub(290).div_ceil(340));
            assert_eq!(round_trip(&inode, inode.size), inode);
        }
    }

    #[test]
    fn what_lies_beyond_size_and_reservation_is_not_stored() {
        let mut inode = fragmented(4);
        inode.size = 4096;
        assert_eq!(round_trip(&inode, 4096).extents.end(), 1);
        inode.reserved_units = 5;
        assert_eq!(round_trip(&inode, 4096).extents.end(), 5);
        assert_eq!(round_trip(&inode, 7 * 4096).extents.end(), 7);
    }

    #[test]
    fn shrinking_gives_the_reservation_up() {
        let mut inode = fragmented(4);
        inode.reserved_units = 10;
        let read = round_trip(&inode, 4096);
        assert_eq!((read.reserved_units, read.extents.end()), (1, 1));
    }

    #[test]
    fn counts_extents_and_names_that_cannot_be_are_damage() {
        let decode = |change: fn(&mut InodeUnit)| {
            let mut unit = fragmented(3).encode(7, 0x9000).unit;
            change(&mut unit);
            Inode::decode(&unit, std::iter::empty::<Box<ContinuationUnit>>()).err()
        };
        assert_eq!(decode(|_| ()), None);
        assert_eq!(decode(|u| u.extent_count.set(291)), Some(Damage::Count { count: 291, most: 290 }));
        assert_eq!(decode(|u| u.extents[1].units.set(0)), Some(Damage::Extent { lpn: Lpn(1005), units: 0 }));
        assert_eq!(decode(|u| u.extents[1].unit.set(1)), Some(Damage::Extent { lpn: Lpn(1005), units: 2 }));
        let beyond = u32::MAX - 1;
        assert_eq!(
            decode(|u| u.extents[1].lpn.set(u32::MAX - 1)),
            Some(Damage::Extent { lpn: Lpn(beyond), units: 2 })
        );
        assert_eq!(decode(|u| u.name_bytes = 0), Some(Damage::Name));
        assert_eq!(decode(|u| u.name[0] = 0xff), Some(Damage::Name));
        assert_eq!(decode(|u| u.size.set(u64::MAX)), Some(Damage::Kind));
    }
}
