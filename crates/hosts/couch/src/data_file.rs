//! One file of a store: where things are in it, and reading them.

use std::io;
use std::sync::Arc;

use crate::document::{self, Document, whole_units};
use crate::error::Error;
use crate::node::Node;
use crate::storage::{StorageFile, UNIT_BYTES};

const UNIT: u64 = UNIT_BYTES as u64;

/// Bytes by which a file grows: an eighth of its size, within these bounds. Fewer steps mean fewer writes of its metadata.
const GROWTH: std::ops::RangeInclusive<u64> = 64 * UNIT..=4096 * UNIT;

/// An open file.
pub(crate) struct DataFile<F> {
    /// Identifies it in its headers and in the cache.
    pub id: u64,
    pub name: Arc<str>,
    pub file: F,
    /// Whether its storage has failed ([`crate::Storage::has_failed`]).
    pub has_failed: bool,
}

/// The place of a document, and the rest of its index entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pointer {
    pub offset: u64,
    /// Bytes of its record. If the document was shared over, the current record may be shorter.
    pub bytes: u32,
    /// The change that the entry was made for; changes shared since are not included.
    pub seq: u64,
    pub deleted: bool,
}

/// In `bytes` of an entry: the document was deleted.
const DELETED: u32 = 1 << 31;

impl Pointer {
    /// As an entry of the tree by key.
    pub fn encode(&self) -> Box<[u8]> {
        assert!(self.bytes & DELETED == 0, "a record of {} bytes does not fit in an entry", self.bytes);
        let bytes = if self.deleted { self.bytes | DELETED } else { self.bytes };
        let mut value = [0; 20];
        value[..8].copy_from_slice(&self.offset.to_le_bytes());
        value[8..12].copy_from_slice(&bytes.to_le_bytes());
        value[12..].copy_from_slice(&self.seq.to_le_bytes());
        debug_assert_eq!(Pointer::decode(&value), Some(*self), "an entry as it is read, and as it was made");
        value.into()
    }

    /// As an entry of the tree by change number.
    pub fn encode_place(&self) -> Box<[u8]> {
        self.encode()[..12].into()
    }

    /// An entry of the tree by key.
    pub fn decode(value: &[u8]) -> Option<Pointer> {
        let (place, seq) = value.split_at_checked(12)?;
        Pointer::decode_place(place, u64::from_le_bytes(seq.try_into().ok()?))
    }

    /// An entry of the tree by change number.
    pub fn decode_place(value: &[u8], seq: u64) -> Option<Pointer> {
        let (offset, bytes) = value.split_at_checked(8)?;
        let bytes = u32::from_le_bytes(bytes.try_into().ok()?);
        let offset = u64::from_le_bytes(offset.try_into().ok()?);
        Some(Pointer { offset, bytes: bytes & !DELETED, seq, deleted: bytes & DELETED != 0 })
    }

    /// Bytes that the document takes in a file: whole units if the file shares.
    pub fn room_bytes(&self, shares: bool) -> u64 {
        if shares { whole_units(self.bytes.into()) } else { self.bytes.into() }
    }
}

/// A key of the tree by change number.
pub(crate) fn seq_key(seq: u64) -> Box<[u8]> {
    seq.to_be_bytes().into()
}

impl<F: StorageFile> DataFile<F> {
    /// An error that reports damage.
    pub fn damaged(&self, offset: u64, what: &'static str) -> Error {
        Error::Damaged { name: self.name.to_string(), offset, what }
    }

    /// Reads and checks a node.
    pub fn read_node(&self, offset: u64) -> Result<Node, Error> {
        if !offset.is_multiple_of(UNIT) {
            return Err(self.damaged(offset, "a node cannot be here"));
        }
        let mut unit = Box::new([0; UNIT_BYTES]);
        self.file.read(offset, &mut unit[..])?;
        Node::decode(unit).map_err(|what| self.damaged(offset, what))
    }

    /// Reads whole units where an unfinished commit may be. Units that cannot be read because it has failed read as zeros.
    pub fn read_unfinished(&self, offset: u64, units: &mut [u8]) -> io::Result<()> {
        let read = self.file.read(offset, units);
        if read.is_ok() || !self.has_failed {
            return read;
        }
        for (index, unit) in units.chunks_mut(UNIT_BYTES).enumerate() {
            if self.file.read(offset + index as u64 * UNIT, unit).is_err() {
                unit.fill(0);
            }
        }
        Ok(())
    }

    /// Reads and checks a document.
    pub fn read_document(&self, pointer: Pointer) -> Result<Document, Error> {
        let start = pointer.offset / UNIT * UNIT;
        let end = whole_units(pointer.offset.saturating_add(pointer.bytes.into()));
        let most = (document::MOST_VALUE_BYTES + 3 * UNIT_BYTES) as u64;
        if end.saturating_sub(start) > most || end > self.file.size()? {
            return Err(self.damaged(pointer.offset, "a document cannot be here"));
        }
        let mut units = vec![0; (end - start) as usize];
        self.file.read(start, &mut units)?;
        Document::decode(&units[(pointer.offset - start) as usize..])
            .map_err(|what| self.damaged(pointer.offset, what))
    }

    /// Ensures that the file reaches `end`, with some room ahead.
    pub fn reserve(&self, end: u64) -> Result<(), Error> {
        let size = self.file.size()?;
        if end <= size {
            return Ok(());
        }
        let ahead = (size / 8).clamp(*GROWTH.start(), *GROWTH.end());
        let wanted = whole_units(end.max(size + ahead));
        match self.file.grow(wanted) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(self.file.grow(end)?),
            grown => Ok(grown?),
        }
    }
}
