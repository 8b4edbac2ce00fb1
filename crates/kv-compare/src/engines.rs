//! The stores, each as its users would have it: one transaction for each change, synced or not.
//!
//! A change reads records and writes each of them anew, all or nothing, isolated from others.

use std::error::Error;
use std::path::Path;

use fjall::{KeyspaceCreateOptions, PersistMode, Readable, SingleWriterTxDatabase, SingleWriterTxKeyspace};
use heed::types::Bytes;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use tantalum_kv::{Namespace, Store, Sync as KvSync};

/// What any of them may fail with.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Makes a record's new value from its old one.
pub type Make<'a> = &'a dyn Fn(&[u8]) -> Vec<u8>;

/// A store.
pub trait Engine: Sync + Send {
    /// Puts records, many in a transaction.
    fn load(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Failure>;
    /// Reads a record; says how many bytes it has.
    fn read(&self, key: u64) -> Result<usize, Failure>;
    /// Writes records, all or nothing.
    fn write(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Failure>;
    /// Reads records and writes each anew.
    fn change(&self, keys: &[u64], make: Make<'_>) -> Result<(), Failure>;
    /// Brings to the disk what waits.
    fn settle(&self) -> Result<(), Failure> {
        Ok(())
    }
}

/// What to open a store with.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Every commit is synced.
    pub synced: bool,
    /// Bytes of cache.
    pub cache_bytes: usize,
    /// Bytes of all records.
    pub data_bytes: u64,
}

/// The names of all stores that were built.
pub const NAMES: &[&str] = &[
    "tantalum",
    "redb",
    "fjall",
    "lmdb",
    #[cfg(feature = "rocksdb")]
    "rocksdb",
];

/// Opens a store in a folder.
pub fn open(name: &str, folder: &Path, setting: Setting) -> Result<Box<dyn Engine>, Failure> {
    Ok(match name {
        "tantalum" => Box::new(Tantalum::open(folder, setting)?),
        "redb" => Box::new(Redb::open(folder, setting)?),
        "fjall" => Box::new(Fjall::open(folder, setting)?),
        "lmdb" => Box::new(Lmdb::open(folder, setting)?),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => Box::new(rocks::Rocks::open(folder, setting)?),
        _ => return Err(format!("there is no store {name}; there are: {}", NAMES.join(", ")).into()),
    })
}

struct Tantalum {
    store: Store,
    namespace: Namespace,
}

impl Tantalum {
    fn open(folder: &Path, setting: Setting) -> Result<Tantalum, Failure> {
        let sync = if setting.synced { KvSync::Host } else { KvSync::None };
        let capacity = (setting.data_bytes * 4).max(256 << 20).next_multiple_of(1 << 20);
        let options = Store::options().capacity_bytes(capacity).cache_bytes(setting.cache_bytes).sync(sync);
        let store = options.open(folder.join("app.tant"))?;
        let namespace = store.namespace("records")?;
        Ok(Tantalum { store, namespace })
    }
}

impl Engine for Tantalum {
    fn load(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Failure> {
        self.write(records)
    }

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

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("records");

struct Redb {
    database: Database,
    synced: bool,
}

impl Redb {
    fn open(folder: &Path, setting: Setting) -> Result<Redb, Failure> {
        let database =
            Database::builder().set_cache_size(setting.cache_bytes).create(folder.join("app.redb"))?;
        Ok(Redb { database, synced: setting.synced })
    }

    fn begin(&self) -> Result<redb::WriteTransaction, Failure> {
        let mut tx = self.database.begin_write()?;
        tx.set_durability(if self.synced { Durability::Immediate } else { Durability::None })?;
        Ok(tx)
    }
}

impl Engine for Redb {
    fn load(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Failure> {
        self.write(records)
    }

    fn read(&self, key: u64) -> Result<usize, Failure> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        Ok(table.get(key)?.ok_or("not there")?.value().len())
    }

    fn write(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Failure> {
        let tx = self.begin()?;
        let mut table = tx.open_table(TABLE)?;
        for (key, value) in records {
            table.insert(key, &value[..])?;
        }
        drop(table);
        Ok(tx.commit()?)
    }

    fn change(&self, keys: &[u64], make: Make<'_>) -> Result<(), Failure> {
        let tx = self.begin()?;
        let mut table = tx.open_table(TABLE)?;
        for key in keys {
            let new = make(table.get(key)?.ok_or("not there")?.value());
            table.insert(key, &new[..])?;
        }
        drop(table);
        Ok(tx.commit()?)
    }

    fn settle(&self) -> Result<(), Failure> {
        let mut tx = self.database.begin_write()?;
        tx.set_durability(Durability::Immediate)?;
        Ok(tx.commit()?)
    }
}

struct Fjall {
    database: SingleWriterTxDatabase,
    records: SingleWriterTxKeyspace,
    persist: Option<PersistMode>,
}

impl Fjall {
    fn open(folder: &Path, setting: Setting) -> Result<Fjall, Failure> {
        let builder = SingleWriterTxDatabase::builder(folder.join("fjall"));
        let database = builder.cache_size(setting.cache_bytes as u64).open()?;
        let records = database.keyspace("records", KeyspaceCreateOptions::default)?;
        Ok(Fjall { database, records, persist: setting.synced.then_some(PersistMode::SyncData) })
    }
}

impl Engine for Fjall {
    fn load(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Failure> {
        self.write(records)
    }

    fn read(&self, key: u64) -> Result<usize, Failure> {
        Ok(self.records.get(key.to_be_bytes())?.ok_or("not there")?.len())
    }

    fn write(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Failure> {
        let mut tx = self.database.write_tx().durability(self.persist);
        for (key, value) in records {
            tx.insert(&self.records, key.to_be_bytes(), &value[..]);
        }
        Ok(tx.commit()?)
    }

    fn change(&self, keys: &[u64], make: Make<'_>) -> Result<(), Failure> {
        let mut tx = self.database.write_tx().durability(self.persist);
        for key in keys {
            let new = make(&tx.get(&self.records, key.to_be_bytes())?.ok_or("not there")?);
            tx.insert(&self.records, key.to_be_bytes(), new);
        }
        Ok(tx.commit()?)
    }

    fn settle(&self) -> Result<(), Failure> {
        Ok(self.database.persist(PersistMode::SyncData)?)
    }
}

struct Lmdb {
    env: heed::Env,
    records: heed::Database<Bytes, Bytes>,
}

impl Lmdb {
    fn open(folder: &Path, setting: Setting) -> Result<Lmdb, Failure> {
        let mut options = heed::EnvOpenOptions::new();
        options.map_size((setting.data_bytes as usize * 8).max(1 << 30).next_multiple_of(1 << 20));
        // SAFETY: the folder is new and ours alone, nothing else has the file mapped, and the disk is not cut off.
        let env = unsafe {
            if !setting.synced {
                options.flags(heed::EnvFlags::NO_SYNC);
            }
            options.open(folder)?
        };
        let mut tx = env.write_txn()?;
        let records = env.create_database(&mut tx, None)?;
        tx.commit()?;
        Ok(Lmdb { env, records })
    }
}

impl Engine for Lmdb {
    fn load(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Failure> {
        self.write(records)
    }

    fn read(&self, key: u64) -> Result<usize, Failure> {
        let tx = self.env.read_txn()?;
        Ok(self.records.get(&tx, &key.to_be_bytes())?.ok_or("not there")?.len())
    }

    fn write(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Failure> {
        let mut tx = self.env.write_txn()?;
        for (key, value) in records {
            self.records.put(&mut tx, &key.to_be_bytes(), value)?;
        }
        Ok(tx.commit()?)
    }

    fn change(&self, keys: &[u64], make: Make<'_>) -> Result<(), Failure> {
        let mut tx = self.env.write_txn()?;
        for key in keys {
            let new = make(self.records.get(&tx, &key.to_be_bytes())?.ok_or("not there")?);
            self.records.put(&mut tx, &key.to_be_bytes(), &new)?;
        }
        Ok(tx.commit()?)
    }

    fn settle(&self) -> Result<(), Failure> {
        Ok(self.env.force_sync()?)
    }
}

#[cfg(feature = "rocksdb")]
mod rocks {
    use super::*;
    use rocksdb::{
        BlockBasedOptions, Cache, Options, TransactionDB, TransactionDBOptions, TransactionOptions,
        WriteOptions,
    };

    pub struct Rocks {
        database: TransactionDB,
        synced: bool,
    }

    impl Rocks {
        pub fn open(folder: &Path, setting: Setting) -> Result<Rocks, Failure> {
            let (mut options, mut blocks) = (Options::default(), BlockBasedOptions::default());
            options.create_if_missing(true);
            blocks.set_block_cache(&Cache::new_lru_cache(setting.cache_bytes));
            options.set_block_based_table_factory(&blocks);
            let database =
                TransactionDB::open(&options, &TransactionDBOptions::default(), folder.join("rocksdb"))?;
            Ok(Rocks { database, synced: setting.synced })
        }

        fn write_options(&self) -> WriteOptions {
            let mut options = WriteOptions::default();
            options.set_sync(self.synced);
            options
        }
    }

    impl Engine for Rocks {
        fn load(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Failure> {
            self.write(records)
        }

        fn read(&self, key: u64) -> Result<usize, Failure> {
            Ok(self.database.get(key.to_be_bytes())?.ok_or("not there")?.len())
        }

        fn write(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Failure> {
            let tx = self.database.transaction_opt(&self.write_options(), &TransactionOptions::default());
            for (key, value) in records {
                tx.put(key.to_be_bytes(), value)?;
            }
            Ok(tx.commit()?)
        }

        fn change(&self, keys: &[u64], make: Make<'_>) -> Result<(), Failure> {
            let tx = self.database.transaction_opt(&self.write_options(), &TransactionOptions::default());
            for key in keys {
                let old = tx.get_for_update(key.to_be_bytes(), true)?.ok_or("not there")?;
                tx.put(key.to_be_bytes(), make(&old))?;
            }
            Ok(tx.commit()?)
        }
    }
}
