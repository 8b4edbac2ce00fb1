//! RocksDB with its pessimistic transactions: a log, and sorted tables that are merged behind it.

use std::path::Path;

use rocksdb::{
    BlockBasedOptions, Cache, DBCompressionType, Options, TransactionDB, TransactionDBOptions,
    TransactionOptions, WriteBatchWithTransaction, WriteOptions,
};

use super::{Engine, Failure, Make, Setting};

/// Bits of a table's filter for each key, as its users have it.
const FILTER_BITS: f64 = 10.0;

/// A store.
pub struct Rocks {
    database: TransactionDB,
    synced: bool,
    tables_are_bounded: bool,
}

impl Rocks {
    /// Opens it.
    pub fn open(folder: &Path, setting: Setting) -> Result<Rocks, Failure> {
        let (cache_bytes, tables_bytes) = setting.block_cache_and_tables_bytes();
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&Cache::new_lru_cache(cache_bytes as usize));
        blocks.set_bloom_filter(FILTER_BITS, false);
        // they count as what is cached
        blocks.set_cache_index_and_filter_blocks(true);
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.increase_parallelism(std::thread::available_parallelism()?.get() as i32);
        options.set_compression_type(DBCompressionType::None);
        options.set_block_based_table_factory(&blocks);
        if let Some(bytes) = tables_bytes {
            options.set_write_buffer_size(bytes as usize);
        }
        let database =
            TransactionDB::open(&options, &TransactionDBOptions::default(), folder.join("rocksdb"))?;
        Ok(Rocks { database, synced: setting.synced, tables_are_bounded: tables_bytes.is_some() })
    }

    fn write_options(&self) -> WriteOptions {
        let mut options = WriteOptions::default();
        options.set_sync(self.synced);
        options
    }
}

impl Engine for Rocks {
    fn read(&self, key: u64) -> Result<usize, Failure> {
        Ok(self.database.get_pinned(key.to_be_bytes())?.ok_or("not there")?.len())
    }

    fn write(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Failure> {
        let mut batch = WriteBatchWithTransaction::<true>::default();
        for (key, value) in records {
            batch.put(key.to_be_bytes(), value);
        }
        Ok(self.database.write_opt(batch, &self.write_options())?)
    }

    fn change(&self, keys: &[u64], make: Make<'_>) -> Result<(), Failure> {
        let tx = self.database.transaction_opt(&self.write_options(), &TransactionOptions::default());
        for key in keys {
            let old = tx.get_pinned_for_update(key.to_be_bytes(), true)?.ok_or("not there")?;
            tx.put(key.to_be_bytes(), make(&old))?;
        }
        Ok(tx.commit()?)
    }

    fn loaded(&self) -> Result<(), Failure> {
        if self.tables_are_bounded {
            self.database.flush()?;
        }
        Ok(())
    }

    fn settle(&self) -> Result<(), Failure> {
        Ok(self.database.flush_wal(true)?)
    }
}
