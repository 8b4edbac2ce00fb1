//! The stores, with keys of 16 bytes. Each has the cache that was asked for, and its own defaults otherwise; commits are synced.

use std::path::Path;

use fjall::{KeyspaceCreateOptions, PersistMode, Readable, SingleWriterTxDatabase, SingleWriterTxKeyspace};
use heed::types::Bytes;
use redb::{ReadableDatabase, ReadableTable, TableDefinition};
use rusqlite::Connection;
use tantalum_kv::{Namespace, Store};

use super::turn::{Found, Sizes};
use crate::engines::{Failure, open_env};

/// The names of all stores.
pub const NAMES: [&str; 5] = ["tantalum", "redb", "fjall", "lmdb", "sqlite"];

/// A key.
pub type Key = [u8; 16];

/// A store of small records.
pub trait SmallStore {
    /// Writes records in one synced transaction.
    fn put(&self, records: &[(Key, &[u8])]) -> Result<(), Failure>;
    /// Deletes records in one synced transaction.
    fn delete(&self, keys: &[Key]) -> Result<(), Failure>;
    /// Reads all keys and values.
    fn scan(&self, backwards: bool) -> Result<Found, Failure>;
    /// Reads the records that begin with each of these.
    fn prefixes(&self, prefixes: &[&[u8]]) -> Result<Found, Failure>;
    /// Reads the records of these keys.
    fn gets(&self, keys: &[Key]) -> Result<Found, Failure>;
}

/// Opens a store in a folder, which has it already or is empty.
pub fn open(name: &str, folder: &Path, sizes: Sizes) -> Result<Box<dyn SmallStore>, Failure> {
    Ok(match name {
        "tantalum" => Box::new(Tantalum::open(folder, sizes)?),
        "redb" => Box::new(Redb::open(folder, sizes)?),
        "fjall" => Box::new(Fjall::open(folder, sizes)?),
        "lmdb" => Box::new(Lmdb::open(folder, sizes)?),
        "sqlite" => Box::new(Sqlite::open(folder, sizes)?),
        _ => return Err(format!("no store named {name}; use one of {}", NAMES.join(", ")).into()),
    })
}

/// A drive of the default size, or one of eight times the data, if that is more.
struct Tantalum {
    store: Store,
    namespace: Namespace,
}

impl Tantalum {
    fn open(folder: &Path, sizes: Sizes) -> Result<Tantalum, Failure> {
        let capacity = (sizes.data_bytes() * 8).max(1 << 30).next_multiple_of(1 << 20);
        let options = Store::options().capacity_bytes(capacity).cache_bytes(sizes.cache_bytes as usize);
        let store = options.open(folder.join("app.tant"))?;
        let namespace = store.namespace("records")?;
        Ok(Tantalum { store, namespace })
    }
}

impl SmallStore for Tantalum {
    fn put(&self, records: &[(Key, &[u8])]) -> Result<(), Failure> {
        self.store
            .transact(|tx| records.iter().try_for_each(|(key, value)| tx.put(self.namespace, key, *value)))
            .map_err(|error: tantalum_kv::Error| error.into())
    }

    fn delete(&self, keys: &[Key]) -> Result<(), Failure> {
        self.store
            .transact(|tx| keys.iter().try_for_each(|key| tx.delete(self.namespace, key).map(drop)))
            .map_err(|error: tantalum_kv::Error| error.into())
    }

    fn scan(&self, backwards: bool) -> Result<Found, Failure> {
        let (snapshot, mut found) = (self.store.snapshot()?, Found::default());
        let mut all = snapshot.all(self.namespace)?;
        while let Some(record) = if backwards { all.lend_back() } else { all.lend() } {
            found.add(record?.1);
        }
        Ok(found)
    }

    fn prefixes(&self, prefixes: &[&[u8]]) -> Result<Found, Failure> {
        let (snapshot, mut found) = (self.store.snapshot()?, Found::default());
        for prefix in prefixes {
            let mut records = snapshot.prefix(self.namespace, prefix)?;
            while let Some(record) = records.lend() {
                found.add(record?.1);
            }
        }
        Ok(found)
    }

    fn gets(&self, keys: &[Key]) -> Result<Found, Failure> {
        let (snapshot, mut found) = (self.store.snapshot()?, Found::default());
        for key in keys {
            found.add(&snapshot.read(self.namespace, key)?.ok_or("not there")?);
        }
        Ok(found)
    }
}

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");

struct Redb(redb::Database);

