//! Namespaces and their indexes in a checkpoint, as 64-bit numbers.

use std::ops::Range;
use std::sync::Arc;

#[cfg(test)]
use tantalum_nand::Ppn;
use tantalum_nand::{Array, Geometry, Nand, UNIT_BYTES, checksum_of};

use super::first_number;
use super::index::{Entry, Index};
#[cfg(test)]
use super::record::RecordPlace;
use super::record::UNIT_CHUNKS;
use super::residence::{ENTRY_BYTES, InCheckpoint, NAMESPACE_BYTES};
use crate::error::FtlError;
use crate::key::{NamespaceAttributes, NamespaceId};
use crate::metadata::{CheckpointBytes, take_word};
use crate::space::FtlConfig;
use crate::tenants::CheckpointReader;

/// A namespace as of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NamespaceContents {
    pub namespace: NamespaceId,
    pub attributes: NamespaceAttributes,
    pub entries: IndexBytes,
}

/// The entries of an index in a checkpoint, in the order of their hashes. Millions of them stay in the bytes that were
/// read.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexBytes {
    bytes: Arc<Array<u8>>,
    entries: Range<usize>,
}

impl PartialEq for IndexBytes {
    fn eq(&self, other: &IndexBytes) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for IndexBytes {}

impl From<Vec<u8>> for IndexBytes {
    fn from(bytes: Vec<u8>) -> IndexBytes {
        IndexBytes { entries: 0..bytes.len(), bytes: Arc::new(bytes.into()) }
    }
}

const HEAD_BYTES: usize = 16;

impl IndexBytes {
    fn of(count: usize, entries: impl Iterator<Item = Entry>) -> IndexBytes {
        let mut bytes = Vec::with_capacity(count * ENTRY_BYTES);
        entries.for_each(|entry| bytes.extend(bytes_of(&entry)));
        bytes.into()
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[self.entries.clone()]
    }

    /// Number of entries.
    pub fn len(&self) -> u64 {
        (self.entries.len() / ENTRY_BYTES) as u64
    }

    /// The entries of an index.
    pub fn of_index(index: &Index) -> IndexBytes {
        IndexBytes::of(index.len() as usize, index.from(0))
    }

    /// The entry that begins at each 16th byte.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        let numbers = |entry: &[u8; ENTRY_BYTES]| {
            let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| entry[at + byte]));
            Entry::unpack(number(0), number(8))
        };
        self.bytes().as_chunks().0.iter().map(numbers)
    }

    pub fn checksum(&self) -> u32 {
        checksum_of(self.bytes())
    }

    /// The index with these entries, which are in the order of their hashes. As many others as `soon` says may follow.
    pub fn index(&self, attributes: &NamespaceAttributes, soon: u64) -> Index {
        Index::of(attributes, self.len(), self.entries(), soon)
    }
}

/// Appends what [`RecordsKept::encode`] would, straight from indexes that are all in DRAM.
pub(super) fn put_indexes<'a>(
    out: &mut CheckpointBytes,
    last_namespace: u32,
    namespaces: impl ExactSizeIterator<Item = (NamespaceId, &'a NamespaceAttributes, &'a Index)>,
    nand: &mut Nand,
) -> Result<(), FtlError> {
    put_head(out, last_namespace, namespaces.len());
    for (namespace, attributes, index) in namespaces {
        put_namespace(out, namespace, attributes, index.len());
        for entry in index.from(0) {
            out.extend(bytes_of(&entry));
            out.move_on(nand)?;
        }
    }
    Ok(())
}

/// What precedes this many namespaces.
fn put_head(out: &mut CheckpointBytes, last_namespace: u32, namespaces: usize) {
    out.extend(u64::from(last_namespace).to_le_bytes());
    out.extend((namespaces as u64).to_le_bytes());
}

/// What precedes the entries of a namespace.
fn put_namespace(
    out: &mut CheckpointBytes,
    namespace: NamespaceId,
    attributes: &NamespaceAttributes,
    entries: u64,
) {
    let load_factor = attributes.stored_load_factor().into();
    let words =
        [namespace.0.into(), attributes.logs.into(), attributes.expected_records, load_factor, entries];
    words.iter().for_each(|word| out.extend(u64::to_le_bytes(*word)));
}

/// An entry as it is stored.
fn bytes_of(entry: &Entry) -> [u8; ENTRY_BYTES] {
    let mut bytes = [0; ENTRY_BYTES];
    bytes[..8].copy_from_slice(&entry.hash.to_le_bytes());
    bytes[8..].copy_from_slice(&entry.pack().to_le_bytes());
    bytes
}

