//! What a volume stores of a file: one unit of the inode table, and continuations for the extents and properties that
//! do not fit in it. A further name of a file (a hard link) has a unit of its own.
//!
//! An atomic batch replaces an inode in place. A continuation is never replaced: a changed one goes to a free slot, and
//! the inode that names it takes effect later. So a batch holds one unit for each file, however many extents the file
//! has.

use tantalum::UNIT_BYTES;
use tantalum_filesystem::{FileId, FileKind, NAME_BYTES, Timestamp};
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::Checksummed;
use crate::continuation::{
    CONTINUATION_BYTES, CONTINUATION_EXTENTS, CONTINUATION_MAGIC, ContinuationUnit, PROPERTY_MAGIC,
};
use crate::error::Damage;
use crate::extent_record::{EXTENT_BYTES, check_count, insert_records, records_of};
use crate::extents::ExtentMap;
use crate::name::{NamePlace, is_valid_name};
use crate::properties::{MOST_PROPERTY_BYTES, Properties};

/// Bytes of a file's attributes, which belong to the program using the volume.
pub const ATTRIBUTE_BYTES: usize = 64;

/// Maximum size of a file in bytes.
pub(crate) const MOST_FILE_BYTES: u64 = u32::MAX as u64 * UNIT_BYTES as u64;

/// Maximum number of extents of a file, whatever properties it has.
pub(crate) const MOST_EXTENTS: usize = (CONTINUATIONS - PROPERTY_CONTINUATIONS) * CONTINUATION_EXTENTS;

/// Bytes in the inode's own unit for extents, from the front, and for properties, from the back.
const BODY_BYTES: usize = 3164;
/// Properties larger than this are stored in continuations.
const INLINE_PROPERTY_BYTES: usize = BODY_BYTES / 2;
/// Maximum number of continuations of an inode.
pub(crate) const CONTINUATIONS: usize = 128;
const PROPERTY_CONTINUATIONS: usize = MOST_PROPERTY_BYTES.div_ceil(CONTINUATION_BYTES);

pub(crate) const INODE_MAGIC: [u8; 4] = *b"INOD";

/// The reservation belongs to the program: units beyond the size must not be touched.
const RESERVED_BY_PROGRAM: u8 = 1;

/// Units that hold `bytes` bytes.
pub(crate) fn units_of(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES as u64)).expect("sizes are checked against the largest file")
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct TimeRecord {
    seconds: I64,
    nanoseconds: U32,
}

impl From<Timestamp> for TimeRecord {
    fn from(time: Timestamp) -> TimeRecord {
        TimeRecord { seconds: I64::new(time.seconds), nanoseconds: U32::new(time.nanoseconds) }
    }
}

impl From<TimeRecord> for Timestamp {
    fn from(record: TimeRecord) -> Timestamp {
        Timestamp { seconds: record.seconds.get(), nanoseconds: record.nanoseconds.get() }
    }
}

/// An inode as it is stored on the drive.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct InodeUnit {
    crc: U32,
    magic: [u8; 4],
    size: U64,
    number: U32,
    folder: U32,
    reserved_units: U32,
    owner: U32,
    group: U32,
    device_number: U32,
    accessed: TimeRecord,
    modified: TimeRecord,
    changed: TimeRecord,
    created: TimeRecord,
    permissions: U16,
    /// Extents in this unit.
    extent_count: U16,
    continuation_count: U16,
    /// Bytes of properties in this unit.
    property_bytes: U16,
    kind: u8,
    flags: u8,
    name_bytes: u8,
    zero: u8,
    attributes: [u8; ATTRIBUTE_BYTES],
    name: [u8; NAME_BYTES + 1],
    /// Slots of the continuations: those with extents, then those with properties.
    continuations: [U32; CONTINUATIONS],
    body: [u8; BODY_BYTES],
}

impl Checksummed for InodeUnit {}

