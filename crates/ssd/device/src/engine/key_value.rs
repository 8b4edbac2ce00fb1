//! Key-value commands: namespaces, put, get, exists, delete, list (NVMe's Key Value Command Set; KAML, section 3.1).
//!
//! A `put` is all or nothing over all its records and namespaces, and durable when it returns: on flash, or with a
//! capacitor in DRAM that is dumped. Records that fit in a unit wait there for a full page; a larger `put` is there
//! until it has been programmed.

use tantalum_ftl::{
    Footprint, Key, KeyValueError, KvRecord, NAMESPACES, NamespaceAttributes, NamespaceId, VALUE_BYTES,
};
use tantalum_nand::Nanoseconds;

use super::{Engine, Port};
use crate::status::Status;

/// Records in one `put`.
const PUT_RECORDS: u32 = 1024;

/// The drive's limits for keys and values in one step (NVMe Key Value: Identify).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyValueLimits {
    /// Bytes of a key.
    pub key_bytes: u32,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// Records in one `put`.
    pub put_records: u32,
    /// Bytes of all values in one `put`.
    pub put_bytes: u64,
    /// Namespaces at once.
    pub namespaces: u32,
}

pub const LIMITS: KeyValueLimits = KeyValueLimits {
    key_bytes: tantalum_ftl::KEY_BYTES as u32,
    value_bytes: VALUE_BYTES as u64,
    put_records: PUT_RECORDS,
    put_bytes: VALUE_BYTES as u64,
    namespaces: NAMESPACES,
};

impl Engine {
    pub(super) fn create_namespace(
        &mut self,
        attributes: NamespaceAttributes,
        namespace: &mut NamespaceId,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        self.ftl.check_attributes(&attributes)?;
        self.maintain(at_ns)?;
        *namespace = self.ftl.create_namespace(attributes, at_ns)?;
        self.fit_cache();
        self.make_change_durable(at_ns)
    }

    pub(super) fn delete_namespace(
        &mut self,
        namespace: NamespaceId,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        self.maintain(at_ns)?;
        let deleted_ns = self.ftl.delete_namespace(namespace, at_ns)?;
        self.fit_cache();
        self.make_change_durable(deleted_ns)
    }