impl Redb {
    fn open(folder: &Path, sizes: Sizes) -> Result<Redb, Failure> {
        let mut builder = redb::Database::builder();
        Ok(Redb(builder.set_cache_size(sizes.cache_bytes as usize).create(folder.join("app.redb"))?))
    }
}

impl SmallStore for Redb {
    fn put(&self, records: &[(Key, &[u8])]) -> Result<(), Failure> {
        let tx = self.0.begin_write()?;
        let mut table = tx.open_table(TABLE)?;
        for (key, value) in records {
            table.insert(&key[..], value)?;
        }
        drop(table);
        Ok(tx.commit()?)
    }

    fn delete(&self, keys: &[Key]) -> Result<(), Failure> {
        let tx = self.0.begin_write()?;
        let mut table = tx.open_table(TABLE)?;
        for key in keys {
            table.remove(&key[..])?;
        }
        drop(table);
        Ok(tx.commit()?)
    }

    fn scan(&self, backwards: bool) -> Result<Found, Failure> {
        let (table, mut found) = (self.0.begin_read()?.open_table(TABLE)?, Found::default());
        let mut all = table.iter()?;
        while let Some(entry) = if backwards { all.next_back() } else { all.next() } {
            found.add(entry?.1.value());
        }
        Ok(found)
    }

    fn prefixes(&self, prefixes: &[&[u8]]) -> Result<Found, Failure> {
        let (table, mut found) = (self.0.begin_read()?.open_table(TABLE)?, Found::default());
        for prefix in prefixes {
            for entry in table.range::<&[u8]>(*prefix..)? {
                let (key, value) = entry?;
                if !key.value().starts_with(prefix) {
                    break;
                }
                found.add(value.value());
            }
        }
        Ok(found)
    }

    fn gets(&self, keys: &[Key]) -> Result<Found, Failure> {
        let (table, mut found) = (self.0.begin_read()?.open_table(TABLE)?, Found::default());
        for key in keys {
            found.add(table.get(&key[..])?.ok_or("not there")?.value());
        }
        Ok(found)
    }
}

struct Fjall {
    database: SingleWriterTxDatabase,
    records: SingleWriterTxKeyspace,
}

impl Fjall {
    fn open(folder: &Path, sizes: Sizes) -> Result<Fjall, Failure> {
        let builder = SingleWriterTxDatabase::builder(folder.join("fjall"));
        let database = builder.cache_size(sizes.cache_bytes).open()?;
        let records = database.keyspace("records", KeyspaceCreateOptions::default)?;
        Ok(Fjall { database, records })
    }
}

impl SmallStore for Fjall {
    fn put(&self, records: &[(Key, &[u8])]) -> Result<(), Failure> {
        let mut tx = self.database.write_tx().durability(Some(PersistMode::SyncData));
        records.iter().for_each(|(key, value)| tx.insert(&self.records, *key, *value));
        Ok(tx.commit()?)
    }

    fn delete(&self, keys: &[Key]) -> Result<(), Failure> {
        let mut tx = self.database.write_tx().durability(Some(PersistMode::SyncData));
        keys.iter().for_each(|key| tx.remove(&self.records, *key));
        Ok(tx.commit()?)
    }

    fn scan(&self, backwards: bool) -> Result<Found, Failure> {
        let mut found = Found::default();
        let mut all = self.database.read_tx().iter(&self.records);
        while let Some(entry) = if backwards { all.next_back() } else { all.next() } {
            found.add(&entry.into_inner()?.1);
        }
        Ok(found)
    }

    fn prefixes(&self, prefixes: &[&[u8]]) -> Result<Found, Failure> {
        let (tx, mut found) = (self.database.read_tx(), Found::default());
        for prefix in prefixes {
            for entry in tx.prefix(&self.records, prefix) {
                found.add(&entry.into_inner()?.1);
            }
        }
        Ok(found)
    }

    fn gets(&self, keys: &[Key]) -> Result<Found, Failure> {
        let (tx, mut found) = (self.database.read_tx(), Found::default());
        for key in keys {
            found.add(&tx.get(&self.records, key)?.ok_or("not there")?);
        }
        Ok(found)
    }
}

/// Its only cache is the system's.
struct Lmdb {
    env: heed::Env,
    records: heed::Database<Bytes, Bytes>,
}

impl Lmdb {
    fn open(folder: &Path, sizes: Sizes) -> Result<Lmdb, Failure> {
        let env = open_env(folder, sizes.data_bytes(), true)?;
        let mut tx = env.write_txn()?;
        let records = env.create_database(&mut tx, None)?;
        tx.commit()?;
        Ok(Lmdb { env, records })
    }
}

