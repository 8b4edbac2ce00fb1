//! redb, with its default durability; with two-phase commits if asked for.

use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use crate::store::{Changes, Pairs, Result, Store};

const TABLE: TableDefinition<&str, &str> = TableDefinition::new("ledger");

pub struct Redb {
    database: Database,
    is_two_phase: bool,
}

impl Redb {
    pub fn open(folder: &Path, is_two_phase: bool) -> Result<Redb> {
        Ok(Redb { database: Database::create(folder.join("ledger.redb"))?, is_two_phase })
    }
}

impl Store for Redb {
    fn commit(&mut self, changes: &Changes) -> Result<()> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_two_phase_commit(self.is_two_phase);
        {
            let mut table = transaction.open_table(TABLE)?;
            for (key, value) in changes {
                match value {
                    Some(value) => drop(table.insert(key.as_str(), value.as_str())?),
                    None => drop(table.remove(key.as_str())?),
                }
            }
        }
        Ok(transaction.commit()?)
    }

    fn pairs(&self) -> Result<Pairs> {
        let transaction = self.database.begin_read()?;
        let table = match transaction.open_table(TABLE) {
            Ok(table) => table,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Pairs::new()),
            Err(error) => return Err(error.into()),
        };
        let mut pairs = Pairs::new();
        for pair in table.iter()? {
            let (key, value) = pair?;
            pairs.insert(key.value().to_owned(), value.value().to_owned());
        }
        Ok(pairs)
    }

    fn compact(&mut self) -> Result<()> {
        self.database.compact()?;
        Ok(())
    }
}
