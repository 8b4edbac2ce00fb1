//! The layout of records in a unit.
//!
//! A unit has 64 chunks of 64 bytes. Records begin at chunk 0, are contiguous, and take whole chunks; a bitmap in the
//! spare area has one bit for the last chunk of each (KAML, section 3.2.2). A value that does not fit in one unit is
//! stored as several records, its segments. A record begins with 40 bytes that describe it completely, with a checksum
//! over them and the value.

use tantalum_nand::{Ppn, UNIT_BYTES, checksum_of, checksum_with};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::key::{KEY_BYTES, Key, NamespaceId};
use crate::map::UNIT_WEIGHT;
use crate::spare::{BatchMark, Kind, Mark, Spare};
use crate::types::{Seq, TenantId};

/// The owner of places with records, in P2L.
pub(crate) const TENANT: TenantId = TenantId(1);

/// Bytes of a chunk, and chunks of a unit.
pub(crate) const CHUNK_BYTES: usize = 64;
pub(crate) const UNIT_CHUNKS: usize = UNIT_BYTES / CHUNK_BYTES;
const _: () = assert!(UNIT_CHUNKS as u32 == UNIT_WEIGHT, "a chunk is what places weigh by");

/// Maximum length of a value in bytes.
pub const VALUE_BYTES: usize = 2 << 20;

pub(crate) const HEADER_BYTES: usize = size_of::<HeaderBytes>();
const _: () = assert!(HEADER_BYTES == 40);

/// Bytes of a value that fit in one record.
pub(crate) const SEGMENT_BYTES: usize = UNIT_BYTES - HEADER_BYTES;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct HeaderBytes {
    checksum: U32,
    namespace: U32,
    version: U64,
    key: [u8; KEY_BYTES],
    key_length: u8,
    /// 1: a value or a segment of one; 2: a tombstone.
    kind: u8,
    segment: U16,
    continuations: U16,
    value_bytes: U16,
}

/// The position of a record: chunks of a unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct RecordPlace {
    pub ppn: Ppn,
    pub chunk: u8,
    pub chunks: u8,
}

/// The description of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub namespace: NamespaceId,
    pub key: Key,
    pub version: Seq,
    /// The number of its part of the value; 0 is the first.
    pub segment: u16,
    /// Segments beyond the first.
    pub continuations: u16,
    /// Bytes of the value in this record.
    pub value_bytes: u16,
    /// Whether it is a tombstone.
    pub tombstone: bool,
}

impl Header {
    /// Its hash in the namespace's index.
    pub fn hash(&self) -> u64 {
        self.key.segment_hash(self.segment)
    }

    /// Chunks that the record takes.
    pub fn chunks(&self) -> u8 {
        chunks_of(usize::from(self.value_bytes))
    }

    /// Writes the record to the beginning of `to`, which is zeros.
    pub fn write(&self, value: &[u8], to: &mut [u8]) {
        let mut header = HeaderBytes {
            checksum: 0.into(),
            namespace: self.namespace.0.into(),
            version: self.version.0.into(),
            key: self.key.padded(),
            key_length: self.key.length(),
            kind: if self.tombstone { 2 } else { 1 },
            segment: self.segment.into(),
            continuations: self.continuations.into(),
            value_bytes: self.value_bytes.into(),
        };
        header.checksum = checksum(&header, value).into();
        to[..HEADER_BYTES].copy_from_slice(header.as_bytes());
        to[HEADER_BYTES..HEADER_BYTES + value.len()].copy_from_slice(value);
    }

    /// Reads the record at the beginning of `bytes`, with its value; `None` if there is no record.
    pub fn read(bytes: &[u8]) -> Option<(Header, &[u8])> {
        let (header, rest) = HeaderBytes::ref_from_prefix(bytes).ok()?;
        let value = rest.get(..usize::from(header.value_bytes.get()))?;
        if header.checksum.get() != checksum(header, value) {
            return None;
        }
        let key = Key::new(header.key.get(..usize::from(header.key_length))?).ok()?;
        let read = Header {
            namespace: NamespaceId(header.namespace.get()),
            key,
            version: Seq(header.version.get()),
            segment: header.segment.get(),
            continuations: header.continuations.get(),
            value_bytes: header.value_bytes.get(),
            tombstone: header.kind == 2,
        };
        let possible = matches!(header.kind, 1 | 2)
            && read.segment <= read.continuations
            && usize::from(read.continuations) <= VALUE_BYTES / SEGMENT_BYTES;
        possible.then_some((read, value))
    }
}