impl InodeUnit {
    fn name(&self) -> Result<&[u8], Damage> {
        let name = &self.name[..usize::from(self.name_bytes)];
        let is_root = self.number.get() == FileId::ROOT.0 && name.is_empty();
        if is_root || is_valid_name(name) { Ok(name) } else { Err(Damage::Name) }
    }

    /// Slots of the continuations.
    pub fn continuation_slots(&self) -> Result<Vec<u32>, Damage> {
        let count = usize::from(self.continuation_count.get());
        check_count(count, CONTINUATIONS)?;
        Ok(self.continuations[..count].iter().map(|slot| slot.get()).collect())
    }

    /// Names the continuations, and seals the unit.
    pub fn set_continuation_slots(&mut self, slots: impl Iterator<Item = u32>) {
        let mut count = 0;
        for slot in slots {
            assert!(count < CONTINUATIONS, "an inode has more than {CONTINUATIONS} continuations");
            self.continuations[count].set(slot);
            count += 1;
        }
        self.continuation_count = U16::new(count as u16);
        self.seal();
    }
}

fn kind_to_byte(kind: FileKind) -> u8 {
    match kind {
        FileKind::File => 1,
        FileKind::Folder => 2,
        FileKind::SymbolicLink => 3,
        FileKind::Fifo => 4,
        FileKind::Socket => 5,
        FileKind::CharDevice => 6,
        FileKind::BlockDevice => 7,
    }
}

fn kind_from_byte(byte: u8) -> Result<FileKind, Damage> {
    Ok(match byte {
        1 => FileKind::File,
        2 => FileKind::Folder,
        3 => FileKind::SymbolicLink,
        4 => FileKind::Fifo,
        5 => FileKind::Socket,
        6 => FileKind::CharDevice,
        7 => FileKind::BlockDevice,
        _ => return Err(Damage::Kind),
    })
}

/// A file, apart from its names and contents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Inode {
    pub number: FileId,
    pub kind: FileKind,
    pub permissions: u16,
    pub owner: u32,
    pub group: u32,
    pub device_number: u32,
    pub accessed: Timestamp,
    pub modified: Timestamp,
    pub changed: Timestamp,
    pub created: Timestamp,
    pub size: u64,
    pub attributes: [u8; ATTRIBUTE_BYTES],
    /// The number of first units that keep their place whatever the size is.
    pub reserved_units: u32,
    /// The reservation belongs to the program; see [`crate::Volume::reserve`].
    pub reserved_by_program: bool,
    /// May extend beyond size and reservation; that part is not stored, and is free again after a mount.
    pub extents: ExtentMap,
    pub properties: Properties,
}

/// An inode ready for the drive, before its continuations have slots.
pub(crate) struct EncodedInode {
    pub unit: Box<InodeUnit>,
    pub continuations: Vec<Box<ContinuationUnit>>,
}

impl Inode {
    /// An inode of a new file, of this kind; the rest is zero.
    pub fn new(number: FileId, kind: FileKind) -> Inode {
        Inode {
            number,
            kind,
            permissions: 0,
            owner: 0,
            group: 0,
            device_number: 0,
            accessed: Timestamp::default(),
            modified: Timestamp::default(),
            changed: Timestamp::default(),
            created: Timestamp::default(),
            size: 0,
            attributes: [0; ATTRIBUTE_BYTES],
            reserved_units: 0,
            reserved_by_program: false,
            extents: ExtentMap::default(),
            properties: Properties::default(),
        }
    }

    /// The units that the file keeps across mounts if its size is `size`: all below this one.
    pub fn kept_units(&self, size: u64) -> u32 {
        if size < self.size { units_of(size) } else { units_of(size).max(self.reserved_units) }
    }

    /// The inode as it is stored with a size of `size`.
    pub fn with_size(&self, size: u64) -> Inode {
        let kept = self.kept_units(size);
        let mut inode = Inode { extents: self.extents.cut_at(kept), ..self.clone_without_extents() };
        inode.size = size;
        inode.reserved_units = self.reserved_units.min(kept);
        inode
    }