impl SmallStore for Lmdb {
    fn put(&self, records: &[(Key, &[u8])]) -> Result<(), Failure> {
        let mut tx = self.env.write_txn()?;
        for (key, value) in records {
            self.records.put(&mut tx, key, value)?;
        }
        Ok(tx.commit()?)
    }

    fn delete(&self, keys: &[Key]) -> Result<(), Failure> {
        let mut tx = self.env.write_txn()?;
        for key in keys {
            self.records.delete(&mut tx, key)?;
        }
        Ok(tx.commit()?)
    }

    fn scan(&self, backwards: bool) -> Result<Found, Failure> {
        let (tx, mut found) = (self.env.read_txn()?, Found::default());
        if backwards {
            for entry in self.records.rev_iter(&tx)? {
                found.add(entry?.1);
            }
        } else {
            for entry in self.records.iter(&tx)? {
                found.add(entry?.1);
            }
        }
        Ok(found)
    }

    fn prefixes(&self, prefixes: &[&[u8]]) -> Result<Found, Failure> {
        let (tx, mut found) = (self.env.read_txn()?, Found::default());
        for prefix in prefixes {
            for entry in self.records.prefix_iter(&tx, prefix)? {
                found.add(entry?.1);
            }
        }
        Ok(found)
    }

    fn gets(&self, keys: &[Key]) -> Result<Found, Failure> {
        let (tx, mut found) = (self.env.read_txn()?, Found::default());
        for key in keys {
            found.add(self.records.get(&tx, key)?.ok_or("not there")?);
        }
        Ok(found)
    }
}

/// A table that is its own index, with a write-ahead log; each commit synced.
struct Sqlite(Connection);

impl Sqlite {
    fn open(folder: &Path, sizes: Sizes) -> Result<Sqlite, Failure> {
        let connection = Connection::open(folder.join("app.db"))?;
        let cache = format!("PRAGMA cache_size = -{}; ", sizes.cache_bytes / 1024);
        connection.execute_batch(&cache)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
             CREATE TABLE IF NOT EXISTS records (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
        )?;
        Ok(Sqlite(connection))
    }

    fn query(&self, sql: &str, range: &[&[u8]], found: &mut Found) -> Result<(), Failure> {
        let mut statement = self.0.prepare_cached(sql)?;
        let mut rows = statement.query(rusqlite::params_from_iter(range))?;
        while let Some(row) = rows.next()? {
            // both, as everybody else
            row.get_ref(0)?.as_blob()?;
            found.add(row.get_ref(1)?.as_blob()?);
        }
        Ok(())
    }
}

impl SmallStore for Sqlite {
    fn put(&self, records: &[(Key, &[u8])]) -> Result<(), Failure> {
        let tx = self.0.unchecked_transaction()?;
        let mut statement = tx.prepare_cached("INSERT OR REPLACE INTO records VALUES (?, ?)")?;
        for (key, value) in records {
            statement.execute((&key[..], value))?;
        }
        drop(statement);
        Ok(tx.commit()?)
    }

    fn delete(&self, keys: &[Key]) -> Result<(), Failure> {
        let tx = self.0.unchecked_transaction()?;
        let mut statement = tx.prepare_cached("DELETE FROM records WHERE key = ?")?;
        for key in keys {
            statement.execute((&key[..],))?;
        }
        drop(statement);
        Ok(tx.commit()?)
    }

    fn scan(&self, backwards: bool) -> Result<Found, Failure> {
        let mut found = Found::default();
        let order = if backwards { "DESC" } else { "ASC" };
        self.query(&format!("SELECT key, value FROM records ORDER BY key {order}"), &[], &mut found)?;
        Ok(found)
    }

    fn prefixes(&self, prefixes: &[&[u8]]) -> Result<Found, Failure> {
        let mut found = Found::default();
        for prefix in prefixes {
            // keys are digits
            let end = [prefix, &[0xff][..]].concat();
            let sql = "SELECT key, value FROM records WHERE key >= ? AND key < ? ORDER BY key";
            self.query(sql, &[prefix, &end], &mut found)?;
        }
        Ok(found)
    }

    fn gets(&self, keys: &[Key]) -> Result<Found, Failure> {
        let tx = self.0.unchecked_transaction()?;
        let mut statement = tx.prepare_cached("SELECT value FROM records WHERE key = ?")?;
        let mut found = Found::default();
        for key in keys {
            let mut rows = statement.query((&key[..],))?;
            found.add(rows.next()?.ok_or("not there")?.get_ref(0)?.as_blob()?);
        }
        Ok(found)
    }
}