impl NamespaceContents {
    /// An index with this many entries, for tests.
    #[cfg(test)]
    pub fn sample(namespace: NamespaceId, entries: u32) -> NamespaceContents {
        let place = |number| RecordPlace { ppn: Ppn(number), chunk: (number % 60) as u8, chunks: 4 };
        let entry = |number| Entry {
            hash: u64::from(number) << 40,
            place: place(number),
            continuations: 9,
            key_length: 16,
        };
        let attributes = NamespaceAttributes { expected_records: 1 << 10, ..NamespaceAttributes::default() };
        NamespaceContents {
            namespace,
            attributes,
            entries: IndexBytes::of(entries as usize, (0..entries).map(entry)),
        }
    }
}

/// A checkpoint's contents about records.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct RecordsKept {
    /// The number of the newest namespace that ever existed.
    pub last_namespace: u32,
    /// The namespaces with their indexes.
    pub namespaces: Vec<NamespaceContents>,
}

impl RecordsKept {
    /// Appends the bytes.
    pub fn encode(&self, out: &mut CheckpointBytes, nand: &mut Nand) -> Result<(), FtlError> {
        put_head(out, self.last_namespace, self.namespaces.len());
        for NamespaceContents { namespace, attributes, entries } in &self.namespaces {
            put_namespace(out, *namespace, attributes, entries.len());
            for part in entries.bytes().chunks(UNIT_BYTES) {
                out.extend(part);
                out.move_on(nand)?;
            }
        }
        Ok(())
    }

    /// The positions of the indexes in a checkpoint in which these bytes begin at `first_byte`.
    pub fn indexes(&self, first_byte: u64) -> Vec<(NamespaceId, InCheckpoint)> {
        let mut end = first_byte + HEAD_BYTES as u64;
        let of = |contents: &NamespaceContents| {
            let (first_byte, entries) = (end + NAMESPACE_BYTES as u64, contents.entries.len());
            end = first_byte + entries * ENTRY_BYTES as u64;
            let checksum = contents.entries.checksum();
            (contents.namespace, InCheckpoint { first_byte, entries, checksum })
        };
        self.namespaces.iter().map(of).collect()
    }