    /// The inode without contents and attributes, as it is stored when only names are made durable.
    pub fn without_content(&self) -> Inode {
        let mut inode = self.clone_without_extents();
        (inode.size, inode.reserved_units, inode.reserved_by_program) = (0, 0, false);
        inode.attributes = [0; ATTRIBUTE_BYTES];
        inode.properties = self.properties.without_extended();
        inode
    }

    fn clone_without_extents(&self) -> Inode {
        Inode { properties: self.properties.clone(), extents: ExtentMap::default(), ..*self }
    }

    /// Whether its properties are too large for its own unit.
    pub fn has_properties_outside(&self) -> bool {
        self.properties.encoded_bytes() > INLINE_PROPERTY_BYTES
    }

    /// Whether its times are those of `other`.
    pub fn has_times_of(&self, other: &Inode) -> bool {
        let times = |inode: &Inode| (inode.accessed, inode.modified, inode.changed);
        times(self) == times(other)
    }

    /// The inode, in table slot `slot`, with the file's first name; that of the root is empty.
    pub fn encode(&self, slot: u32, place: &NamePlace) -> EncodedInode {
        let properties = self.properties.encode();
        let (inline, outside) = match properties.len() <= INLINE_PROPERTY_BYTES {
            true => (&properties[..], &[][..]),
            false => (&[][..], &properties[..]),
        };
        let records = records_of(self.extents.as_slice());
        let room = (BODY_BYTES - inline.len()) / EXTENT_BYTES;
        let (own, others) = records.split_at(records.len().min(room));
        let mut unit = self.encode_fields(place);
        unit.extent_count = U16::new(own.len() as u16);
        unit.body[..own.len() * EXTENT_BYTES].copy_from_slice(own.as_bytes());
        unit.property_bytes = U16::new(inline.len() as u16);
        unit.body[BODY_BYTES - inline.len()..].copy_from_slice(inline);
        unit.seal();
        debug_assert!(
            own.len() * EXTENT_BYTES + inline.len() <= BODY_BYTES,
            "{} extents and {} bytes of properties are in one unit",
            own.len(),
            inline.len()
        );
        let mut continuations = Vec::new();
        for records in others.chunks(CONTINUATION_EXTENTS) {
            let (index, body) = (continuations.len(), records.as_bytes());
            continuations.push(ContinuationUnit::new(CONTINUATION_MAGIC, slot, index, records.len(), body));
        }
        for bytes in outside.chunks(CONTINUATION_BYTES) {
            let index = continuations.len();
            continuations.push(ContinuationUnit::new(PROPERTY_MAGIC, slot, index, bytes.len(), bytes));
        }
        EncodedInode { unit, continuations }
    }

    fn encode_fields(&self, place: &NamePlace) -> Box<InodeUnit> {
        let mut unit = Box::new(InodeUnit::new_zeroed());
        unit.magic = INODE_MAGIC;
        unit.size = U64::new(self.size);
        unit.number = U32::new(self.number.0);
        unit.folder = U32::new(place.folder.0);
        unit.reserved_units = U32::new(self.reserved_units);
        unit.owner = U32::new(self.owner);
        unit.group = U32::new(self.group);
        unit.device_number = U32::new(self.device_number);
        unit.accessed = self.accessed.into();
        unit.modified = self.modified.into();
        unit.changed = self.changed.into();
        unit.created = self.created.into();
        unit.permissions = U16::new(self.permissions);
        unit.kind = kind_to_byte(self.kind);
        unit.flags = if self.reserved_by_program { RESERVED_BY_PROGRAM } else { 0 };
        unit.attributes = self.attributes;
        unit.name[..place.name.len()].copy_from_slice(&place.name);
        unit.name_bytes = place.name.len() as u8;
        unit
    }

