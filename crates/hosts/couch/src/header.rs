//! The header that ends a commit: a unit that says where everything is.
//!
//! The last whole header of a file is its state. A header is whole if its own checksum is right, if it is at the
//! place that it names, if it belongs to this file, and if everything that its commit appended is there. So one sync makes a
//! commit durable, in whatever order its units reach the medium. Nodes are covered by a checksum, and so are documents in a
//! file that does not share. In one that shares, documents may have been shared over since, so each is checked: it must
//! belong to its change or a later one.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::storage::UNIT_BYTES;

/// The layout that this program writes and reads.
pub(crate) const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"TCOUCH\r\n";

/// No node.
const NONE: u64 = u64::MAX;

/// Documents begin on units, and may be replaced by sharing.
const SHARES: u32 = 1;

/// A header as it is stored.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Encoded {
    magic: [u8; 8],
    crc: U32,
    version: U32,
    file: U64,
    offset: U64,
    seq: U64,
    by_key: U64,
    by_seq: U64,
    documents: U64,
    live_bytes: U64,
    live_nodes: U64,
    covers_from: U64,
    covers_crc: U32,
    flags: U32,
    stage_offset: U64,
    stage_units: U32,
    seq_before: U64,
    zeros: [u8; UNIT_BYTES - 116],
}

/// The state of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Header {
    /// Identifies this file: no document can contain one of its headers by chance.
    pub file: u64,
    /// The place of the header.
    pub offset: u64,
    /// The last change.
    pub seq: u64,
    /// The last change before the commit; the commit's own documents have later ones.
    pub seq_before: u64,
    /// The root of the tree by key.
    pub by_key: Option<u64>,
    /// The root of the tree by change number.
    pub by_seq: Option<u64>,
    /// Number of existing documents.
    pub documents: u64,
    /// Bytes of the documents, including remembered deletions.
    pub live_bytes: u64,
    /// Nodes of both trees.
    pub live_nodes: u64,
    /// The checksum covers what lies between this place and the header.
    pub covers_from: u64,
    pub covers_crc: u32,
    /// Whether documents begin on units.
    pub shares: bool,
    /// The staging area for updates that are shared.
    pub stage_offset: u64,
    pub stage_units: u32,
}

/// Why a unit is not a valid header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoHeader {
    /// The unit holds something else.
    Other,
    /// It has another layout version.
    Version(u32),
}

impl Header {
    pub fn encode(&self) -> Box<[u8; UNIT_BYTES]> {
        let (covers_from, offset) = (self.covers_from, self.offset);
        assert!(covers_from <= offset, "the header at {offset} covers what begins at {covers_from}");
        debug_assert!(
            self.seq_before <= self.seq,
            "change {} is the last after {}",
            self.seq,
            self.seq_before
        );
        let mut encoded = Encoded {
            magic: MAGIC,
            crc: U32::ZERO,
            version: U32::new(VERSION),
            file: U64::new(self.file),
            offset: U64::new(self.offset),
            seq: U64::new(self.seq),
            by_key: U64::new(self.by_key.unwrap_or(NONE)),
            by_seq: U64::new(self.by_seq.unwrap_or(NONE)),
            documents: U64::new(self.documents),
            live_bytes: U64::new(self.live_bytes),
            live_nodes: U64::new(self.live_nodes),
            covers_from: U64::new(self.covers_from),
            covers_crc: U32::new(self.covers_crc),
            flags: U32::new(if self.shares { SHARES } else { 0 }),
            stage_offset: U64::new(self.stage_offset),
            stage_units: U32::new(self.stage_units),
            seq_before: U64::new(self.seq_before),
            zeros: FromZeros::new_zeroed(),
        };
        encoded.crc = U32::new(tantalum_image::checksum_of(&encoded.as_bytes()[12..]));
        let mut unit = Box::new([0; UNIT_BYTES]);
        unit.copy_from_slice(encoded.as_bytes());
        debug_assert_eq!(
            Header::decode(&unit[..], offset),
            Ok(*self),
            "a header as it is read, and as it was made"
        );
        unit
    }

    /// Reads the header that should lie at `offset`.
    pub fn decode(unit: &[u8], offset: u64) -> Result<Header, NoHeader> {
        let encoded = Encoded::ref_from_bytes(unit).map_err(|_| NoHeader::Other)?;
        let crc = tantalum_image::checksum_of(&encoded.as_bytes()[12..]);
        if encoded.magic != MAGIC || encoded.crc.get() != crc || encoded.offset.get() != offset {
            return Err(NoHeader::Other);
        }
        if encoded.version.get() != VERSION {
            return Err(NoHeader::Version(encoded.version.get()));
        }
        let root = |root: U64| (root.get() != NONE).then_some(root.get());
        Ok(Header {
            file: encoded.file.get(),
            offset,
            seq: encoded.seq.get(),
            seq_before: encoded.seq_before.get(),
            by_key: root(encoded.by_key),
            by_seq: root(encoded.by_seq),
            documents: encoded.documents.get(),
            live_bytes: encoded.live_bytes.get(),
            live_nodes: encoded.live_nodes.get(),
            covers_from: encoded.covers_from.get(),
            covers_crc: encoded.covers_crc.get(),
            shares: encoded.flags.get() & SHARES != 0,
            stage_offset: encoded.stage_offset.get(),
            stage_units: encoded.stage_units.get(),
        })
    }

    /// Where what is appended next begins.
    pub fn end(&self) -> u64 {
        self.offset + UNIT_BYTES as u64
    }

    /// Where the staging area ends.
    pub fn stage_end(&self) -> u64 {
        self.stage_offset + u64::from(self.stage_units) * UNIT_BYTES as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_they_were_written_and_nowhere_else() {
        assert_eq!(size_of::<Encoded>(), UNIT_BYTES);
        let header = Header {
            file: 1,
            offset: 8192,
            seq: 3,
            seq_before: 2,
            by_key: Some(4096),
            by_seq: None,
            documents: 5,
            live_bytes: 6,
            live_nodes: 7,
            covers_from: 4096,
            covers_crc: 9,
            shares: true,
            stage_offset: 4096,
            stage_units: 11,
        };
        let unit = header.encode();
        assert_eq!(Header::decode(&unit[..], 8192), Ok(header));
        assert_eq!(Header::decode(&unit[..], 4096), Err(NoHeader::Other));
        for place in [0, 12, 20, 60, 100, 4095] {
            let mut damaged = unit.clone();
            damaged[place] ^= 1;
            assert!(Header::decode(&damaged[..], 8192).is_err(), "byte {place}");
        }
    }
}
