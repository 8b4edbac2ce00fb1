//! The names of namespaces, and which are ordered. The drive numbers namespaces; the first one holds a record that maps
//! numbers to names.
//!
//! A namespace is created first and named afterwards. One without a name was never used, and is deleted when the store
//! is opened.

use std::collections::BTreeMap;

use tantalum::{
    Command, Completion, Device, Key, KvRecord, NamespaceAttributes, NamespaceId, Status, result_of,
};

use crate::error::Error;
use crate::record::Order;
use crate::redo::Redo;

/// The maximum length of a name.
const NAME_BYTES: usize = 255;

/// By name: numbers and kinds.
pub(crate) type Names = BTreeMap<String, (NamespaceId, Order)>;

/// Maps numbers to names.
#[derive(Debug)]
pub(crate) struct Catalog {
    pub first: NamespaceId,
    pub names: Names,
    /// What versions before it did not know.
    pub uses: Uses,
}

/// What a store may have that not all versions know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Uses {
    /// Large values.
    pub large: bool,
    /// Values that lie in leaves.
    pub leaves: bool,
}

pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    match name.len() {
        1..=NAME_BYTES => Ok(()),
        bytes => Err(Error::Name { bytes }),
    }
}

fn key() -> Key {
    Key::new(b"names").expect("it has five bytes")
}

fn submit(device: &mut Device, command: Command<'_>) -> Result<Completion, Status> {
    let at_ns = device.time_ns();
    device.submit(command, at_ns)
}

impl Catalog {
    /// Reads the catalog of a drive, and creates one if the drive has no namespace.
    pub fn open(device: &mut Device) -> Result<Catalog, Error> {
        let present: Vec<NamespaceId> = device.namespaces().iter().map(|info| info.namespace).collect();
        let Some(&first) = present.iter().min() else {
            let first = create(device)?;
            return Ok(Catalog { first, names: BTreeMap::new(), uses: Uses::default() });
        };
        Redo::new(first).recover(device)?;
        let mut value = Vec::new();
        let (names, uses) =
            match submit(device, Command::KvGet { namespace: first, key: key(), value: &mut value }) {
                Ok(_) => decode(&value).ok_or(Error::Catalog)?,
                Err(Status::NoSuchKey { .. }) => (BTreeMap::new(), Uses::default()),
                Err(status) => return Err(status.into()),
            };
        let catalog = Catalog { first, names, uses };
        for namespace in present {
            if namespace != first && !catalog.names.values().any(|(named, _)| *named == namespace) {
                submit(device, Command::DeleteNamespace { namespace })?;
            }
        }
        Ok(catalog)
    }

    /// Whether a drive has a catalog.
    pub fn is_on(device: &mut Device) -> bool {
        let Some(first) = device.namespaces().iter().map(|info| info.namespace).min() else { return false };
        let mut value = Vec::new();
        let read = submit(device, Command::KvGet { namespace: first, key: key(), value: &mut value });
        read.is_ok() && decode(&value).is_some()
    }

    /// Creates a namespace of that name. If it fails, the name is not taken.
    pub fn create(&mut self, device: &mut Device, name: &str, order: Order) -> Result<NamespaceId, Status> {
        let namespace = create(device)?;
        assert!(
            namespace != self.first && self.names.values().all(|(other, _)| *other != namespace),
            "the drive gives a new namespace the number of another one: {namespace:?}, of {self:?}"
        );
        let before = self.names.insert(name.to_owned(), (namespace, order));
        assert_eq!(before, None, "{name:?} is the name of two namespaces");
        if let Err(status) = self.store(device) {
            self.names.remove(name);
            // otherwise each attempt would leave one, until the store is opened again
            let _ = submit(device, Command::DeleteNamespace { namespace });
            return Err(status);
        }
        Ok(namespace)
    }

    /// Deletes a namespace; its name goes first. If that is refused, both stay. If the namespace cannot be deleted once it
    /// has no name, it is deleted when the store is opened.
    pub fn delete(&mut self, device: &mut Device, name: &str, namespace: NamespaceId) -> Result<(), Status> {
        let removed = self.names.remove(name);
        assert_eq!(removed.map(|(of, _)| of), Some(namespace), "what {name:?} names, and what is deleted");
        if let Err(status) = self.store(device) {
            self.names.extend(removed.map(|entry| (name.to_owned(), entry)));
            return Err(status);
        }
        match submit(device, Command::DeleteNamespace { namespace }) {
            Err(status) if status.leaves_doubt() => Err(status),
            _ => Ok(()),
        }
    }

    /// Notes what there may be from now on.
    pub fn expect(&mut self, device: &mut Device, uses: Uses) -> Result<(), Status> {
        let before = std::mem::replace(&mut self.uses, uses);
        self.store(device).inspect_err(|_| self.uses = before)
    }

    fn store(&self, device: &mut Device) -> Result<(), Status> {
        let value = encode(&self.names, self.uses);
        debug_assert!(
            decode(&value).is_some_and(|(names, uses)| names == self.names && uses == self.uses),
            "the names would be read otherwise than they are written: {self:?}"
        );
        let record = KvRecord { namespace: self.first, key: key(), value: Some(&value) };
        submit(device, Command::KvPut { records: &[record] }).map(drop)
    }
}

fn create(device: &mut Device) -> Result<NamespaceId, Status> {
    let attributes = NamespaceAttributes::default();
    result_of(|namespace| submit(device, Command::CreateNamespace { attributes, namespace }))
}

