//! Namespaces and their indexes in a checkpoint, as 64-bit numbers. They stand right behind its head, so that where an index
//! is follows from the namespaces alone.

use tantalum_nand::Geometry;
#[cfg(test)]
use tantalum_nand::Ppn;

use super::index::{Entry, Index};
#[cfg(test)]
use super::record::RecordPlace;
use super::record::UNIT_CHUNKS;
use crate::checkpoint::take_word;
use crate::key::{NamespaceAttributes, NamespaceId};

/// A namespace as of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NamespaceContents {
    pub namespace: NamespaceId,
    pub attributes: NamespaceAttributes,
    pub entries: IndexBytes,
}

/// The entries of an index as a checkpoint has them, in the order of their hashes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct IndexBytes(pub Vec<u8>);

/// Where a checkpoint has an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InCheckpoint {
    /// Its first byte in the checkpoint.
    pub first_byte: u64,
    pub entries: u64,
    pub checksum: u32,
}

const NAMESPACE_BYTES: usize = 40;
const ENTRY_BYTES: usize = 16;

/// Bytes that so many namespaces with so many entries take.
pub(super) fn bytes_of(namespaces: u64, entries: u64) -> u64 {
    NAMESPACE_BYTES as u64 * namespaces + ENTRY_BYTES as u64 * entries
}

impl IndexBytes {
    fn of(entries: impl Iterator<Item = Entry>) -> IndexBytes {
        let mut bytes = Vec::new();
        for entry in entries {
            bytes.extend(entry.hash.to_le_bytes());
            bytes.extend(entry.pack().to_le_bytes());
        }
        IndexBytes(bytes)
    }

    /// The entries of an index.
    pub fn of_index(index: &Index) -> IndexBytes {
        IndexBytes::of(index.from(0))
    }

    /// The entry that begins at each 16th byte.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        let numbers = |entry: &[u8; ENTRY_BYTES]| {
            let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| entry[at + byte]));
            Entry::unpack(number(0), number(8))
        };
        self.0.as_chunks().0.iter().map(numbers)
    }

    pub fn checksum(&self) -> u32 {
        crc32c::crc32c(&self.0)
    }

    /// The index with these entries.
    pub fn index(&self, attributes: &NamespaceAttributes) -> Index {
        let mut index = Index::with_room(attributes, (self.0.len() / ENTRY_BYTES) as u64);
        self.entries().for_each(|entry| index.insert(entry));
        index
    }
}

impl InCheckpoint {
    /// Its bytes in the checkpoint.
    pub fn bytes(&self) -> std::ops::Range<u64> {
        self.first_byte..self.first_byte + bytes_of(0, self.entries)
    }
}

impl NamespaceContents {
    /// One with so many entries, for tests.
    #[cfg(test)]
    pub fn sample(namespace: NamespaceId, entries: u32) -> NamespaceContents {
        let place = |number| RecordPlace { ppn: Ppn(number), chunk: (number % 60) as u8, chunks: 4 };
        let entry = |number| Entry {
            hash: u64::from(number) << 40,
            place: place(number),
            continuations: 9,
            key_length: 16,
        };
        let attributes = NamespaceAttributes { expected_records: 1 << 33, ..NamespaceAttributes::default() };
        NamespaceContents { namespace, attributes, entries: IndexBytes::of((0..entries).map(entry)) }
    }
}

/// Appends the namespaces to the head of a checkpoint, behind which they stand.
pub(crate) fn encode_namespaces(namespaces: &[NamespaceContents], out: &mut Vec<u8>) {
    out.extend((namespaces.len() as u64).to_le_bytes());
    for NamespaceContents { namespace, attributes, entries } in namespaces {
        let NamespaceAttributes { logs, expected_records, load_factor_percent } = *attributes;
        let count = (entries.0.len() / ENTRY_BYTES) as u64;
        let words = [namespace.0.into(), logs.into(), expected_records, load_factor_percent.into(), count];
        words.iter().for_each(|word| out.extend(u64::to_le_bytes(*word)));
        out.extend(&entries.0);
    }
}

/// Where a checkpoint that begins with a head of so many bytes has their indexes.
pub(crate) fn indexes_in_checkpoint(
    namespaces: &[NamespaceContents],
    head_bytes: usize,
) -> Vec<(NamespaceId, InCheckpoint)> {
    let mut end = head_bytes + 8;
    let of = |contents: &NamespaceContents| {
        let (first_byte, bytes) = (end + NAMESPACE_BYTES, contents.entries.0.len());
        end = first_byte + bytes;
        let entries = (bytes / ENTRY_BYTES) as u64;
        let checksum = contents.entries.checksum();
        (contents.namespace, InCheckpoint { first_byte: first_byte as u64, entries, checksum })
    };
    namespaces.iter().map(of).collect()
}

/// Reads them off the front of the bytes; none if they make no sense.
pub(crate) fn decode_namespaces(bytes: &mut &[u8]) -> Option<Vec<NamespaceContents>> {
    let count = take_word(bytes)?;
    if count > (bytes.len() / NAMESPACE_BYTES) as u64 {
        return None;
    }
    let mut namespaces = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let (id, logs, expected_records) = (take_word(bytes)?, take_word(bytes)?, take_word(bytes)?);
        let (load_factor_percent, entries) = (take_word(bytes)?, take_word(bytes)?);
        let index_bytes = usize::try_from(entries).ok()?.checked_mul(ENTRY_BYTES)?;
        let (entries, rest) = bytes.split_at_checked(index_bytes)?;
        *bytes = rest;
        namespaces.push(NamespaceContents {
            namespace: NamespaceId(id.try_into().ok()?),
            attributes: NamespaceAttributes {
                logs: logs.try_into().ok()?,
                expected_records,
                load_factor_percent: load_factor_percent.try_into().ok()?,
            },
            entries: IndexBytes(entries.to_vec()),
        });
    }
    Some(namespaces)
}

/// Whether a drive of so many places can have had these namespaces.
pub(crate) fn namespaces_are_possible(
    namespaces: &[NamespaceContents],
    last: u32,
    logical_units: u32,
    geometry: &Geometry,
) -> bool {
    let places = geometry.units();
    let entry = |entry: &Entry| {
        let place = entry.place;
        place.ppn.0 < places && usize::from(place.chunk) + usize::from(place.chunks) <= UNIT_CHUNKS
    };
    let in_order = namespaces.windows(2).all(|two| two[0].namespace < two[1].namespace);
    in_order
        && namespaces.iter().all(|contents| {
            let sorted = contents.entries.entries().is_sorted_by_key(|entry| entry.hash);
            let id = contents.namespace.0;
            let possible = contents.attributes.is_possible(logical_units, geometry);
            (1..=last).contains(&id)
                && possible
                && sorted
                && contents.entries.entries().all(|each| entry(&each))
        })
}
