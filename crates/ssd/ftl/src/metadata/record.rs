//! Journal records, and the bytes of a journal page: assertions and memberships that no spare area records.

use tantalum_nand::{Geometry, Nand, Nanoseconds, Ppn, UNIT_BYTES};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::key::{NamespaceAttributes, NamespaceId};
use crate::types::{Generation, Lpn, SEQ_LIMIT, Seq};
use crate::zones::ZoneId;

/// One record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// `lpn`, at `version`, is at `ppn`, as of `step`.
    Map {
        /// The logical page.
        lpn: Lpn,
        /// The version.
        version: Seq,
        /// When the record was made.
        step: Seq,
        /// The place.
        ppn: Ppn,
    },
    /// As `Map`, if the group is whole; the group's name is its step.
    MapInGroup {
        /// The logical page.
        lpn: Lpn,
        /// The version.
        version: Seq,
        /// The group.
        group: Seq,
        /// The place.
        ppn: Ppn,
    },
    /// `units` logical pages from `lpn` on are nowhere at `version`, as of `step`.
    Trim {
        /// The first logical page.
        lpn: Lpn,
        /// How many.
        units: u32,
        /// The version.
        version: Seq,
        /// When the record was made.
        step: Seq,
    },
    /// All members of an atomic batch are on flash.
    BatchWhole {
        /// The batch.
        id: Seq,
    },
    /// An attempt of a hinted log is whole up to a slot.
    LogWhole {
        /// The log's life.
        generation: Generation,
        /// The attempt.
        attempt: u32,
        /// The last slot of the whole run.
        last: u32,
    },
    /// All records of a group are in the journal.
    GroupWhole {
        /// The group.
        group: Seq,
    },
    /// The page of a hinted log with this version no longer claims its home.
    ClaimEnded {
        /// The home.
        home: Lpn,
        /// The page's version.
        version: Seq,
        /// When the record was made.
        step: Seq,
    },
    /// As `ClaimEnded`, if the group is whole.
    ClaimEndedInGroup {
        /// The home.
        home: Lpn,
        /// The page's version.
        version: Seq,
        /// The group.
        group: Seq,
    },
    /// Numbers are used for the first time since a drive that had been shut down was powered on.
    PowerOn {
        /// When.
        step: Seq,
    },
    /// A key-value namespace was created.
    NamespaceMade {
        /// Its number.
        namespace: NamespaceId,
        /// Its attributes.
        attributes: NamespaceAttributes,
        /// When.
        step: Seq,
    },
    /// A key-value namespace was deleted, with all its records.
    NamespaceDeleted {
        /// Its number.
        namespace: NamespaceId,
        /// When.
        step: Seq,
    },
    /// A zone was reset, and has this generation from now on.
    ZoneReset {
        /// The zone.
        zone: ZoneId,
        /// When.
        step: Seq,
    },
    /// A zone of a generation takes no more data.
    ZoneFinished {
        /// The zone.
        zone: ZoneId,
        /// The step of the reset before.
        generation: Seq,
        /// When.
        step: Seq,
    },
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RecordBytes {
    kind: U32,
    a: U32,
    b: U32,
    c: U64,
    d: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PageHeader {
    magic: U32,
    count: U32,
}

const MAGIC: u32 = u32::from_le_bytes(*b"TJN1");
/// Bytes of a record.
pub const RECORD_BYTES: usize = size_of::<RecordBytes>();
const HEADER_BYTES: usize = size_of::<PageHeader>();
const _: () = assert!(RECORD_BYTES == 28 && HEADER_BYTES == 8);

/// Records that fit on a page of `units` units.
pub fn records_per_page(units: u32) -> usize {
    (units as usize * UNIT_BYTES - HEADER_BYTES) / RECORD_BYTES
}

/// Bytes of a page with `records` records, in whole units.
pub fn used_bytes(records: usize) -> usize {
    (HEADER_BYTES + records * RECORD_BYTES).next_multiple_of(UNIT_BYTES)
}

/// A field of a record as it is stored.
trait Field<Stored> {
    fn store(self) -> Stored;
    fn load(stored: Stored) -> Self;
}

/// A number with this many bytes.
macro_rules! number {
    ($($field:ty, $stored:ty, $get:expr, $make:expr;)*) => {
        $(impl Field<$stored> for $field {
            fn store(self) -> $stored {
                <$stored>::new($get(self))
            }

            fn load(stored: $stored) -> $field {
                $make(stored.get())
            }
        })*
    };
}

number! {
    u32, U32, std::convert::identity, std::convert::identity;
    Lpn, U32, |lpn: Lpn| lpn.0, Lpn;
    Ppn, U32, |ppn: Ppn| ppn.0, Ppn;
    NamespaceId, U32, |id: NamespaceId| id.0, NamespaceId;
    ZoneId, U32, |zone: ZoneId| zone.0, ZoneId;
    Seq, U64, |seq: Seq| seq.0, Seq;
    Generation, U64, |generation: Generation| generation.0, Generation;
}

impl Field<(U32, U64)> for NamespaceAttributes {
    fn store(self) -> (U32, U64) {
        let packed = self.logs << 8 | u32::from(self.stored_load_factor());
        (packed.into(), self.expected_records.into())
    }

    fn load((packed, expected_records): (U32, U64)) -> NamespaceAttributes {
        let (packed, expected_records) = (packed.get(), expected_records.get());
        NamespaceAttributes::of_stored(packed >> 8, expected_records, packed as u8)
    }
}

/// How each kind of record is stored: its number, and the positions of its fields.
macro_rules! stored {
    ($($kind:literal = $record:ident { $($field:ident: ($($at:ident),+)),+ })*) => {
        impl Record {
            fn encode(&self) -> RecordBytes {
                let mut bytes = RecordBytes::new_zeroed();
                match *self {
                    $(Record::$record { $($field),+ } => {
                        bytes.kind = U32::new($kind);
                        $(($(bytes.$at),+) = Field::store($field);)+
                    })*
                }
                bytes
            }

            fn decode(bytes: &RecordBytes) -> Option<Record> {
                Some(match bytes.kind.get() {
                    $($kind => Record::$record { $($field: Field::load(($(bytes.$at),+))),+ },)*
                    _ => return None,
                })
            }
        }
    };
}

stored! {
    1 = Map { lpn: (a), ppn: (b), version: (c), step: (d) }
    2 = MapInGroup { lpn: (a), ppn: (b), version: (c), group: (d) }
    3 = Trim { lpn: (a), units: (b), version: (c), step: (d) }
    4 = BatchWhole { id: (c) }
    5 = LogWhole { attempt: (a), last: (b), generation: (c) }
    6 = GroupWhole { group: (c) }
    7 = NamespaceMade { namespace: (a), attributes: (b, c), step: (d) }
    8 = NamespaceDeleted { namespace: (a), step: (d) }
    9 = ClaimEnded { home: (a), version: (c), step: (d) }
    10 = PowerOn { step: (d) }
    11 = ClaimEndedInGroup { home: (a), version: (c), group: (d) }
    12 = ZoneReset { zone: (a), step: (d) }
    13 = ZoneFinished { zone: (a), generation: (c), step: (d) }
}

impl Record {
    /// When what it names is on flash.
    pub fn ready_ns(&self, nand: &Nand) -> Nanoseconds {
        match self {
            Record::Trim { .. }
            | Record::ClaimEnded { .. }
            | Record::NamespaceMade { .. }
            | Record::NamespaceDeleted { .. }
            | Record::ZoneReset { .. }
            | Record::PowerOn { .. } => 0,
            // Garbage collection may have issued the program, so waiting for the host's programs is not enough.
            Record::Map { ppn, .. } | Record::MapInGroup { ppn, .. } => {
                let named_ns = nand.programmed_ns(nand.geometry().page_of(*ppn));
                named_ns.max(nand.host_programs_done_ns())
            }
            _ => nand.host_programs_done_ns(),
        }
    }

    /// Whether it only says what was whole, so that a block that proves it can be erased.
    pub fn is_membership(&self) -> bool {
        matches!(self, Record::BatchWhole { .. } | Record::LogWhole { .. })
    }

    /// Whether a drive with this many logical pages and this shape can have written it.
    pub fn is_possible(&self, logical_units: u32, geometry: &Geometry) -> bool {
        let places = geometry.units();
        let named = match *self {
            Record::Map { lpn, ppn, .. } | Record::MapInGroup { lpn, ppn, .. } => {
                lpn.0 < logical_units && ppn.0 < places
            }
            Record::Trim { lpn, units, .. } => u64::from(lpn.0) + u64::from(units) <= logical_units.into(),
            Record::LogWhole { last, .. } => last < u32::MAX,
            Record::BatchWhole { .. } | Record::GroupWhole { .. } | Record::PowerOn { .. } => true,
            Record::ClaimEnded { home, .. } | Record::ClaimEndedInGroup { home, .. } => {
                home.0 < logical_units
            }
            Record::NamespaceMade { namespace, attributes, .. } => {
                namespace.0 > 0 && attributes.is_possible(logical_units, geometry)
            }
            Record::NamespaceDeleted { namespace, .. } => namespace.0 > 0,
            Record::ZoneReset { zone, .. } | Record::ZoneFinished { zone, .. } => zone.0 < geometry.blocks(),
        };
        named && self.newest_seq() < SEQ_LIMIT
    }

    /// The same record as part of a group; unchanged if it cannot be one.
    pub fn in_group(self, group: Seq) -> Record {
        match self {
            Record::Map { lpn, version, ppn, .. } => Record::MapInGroup { lpn, version, group, ppn },
            Record::ClaimEnded { home, version, .. } => Record::ClaimEndedInGroup { home, version, group },
            other => other,
        }
    }

    /// The greatest number drawn from `Seq` that the record names.
    pub fn newest_seq(&self) -> Seq {
        match *self {
            Record::Map { version, step, .. }
            | Record::Trim { version, step, .. }
            | Record::ClaimEnded { version, step, .. } => version.max(step),
            Record::MapInGroup { version, group, .. } | Record::ClaimEndedInGroup { version, group, .. } => {
                version.max(group)
            }
            Record::BatchWhole { id } => id,
            Record::LogWhole { generation, .. } => Seq(generation.0),
            Record::GroupWhole { group } => group,
            Record::NamespaceMade { step, .. }
            | Record::NamespaceDeleted { step, .. }
            | Record::ZoneReset { step, .. }
            | Record::PowerOn { step } => step,
            Record::ZoneFinished { generation, step, .. } => generation.max(step),
        }
    }
}

/// Writes records into a page's bytes, zeroing the rest. At most [`records_per_page`] fit.
pub fn encode_page<'a>(records: impl ExactSizeIterator<Item = &'a Record>, page: &mut [u8]) {
    page.fill(0);
    let header = PageHeader { magic: MAGIC.into(), count: (records.len() as u32).into() };
    page[..HEADER_BYTES].copy_from_slice(header.as_bytes());
    for (to, record) in page[HEADER_BYTES..].chunks_exact_mut(RECORD_BYTES).zip(records) {
        to.copy_from_slice(record.encode().as_bytes());
    }
}

