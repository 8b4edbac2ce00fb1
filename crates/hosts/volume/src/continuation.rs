//! Continuations of inodes: units with the extents and properties that do not fit in the inode's own.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::Checksummed;
use crate::extent_record::EXTENT_BYTES;

/// A continuation with extents.
pub(crate) const CONTINUATION_MAGIC: [u8; 4] = *b"CONT";
/// A continuation with properties.
pub(crate) const PROPERTY_MAGIC: [u8; 4] = *b"PROP";

/// Extents in a continuation.
pub(crate) const CONTINUATION_EXTENTS: usize = 340;
/// Bytes of extents or properties in a continuation.
pub(crate) const CONTINUATION_BYTES: usize = CONTINUATION_EXTENTS * EXTENT_BYTES;

/// A continuation of an inode as it is stored on the drive.
#[derive(PartialEq, Eq, Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct ContinuationUnit {
    crc: U32,
    pub magic: [u8; 4],
    /// The inode's slot.
    inode: U32,
    /// Its number among the inode's continuations.
    index: U16,
    /// Extents, or bytes of properties.
    pub count: U16,
    pub body: [u8; CONTINUATION_BYTES],
}

impl Checksummed for ContinuationUnit {}

impl ContinuationUnit {
    /// The `index`th of the inode in slot `inode`, with `count` extents or bytes of properties.
    pub fn new(magic: [u8; 4], inode: u32, index: usize, count: usize, body: &[u8]) -> Box<ContinuationUnit> {
        let mut unit = Box::new(ContinuationUnit::new_zeroed());
        unit.magic = magic;
        unit.inode = U32::new(inode);
        unit.index = U16::new(index as u16);
        unit.count = U16::new(count as u16);
        unit.body[..body.len()].copy_from_slice(body);
        unit.seal();
        unit
    }

    /// Whether it is the `index`th of the inode in slot `inode`.
    pub fn belongs_to(&self, inode: u32, index: usize) -> bool {
        self.inode.get() == inode && usize::from(self.index.get()) == index
    }
}
