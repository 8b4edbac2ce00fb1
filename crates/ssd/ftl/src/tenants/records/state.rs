//! What the drive keeps of records: namespaces with their indexes, tombstones, and what waits.

use std::collections::BTreeMap;

use tantalum_nand::Nanoseconds;

use super::index::Index;
use super::record::RecordPlace;
use super::residence::{InCheckpoint, Residence, checkpoint_bytes};
use super::waiting::Buffer;
use crate::key::{Key, NamespaceAttributes, NamespaceId};
use crate::metadata::UnderWay;
use crate::types::{HashMap, Seq};

/// A namespace in the running drive.
#[derive(Clone, Debug)]
pub(crate) struct Namespace {
    pub attributes: NamespaceAttributes,
    pub index: Residence,
    /// Number of keys; the index also has entries for later segments.
    pub records: u64,
}

impl Namespace {
    pub fn new(attributes: NamespaceAttributes) -> Namespace {
        Namespace::with(attributes, Index::new(&attributes), 0)
    }

    pub fn with(attributes: NamespaceAttributes, index: Index, records: u64) -> Namespace {
        Namespace { attributes, index: Residence::new(index), records }
    }
}

/// All namespaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyValue {
    pub namespaces: BTreeMap<NamespaceId, Namespace>,
    /// The number of the newest namespace that ever existed.
    pub last_namespace: u32,
    /// Tombstones that no checkpoint covers yet.
    pub tombstones: HashMap<(NamespaceId, Key), RecordPlace>,
    /// Records that wait for a full page.
    pub buffer: Buffer,
    /// When everything put is durable; some of it may have to be on flash first.
    pub durable_ns: Nanoseconds,
    /// Commands that have used indexes so far.
    pub uses: u64,
    /// Batches of `put`s of several units that are acknowledged because protected DRAM has room for them. The dump
    /// saves these batches, and no others.
    pub acknowledged: UnderWay<Seq>,
    /// The positions of the indexes in the checkpoint being programmed.
    pub kept_soon: Vec<(NamespaceId, InCheckpoint)>,
}

impl KeyValue {
    /// Bytes that all indexes take in a checkpoint.
    pub fn checkpoint_bytes(&self) -> u64 {
        let entries: u64 = self.namespaces.values().map(|namespace| namespace.index.entries()).sum();
        checkpoint_bytes(self.namespaces.len() as u64, entries)
    }
}

impl KeyValue {
    /// What was put last is durable only at this time.
    pub fn is_durable_at(&mut self, durable_ns: Nanoseconds) {
        self.durable_ns = self.durable_ns.max(durable_ns);
    }

    /// The last checkpoint has the indexes at these positions.
    pub fn are_in_checkpoint(&mut self, indexes: &[(NamespaceId, InCheckpoint)]) {
        for (id, place) in indexes {
            if let Some(namespace) = self.namespaces.get_mut(id) {
                namespace.index.in_checkpoint = Some(*place);
            }
        }
    }

    /// A new command uses an index.
    pub fn note_use(&mut self, namespace: NamespaceId) {
        self.uses += 1;
        if let Some(namespace) = self.namespaces.get_mut(&namespace) {
            namespace.index.used = self.uses;
        }
    }

    /// Bytes of DRAM that all indexes take.
    pub fn index_bytes(&self) -> u64 {
        self.namespaces.values().map(|namespace| namespace.index.dram_bytes()).sum()
    }

    /// The namespaces whose indexes are in DRAM and not in use, least recently used first.
    pub fn idle(&self) -> Vec<NamespaceId> {
        let is_idle =
            |namespace: &Namespace| !namespace.index.is_swapped_out() && namespace.index.used < self.uses;
        let idle = self.namespaces.iter().filter(|(_, namespace)| is_idle(namespace));
        let mut idle: Vec<_> = idle.map(|(id, namespace)| (namespace.index.used, *id)).collect();
        idle.sort_unstable();
        idle.into_iter().map(|(_, id)| id).collect()
    }
}