/// Reads the records of a page; none if it is not a journal page of this version.
pub fn decode_page(page: &[u8]) -> Option<Vec<Record>> {
    let (header, rest) = PageHeader::ref_from_prefix(page).ok()?;
    let count = header.count.get() as usize;
    if header.magic.get() != MAGIC || count > rest.len() / RECORD_BYTES {
        return None;
    }
    rest.chunks_exact(RECORD_BYTES)
        .take(count)
        .map(|bytes| Record::decode(RecordBytes::ref_from_bytes(bytes).ok()?))
        .collect()
}

/// Appends one record's bytes.
pub fn encode_record(record: &Record, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(record.encode().as_bytes());
}

/// Reads consecutive records; none if one is not of this version.
pub fn decode_records(bytes: &[u8]) -> Option<Vec<Record>> {
    let records = bytes.chunks_exact(RECORD_BYTES);
    records.map(|bytes| Record::decode(RecordBytes::ref_from_bytes(bytes).ok()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_of_each() -> Vec<Record> {
        let (lpn, ppn, seq) = (Lpn(0x0102_0304), Ppn(0x0506_0708), Seq(0x1112_1314_1516_1718));
        vec![
            Record::Map { lpn, version: seq, step: Seq(9), ppn },
            Record::MapInGroup { lpn, version: seq, group: Seq(10), ppn },
            Record::Trim { lpn, units: 77, version: seq, step: Seq(8) },
            Record::BatchWhole { id: seq },
            Record::LogWhole { generation: Generation(11), attempt: 5, last: 6 },
            Record::GroupWhole { group: seq },
            Record::NamespaceMade {
                namespace: NamespaceId(7),
                attributes: NamespaceAttributes {
                    logs: 0x0012_3456,
                    expected_records: 1 << 40,
                    load_factor_percent: 95,
                    is_private: true,
                },
                step: seq,
            },
            Record::NamespaceDeleted { namespace: NamespaceId(8), step: seq },
            Record::ClaimEnded { home: lpn, version: seq, step: Seq(12) },
            Record::PowerOn { step: seq },
            Record::ClaimEndedInGroup { home: lpn, version: seq, group: Seq(13) },
            Record::ZoneReset { zone: ZoneId(14), step: seq },
            Record::ZoneFinished { zone: ZoneId(15), generation: Seq(16), step: seq },
        ]
    }

    #[test]
    fn records_round_trip() {
        let records = one_of_each();
        let mut page = vec![0xaa; UNIT_BYTES];
        encode_page(records.iter(), &mut page);
        assert_eq!(decode_page(&page), Some(records));
    }

    #[test]
    fn a_full_page_round_trips() {
        for units in [1, 2, 4] {
            let records: Vec<Record> =
                (0..records_per_page(units)).map(|i| Record::BatchWhole { id: Seq(i as u64) }).collect();
            let mut page = vec![0; units as usize * UNIT_BYTES];
            encode_page(records.iter(), &mut page);
            assert_eq!(decode_page(&page), Some(records));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(decode_page(&[0; UNIT_BYTES]), None);
        let mut page = vec![0; UNIT_BYTES];
        encode_page(one_of_each().iter(), &mut page);
        page[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(decode_page(&page), None, "an absurd count");
        encode_page(one_of_each().iter(), &mut page);
        page[HEADER_BYTES] = 99;
        assert_eq!(decode_page(&page), None, "an unknown kind");
    }

    #[test]
    fn a_page_has_no_more_records_than_fit() {
        let most = records_per_page(1);
        let mut page = vec![0; UNIT_BYTES];
        let record = Record::GroupWhole { group: Seq(1) };
        encode_page(vec![record; most].iter(), &mut page);
        assert_eq!(decode_page(&page), Some(vec![record; most]));
        page[4..8].copy_from_slice(&(most as u32 + 1).to_le_bytes());
        assert_eq!(decode_page(&page), None);
    }
}
