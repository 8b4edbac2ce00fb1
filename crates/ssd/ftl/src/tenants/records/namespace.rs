//! Creating, deleting and listing namespaces, and the limits of their contents.

use tantalum_nand::Nanoseconds;

use super::record::weight;
use super::state::Namespace;
use super::{KeyValueError, NamespaceInfo};
use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::key::{LOAD_FACTORS, NamespaceAttributes, NamespaceId, records_limit};
use crate::metadata::Record;
use crate::parts::Parts;
use crate::reservation::{Need, Purpose};

/// Maximum number of namespaces.
pub const NAMESPACES: u32 = 1024;

impl Parts {
    /// The namespaces, in order of creation.
    pub fn namespaces(&self) -> impl Iterator<Item = NamespaceInfo> + '_ {
        self.tenants.records.namespaces.iter().map(|(id, namespace)| NamespaceInfo {
            namespace: *id,
            attributes: namespace.attributes,
            records: namespace.records.saturating_add_signed(self.tenants.records.buffer.balance(*id)),
            index_bytes: namespace.index.dram_bytes(),
            swapped_out: namespace.index.is_swapped_out(),
        })
    }

    /// Checks the attributes of a new namespace.
    pub fn check_attributes(&self, attributes: &NamespaceAttributes) -> Result<(), KeyValueError> {
        let percent = attributes.load_factor_percent;
        if !LOAD_FACTORS.contains(&percent) {
            let expected = "10 to 95 percent".to_owned();
            return Err(KeyValueError::Attribute {
                what: "the load factor",
                asked: percent.into(),
                expected,
            });
        }
        self.check_logs(attributes)?;
        let limit = records_limit(self.config.logical_units);
        if attributes.expected_records > limit {
            let (what, asked) = ("expected records", attributes.expected_records);
            return Err(KeyValueError::OverLimit { what, asked, limit });
        }
        let made = self.tenants.records.namespaces.len() as u64;
        if made >= NAMESPACES.into() {
            let what = "key-value namespaces";
            return Err(KeyValueError::OverLimit { what, asked: made + 1, limit: NAMESPACES.into() });
        }
        Ok(())
    }

    /// A namespace is deleted, with all its records.
    fn forget_namespace(&mut self, namespace: NamespaceId) -> Result<(), FtlError> {
        let Some(deleted) = self.tenants.records.namespaces.remove(&namespace) else { return Ok(()) };
        for entry in deleted.index.get().from(0) {
            self.map.remove_packed(entry.place.ppn, weight(entry.place.chunks));
        }
        self.forget_waiting(namespace)?;
        self.drop_logs(namespace);
        let map = &mut self.map;
        self.tenants.records.tombstones.retain(|(of, _), place| {
            if *of == namespace {
                map.remove_packed(place.ppn, weight(place.chunks));
            }
            *of != namespace
        });
        Ok(())
    }

    /// A checkpoint covers the tombstones.
    pub(super) fn release_tombstones(&mut self) {
        for (_, place) in self.tenants.records.tombstones.drain() {
            self.map.remove_packed(place.ppn, weight(place.chunks));
        }
    }
}

impl Ftl {
    /// Creates a namespace. Its record is in the journal's buffer when this returns.
    pub fn create_namespace(
        &mut self,
        attributes: NamespaceAttributes,
        at_ns: Nanoseconds,
    ) -> Result<NamespaceId, KeyValueError> {
        self.check_attributes(&attributes)?;
        let mut room = self.reserve(&Need::record(Purpose::Namespace), at_ns)?;
        let namespace = NamespaceId(self.tenants.records.last_namespace + 1);
        let step = self.next_seq();
        self.append_journal(&mut room, &[Record::NamespaceMade { namespace, attributes, step }], at_ns)?;
        self.tenants.records.last_namespace = namespace.0;
        self.tenants.records.namespaces.insert(namespace, Namespace::new(attributes));
        self.tenants.records.note_use(namespace);
        // units that received data while there was no namespace were not counted
        self.tenants.budget = 0;
        self.plan_logs();
        Ok(namespace)
    }

    /// Deletes a namespace with all its records. The journal record of this is in the journal's buffer when this
    /// returns. Returns when the index, which lists the contents, was available.
    pub fn delete_namespace(
        &mut self,
        namespace: NamespaceId,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, KeyValueError> {
        if !self.tenants.records.namespaces.contains_key(&namespace) {
            return Err(KeyValueError::NoSuchNamespace(namespace));
        }
        let at_ns = self.use_indexes([namespace], at_ns)?;
        let mut room = self.reserve(&Need::record(Purpose::Namespace), at_ns)?;
        let step = self.next_seq();
        self.append_journal(&mut room, &[Record::NamespaceDeleted { namespace, step }], at_ns)?;
        self.forget_namespace(namespace)?;
        Ok(at_ns)
    }
}
