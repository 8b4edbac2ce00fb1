//! Tantalum's store: one image, in which all waiting commits share a sync.

use std::path::Path;

use tantalum_kv::{Namespace, Store, Sync};

use super::engine::{Engine, Failure, Make, Setting};

/// Small records take more of a drive than their bytes, and overwritten data stay until their block is erased.
const CAPACITY_OVER_DATA: u64 = 4;

const LEAST_CAPACITY_BYTES: u64 = 256 << 20;

/// A store.
pub struct Tantalum {
    store: Store,
    namespace: Namespace,
}

impl Tantalum {
    /// Opens it.
    pub fn open(folder: &Path, setting: Setting) -> Result<Tantalum, Failure> {
        let sync = if setting.synced { Sync::Host } else { Sync::None };
        let capacity = (setting.data_bytes * CAPACITY_OVER_DATA).max(LEAST_CAPACITY_BYTES);
        let options = Store::options()
            .capacity_bytes(capacity.next_multiple_of(1 << 20))
            .cache_bytes(setting.cache_bytes() as usize)
            .sync(sync);
        let store = options.open(folder.join("app.tant"))?;
        let namespace =
            if setting.scans { store.namespace("records")? } else { store.hashed_namespace("records")? };
        Ok(Tantalum { store, namespace })
    }
}

impl Engine for Tantalum {
    fn read(&self, key: u64) -> Result<usize, Failure> {
        self.store.transact(|tx| {
            let value = tx.read(self.namespace, key.to_be_bytes())?;
            Ok(value.ok_or("not there")?.len())
        })
    }

    fn write(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Failure> {
        self.store.transact(|tx| {
            for (key, value) in records {
                tx.put(self.namespace, key.to_be_bytes(), value)?;
            }
            Ok(())
        })
    }

    fn scan(&self, from: u64, count: usize) -> Result<usize, Failure> {
        self.store.transact(|tx| {
            let (mut records, mut found) = (tx.range(self.namespace, from.to_be_bytes()..)?, 0);
            for _ in 0..count {
                let Some(record) = records.lend() else { break };
                found += usize::from(!record?.1.is_empty());
            }
            Ok(found)
        })
    }

    fn change(&self, keys: &[u64], make: Make<'_>) -> Result<(), Failure> {
        self.store.transact(|tx| {
            for key in keys {
                let old = tx.read_for_update(self.namespace, key.to_be_bytes())?.ok_or("not there")?;
                tx.put(self.namespace, key.to_be_bytes(), make(&old))?;
            }
            Ok(())
        })
    }
}
