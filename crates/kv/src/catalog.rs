//! The names of namespaces. The drive numbers namespaces; the first one holds a record that maps numbers to names.
//!
//! A namespace is created first and named afterwards. One without a name was never used, and is deleted when the store
//! is opened.

use std::collections::BTreeMap;

use tantalum::{Command, Device, Key, KvRecord, NamespaceAttributes, NamespaceId, Status};

use crate::error::Error;

/// The maximum length of a name.
const NAME_BYTES: usize = 255;

/// Maps numbers to names.
#[derive(Debug)]
pub(crate) struct Catalog {
    first: NamespaceId,
    pub names: BTreeMap<String, NamespaceId>,
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

fn submit(device: &mut Device, command: Command<'_>) -> Result<Option<NamespaceId>, Status> {
    let at_ns = device.time_ns();
    device.submit(command, at_ns).map(|completion| completion.namespace)
}

impl Catalog {
    /// Reads the catalog of a drive, and creates one if the drive has no namespace.
    pub fn open(device: &mut Device) -> Result<Catalog, Error> {
        let present: Vec<NamespaceId> = device.namespaces().iter().map(|info| info.namespace).collect();
        let Some(&first) = present.iter().min() else {
            let first = create(device)?;
            return Ok(Catalog { first, names: BTreeMap::new() });
        };
        let mut value = Vec::new();
        let names = match submit(device, Command::KvGet { namespace: first, key: key(), value: &mut value }) {
            Ok(_) => decode(&value).ok_or(Error::Catalog)?,
            Err(Status::NoSuchKey { .. }) => BTreeMap::new(),
            Err(status) => return Err(status.into()),
        };
        let catalog = Catalog { first, names };
        for namespace in present {
            if namespace != first && !catalog.names.values().any(|named| *named == namespace) {
                submit(device, Command::DeleteNamespace { namespace })?;
            }
        }
        Ok(catalog)
    }

    /// Creates a namespace of that name.
    pub fn create(&mut self, device: &mut Device, name: &str) -> Result<NamespaceId, Status> {
        let namespace = create(device)?;
        self.names.insert(name.to_owned(), namespace);
        if let Err(status) = self.store(device) {
            self.names.remove(name);
            return Err(status);
        }
        Ok(namespace)
    }

    /// Deletes a namespace; its name goes first.
    pub fn delete(&mut self, device: &mut Device, name: &str, namespace: NamespaceId) -> Result<(), Status> {
        self.names.remove(name);
        if let Err(status) = self.store(device) {
            self.names.insert(name.to_owned(), namespace);
            return Err(status);
        }
        submit(device, Command::DeleteNamespace { namespace }).map(drop)
    }

    fn store(&self, device: &mut Device) -> Result<(), Status> {
        let value = encode(&self.names);
        let record = KvRecord { namespace: self.first, key: key(), value: Some(&value) };
        submit(device, Command::KvPut { records: &[record] }).map(drop)
    }
}

fn create(device: &mut Device) -> Result<NamespaceId, Status> {
    let attributes = NamespaceAttributes::default();
    let made = submit(device, Command::CreateNamespace { attributes })?;
    Ok(made.expect("the command names what it made"))
}

/// For each: number (4 bytes, little-endian), length of the name (1 byte), name.
fn encode(names: &BTreeMap<String, NamespaceId>) -> Vec<u8> {
    let mut value = Vec::new();
    for (name, namespace) in names {
        value.extend_from_slice(&namespace.0.to_le_bytes());
        value.push(name.len() as u8);
        value.extend_from_slice(name.as_bytes());
    }
    value
}

fn decode(mut value: &[u8]) -> Option<BTreeMap<String, NamespaceId>> {
    let mut names = BTreeMap::new();
    while !value.is_empty() {
        let (number, rest) = value.split_first_chunk()?;
        let (length, rest) = rest.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        names.insert(std::str::from_utf8(name).ok()?.to_owned(), NamespaceId(u32::from_le_bytes(*number)));
        value = rest;
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_round_trips_and_what_is_cut_off_is_refused() {
        let names = [("a", 1), ("accounts", 70_000)].map(|(name, id)| (name.to_owned(), NamespaceId(id)));
        let names = BTreeMap::from(names);
        let value = encode(&names);
        assert_eq!(decode(&value), Some(names));
        assert_eq!(decode(&value[..value.len() - 1]), None);
    }
}
