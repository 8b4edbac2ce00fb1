//! The names and values of records.

use std::collections::BTreeMap;
use std::sync::Arc;

use tantalum::{Key, NamespaceId};

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

/// Changes of an ordered namespace: values of keys, `None` for keys to be deleted.
pub(crate) type OrderedChanges = BTreeMap<Bytes, Option<Value>>;

/// How a namespace finds its records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// By a hash of the key, which has at most 16 bytes ([`crate::Store::hashed_namespace`]).
    Hashed,
    /// In the order of the keys, which have at most 1,024 bytes ([`crate::Store::namespace`]).
    Ordered,
}
