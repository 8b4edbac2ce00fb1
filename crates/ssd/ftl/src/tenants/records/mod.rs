//! Key-value namespaces: a second kind of map over the same log (KAML, chapter 3).
//!
//! A record asserts: key k of namespace n, at version v, is here; or, as a tombstone, nowhere. The greatest version
//! wins; among copies of one version, the latest step, as for logical pages. Invariants:
//! - An index has one entry for each segment of each existing value, and each entry names a record on flash.
//! - A tombstone stays on flash until a checkpoint covers it, because an older record of its key may be there until
//!   then. It is in use meanwhile, like a value.
//! - Versions are drawn when records are programmed, so a version greater than a checkpoint's step is new to the
//!   checkpoint. Copies keep their version.
//! - The units of a `put` that takes more than a page are members of an atomic batch (`spare`): they assert only if all
//!   of them are there.

mod assertions;
mod audit;
mod buffer;
mod collect;
mod contents;
mod dies;
mod fold;
mod get;
mod index;
mod namespace;
mod plan;
mod put;
mod record;
mod residence;
pub(crate) mod state;
mod swap;
#[cfg(test)]
mod swap_tests;
mod tenant;
mod waiting;
mod weights;

pub use namespace::NAMESPACES;
pub(crate) use plan::Plan;
pub(crate) use put::ProgrammedUnits;
pub use put::Room;
pub use record::VALUE_BYTES;
#[cfg(test)]
pub(crate) use record::{CHUNK_BYTES, UnitImage, spare as record_spare};
pub(crate) use tenant::Records;

use crate::error::FtlError;
use crate::key::{Key, NamespaceAttributes, NamespaceId};

/// One record of a `put`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KvRecord<'a> {
    /// The namespace.
    pub namespace: NamespaceId,
    /// The key.
    pub key: Key,
    /// The value; `None` deletes the key, if it exists.
    pub value: Option<&'a [u8]>,
}

/// A namespace's attributes and contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamespaceInfo {
    /// Its number.
    pub namespace: NamespaceId,
    /// Its attributes.
    pub attributes: NamespaceAttributes,
    /// Number of keys.
    pub records: u64,
    /// Bytes of the drive's DRAM that its index takes; 0 while it is only on flash.
    pub index_bytes: u64,
    /// Whether its index is only on flash.
    pub swapped_out: bool,
}

/// Why a key-value command failed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyValueError {
    /// No such namespace.
    #[error("no key-value namespace {0}")]
    NoSuchNamespace(NamespaceId),
    /// No such key.
    #[error("namespace {namespace} has no key {key}")]
    NoSuchKey {
        /// The namespace.
        namespace: NamespaceId,
        /// The key.
        key: Key,
    },
    /// A value longer than the limit.
    #[error("the value of key {key} has {bytes} bytes; the limit is {limit}", limit = VALUE_BYTES)]
    ValueTooLarge {
        /// The key.
        key: Key,
        /// Bytes of the value.
        bytes: u64,
    },
    /// A key occurs twice in one `put`.
    #[error("key {key} of namespace {namespace} occurs twice in one put")]
    KeyTwice {
        /// The namespace.
        namespace: NamespaceId,
        /// The key.
        key: Key,
    },
    /// Invalid attributes.
    #[error("{what} is {asked}; it must be {expected}")]
    Attribute {
        /// The attribute.
        what: &'static str,
        /// The value given.
        asked: u64,
        /// What would be valid.
        expected: String,
    },
    /// More than the drive's limit.
    #[error("{what}: {asked} requested, but the drive's limit is {limit}")]
    OverLimit {
        /// What is limited.
        what: &'static str,
        /// What was requested.
        asked: u64,
        /// The limit.
        limit: u64,
    },
    /// A record's flash page is uncorrectable.
    #[error("key {key} of namespace {namespace} cannot be read: its flash page is uncorrectable")]
    Unreadable {
        /// The namespace.
        namespace: NamespaceId,
        /// The key.
        key: Key,
    },
    /// The FTL failed.
    #[error(transparent)]
    Ftl(#[from] FtlError),
}

impl From<tantalum_nand::NandError> for KeyValueError {
    fn from(error: tantalum_nand::NandError) -> KeyValueError {
        KeyValueError::Ftl(error.into())
    }
}
