//! How a record is named, and what it holds.

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
