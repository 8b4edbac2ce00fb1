//! redb: a copy-on-write tree in one file, one writer at a time.

use std::path::Path;

use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use super::engine::{Engine, Failure, Make, Setting};

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("records");

/// A store.
pub struct Redb {
    database: Database,
    synced: bool,
}

impl Redb {
    /// Opens it.
    pub fn open(folder: &Path, setting: Setting) -> Result<Redb, Failure> {
        let mut builder = Database::builder();
        let database =
            builder.set_cache_size(setting.cache_bytes() as usize).create(folder.join("app.redb"))?;
        Ok(Redb { database, synced: setting.synced })
    }

    fn begin(&self, synced: bool) -> Result<redb::WriteTransaction, Failure> {
        let mut tx = self.database.begin_write()?;
        tx.set_durability(if synced { Durability::Immediate } else { Durability::None })?;
        Ok(tx)
    }
}

impl Engine for Redb {
    fn read(&self, key: u64) -> Result<usize, Failure> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        Ok(table.get(key)?.ok_or("not there")?.value().len())
    }

    fn write(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Failure> {
        let tx = self.begin(self.synced)?;
        let mut table = tx.open_table(TABLE)?;
        for (key, value) in records {
            table.insert(key, &value[..])?;
        }
        drop(table);
        Ok(tx.commit()?)
    }

    fn change(&self, keys: &[u64], make: Make<'_>) -> Result<(), Failure> {
        let tx = self.begin(self.synced)?;
        let mut table = tx.open_table(TABLE)?;
        for key in keys {
            let new = make(table.get(key)?.ok_or("not there")?.value());
            table.insert(key, &new[..])?;
        }
        drop(table);
        Ok(tx.commit()?)
    }

    fn scan(&self, from: u64, count: usize) -> Result<usize, Failure> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        let mut found = 0;
        for entry in table.range(from..)?.take(count) {
            found += usize::from(!entry?.1.value().is_empty());
        }
        Ok(found)
    }

    fn settle(&self) -> Result<(), Failure> {
        Ok(self.begin(true)?.commit()?)
    }
}