fn checksum(header: &HeaderBytes, value: &[u8]) -> u32 {
    checksum_with(checksum_of(&header.as_bytes()[4..]), value)
}

/// Chunks of a record with this many bytes of value.
pub(crate) fn chunks_of(value_bytes: usize) -> u8 {
    (HEADER_BYTES + value_bytes).div_ceil(CHUNK_BYTES) as u8
}

/// The chunks of a unit that a record of this many chunks takes when records of its size fill units: 33 chunks take all
/// 64, because no second record of that size fits.
pub(crate) fn weight(chunks: u8) -> u32 {
    (UNIT_CHUNKS as u32).div_ceil(UNIT_CHUNKS as u32 / u32::from(chunks))
}

/// The records of a unit, with their chunks; none if the unit's contents contradict its bitmap.
pub(crate) fn records(bytes: &[u8], mut ends: u64, ppn: Ppn) -> Option<Vec<(RecordPlace, Header)>> {
    let mut records = Vec::with_capacity(ends.count_ones() as usize);
    let mut chunk = 0;
    while ends != 0 {
        let end = ends.trailing_zeros() as usize + 1;
        ends &= ends - 1;
        let (header, _) = Header::read(&bytes[chunk * CHUNK_BYTES..end * CHUNK_BYTES])?;
        if usize::from(header.chunks()) != end - chunk {
            return None;
        }
        records.push((RecordPlace { ppn, chunk: chunk as u8, chunks: header.chunks() }, header));
        chunk = end;
    }
    Some(records)
}

/// The bytes of a record in its unit.
pub(crate) fn bytes_of(unit: &[u8], place: RecordPlace) -> &[u8] {
    let start = usize::from(place.chunk) * CHUNK_BYTES;
    &unit[start..start + usize::from(place.chunks) * CHUNK_BYTES]
}

/// A unit that is being filled with records.
#[derive(Clone, Debug)]
pub(crate) struct UnitImage {
    pub bytes: Vec<u8>,
    pub ends: u64,
    used: u8,
}

impl UnitImage {
    pub fn new() -> UnitImage {
        UnitImage { bytes: vec![0; UNIT_BYTES], ends: 0, used: 0 }
    }

    pub fn used(&self) -> u8 {
        self.used
    }

    pub fn has_room(&self, chunks: u8) -> bool {
        usize::from(self.used) + usize::from(chunks) <= UNIT_CHUNKS
    }

    pub fn clear(&mut self) {
        self.bytes.fill(0);
        (self.ends, self.used) = (0, 0);
    }

    /// The chunks of the next record.
    pub fn push(&mut self, chunks: u8) -> (u8, &mut [u8]) {
        assert!(self.has_room(chunks), "{chunks} chunks do not fit after {}", self.used);
        let first = self.used;
        self.used += chunks;
        self.ends |= 1 << (self.used - 1);
        (first, &mut self.bytes[usize::from(first) * CHUNK_BYTES..usize::from(self.used) * CHUNK_BYTES])
    }
}

/// The spare area of a unit of records. `copied` says that garbage collection made it, from records that are on flash.
pub(crate) fn spare(step: Seq, ends: u64, batch: Option<BatchMark>, copied: bool) -> Spare {
    let mut spare = Spare::new(Kind::KeyValue, step);
    spare.mark = batch.map_or(Mark::Plain, Mark::Batch);
    spare.metadata[..8].copy_from_slice(&ends.to_le_bytes());
    spare.metadata[8] = copied.into();
    spare
}

