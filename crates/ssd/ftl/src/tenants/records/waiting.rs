//! Records that wait for a full page, unit by unit.

use std::collections::BTreeSet;

use tantalum_nand::Nanoseconds;

use super::record::{CHUNK_BYTES, HEADER_BYTES, Header, UnitImage, spare};
use crate::key::{Key, NamespaceId};
use crate::space::Target;
use crate::spare::Spare;
use crate::types::{HashMap, Seq};

/// A waiting record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub header: Header,
    /// Its unit.
    pub unit: u64,
    pub chunk: u8,
    /// Whether the index has the key as well.
    pub indexed: bool,
}

/// A unit that is being filled.
#[derive(Clone, Debug)]
pub(crate) struct WaitingUnit {
    /// Its number; numbers are consecutive.
    pub number: u64,
    /// The stream whose records it holds.
    pub target: Target,
    pub image: UnitImage,
    pub newest: Seq,
    /// Its contents; what has been replaced since is not among `latest`.
    pub records: Vec<Waiting>,
}

/// All waiting records.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    /// In the order of their numbers.
    pub units: Vec<WaitingUnit>,
    pub next: u64,
    pub latest: HashMap<(NamespaceId, Key), Waiting>,
    /// Pages programmed since this was last read: how many units of each a capacitor protects until they are on flash,
    /// and when that is.
    pub programmed: Vec<(u32, Nanoseconds)>,
}

impl Buffer {
    /// The waiting record of a key.
    pub fn get(&self, namespace: NamespaceId, key: &Key) -> Option<&Waiting> {
        if self.latest.is_empty() { None } else { self.latest.get(&(namespace, *key)) }
    }

    /// The value of a waiting record.
    pub fn value(&self, waiting: &Waiting) -> &[u8] {
        let unit = self.unit(waiting.unit);
        let start = usize::from(waiting.chunk) * CHUNK_BYTES + HEADER_BYTES;
        &unit.image.bytes[start..start + usize::from(waiting.header.value_bytes)]
    }

    /// Number of waiting units.
    pub fn unit_count(&self) -> usize {
        self.units.len()
    }

    pub fn unit(&self, number: u64) -> &WaitingUnit {
        self.units.iter().find(|unit| unit.number == number).expect("what waits is in a unit")
    }

    /// Begins a unit for a stream, whose page holds `page_units`.
    pub fn begin(&mut self, target: Target, page_units: u32) -> &mut WaitingUnit {
        let waiting = self.units.iter().filter(|unit| unit.target == target).count();
        debug_assert!(
            waiting < page_units as usize,
            "{waiting} units wait already, for a page of {page_units}"
        );
        self.units.push(WaitingUnit {
            number: self.next,
            target,
            image: UnitImage::new(),
            newest: Seq(0),
            records: Vec::new(),
        });
        self.next += 1;
        self.units.last_mut().expect("it was just pushed")
    }

    /// The waiting records of a namespace's keys.
    pub fn of(&self, namespace: NamespaceId) -> impl Iterator<Item = &Waiting> {
        self.latest.values().filter(move |waiting| waiting.header.namespace == namespace)
    }

    /// The namespaces of the records that wait for a stream.
    pub fn namespaces_for(&self, target: Target) -> BTreeSet<NamespaceId> {
        let of_target = self.units.iter().filter(|unit| unit.target == target);
        of_target.flat_map(|unit| &unit.records).map(|waiting| waiting.header.namespace).collect()
    }

    /// The number of keys by which a namespace will grow or shrink.
    pub fn balance(&self, namespace: NamespaceId) -> i64 {
        let change = |waiting: &Waiting| match (waiting.indexed, waiting.header.tombstone) {
            (true, true) => -1,
            (false, false) => 1,
            _ => 0,
        };
        self.of(namespace).map(change).sum()
    }

    /// A namespace is deleted.
    pub fn forget_namespace(&mut self, namespace: NamespaceId) {
        self.latest.retain(|(of, _), _| *of != namespace);
    }

    pub fn is_latest(&self, waiting: &Waiting) -> bool {
        let latest = self.get(waiting.header.namespace, &waiting.header.key);
        latest.is_some_and(|latest| (latest.unit, latest.chunk) == (waiting.unit, waiting.chunk))
    }
}

impl WaitingUnit {
    pub fn spare(&self, step: Seq) -> Spare {
        let mut spare = spare(step, self.image.ends, None, false);
        spare.metadata[16..].copy_from_slice(&self.newest.0.to_le_bytes());
        spare
    }

    /// Bytes up to the end of the last record.
    pub fn filled_bytes(&self) -> usize {
        usize::from(self.image.used()) * CHUNK_BYTES
    }

    pub fn push(&mut self, header: Header, value: &[u8], indexed: bool) -> Waiting {
        let (chunk, bytes) = self.image.push(header.chunks());
        header.write(value, bytes);
        self.newest = self.newest.max(header.version);
        let waiting = Waiting { header, unit: self.number, chunk, indexed };
        self.records.push(waiting);
        waiting
    }
}
