//! Creating, deleting and listing namespaces, and the limits of their contents.

use tantalum_nand::{Geometry, Nand};

use super::record::weight;
use super::{KeyValueError, Namespace, NamespaceInfo, Records};
use crate::error::FtlError;
use crate::key::{LOAD_FACTORS, NamespaceAttributes, NamespaceId, records_limit};
use crate::map::Map;
use crate::metadata::MetadataLog;
use crate::space::{FtlConfig, Space};

/// Maximum number of namespaces.
pub const NAMESPACES: u32 = 1024;

/// Units that a drive with a namespace of its own holds beyond its capacity: so it can change the few records there while its host has
/// filled it.
const PRIVATE_UNITS: u32 = 16;

impl Records {
    /// The namespaces, in order of creation.
    pub fn namespaces(&self) -> impl Iterator<Item = NamespaceInfo> + '_ {
        self.namespaces.iter().map(|(id, namespace)| NamespaceInfo {
            namespace: *id,
            attributes: namespace.attributes,
            records: namespace.records.saturating_add_signed(self.buffer.balance(*id)),
            index_bytes: namespace.index.dram_bytes(),
            swapped_out: namespace.index.is_swapped_out(),
        })
    }

    /// Units that the drive holds beyond its capacity, for records of its own.
    pub fn private_units(&self) -> u32 {
        let has_own = self.namespaces.values().any(|namespace| namespace.attributes.is_private);
        if has_own { PRIVATE_UNITS } else { 0 }
    }

    /// Whether there is such a namespace.
    pub fn check_namespace(&self, namespace: NamespaceId) -> Result<(), KeyValueError> {
        self.namespace(namespace).map(drop)
    }

    /// Checks the attributes of a new namespace.
    pub fn check_attributes(
        &self,
        attributes: &NamespaceAttributes,
        space: &Space,
        config: &FtlConfig,
        geometry: &Geometry,
    ) -> Result<(), KeyValueError> {
        let percent = attributes.load_factor_percent;
        if !LOAD_FACTORS.contains(&percent) {
            let expected = "10 to 95 percent".to_owned();
            return Err(KeyValueError::Attribute {
                what: "the load factor",
                asked: percent.into(),
                expected,
            });
        }
        self.check_logs(attributes, space, config, geometry)?;
        let limit = records_limit(config.logical_units);
        if attributes.expected_records > limit {
            let (what, asked) = ("expected records", attributes.expected_records);
            return Err(KeyValueError::OverLimit { what, asked, limit });
        }
        let made = self.namespaces.len() as u64;
        if made >= NAMESPACES.into() {
            let what = "key-value namespaces";
            return Err(KeyValueError::OverLimit { what, asked: made + 1, limit: NAMESPACES.into() });
        }
        Ok(())
    }

    /// The number of the next namespace.
    pub fn next_namespace(&self) -> NamespaceId {
        NamespaceId(self.last_namespace + 1)
    }

    /// A namespace is made.
    pub fn add_namespace(
        &mut self,
        namespace: NamespaceId,
        attributes: NamespaceAttributes,
        space: &mut Space,
    ) {
        self.last_namespace = namespace.0;
        self.namespaces.insert(namespace, Namespace::new(attributes));
        self.begin_use([namespace]);
        self.plan_logs(space);
    }

    /// A namespace is deleted, with all its records.
    pub fn forget_namespace(
        &mut self,
        namespace: NamespaceId,
        (map, space): (&mut Map, &mut Space),
        log: &mut MetadataLog,
        nand: &mut Nand,
    ) -> Result<(), FtlError> {
        let Some(deleted) = self.namespaces.remove(&namespace) else { return Ok(()) };
        for entry in deleted.index.get().from(0) {
            map.remove_packed(entry.place.ppn, weight(entry.place.chunks));
        }
        self.forget_waiting(namespace, log, nand)?;
        if space.drop_logs(namespace, map) {
            self.plan_logs(space);
        }
        self.tombstones.retain(|(of, _), place| {
            if *of == namespace {
                map.remove_packed(place.ppn, weight(place.chunks));
            }
            *of != namespace
        });
        Ok(())
    }
}