    /// Reads an inode, and the file's first name, from a unit that has a valid checksum. [`Inode::add_continuations`] adds the
    /// contents of its continuations.
    pub fn decode(unit: &InodeUnit) -> Result<(Inode, NamePlace), Damage> {
        if unit.size.get() > MOST_FILE_BYTES || unit.number.get() == 0 {
            return Err(Damage::Kind);
        }
        let kind = kind_from_byte(unit.kind)?;
        let place = NamePlace { folder: FileId(unit.folder.get()), name: unit.name()?.into() };
        let mut inode = Inode::new(FileId(unit.number.get()), kind);
        inode.permissions = unit.permissions.get() & 0o7777;
        inode.owner = unit.owner.get();
        inode.group = unit.group.get();
        inode.device_number = unit.device_number.get();
        inode.accessed = unit.accessed.into();
        inode.modified = unit.modified.into();
        inode.changed = unit.changed.into();
        inode.created = unit.created.into();
        inode.size = unit.size.get();
        inode.attributes = unit.attributes;
        inode.reserved_units = unit.reserved_units.get();
        inode.reserved_by_program = unit.flags & RESERVED_BY_PROGRAM != 0;
        let inline = usize::from(unit.property_bytes.get());
        check_count(inline, BODY_BYTES)?;
        let (extents, properties) = unit.body.split_at(BODY_BYTES - inline);
        insert_records(&mut inode.extents, extents, unit.extent_count)?;
        inode.properties = Properties::decode(properties)?;
        Ok((inode, place))
    }

