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
mod swap;
#[cfg(test)]
mod swap_tests;
mod tenant;

use std::collections::BTreeMap;

use buffer::Buffer;
use index::Index;
pub use namespace::NAMESPACES;
pub use record::VALUE_BYTES;
#[cfg(test)]
pub(crate) use record::{CHUNK_BYTES, UnitImage, spare as record_spare};
pub(crate) use tenant::Records;

use swap::Residence;

use tantalum_nand::Nanoseconds;

use crate::error::FtlError;
use crate::key::{Key, NamespaceAttributes, NamespaceId};
use crate::metadata::UnderWay;
use crate::types::{HashMap, Seq};
use record::RecordPlace;

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

/// A namespace while the drive runs.
#[derive(Clone, Debug)]
pub(crate) struct Namespace {
    pub attributes: NamespaceAttributes,
    pub index: Residence,
    /// Keys that are there: the index has entries for later segments as well.
    pub records: u64,
}

impl Namespace {
    pub fn new(attributes: NamespaceAttributes) -> Namespace {
        Namespace::with(attributes, Index::new(&attributes), 0)
    }

    pub fn with(attributes: NamespaceAttributes, index: Index, records: u64) -> Namespace {
        Namespace { attributes, index: Residence::new(index), records }
    }
}

/// All namespaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyValue {
    pub namespaces: BTreeMap<NamespaceId, Namespace>,
    /// The number of the newest namespace there ever was.
    pub last_namespace: u32,
    /// Tombstones that no checkpoint says yet.
    pub tombstones: HashMap<(NamespaceId, Key), RecordPlace>,
    /// What waits for a full page.
    pub buffer: Buffer,
    /// When all that was put is durable: some of it may have to be on flash for that.
    pub durable_ns: Nanoseconds,
    /// Commands that have used indexes so far.
    pub uses: u64,
    /// Batches of `put`s of several units that are acknowledged, for there is room for them in protected DRAM. The dump saves
    /// them, and of other batches none.
    pub acknowledged: UnderWay<Seq>,
    /// Where the checkpoint that is being programmed has the indexes.
    pub kept_soon: Vec<(NamespaceId, contents::InCheckpoint)>,
}

impl KeyValue {
    /// Bytes that all indexes take in a checkpoint.
    pub fn checkpoint_bytes(&self) -> u64 {
        let entries: u64 = self.namespaces.values().map(|namespace| namespace.index.entries()).sum();
        contents::bytes_of(self.namespaces.len() as u64, entries)
    }
}