    /// Reads it off the front of the bytes; none if no drive can have written it.
    pub fn decode(kept: &mut CheckpointReader<'_>) -> Option<RecordsKept> {
        let end = kept.first_byte as usize + kept.bytes.len();
        let bytes = &mut kept.bytes;
        let last_namespace = u32::try_from(take_word(bytes)?).ok()?.max(first_number(kept.config) - 1);
        let count = take_word(bytes)?;
        if count > (bytes.len() / NAMESPACE_BYTES) as u64 {
            return None;
        }
        let mut namespaces = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let (id, logs, expected_records) = (take_word(bytes)?, take_word(bytes)?, take_word(bytes)?);
            let (load_factor, entries) = (take_word(bytes)?, take_word(bytes)?);
            let index_bytes = usize::try_from(entries).ok()?.checked_mul(ENTRY_BYTES)?;
            let first_byte = end - bytes.len();
            *bytes = bytes.split_at_checked(index_bytes)?.1;
            namespaces.push(NamespaceContents {
                namespace: NamespaceId(id.try_into().ok()?),
                attributes: NamespaceAttributes::of_stored(
                    logs.try_into().ok()?,
                    expected_records,
                    load_factor.try_into().ok()?,
                ),
                entries: IndexBytes {
                    bytes: Arc::clone(kept.checkpoint),
                    entries: first_byte..first_byte + index_bytes,
                },
            });
        }
        let records = RecordsKept { last_namespace, namespaces };
        records.is_possible(kept.config, kept.geometry).then_some(records)
    }

    /// Whether a drive of this configuration and places can have had these namespaces.
    fn is_possible(&self, config: &FtlConfig, geometry: &Geometry) -> bool {
        let places = geometry.units();
        let entry = |entry: &Entry| {
            let place = entry.place;
            place.ppn.0 < places && usize::from(place.chunk) + usize::from(place.chunks) <= UNIT_CHUNKS
        };
        let in_order = self.namespaces.windows(2).all(|two| two[0].namespace < two[1].namespace);
        in_order
            && self.namespaces.iter().all(|contents| {
                let mut last = 0;
                (first_number(config)..=self.last_namespace).contains(&contents.namespace.0)
                    && contents.attributes.is_possible(config.logical_units, geometry)
                    && contents.entries.entries().all(|each| {
                        let follows = each.hash >= last;
                        last = each.hash;
                        follows && entry(&each)
                    })
            })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Records;
    use super::*;
    use crate::test_support::{CONFIG, GEOMETRY, TIMING};
    use crate::zones::{ZONED_NAMESPACE, ZonesConfig};

    fn decode(bytes: &[u8]) -> Option<RecordsKept> {
        decode_for(&CONFIG, bytes)
    }

    fn decode_for(config: &FtlConfig, bytes: &[u8]) -> Option<RecordsKept> {
        // what is decoded need not begin where the checkpoint does
        let checkpoint = Arc::new([&[9; 3], bytes].concat().into());
        RecordsKept::decode(&mut CheckpointReader {
            bytes,
            first_byte: 3,
            checkpoint: &checkpoint,
            config,
            geometry: &GEOMETRY,
        })
    }

    fn encoded(records: &RecordsKept) -> Vec<u8> {
        let mut bytes = CheckpointBytes::new(true);
        records.encode(&mut bytes, &mut Nand::in_memory(GEOMETRY, TIMING).unwrap()).unwrap();
        bytes.into_body()
    }

    #[test]
    fn what_is_kept_round_trips() {
        let attributes = NamespaceAttributes { is_private: true, ..NamespaceAttributes::default() };
        let records = RecordsKept {
            last_namespace: 3,
            namespaces: vec![
                NamespaceContents { attributes, ..NamespaceContents::sample(NamespaceId(1), 0) },
                NamespaceContents::sample(NamespaceId(3), 200),
            ],
        };
        let bytes = encoded(&records);
        assert_eq!(decode(&bytes).as_ref(), Some(&records));
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None, "cut to {length} bytes");
        }
        for (_, place) in records.indexes(100) {
            let at = place.bytes();
            let entries = &bytes[at.start as usize - 100..at.end as usize - 100];
            assert_eq!(checksum_of(entries), place.checksum);
        }
    }

    #[test]
    fn only_what_a_drive_can_have_had_is_decoded() {
        let sample = |namespace| NamespaceContents::sample(NamespaceId(namespace), 3);
        let is_decoded = |last_namespace, namespaces| {
            decode(&encoded(&RecordsKept { last_namespace, namespaces })).is_some()
        };
        assert!(is_decoded(3, vec![sample(1), sample(3)]));
        assert!(!is_decoded(2, vec![sample(1), sample(3)]), "a namespace above the last one");
        assert!(!is_decoded(3, vec![sample(0)]));
        assert!(!is_decoded(3, vec![sample(3), sample(1)]) && !is_decoded(3, vec![sample(1), sample(1)]));
        let too_full = NamespaceAttributes { load_factor_percent: 96, ..NamespaceAttributes::default() };
        assert!(!is_decoded(1, vec![NamespaceContents { attributes: too_full, ..sample(1) }]));
        let with = |entries: &[Entry]| {
            is_decoded(
                1,
                vec![NamespaceContents {
                    entries: IndexBytes::of(entries.len(), entries.iter().copied()),
                    ..sample(1)
                }],
            )
        };
        let at = |hash, ppn, chunk, chunks| Entry {
            hash,
            place: RecordPlace { ppn: Ppn(ppn), chunk, chunks },
            continuations: 0,
            key_length: 16,
        };
        let last = GEOMETRY.units() - 1;
        assert!(with(&[at(1, last, 63, 1), at(1, 0, 0, 64)]));
        assert!(!with(&[at(2, 0, 0, 1), at(1, 0, 1, 1)]), "out of order");
        assert!(!with(&[at(1, last + 1, 0, 1)]));
        assert!(!with(&[at(1, 0, 63, 2)]), "beyond the unit");
        let mut bytes = encoded(&RecordsKept { last_namespace: 1, namespaces: vec![sample(1)] });
        bytes[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(decode(&bytes), None, "more namespaces than bytes");
    }

    #[test]
    fn a_drive_with_zones_has_no_namespace_with_their_number() {
        let zones = Some(ZonesConfig { count: 2, planes: 1, max_open: 1, max_active: 1 });
        let config = FtlConfig { zones, ..CONFIG };
        let decode = |last_namespace, namespaces| {
            decode_for(&config, &encoded(&RecordsKept { last_namespace, namespaces }))
        };
        let sample = |namespace| NamespaceContents::sample(NamespaceId(namespace), 3);
        let last = |kept: Option<RecordsKept>| kept.map(|kept| kept.last_namespace);
        assert_eq!(last(decode(0, Vec::new())), Some(ZONED_NAMESPACE.0), "from before there was one");
        assert_eq!(last(decode(2, vec![sample(2)])), Some(2));
        assert_eq!(last(decode(2, vec![sample(1), sample(2)])), None);
        assert_eq!(Records::new(&config).next_namespace(), NamespaceId(2));
        assert_eq!(Records::new(&CONFIG).next_namespace(), NamespaceId(1));
    }
}
