//! fjall: a log, and sorted tables that are merged in the background; one writer at a time.

use std::path::Path;

use fjall::{KeyspaceCreateOptions, PersistMode, Readable, SingleWriterTxDatabase, SingleWriterTxKeyspace};

use super::engine::{Engine, Failure, Make, Setting};

/// A store.
pub struct Fjall {
    database: SingleWriterTxDatabase,
    records: SingleWriterTxKeyspace,
    /// How far a commit goes. Without one it would stay in the process.
    persist: PersistMode,
    tables_are_bounded: bool,
}

impl Fjall {
    /// Opens it.
    pub fn open(folder: &Path, setting: Setting) -> Result<Fjall, Failure> {
        let (cache_bytes, tables_bytes) = setting.block_cache_and_tables_bytes();
        let database =
            SingleWriterTxDatabase::builder(folder.join("fjall")).cache_size(cache_bytes).open()?;
        let records = database.keyspace("records", || {
            let options = KeyspaceCreateOptions::default();
            match tables_bytes {
                Some(bytes) => options.max_memtable_size(bytes),
                None => options,
            }
        })?;
        let persist = if setting.synced { PersistMode::SyncData } else { PersistMode::Buffer };
        Ok(Fjall { database, records, persist, tables_are_bounded: tables_bytes.is_some() })
    }
}

impl Engine for Fjall {
    fn read(&self, key: u64) -> Result<usize, Failure> {
        Ok(self.records.get(key.to_be_bytes())?.ok_or("not there")?.len())
    }

    fn write(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Failure> {
        let mut tx = self.database.write_tx().durability(Some(self.persist));
        for (key, value) in records {
            tx.insert(&self.records, key.to_be_bytes(), &value[..]);
        }
        Ok(tx.commit()?)
    }

    fn change(&self, keys: &[u64], make: Make<'_>) -> Result<(), Failure> {
        let mut tx = self.database.write_tx().durability(Some(self.persist));
        for key in keys {
            let new = make(&tx.get(&self.records, key.to_be_bytes())?.ok_or("not there")?);
            tx.insert(&self.records, key.to_be_bytes(), new);
        }
        Ok(tx.commit()?)
    }

    fn scan(&self, from: u64, count: usize) -> Result<usize, Failure> {
        let mut found = 0;
        for entry in self.records.inner().range(from.to_be_bytes()..).take(count) {
            found += usize::from(!entry.value()?.is_empty());
        }
        Ok(found)
    }

    fn loaded(&self) -> Result<(), Failure> {
        if self.tables_are_bounded {
            self.records.inner().rotate_memtable_and_wait()?;
        }
        Ok(())
    }

    fn settle(&self) -> Result<(), Failure> {
        Ok(self.database.persist(PersistMode::SyncData)?)
    }
}
