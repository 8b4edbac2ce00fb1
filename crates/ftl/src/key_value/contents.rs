//! Namespaces and their indexes in a checkpoint, as 64-bit numbers.

use tantalum_nand::Geometry;
#[cfg(test)]
use tantalum_nand::Ppn;

use super::index::{Entry, Index};
#[cfg(test)]
use super::key::RecordPlace;
use super::key::{NamespaceAttributes, NamespaceId};
use super::record::UNIT_CHUNKS;
use super::{KeyValue, Namespace};

/// A namespace as of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NamespaceContents {
    pub namespace: NamespaceId,
    pub attributes: NamespaceAttributes,
    pub entries: Vec<Entry>,
}

const NAMESPACE_WORDS: u64 = 5;
const ENTRY_WORDS: u64 = 2;

/// Bytes that so many namespaces with so many entries take.
pub(super) fn bytes_of(namespaces: u64, entries: u64) -> u64 {
    8 * (NAMESPACE_WORDS * namespaces + ENTRY_WORDS * entries)
}

impl KeyValue {
    /// What a checkpoint says.
    pub fn contents(&self) -> Vec<NamespaceContents> {
        let contents = |(id, namespace): (&NamespaceId, &Namespace)| NamespaceContents {
            namespace: *id,
            attributes: namespace.attributes,
            entries: namespace.index.from(0).collect(),
        };
        self.namespaces.iter().map(contents).collect()
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
        NamespaceContents { namespace, attributes, entries: (0..entries).map(entry).collect() }
    }

    /// The index with these entries.
    pub(super) fn index(&self) -> Index {
        let mut index = Index::new(&self.attributes);
        self.entries.iter().for_each(|entry| index.insert(*entry));
        index
    }
}

/// Appends the namespaces.
pub(crate) fn encode_namespaces(namespaces: &[NamespaceContents], mut put: impl FnMut(&[u64])) {
    put(&[namespaces.len() as u64]);
    for NamespaceContents { namespace, attributes, entries } in namespaces {
        let NamespaceAttributes { logs, expected_records, load_factor_percent } = *attributes;
        put(&[
            namespace.0.into(),
            logs.into(),
            expected_records,
            load_factor_percent.into(),
            entries.len() as u64,
        ]);
        entries.iter().for_each(|entry| put(&[entry.hash, entry.pack()]));
    }
}

/// Reads them; none if they make no sense.
pub(crate) fn decode_namespaces(
    mut next: impl FnMut() -> Option<u64>,
    words_left: u64,
) -> Option<Vec<NamespaceContents>> {
    let count = next()?;
    if count > words_left / NAMESPACE_WORDS {
        return None;
    }
    let mut namespaces = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let (id, logs, expected_records) = (next()?, next()?, next()?);
        let (load_factor_percent, entries) = (next()?, next()?);
        if entries > words_left / ENTRY_WORDS {
            return None;
        }
        let entry = |_| {
            let hash = next()?;
            Some(Entry::unpack(hash, next()?))
        };
        namespaces.push(NamespaceContents {
            namespace: NamespaceId(id.try_into().ok()?),
            attributes: NamespaceAttributes {
                logs: logs.try_into().ok()?,
                expected_records,
                load_factor_percent: load_factor_percent.try_into().ok()?,
            },
            entries: (0..entries).map(entry).collect::<Option<Vec<Entry>>>()?,
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
            let sorted = contents.entries.windows(2).all(|two| two[0].hash <= two[1].hash);
            let id = contents.namespace.0;
            let possible = contents.attributes.is_possible(logical_units, geometry);
            (1..=last).contains(&id) && possible && sorted && contents.entries.iter().all(entry)
        })
}
