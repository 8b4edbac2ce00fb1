//! sled: a batch, then `flush`.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::store::{Changes, Pairs, Result, Store};

pub struct Sled {
    database: sled::Db,
}

impl Sled {
    pub fn open(folder: &Path) -> Result<Sled> {
        let settings = sled::Config::new().path(folder).cache_capacity(8 << 20).flush_every_ms(None);
        let begun = Instant::now();
        // a database that was closed a moment ago in this process may still be locked
        loop {
            match settings.open() {
                Err(sled::Error::Io(error))
                    if error.to_string().contains("lock") && begun.elapsed() < Duration::from_secs(5) =>
                {
                    std::thread::sleep(Duration::from_millis(5));
                }
                opened => return Ok(Sled { database: opened? }),
            }
        }
    }
}

impl Store for Sled {
    fn commit(&mut self, changes: &Changes) -> Result<()> {
        let mut batch = sled::Batch::default();
        for (key, value) in changes {
            match value {
                Some(value) => batch.insert(key.as_bytes(), value.as_bytes()),
                None => batch.remove(key.as_bytes()),
            }
        }
        self.database.apply_batch(batch)?;
        self.database.flush()?;
        Ok(())
    }

    fn pairs(&self) -> Result<Pairs> {
        let mut pairs = Pairs::new();
        for pair in self.database.iter() {
            let (key, value) = pair?;
            pairs.insert(String::from_utf8(key.to_vec())?, String::from_utf8(value.to_vec())?);
        }
        Ok(pairs)
    }
}
