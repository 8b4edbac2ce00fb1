//! Key-value namespaces: a second kind of map over the same log (KAML, chapter 3).
//!
//! A record asserts: key k of namespace n, at version v, is here; or, as a tombstone, nowhere. The greatest version
//! wins, among copies of one version the latest step, as for logical pages. Invariants:
//! - An index has one entry for each segment of each value that is there, and each names a record on flash.
//! - A tombstone, and so what it says, stays on flash until a checkpoint says it: an older record of its key may be
//!   there as long. Until then it is in use as a value is.
//! - Versions are drawn when records are programmed, so one that is greater than a checkpoint's step is news to it.
//!   Copies keep their version.
//! - The units of a `put` that takes more than a page are members of an atomic batch (`spare`): they assert only if all
//!   of them are there.

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

pub use namespace::NAMESPACES;
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
    /// The value; none deletes the key, if it is there.
    pub value: Option<&'a [u8]>,
}

/// What a namespace is and holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamespaceInfo {
    /// Its number.
    pub namespace: NamespaceId,
    /// What it was made with.
    pub attributes: NamespaceAttributes,
    /// Keys that are there.
    pub records: u64,
    /// Bytes of the drive's DRAM that its index takes; none while that is on flash only.
    pub index_bytes: u64,
    /// Whether its index is on flash only.
    pub swapped_out: bool,
}

/// Why a key-value command was not done. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyValueError {
    /// No such namespace.
    #[error("there is no key-value namespace {0}")]
    NoSuchNamespace(NamespaceId),
    /// No such key.
    #[error("namespace {namespace} has no key {key}")]
    NoSuchKey {
        /// The namespace.
        namespace: NamespaceId,
        /// The key.
        key: Key,
    },
    /// A value longer than a record may be.
    #[error("the value of key {key} has {bytes} bytes; a value has at most {limit}", limit = VALUE_BYTES)]
    ValueTooLarge {
        /// The key.
        key: Key,
        /// How many it has.
        bytes: u64,
    },
    /// A key is in one `put` twice.
    #[error("key {key} of namespace {namespace} is in one put twice")]
    KeyTwice {
        /// The namespace.
        namespace: NamespaceId,
        /// The key.
        key: Key,
    },
    /// Attributes that no namespace can have.
    #[error("{what} of {asked}: it must be {expected}")]
    Attribute {
        /// Which.
        what: &'static str,
        /// What was asked for.
        asked: u64,
        /// What would be right.
        expected: String,
    },
    /// More than the drive has.
    #[error("{what}: {asked} asked for, the drive's limit is {limit}")]
    OverLimit {
        /// What is limited.
        what: &'static str,
        /// What was asked for.
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
    /// The FTL.
    #[error(transparent)]
    Ftl(#[from] FtlError),
}

impl From<tantalum_nand::NandError> for KeyValueError {
    fn from(error: tantalum_nand::NandError) -> KeyValueError {
        KeyValueError::Ftl(error.into())
    }
}