    /// Adds the contents of the inode's continuations, in order.
    pub fn add_continuations<'a>(
        &mut self,
        continuations: impl Iterator<Item = &'a ContinuationUnit>,
    ) -> Result<(), Damage> {
        let mut properties = Vec::new();
        for continuation in continuations {
            if continuation.magic == PROPERTY_MAGIC {
                let count = usize::from(continuation.count.get());
                check_count(count, CONTINUATION_BYTES)?;
                properties.extend_from_slice(&continuation.body[..count]);
            } else {
                insert_records(&mut self.extents, &continuation.body, continuation.count)?;
            }
        }
        if !properties.is_empty() {
            self.properties = Properties::decode(&properties)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tantalum::Lpn;
    use tantalum_filesystem::SetMode;

    use super::*;
    use crate::extents::Extent;

    fn fragmented(extents: u32) -> Inode {
        let mut inode = Inode::new(FileId(5), FileKind::File);
        for i in 0..extents {
            inode.extents.insert(Extent { unit: 3 * i, lpn: Lpn(1000 + 5 * i), units: 2 });
        }
        inode.size = u64::from(3 * extents) * UNIT_BYTES as u64;
        inode.attributes = std::array::from_fn(|i| i as u8);
        inode
    }

    fn attribute(value: &[u8]) -> Properties {
        Properties::default().with(FileId(5), b"user.a", value, SetMode::Any).unwrap()
    }

    fn place() -> NamePlace {
        NamePlace { folder: FileId(3), name: b"a file"[..].into() }
    }

    fn round_trip(inode: &Inode) -> Inode {
        let encoded = inode.encode(7, &place());
        crate::checksum::verify(encoded.unit.as_bytes()).unwrap();
        let (mut read, read_place) = Inode::decode(&encoded.unit).unwrap();
        assert_eq!(read_place, place());
        read.add_continuations(encoded.continuations.iter().map(|unit| &**unit)).unwrap();
        read
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
        (inode.owner, inode.group, inode.device_number) = (1, 2, 3);
        inode.modified = Timestamp { seconds: -1, nanoseconds: 7 };
        inode.permissions = 0o4755;
        inode.properties = attribute(b"xy");
        let encoded = inode.encode(7, &place());
        let bytes = encoded.unit.as_bytes();
        assert_eq!(bytes[4..28], *b"INOD\0\x60\0\0\0\0\0\0\x05\0\0\0\x03\0\0\0\x09\0\0\0");
        assert_eq!(bytes[28..40], *b"\x01\0\0\0\x02\0\0\0\x03\0\0\0");
        assert_eq!(bytes[52..64], *b"\xff\xff\xff\xff\xff\xff\xff\xff\x07\0\0\0");
        assert_eq!(bytes[88..100], *b"\xed\x09\x02\0\0\0\x0d\0\x01\0\x06\0");
        assert_eq!(bytes[100..164], inode.attributes);
        assert_eq!(bytes[164..171], *b"a file\0");
        assert_eq!(bytes[932..956], *b"\0\0\0\0\xe8\x03\0\0\x02\0\0\0\x03\0\0\0\xed\x03\0\0\x02\0\0\0");
        assert_eq!(bytes[4083..], *b"\x06\x02\0\0\0user.axy");
    }

    #[test]
    fn inodes_of_any_fragmentation_read_back() {
        for extents in [0, 1, 263, 264, 263 + 340, 263 + 341, MOST_EXTENTS as u32] {
            let inode = fragmented(extents);
            let continuations = inode.encode(7, &place()).continuations.len();
            assert_eq!(continuations, (extents as usize).saturating_sub(263).div_ceil(340));
            assert_eq!(round_trip(&inode), inode);
        }
    }

    #[test]
    fn properties_of_any_size_read_back_beside_any_number_of_extents() {
        for bytes in [0, 1, INLINE_PROPERTY_BYTES - 11, INLINE_PROPERTY_BYTES, 5000, 60_000] {
            for extents in [0, 131, 132, 400, MOST_EXTENTS as u32] {
                let mut inode = fragmented(extents);
                inode.properties = attribute(&vec![9; bytes]);
                assert_eq!(round_trip(&inode), inode);
            }
        }
    }

    #[test]
    fn what_lies_beyond_size_and_reservation_is_not_stored() {
        let mut inode = fragmented(4);
        inode.size = 4096;
        assert_eq!(round_trip(&inode.with_size(4096)).extents.end(), 1);
        inode.reserved_units = 5;
        assert_eq!(round_trip(&inode.with_size(4096)).extents.end(), 5);
        assert_eq!(round_trip(&inode.with_size(7 * 4096)).extents.end(), 7);
    }

    #[test]
    fn shrinking_gives_the_reservation_up() {
        let mut inode = fragmented(4);
        inode.reserved_units = 10;
        let read = round_trip(&inode.with_size(4096));
        assert_eq!((read.reserved_units, read.extents.end()), (1, 1));
    }

    #[test]
    fn counts_extents_and_names_that_cannot_be_are_damage() {
        let decode = |change: fn(&mut InodeUnit)| {
            let mut unit = fragmented(3).encode(7, &place()).unit;
            change(&mut unit);
            Inode::decode(&unit).err()
        };
        let extent_damage = |lpn, units| Some(Damage::Extent { lpn: Lpn(lpn), units });
        assert_eq!(decode(|_| ()), None);
        assert_eq!(decode(|u| u.extent_count.set(264)), Some(Damage::Count { count: 264, most: 263 }));
        assert_eq!(decode(|u| u.property_bytes.set(4000)), Some(Damage::Count { count: 4000, most: 3164 }));
        assert_eq!(decode(|u| u.body[20] = 0), extent_damage(1005, 0));
        assert_eq!(decode(|u| u.body[12] = 1), extent_damage(1005, 2));
        assert_eq!(decode(|u| u.body[16..20].fill(0xff)), extent_damage(u32::MAX, 2));
        assert_eq!(decode(|u| u.name_bytes = 0), Some(Damage::Name));
        assert_eq!(decode(|u| u.name[0] = b'/'), Some(Damage::Name));
        assert_eq!(decode(|u| u.size.set(u64::MAX)), Some(Damage::Kind));
        assert_eq!(decode(|u| u.kind = 8), Some(Damage::Kind));
        assert_eq!(decode(|u| u.number.set(0)), Some(Damage::Kind));
    }
}
