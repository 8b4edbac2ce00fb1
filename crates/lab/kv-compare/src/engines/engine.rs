//! What every store can do, and its options.

use std::error::Error;

use clap::ValueEnum;
use serde::Serialize;

/// An error of any of them.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Computes a record's new value from the old one.
pub type Make<'a> = &'a dyn Fn(&[u8]) -> Vec<u8>;

/// A store.
pub trait Engine: Sync + Send {
    /// Reads a record; returns its length.
    fn read(&self, key: u64) -> Result<usize, Failure>;
    /// Writes records, all or nothing.
    fn write(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Failure>;
    /// Reads records and rewrites each.
    fn change(&self, keys: &[u64], make: Make<'_>) -> Result<(), Failure>;
    /// Reads at most this many records, starting at a key, in key order; returns their number. A store without order
    /// fails.
    fn scan(&self, from: u64, count: usize) -> Result<usize, Failure>;
    /// The records are loaded: with a cache that is too small for them, none must be left in write buffers.
    fn loaded(&self) -> Result<(), Failure> {
        Ok(())
    }
    /// Writes what commits have left to the system to the disk.
    fn settle(&self) -> Result<(), Failure> {
        Ok(())
    }
}

/// The size of a store's own memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum CacheSize {
    /// All data fit, with what the store keeps in addition.
    Fits,
    /// A quarter of the data.
    Quarter,
}

impl CacheSize {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            CacheSize::Fits => "fits",
            CacheSize::Quarter => "quarter",
        }
    }
}

/// Options for opening a store.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Every commit is synced.
    pub synced: bool,
    /// The size of its memory.
    pub cache: CacheSize,
    /// Bytes of all records.
    pub data_bytes: u64,
    /// Records are scanned in the order of their keys.
    pub scans: bool,
}

impl Setting {
    /// Bytes of cache of a store that has one memory for reading and writing.
    pub fn cache_bytes(self) -> u64 {
        match self.cache {
            // small records take more than their bytes
            CacheSize::Fits => 4 * self.data_bytes,
            CacheSize::Quarter => self.data_bytes / 4,
        }
    }

    /// Bytes of the cache for blocks, and of the tables in memory, of a store that merges sorted tables: half and half.
    /// `None` leaves the latter at the store's default.
    pub fn block_cache_and_tables_bytes(self) -> (u64, Option<u64>) {
        match self.cache {
            CacheSize::Fits => (self.cache_bytes(), None),
            CacheSize::Quarter => (self.cache_bytes() / 2, Some(self.cache_bytes() / 2)),
        }
    }
}
