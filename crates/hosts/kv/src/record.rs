//! The names and values of records.

use std::sync::Arc;

use tantalum::{Key, NamespaceId};

use crate::ordered_key::OrderedKey;

/// A namespace of a store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Namespace(pub(crate) NamespaceId);

impl Namespace {
    /// Its number, for callers that cannot hold a `Namespace`.
    pub fn number(self) -> u32 {
        self.0.0
    }

    /// The namespace of a number. Using one that does not exist fails.
    pub fn from_number(number: u32) -> Namespace {
        Namespace(NamespaceId(number))
    }
}

/// A record's name.
pub(crate) type Name = (NamespaceId, Key);

/// A record's value.
pub type Value = Arc<[u8]>;

/// The bytes of a key of an ordered namespace.
pub type Bytes = Arc<[u8]>;

/// The maximum length of a key of an ordered namespace.
pub const ORDERED_KEY_BYTES: usize = 1024;

/// Beyond this many bytes a leaf that has values is split: four fit in a unit of the drive. A change of one value writes its leaf.
pub(crate) const LEAF_BYTES: usize = 984;

/// Changes of an ordered namespace in the order of the keys: their values, `None` for keys to be deleted.
pub(crate) type OrderedChanges = Vec<(OrderedKey, Option<Value>)>;

/// How a namespace finds its records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// By a hash of the key, which has at most 16 bytes ([`crate::Store::hashed_namespace`]).
    Hashed,
    /// In the order of the keys, which have at most 1,024 bytes ([`crate::Store::namespace`]).
    Ordered,
}
