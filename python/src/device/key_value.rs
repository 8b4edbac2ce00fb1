//! The drive's key-value namespaces.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tantalum_device::{result_of, Command, Key, KvRecord, NamespaceAttributes, NamespaceId, Status};

use super::PyDevice;
use super::buffer::Source;
use super::errors::raised;

/// A namespace, a key, and a value or None.
pub type Put = (u32, Source, Option<Source>);

/// A record whose value is in a buffer of Python.
pub struct Record {
    namespace: NamespaceId,
    key: Key,
    value: Option<Source>,
}

impl Record {
    pub fn record(&self) -> KvRecord<'_> {
        let value = self.value.as_ref().map(Source::bytes);
        KvRecord { namespace: self.namespace, key: self.key, value }
    }
}

pub fn records(puts: Vec<Put>) -> PyResult<Vec<Record>> {
    let record = |(namespace, key, value): Put| {
        Ok(Record { namespace: NamespaceId(namespace), key: key_of(&key)?, value })
    };
    puts.into_iter().map(record).collect()
}

fn key_of(key: &Source) -> PyResult<Key> {
    Key::new(key.bytes()).map_err(|error| PyValueError::new_err(error.to_string()))
}

#[pymethods]
impl PyDevice {
    /// Creates a key-value namespace and returns its number, which is never used again.
    ///
    /// expected_records: for how many records the index is sized; it can grow.
    /// logs: how many logs of its own the namespace has, each on one die; with 0 it shares one over all planes.
    /// load_factor_percent: how full the index may be before it grows, 10 to 95.
    ///
    /// LimitError and ValueError beyond what the drive can have.
    #[pyo3(signature = (*, expected_records = 0, logs = 0, load_factor_percent = 75))]
    fn create_namespace(
        &self,
        py: Python<'_>,
        expected_records: u64,
        logs: u32,
        load_factor_percent: u8,
    ) -> PyResult<u32> {
        let attributes = NamespaceAttributes {
            logs,
            expected_records,
            load_factor_percent,
            ..NamespaceAttributes::default()
        };
        self.with(py, |state| {
            let create = |namespace: &mut _| state.submit(Command::CreateNamespace { attributes, namespace });
            let NamespaceId(namespace) = result_of(create).map_err(raised)?;
            Ok(namespace)
        })
    }

    /// Deletes a namespace with all its records; KeyError if it does not exist.
    fn delete_namespace(&self, py: Python<'_>, namespace: u32) -> PyResult<u64> {
        let namespace = NamespaceId(namespace);
        self.with(py, |state| state.run(Command::DeleteNamespace { namespace }, false).map_err(raised))
    }

    /// The numbers of the namespaces, in the order of their creation.
    fn namespaces(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        self.with(py, |state| Ok(state.device.namespaces().iter().map(|info| info.namespace.0).collect()))
    }

    /// Puts records, tuples (namespace, key, value), all or nothing; the value None deletes. Keys have 1 to 16 bytes. It
    /// is durable when it is done (KAML).
    ///
    /// KeyError if a namespace does not exist, LimitError beyond the drive's limits, ValueError if a key occurs twice or a
    /// value is too large.
    #[pyo3(signature = (records, *, queued = false))]
    fn kv_put(&self, py: Python<'_>, records: Vec<Put>, queued: bool) -> PyResult<u64> {
        let values = self::records(records)?;
        self.with(py, |state| {
            let records: Vec<KvRecord<'_>> = values.iter().map(Record::record).collect();
            state.run(Command::KvPut { records: &records }, queued).map_err(raised)
        })
    }

    /// The value of a key; KeyError if it does not exist.
    fn kv_get<'py>(&self, py: Python<'py>, namespace: u32, key: Source) -> PyResult<Bound<'py, PyBytes>> {
        let (namespace, key) = (NamespaceId(namespace), key_of(&key)?);
        let value = self.with(py, |state| {
            let mut value = Vec::new();
            let command = Command::KvGet { namespace, key, value: &mut value };
            state.submit(command).map(|_| value).map_err(raised)
        })?;
        Ok(PyBytes::new(py, &value))
    }

    /// Whether a key exists; KeyError if the namespace does not.
    fn kv_exists(&self, py: Python<'_>, namespace: u32, key: Source) -> PyResult<bool> {
        let (namespace, key) = (NamespaceId(namespace), key_of(&key)?);
        self.with(py, |state| match state.submit(Command::KvExists { namespace, key }) {
            Ok(_) => Ok(true),
            Err(Status::NoSuchKey { .. }) => Ok(false),
            Err(status) => Err(raised(status)),
        })
    }

    /// Deletes a record; KeyError if it does not exist.
    fn kv_delete(&self, py: Python<'_>, namespace: u32, key: Source) -> PyResult<u64> {
        let (namespace, key) = (NamespaceId(namespace), key_of(&key)?);
        self.with(py, |state| state.run(Command::KvDelete { namespace, key }, false).map_err(raised))
    }

    /// At most `limit` keys, in an order the drive chooses, from the key `start`, or from the one that would follow it.
    #[pyo3(signature = (namespace, start = None, limit = 1000))]
    fn kv_list<'py>(
        &self,
        py: Python<'py>,
        namespace: u32,
        start: Option<Source>,
        limit: usize,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let (namespace, from) = (NamespaceId(namespace), start.as_ref().map(key_of).transpose()?);
        let keys = self.with(py, |state| {
            let mut keys = Vec::new();
            let command = Command::KvList { namespace, from, keys: &mut keys, limit };
            state.submit(command).map(|_| keys).map_err(raised)
        })?;
        Ok(keys.iter().map(|key| PyBytes::new(py, key.as_bytes())).collect())
    }
}
