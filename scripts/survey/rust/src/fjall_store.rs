//! fjall: a batch, then the journal is persisted with `SyncAll`.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::store::{Changes, Pairs, Result, Store};

pub struct Fjall {
    database: Database,
    keyspace: Keyspace,
}

impl Fjall {
    pub fn open(folder: &Path) -> Result<Fjall> {
        let database = Database::builder(folder).open()?;
        let keyspace = database.keyspace("ledger", KeyspaceCreateOptions::default)?;
        Ok(Fjall { database, keyspace })
    }
}

impl Store for Fjall {
    fn commit(&mut self, changes: &Changes) -> Result<()> {
        let mut batch = self.database.batch();
        for (key, value) in changes {
            match value {
                Some(value) => batch.insert(&self.keyspace, key.as_str(), value.as_str()),
                None => batch.remove(&self.keyspace, key.as_str()),
            }
        }
        batch.commit()?;
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }

    fn pairs(&self) -> Result<Pairs> {
        let mut pairs = Pairs::new();
        for pair in self.keyspace.iter() {
            let (key, value) = pair.into_inner()?;
            pairs.insert(String::from_utf8(key.to_vec())?, String::from_utf8(value.to_vec())?);
        }
        Ok(pairs)
    }
}