    pub(super) fn kv_put(
        &mut self,
        records: &[KvRecord<'_>],
        port: &mut impl Port,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let bytes = self.check_records(records)?;
        if records.is_empty() {
            return Ok(at_ns);
        }
        self.maintain(at_ns)?;
        let arrived_ns = port.transfer(at_ns, bytes);
        self.put_records(records, arrived_ns)
    }

    /// Checks the records of one step. Returns the bytes of their keys and values.
    pub(super) fn check_records(&self, records: &[KvRecord<'_>]) -> Result<usize, Status> {
        let over = |what, asked, limit| Err(Status::OverLimit { what, asked, limit });
        if records.len() > PUT_RECORDS as usize {
            return over("records in a put", records.len() as u64, PUT_RECORDS.into());
        }
        self.ftl.check_put(records)?;
        let bytes = |record: &KvRecord<'_>| record.value.map_or(0, <[u8]>::len);
        let values: usize = records.iter().map(bytes).sum();
        if values > VALUE_BYTES {
            return over("bytes of values in a put", values as u64, VALUE_BYTES as u64);
        }
        Ok(values + records.iter().map(|record| record.key.as_bytes().len()).sum::<usize>())
    }

    /// With a capacitor, a put is done when there is room for it (units on their way to flash still occupy theirs).
    /// Without one, or if it can never fit, it is done when it is on flash.
    fn put_records(&mut self, records: &[KvRecord<'_>], at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        let protected = self.ftl.has_plp();
        while protected && self.cache.is_high() {
            self.drain_page(at_ns)?;
        }
        let put = match self.try_put(records, at_ns) {
            // waiting units may or may not be new ones, and what waiting records replace takes room until then
            Err(Status::CapacityExceeded) if self.cache.len() > 0 || protected => {
                self.drain(at_ns)?;
                self.drain_records(at_ns)?;
                self.try_put(records, at_ns)
            }
            put => put,
        };
        let put = match put {
            Err(Status::CapacityExceeded) if self.ftl.tombstones_have_room_of(records, self.cache.len()) => {
                self.ftl.take_checkpoint(at_ns, false)?;
                self.try_put(records, at_ns)
            }
            put => put,
        };
        self.count_programmed_records()?;
        put
    }

    /// Whether records fit in addition to everything that is stored.
    pub fn has_room(&self, footprint: Footprint) -> bool {
        self.ftl.has_room(footprint, self.cache.len())
    }

    /// How many chunks are free once nothing waits, and a checkpoint has released what deletes left behind.
    pub fn free_at_last(&self, entries: u64) -> i64 {
        self.ftl.free_at_last(entries, self.cache.len())
    }

    /// How many chunks are free once groups of records are deleted.
    pub fn free_without<'a>(
        &self,
        entries: u64,
        groups: impl Iterator<Item = &'a [(NamespaceId, Key)]>,
    ) -> Vec<i64> {
        self.ftl.free_without(entries, self.cache.len(), groups)
    }

    fn try_put(&mut self, records: &[KvRecord<'_>], at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        let (protected, waiting) = (self.ftl.has_plp(), self.cache.len());
        let ftl = &mut self.ftl;
        let mut room_ns = |units| if protected { self.cache.room_ns(units, at_ns) } else { None };
        Ok(ftl.put(records, waiting, at_ns, &mut room_ns)?)
    }

    /// Programs the records that wait for a full page.
    pub(super) fn drain_records(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        let done_ns = self.ftl.program_waiting(at_ns)?;
        self.count_programmed_records()?;
        Ok(done_ns)
    }

    pub(super) fn count_programmed_records(&mut self) -> Result<(), Status> {
        let ftl = &mut self.ftl;
        for (units, done_ns) in ftl.take_programmed_records() {
            self.cache.programmed(units, done_ns);
        }
        Ok(())
    }

    pub(super) fn kv_delete(
        &mut self,
        namespace: NamespaceId,
        key: Key,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let found_ns = self.kv_exists(namespace, &key, at_ns)?;
        self.maintain(at_ns)?;
        self.put_records(&[KvRecord { namespace, key, value: None }], found_ns)
    }

    pub(super) fn kv_get(
        &mut self,
        namespace: NamespaceId,
        key: &Key,
        value: &mut Vec<u8>,
        port: &mut impl Port,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let ready_ns = self.ftl.get(namespace, key, value, at_ns)?;
        Ok(port.transfer(ready_ns, value.len()))
    }

    pub(super) fn kv_exists(
        &mut self,
        namespace: NamespaceId,
        key: &Key,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        match self.ftl.exists(namespace, key, at_ns)? {
            (true, done_ns) => Ok(done_ns),
            (false, _) => Err(Status::NoSuchKey { namespace, key: *key }),
        }
    }

    pub(super) fn kv_list(
        &mut self,
        namespace: NamespaceId,
        from: Option<&Key>,
        keys: &mut Vec<Key>,
        limit: usize,
        port: &mut impl Port,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let ready_ns = self.ftl.list(namespace, from, keys, limit, at_ns)?;
        Ok(port.transfer(ready_ns, keys.iter().map(|key| key.as_bytes().len()).sum()))
    }
}

impl From<KeyValueError> for Status {
    fn from(error: KeyValueError) -> Status {
        match error {
            KeyValueError::NoSuchNamespace(namespace) => Status::NoSuchNamespace { namespace },
            KeyValueError::NoSuchKey { namespace, key } => Status::NoSuchKey { namespace, key },
            KeyValueError::ValueTooLarge { key, bytes } => {
                Status::ValueTooLarge { key, bytes, limit: VALUE_BYTES as u64 }
            }
            KeyValueError::OverLimit { what, asked, limit } => Status::OverLimit { what, asked, limit },
            KeyValueError::Unreadable { namespace, key } => Status::RecordUnreadable { namespace, key },
            KeyValueError::Ftl(error) => error.into(),
            error @ (KeyValueError::KeyTwice { .. } | KeyValueError::Attribute { .. }) => {
                Status::InvalidField(error.to_string())
            }
        }
    }
}
