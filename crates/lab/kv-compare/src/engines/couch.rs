//! Tantalum's document store: an append-only tree in one file, one writer at a time. It syncs every commit.

use std::path::Path;
use std::sync::Mutex;

use tantalum_couch::{Batch, Folder, Options, Store, Way};

use super::engine::{Engine, Failure, Make, Setting};

/// The file is compacted once more than this share of it is garbage.
const MOST_GARBAGE_PERCENT: f64 = 50.0;

/// A store.
pub struct Couch {
    store: Store<Folder>,
    /// Held from the read of a change to its commit.
    changing: Mutex<()>,
}

impl Couch {
    /// Opens it. On a mounted Tantalum volume `Way::Share` shares updates; elsewhere they are appended in either way.
    pub fn open(folder: &Path, setting: Setting, way: Way) -> Result<Couch, Failure> {
        let options = Options { way, cache_bytes: setting.cache_bytes() as usize, ..Options::default() };
        let store = Store::open(Folder::new(folder)?, "app.couch", options)?;
        Ok(Couch { store, changing: Mutex::new(()) })
    }

    fn commit(&self, batch: &Batch) -> Result<(), Failure> {
        self.store.commit(batch)?;
        if self.store.statistics().garbage_percent() > MOST_GARBAGE_PERCENT {
            self.store.compact()?;
        }
        Ok(())
    }
}

impl Engine for Couch {
    fn read(&self, key: u64) -> Result<usize, Failure> {
        Ok(self.store.get(&key.to_be_bytes())?.ok_or("not there")?.value().len())
    }

    fn scan(&self, from: u64, count: usize) -> Result<usize, Failure> {
        let from = from.to_be_bytes().to_vec();
        let snapshot = self.store.snapshot();
        let mut found = 0;
        for document in snapshot.range::<Vec<u8>, _>(from..)?.take(count) {
            found += usize::from(!document?.value().is_empty());
        }
        Ok(found)
    }

    fn write(&self, records: &[(u64, Vec<u8>)]) -> Result<(), Failure> {
        let mut batch = Batch::new();
        for (key, value) in records {
            batch.put(&key.to_be_bytes(), value)?;
        }
        let _changing = self.changing.lock().expect("no change panics");
        self.commit(&batch)
    }

    fn change(&self, keys: &[u64], make: Make<'_>) -> Result<(), Failure> {
        let _changing = self.changing.lock().expect("no change panics");
        let mut batch = Batch::new();
        for key in keys.iter().map(|key| key.to_be_bytes()) {
            let old = self.store.get(&key)?.ok_or("not there")?;
            batch.put(&key, &make(old.value()))?;
        }
        self.commit(&batch)
    }
}
