//! What a tap watches: blocks and records, checksums of their bytes, and when something happened.

use std::hash::{DefaultHasher, Hasher};

use tantalum::{Key, NamespaceId};

/// A block or a record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Spot {
    /// A logical block.
    Block(u64),
    /// The record of a key.
    Record(NamespaceId, Key),
}

/// A moment: a tap sees events one after the other.
pub type Moment = u64;

/// The checksum of the bytes of a block or of a record's value.
pub type Sum = u64;

/// The checksum of a record that does not exist.
pub const ABSENT: Sum = 0;

/// The checksum of bytes.
pub fn sum_of(bytes: &[u8]) -> Sum {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
