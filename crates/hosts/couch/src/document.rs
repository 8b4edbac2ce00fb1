//! Documents as they are stored in a file.
//!
//! A record is a header of 32 bytes, the key, and the value. In a file that shares, each record begins on a unit and
//! has its units to itself; otherwise records follow one another without gaps. A deletion is a record without a value.
//!
//! An update that will be shared is first written to the staging area; `home` names the place that it will take.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::Error;
use crate::storage::UNIT_BYTES;

/// The longest key; a node of the index holds at least seven of them.
pub const MOST_KEY_BYTES: usize = 512;

/// The longest value.
pub const MOST_VALUE_BYTES: usize = 64 << 20;

/// Bytes of a record besides its key and value. A record of one unit has `4096 - 32` bytes of key and value.
pub const RECORD_HEADER_BYTES: usize = size_of::<RecordHeader>();

const MAGIC: [u8; 4] = *b"TCD1";
const DELETED: u8 = 1;
const UNIT: u64 = UNIT_BYTES as u64;

/// The head of a record.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RecordHeader {
    magic: [u8; 4],
    /// Checksum of everything that follows, including key and value.
    crc: U32,
    seq: U64,
    home: U64,
    value_bytes: U32,
    key_bytes: U16,
    flags: u8,
    zero: u8,
}

/// A document: a key, a value, and the number of the change that wrote it.
#[derive(Clone, PartialEq, Eq)]
pub struct Document {
    seq: u64,
    home: u64,
    deleted: bool,
    /// Key and value.
    bytes: Vec<u8>,
    key_bytes: usize,
}

impl std::fmt::Debug for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = self.key().escape_ascii();
        write!(f, "document {key}, change {}, {} bytes", self.seq, self.value().len())
    }
}

impl Document {
    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.bytes[..self.key_bytes]
    }

    /// The value; empty if the change was a deletion.
    pub fn value(&self) -> &[u8] {
        &self.bytes[self.key_bytes..]
    }

    /// The number of the change. Later changes of the store have higher ones.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Whether the change was a deletion. Only [`crate::Snapshot::changes`] returns such documents.
    pub fn is_deleted(&self) -> bool {
        self.deleted
    }

    /// The value alone.
    pub fn into_value(mut self) -> Vec<u8> {
        self.bytes.drain(..self.key_bytes);
        self.bytes
    }

    /// The place that a staged record will take.
    pub(crate) fn home(&self) -> u64 {
        self.home
    }

    /// Bytes of its record.
    pub(crate) fn record_bytes(&self) -> usize {
        RECORD_HEADER_BYTES + self.bytes.len()
    }

    /// Reads a record at the beginning of `bytes`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Document, &'static str> {
        let (header, rest) = split_header(bytes).ok_or("no document begins here")?;
        let key_bytes = usize::from(header.key_bytes.get());
        let content = rest.get(..key_bytes + header.value_bytes.get() as usize);
        let content = content.ok_or("a document is cut off")?;
        if checksum(&header, content) != header.crc.get() {
            return Err("a document does not have its checksum");
        }
        Ok(Document {
            seq: header.seq.get(),
            home: header.home.get(),
            deleted: header.flags & DELETED != 0,
            bytes: content.to_vec(),
            key_bytes,
        })
    }
}

fn split_header(bytes: &[u8]) -> Option<(RecordHeader, &[u8])> {
    let (header, rest) = RecordHeader::read_from_prefix(bytes).ok()?;
    (header.magic == MAGIC).then_some((header, rest))
}

fn checksum(header: &RecordHeader, content: &[u8]) -> u32 {
    tantalum_image::checksum_with(tantalum_image::checksum_of(&header.as_bytes()[8..]), content)
}

/// Bytes of the record that begins here, if one does; its checksum is not checked.
pub(crate) fn record_bytes(bytes: &[u8]) -> Option<usize> {
    let (header, _) = split_header(bytes)?;
    let content = usize::from(header.key_bytes.get()) + header.value_bytes.get() as usize;
    Some(RECORD_HEADER_BYTES + content)
}

/// A change to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<'a> {
    pub seq: u64,
    pub key: &'a [u8],
    /// `None` for a deletion.
    pub value: Option<&'a [u8]>,
}

impl Change<'_> {
    /// Bytes of its record.
    pub fn record_bytes(&self) -> usize {
        RECORD_HEADER_BYTES + self.key.len() + self.value.map_or(0, <[u8]>::len)
    }

    /// Appends its record, which goes to `home`.
    pub fn encode(&self, home: u64, to: &mut Vec<u8>) {
        let value = self.value.unwrap_or_default();
        let mut header = RecordHeader {
            magic: MAGIC,
            crc: U32::ZERO,
            seq: U64::new(self.seq),
            home: U64::new(home),
            value_bytes: U32::new(value.len() as u32),
            key_bytes: U16::new(self.key.len() as u16),
            flags: if self.value.is_none() { DELETED } else { 0 },
            zero: 0,
        };
        let start = to.len();
        to.extend_from_slice(header.as_bytes());
        to.extend_from_slice(self.key);
        to.extend_from_slice(value);
        let bytes = to.len() - start;
        assert_eq!(bytes, self.record_bytes(), "bytes of the record at {home}, and those reserved for it");
        header.crc = U32::new(checksum(&header, &to[start + RECORD_HEADER_BYTES..]));
        to[start..start + RECORD_HEADER_BYTES].copy_from_slice(header.as_bytes());
    }
}

/// Refuses keys and values that do not fit in a record.
pub(crate) fn check(key: &[u8], value: &[u8]) -> Result<(), Error> {
    if key.is_empty() || key.len() > MOST_KEY_BYTES {
        return Err(Error::BadKey { bytes: key.len(), limit: MOST_KEY_BYTES });
    }
    if value.len() > MOST_VALUE_BYTES {
        return Err(Error::ValueTooLarge { bytes: value.len(), limit: MOST_VALUE_BYTES });
    }
    Ok(())
}

/// This many bytes, rounded up to whole units.
pub(crate) fn whole_units(bytes: u64) -> u64 {
    bytes.next_multiple_of(UNIT)
}

/// Appends zeros up to a whole unit.
pub(crate) fn pad(buffer: &mut Vec<u8>) {
    buffer.resize(buffer.len().next_multiple_of(UNIT_BYTES), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written() {
        assert_eq!(RECORD_HEADER_BYTES, 32);
        for value in [Some(&b"value"[..]), Some(&b""[..]), None] {
            let change = Change { seq: 7, key: b"key", value };
            let mut bytes = Vec::new();
            change.encode(4096, &mut bytes);
            assert_eq!(bytes.len(), change.record_bytes());
            assert_eq!(record_bytes(&bytes), Some(bytes.len()));
            bytes.resize(4096, 0);
            let document = Document::decode(&bytes).unwrap();
            assert_eq!((document.seq(), document.home()), (7, 4096));
            assert_eq!((document.key(), document.value()), (&b"key"[..], value.unwrap_or_default()));
            assert_eq!(document.is_deleted(), value.is_none());
        }
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let mut bytes = Vec::new();
        Change { seq: 1, key: b"k", value: Some(b"v") }.encode(0, &mut bytes);
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x40;
            assert!(Document::decode(&damaged).is_err(), "byte {place}");
        }
        for end in 0..bytes.len() {
            assert!(Document::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
    }
}
