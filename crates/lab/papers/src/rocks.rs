//! RocksDB with pessimistic transactions, configured as its users would: a log, and sorted tables that are merged in
//! the background.

use std::path::Path;

pub use rocksdb::Error;
use rocksdb::{
    BlockBasedOptions, Cache, DBCompressionType, Direction, ErrorKind, IteratorMode, Options, Transaction,
    TransactionDB, TransactionDBOptions, TransactionOptions, WriteBatchWithTransaction, WriteOptions,
};

/// Bits of a table's filter for each key, a common setting.
const FILTER_BITS: f64 = 10.0;

/// Options for opening it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RocksOptions {
    /// Every commit is synced.
    pub synced: bool,
    /// Bytes of the cache for blocks, of which filters and indexes are a part.
    pub block_cache_bytes: u64,
    /// Size of a memtable, of which there may be two; `None` for RocksDB's default.
    pub table_bytes: Option<u64>,
    /// Tables are read and written past the system's cache, so that there is no other memory.
    pub direct: bool,
}

/// A store.
pub struct Rocks {
    database: TransactionDB,
    synced: bool,
}

impl Rocks {
    /// Opens it in a folder; creates it if there is none.
    pub fn open(folder: &Path, options: RocksOptions) -> Result<Rocks, Error> {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&Cache::new_lru_cache(options.block_cache_bytes as usize));
        blocks.set_bloom_filter(FILTER_BITS, false);
        // they count as cached data
        blocks.set_cache_index_and_filter_blocks(true);
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
        let mut database = Options::default();
        database.create_if_missing(true);
        database.increase_parallelism(
            std::thread::available_parallelism().map_or(1, |number| number.get() as i32),
        );
        database.set_compression_type(DBCompressionType::None);
        database.set_block_based_table_factory(&blocks);
        if let Some(bytes) = options.table_bytes {
            database.set_write_buffer_size(bytes as usize);
        }
        database.set_use_direct_reads(options.direct);
        database.set_use_direct_io_for_flush_and_compaction(options.direct);
        let database = TransactionDB::open(&database, &TransactionDBOptions::default(), folder)?;
        Ok(Rocks { database, synced: options.synced })
    }

    fn write_options(&self) -> WriteOptions {
        let mut options = WriteOptions::default();
        options.set_sync(self.synced);
        options
    }

    /// Bytes of the value of a record; `None` if it does not exist.
    pub fn length(&self, key: impl AsRef<[u8]>) -> Result<Option<usize>, Error> {
        Ok(self.database.get_pinned(key)?.map(|value| value.len()))
    }

    /// Writes records, all or nothing.
    pub fn write<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), Error> {
        let mut batch = WriteBatchWithTransaction::<true>::default();
        for (key, value) in records {
            batch.put(key, value);
        }
        self.database.write_opt(batch, &self.write_options())
    }

    /// Begins a transaction that detects deadlocks.
    pub fn begin(&self) -> Transaction<'_, TransactionDB> {
        let mut options = TransactionOptions::default();
        options.set_deadlock_detect(true);
        self.database.transaction_opt(&self.write_options(), &options)
    }

    /// Flushes the memtables to files.
    pub fn flush_tables(&self) -> Result<(), Error> {
        self.database.flush()
    }

    /// Syncs the log.
    pub fn sync_log(&self) -> Result<(), Error> {
        self.database.flush_wal(true)
    }

    /// Reads at most this many records, starting at a key. Returns the number read.
    pub fn scan(&self, from: impl AsRef<[u8]>, count: usize) -> Result<usize, Error> {
        let from = IteratorMode::From(from.as_ref(), Direction::Forward);
        let mut records = self.database.iterator(from).take(count);
        records.try_fold(0, |found, record| record.map(|(_, value)| found + usize::from(!value.is_empty())))
    }

    /// Reads all records, so that the cache holds as much as it can; returns their number.
    pub fn read_all(&self) -> Result<u64, Error> {
        self.database.iterator(IteratorMode::Start).try_fold(0, |count, record| record.map(|_| count + 1))
    }
}

/// Whether a transaction failed because of others, and would succeed if retried.
pub fn gave_way(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Busy | ErrorKind::TimedOut | ErrorKind::TryAgain)
}
