//! RocksDB, as `tantalum_papers::rocks` opens it.

use std::path::Path;

use tantalum_papers::rocks::{Rocks, RocksOptions};

use super::engine::{Engine, Failure, Make, Setting};

/// A store.
pub struct RocksDb {
    store: Rocks,
    tables_are_bounded: bool,
}

impl RocksDb {
    /// Opens it.
    pub fn open(folder: &Path, setting: Setting) -> Result<RocksDb, Failure> {
        let (block_cache_bytes, table_bytes) = setting.block_cache_and_tables_bytes();
        let options = RocksOptions { synced: setting.synced, block_cache_bytes, table_bytes, direct: false };
        let store = Rocks::open(&folder.join("rocksdb"), options)?;
        Ok(RocksDb { store, tables_are_bounded: table_bytes.is_some() })
    }
}

impl Engine for RocksDb {
    fn read(&self, key: u64) -> Result<usize, Failure> {
        Ok(self.store.length(key.to_be_bytes())?.ok_or("not there")?)
    }

    fn write(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Failure> {
        Ok(self.store.write(records.iter().map(|(key, value)| (key.to_be_bytes(), value)))?)
    }

    fn change(&self, keys: &[u64], make: Make<'_>) -> Result<(), Failure> {
        let tx = self.store.begin();
        for key in keys {
            let old = tx.get_pinned_for_update(key.to_be_bytes(), true)?.ok_or("not there")?;
            tx.put(key.to_be_bytes(), make(&old))?;
        }
        Ok(tx.commit()?)
    }

    fn scan(&self, from: u64, count: usize) -> Result<usize, Failure> {
        Ok(self.store.scan(from.to_be_bytes(), count)?)
    }

    fn loaded(&self) -> Result<(), Failure> {
        if self.tables_are_bounded {
            self.store.flush_tables()?;
        }
        Ok(())
    }

    fn settle(&self) -> Result<(), Failure> {
        Ok(self.store.sync_log()?)
    }
}
