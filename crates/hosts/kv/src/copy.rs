//! Copies what a snapshot sees: to a backup, or into another store.

use crate::error::Error;
use crate::record::{Namespace, Order};
use crate::snapshot::Snapshot;
use crate::store::Store;
use crate::transaction::Transaction;

/// Keys of a hashed namespace listed at once.
const LISTED: usize = 1000;

/// Records and bytes of one transaction of a loader. With the nodes of their tree they fit in one `put` of the drive.
const LOADED_RECORDS: usize = 500;
const LOADED_BYTES: usize = 1 << 20;

/// What was copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Copied {
    /// Namespaces.
    pub namespaces: u64,
    /// Records of all namespaces.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
}

/// The destination of records, namespace by namespace.
pub(crate) trait Sink {
    fn namespace(&mut self, name: &str, order: Order) -> Result<(), Error>;

    /// A record of the last namespace.
    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error>;
}

/// Copies everything that a snapshot sees.
pub(crate) fn copy(snapshot: &Snapshot, sink: &mut impl Sink) -> Result<Copied, Error> {
    let mut copied = Copied::default();
    for (name, namespace, order) in snapshot.namespaces() {
        copied.namespaces += 1;
        sink.namespace(name, order)?;
        let mut record = |key: &[u8], value: &[u8]| {
            copied.records += 1;
            copied.bytes += (key.len() + value.len()) as u64;
            sink.record(key, value)
        };
        match order {
            Order::Hashed => each_hashed(snapshot, namespace, &mut record)?,
            Order::Ordered => {
                for entry in snapshot.all(namespace)? {
                    let (key, value) = entry?;
                    record(&key, &value)?;
                }
            }
        }
    }
    Ok(copied)
}

fn each_hashed(
    snapshot: &Snapshot,
    namespace: Namespace,
    record: &mut impl FnMut(&[u8], &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut last = None;
    loop {
        let from = last.as_ref().map(AsRef::as_ref);
        // the last key is listed again
        let keys = snapshot.list(namespace, from, LISTED)?;
        for key in keys.iter().filter(|key| Some(**key) != last) {
            let value =
                snapshot.read(namespace, key)?.ok_or(Error::NoSuchKey { key: key.as_bytes().into() })?;
            record(key.as_bytes(), &value)?;
        }
        if keys.len() < LISTED {
            return Ok(());
        }
        last = keys.last().copied();
    }
}

/// Puts records into a store.
pub(crate) struct Loader<'a> {
    store: &'a Store,
    namespace: Option<Namespace>,
    tx: Option<Transaction>,
    records: usize,
    bytes: usize,
}

impl<'a> Loader<'a> {
    pub fn new(store: &'a Store) -> Loader<'a> {
        Loader { store, namespace: None, tx: None, records: 0, bytes: 0 }
    }

    /// Commits the rest.
    pub fn finish(&mut self) -> Result<(), Error> {
        (self.records, self.bytes) = (0, 0);
        self.tx.take().map_or(Ok(()), Transaction::commit)
    }
}

impl Sink for Loader<'_> {
    fn namespace(&mut self, name: &str, order: Order) -> Result<(), Error> {
        self.finish()?;
        self.namespace = Some(match order {
            Order::Hashed => self.store.hashed_namespace(name)?,
            Order::Ordered => self.store.namespace(name)?,
        });
        Ok(())
    }

    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let namespace = self.namespace.ok_or(Error::NoSuchNamespace)?;
        if self.records == LOADED_RECORDS || self.bytes + value.len() > LOADED_BYTES {
            self.finish()?;
        }
        let tx = match &mut self.tx {
            Some(tx) => tx,
            none => none.insert(self.store.begin()?),
        };
        self.records += 1;
        self.bytes += value.len();
        tx.put(namespace, key, value)
    }
}