/// The bitmap of a unit of records.
pub(crate) fn ends(spare: &Spare) -> u64 {
    let (ends, _) = spare.metadata.split_first_chunk().expect("metadata have more than eight bytes");
    u64::from_le_bytes(*ends)
}

/// Bytes of a unit up to the end of its last record.
pub(crate) fn filled_bytes(spare: &Spare) -> usize {
    (u64::BITS - ends(spare).leading_zeros()) as usize * CHUNK_BYTES
}

/// Whether garbage collection made the unit.
pub(crate) fn is_copied(spare: &Spare) -> bool {
    spare.metadata[8] != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(key: &[u8], value: &[u8]) -> Header {
        Header {
            namespace: NamespaceId(7),
            key: Key::new(key).unwrap(),
            version: Seq(1 << 50),
            segment: 0,
            continuations: 3,
            value_bytes: value.len() as u16,
            tombstone: false,
        }
    }

    #[test]
    fn records_of_a_unit_weigh_no_more_than_p2l_expects() {
        let mut most = [0; UNIT_CHUNKS + 1];
        for room in 1..=UNIT_CHUNKS {
            let with_one = (1..=room).map(|chunks| most[room - chunks] + weight(chunks as u8));
            most[room] = with_one.max().unwrap();
        }
        assert_eq!(most[UNIT_CHUNKS], 108);
        assert!(most[UNIT_CHUNKS] <= crate::map::MOST_WEIGHT);
    }

    #[test]
    fn records_lie_side_by_side_and_are_read_back() {
        let mut unit = UnitImage::new();
        let values = [&b""[..], &[1; 24], &[2; 25], &[3; 1000]];
        for (number, value) in values.iter().enumerate() {
            let header = header(&[number as u8], value);
            header.write(value, unit.push(header.chunks()).1);
        }
        let found = records(&unit.bytes, unit.ends, Ppn(5)).unwrap();
        let places: Vec<(u8, u8)> = found.iter().map(|(place, _)| (place.chunk, place.chunks)).collect();
        assert_eq!(places, [(0, 1), (1, 1), (2, 2), (4, 17)]);
        for (index, ((place, found), value)) in found.iter().zip(values).enumerate() {
            assert_eq!(*found, header(&[index as u8], value));
            assert_eq!(Header::read(bytes_of(&unit.bytes, *place)).unwrap().1, value);
        }
    }

    #[test]
    fn a_full_segment_fills_a_unit_and_a_byte_more_does_not_fit() {
        assert_eq!(usize::from(chunks_of(SEGMENT_BYTES)), UNIT_CHUNKS);
        assert_eq!(usize::from(chunks_of(SEGMENT_BYTES + 1)), UNIT_CHUNKS + 1);
    }

    #[test]
    fn damage_is_noticed() {
        let mut unit = UnitImage::new();
        let header = header(b"key", b"value");
        header.write(b"value", unit.push(1).1);
        for at in 0..45 {
            let mut damaged = unit.bytes.clone();
            damaged[at] ^= 4;
            assert_eq!(records(&damaged, unit.ends, Ppn(0)), None, "byte {at}");
        }
        assert_eq!(records(&unit.bytes, 2, Ppn(0)), None, "it ends elsewhere");
    }

    #[test]
    fn a_record_weighs_what_it_keeps_others_from() {
        let weights = [1, 2, 16, 17, 21, 22, 32, 33, 64].map(weight);
        assert_eq!(weights, [1, 2, 16, 22, 22, 32, 32, 64, 64]);
    }

    #[test]
    fn segments_beyond_the_largest_value_are_no_records() {
        let most = (VALUE_BYTES / SEGMENT_BYTES) as u16;
        for (segment, continuations, is_read) in
            [(most, most, true), (0, most + 1, false), (2, 1, false), (1, 1, true)]
        {
            let mut unit = UnitImage::new();
            let header = Header { segment, continuations, ..header(b"key", b"value") };
            header.write(b"value", unit.push(1).1);
            assert_eq!(Header::read(&unit.bytes).is_some(), is_read, "segment {segment} of {continuations}");
        }
    }
}
