//! LMDB: a copy-on-write tree in a mapped file, one writer at a time. Its only cache is the system's.

use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};

use super::engine::{Engine, Failure, Make, Setting};

/// The file never grows beyond its map.
const MAP_OVER_DATA: u64 = 8;

const LEAST_MAP_BYTES: u64 = 1 << 30;

/// Opens the files in a folder of this program's own, for this many bytes of data.
pub fn open_env(folder: &Path, data_bytes: u64, synced: bool) -> Result<Env, Failure> {
    let map_bytes = (data_bytes * MAP_OVER_DATA).max(LEAST_MAP_BYTES);
    let mut options = EnvOpenOptions::new();
    options.map_size(map_bytes.next_multiple_of(1 << 20) as usize);
    #[allow(unsafe_code)]
    // SAFETY: the folder belongs to this program, nothing else has the file mapped, and nobody truncates it.
    let env = unsafe {
        if !synced {
            options.flags(EnvFlags::NO_SYNC);
        }
        options.open(folder)?
    };
    Ok(env)
}

/// A store.
pub struct Lmdb {
    env: Env,
    records: Database<Bytes, Bytes>,
}

impl Lmdb {
    /// Opens it.
    pub fn open(folder: &Path, setting: Setting) -> Result<Lmdb, Failure> {
        let env = open_env(folder, setting.data_bytes, setting.synced)?;
        let mut tx = env.write_txn()?;
        let records = env.create_database(&mut tx, None)?;
        tx.commit()?;
        Ok(Lmdb { env, records })
    }
}

impl Engine for Lmdb {
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

    fn scan(&self, from: u64, count: usize) -> Result<usize, Failure> {
        let (tx, from) = (self.env.read_txn()?, from.to_be_bytes());
        let range = (Bound::Included(&from[..]), Bound::Unbounded);
        let mut found = 0;
        for entry in self.records.range(&tx, &range)?.take(count) {
            found += usize::from(!entry?.1.is_empty());
        }
        Ok(found)
    }

    fn settle(&self) -> Result<(), Failure> {
        Ok(self.env.force_sync()?)
    }
}
