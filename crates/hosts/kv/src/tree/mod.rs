//! The order of an ordered namespace: a B+tree whose nodes are records of the drive, like its values.
//!
//! A leaf has keys, each with its value, if that is small, or with the number of its value's record, so that changing a large
//! value changes no node. A value that grows moves out of its leaf, and one that shrinks moves in, in one `put`. Nodes have
//! no neighbours' numbers: scans go down from the root, which always has number 0. Only the thread that commits changes
//! a tree, and a change of several nodes is one `put` of the drive together with the values, so a tree is intact after
//! any loss. Numbers are never used twice.

mod change;
mod find;
mod node;
mod numbers;

use tantalum::{Key, NamespaceId};

use crate::record::Name;

pub(crate) use change::{Change, Mended, change, mend};
pub(crate) use find::{Gap, Page, PageEntry, Piece, find, page};
pub(crate) use node::{Layout, Place};
pub(crate) use numbers::Numbers;

/// The number of the root. A namespace without keys has none.
const ROOT: u64 = 0;

/// The kinds of records of an ordered namespace. The kind is the first byte of the drive's key, the number the other
/// seven.
#[derive(Clone, Copy)]
enum Kind {
    Node = 1,
    Value = 2,
    Numbers = 3,
}

fn name(namespace: NamespaceId, kind: Kind, number: u64) -> Name {
    let mut bytes = number.to_be_bytes();
    bytes[0] = kind as u8;
    (namespace, Key::new(&bytes).expect("it has eight bytes"))
}

/// The number in the name of a record of an ordered namespace, and whether it is a value's.
pub(crate) fn number_of(key: &Key) -> Option<(u64, bool)> {
    let bytes: [u8; 8] = key.as_bytes().try_into().ok()?;
    let number = u64::from_be_bytes(bytes) & (u64::MAX >> 8);
    Some((number, bytes[0] == Kind::Value as u8))
}

/// Whether a record of an ordered namespace is a node.
pub(crate) fn is_node((_, key): Name) -> bool {
    key.as_bytes().first() == Some(&(Kind::Node as u8))
}

/// The record of a value.
pub(crate) fn value_name(namespace: NamespaceId, number: u64) -> Name {
    name(namespace, Kind::Value, number)
}