/// Begins a record in which each entry has a kind. Versions of the store without ordered namespaces take it for a name
/// that is not UTF-8, and refuse the image instead of losing what they do not know.
const WITH_KINDS: [u8; 6] = [0xff, 0xff, 0xff, 0xff, 1, 0xff];

/// Begins a record of a store that may have large values, with kinds. Versions without them do not read it either.
const WITH_LARGE: [u8; 7] = [0xff, 0xff, 0xff, 0xff, 2, 0xff, 0xff];

/// Begins a record of a store that may have values in leaves, with kinds; a byte of flags follows. Versions without such values do
/// not read it either.
const WITH_FLAGS: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 3, 0xff, 0xff, 0xff];

/// In the flags: there may be large values; values in leaves.
const LARGE: u8 = 1;
const LEAVES: u8 = 2;

/// For each: number (4 bytes, little-endian), length of the name (1 byte), name. If some are ordered, the record begins
/// with `WITH_KINDS`; if there may be large values, with `WITH_LARGE`; if there may be values in leaves, with `WITH_FLAGS`. Then a
/// byte follows each name: 1 if it is ordered.
fn encode(names: &Names, uses: Uses) -> Vec<u8> {
    let with_kinds = uses != Uses::default() || names.values().any(|(_, order)| *order == Order::Ordered);
    let mut value = match uses {
        Uses { leaves: true, large } => [&WITH_FLAGS[..], &[LEAVES | if large { LARGE } else { 0 }]].concat(),
        Uses { large: true, .. } => WITH_LARGE.to_vec(),
        _ if with_kinds => WITH_KINDS.to_vec(),
        _ => Vec::new(),
    };
    for (name, (namespace, order)) in names {
        value.extend_from_slice(&namespace.0.to_le_bytes());
        value.push(name.len() as u8);
        value.extend_from_slice(name.as_bytes());
        if with_kinds {
            value.push(u8::from(*order == Order::Ordered));
        }
    }
    value
}

/// The names, and what there may be.
fn decode(value: &[u8]) -> Option<(Names, Uses)> {
    let mut names = Names::new();
    let (mut uses, mut with_kinds, mut value) = (Uses::default(), true, value);
    if let Some(rest) = value.strip_prefix(&WITH_FLAGS) {
        let (flags, rest) = rest.split_first()?;
        if flags & !(LARGE | LEAVES) != 0 {
            return None;
        }
        (uses, value) = (Uses { large: flags & LARGE != 0, leaves: flags & LEAVES != 0 }, rest);
    } else if let Some(rest) = value.strip_prefix(&WITH_LARGE) {
        (uses.large, value) = (true, rest);
    } else if let Some(rest) = value.strip_prefix(&WITH_KINDS) {
        value = rest;
    } else {
        with_kinds = false;
    }
    while !value.is_empty() {
        let (number, rest) = value.split_first_chunk()?;
        let (length, rest) = rest.split_first()?;
        let (name, mut rest) = rest.split_at_checked(usize::from(*length))?;
        let mut order = Order::Hashed;
        if with_kinds {
            let (kind, after) = rest.split_first()?;
            rest = after;
            order = match kind {
                0 => Order::Hashed,
                1 => Order::Ordered,
                _ => return None,
            };
        }
        let number = NamespaceId(u32::from_le_bytes(*number));
        names.insert(std::str::from_utf8(name).ok()?.to_owned(), (number, order));
        value = rest;
    }
    Some((names, uses))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_round_trips_and_what_is_cut_off_is_refused() {
        for order in [Order::Hashed, Order::Ordered] {
            let names = [("a", 1, Order::Hashed), ("accounts", 70_000, order)];
            let names =
                Names::from(names.map(|(name, id, order)| (name.to_owned(), (NamespaceId(id), order))));
            for uses in [(false, false), (true, false), (false, true), (true, true)] {
                let uses = Uses { large: uses.0, leaves: uses.1 };
                let value = encode(&names, uses);
                assert_eq!(decode(&value), Some((names.clone(), uses)));
                assert_eq!(decode(&value[..value.len() - 1]), None);
            }
        }
    }

    /// What versions without ordered namespaces read is the first name; it must not be one.
    #[test]
    fn versions_without_ordered_namespaces_refuse_a_record_that_has_some() {
        let names = Names::from([("a".to_owned(), (NamespaceId(1), Order::Ordered))]);
        let value = encode(&names, Uses::default());
        assert!(std::str::from_utf8(&value[5..5 + usize::from(value[4])]).is_err());
        let names = Names::from([("a".to_owned(), (NamespaceId(1), Order::Hashed))]);
        assert_eq!(encode(&names, Uses::default()), [1, 0, 0, 0, 1, b'a'], "others are as they were");
    }

    /// Versions without them read the formats before; in all, what they take for the first name is none.
    #[test]
    fn versions_without_large_values_or_values_in_leaves_refuse_a_record_that_may_have_some() {
        let names = Names::from([("a".to_owned(), (NamespaceId(1), Order::Hashed))]);
        for uses in [Uses { large: true, leaves: false }, Uses { large: false, leaves: true }] {
            let value = encode(&names, uses);
            assert!(!value.starts_with(&WITH_KINDS) && (uses.large || !value.starts_with(&WITH_LARGE)));
            assert!(std::str::from_utf8(&value[5..5 + usize::from(value[4])]).is_err());
        }
        let mut later = encode(&names, Uses { large: true, leaves: true });
        later[WITH_FLAGS.len()] |= 4;
        assert_eq!(decode(&later), None, "what a later version may have");
    }
}
