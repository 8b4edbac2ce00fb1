//! A SQLite transaction as one atomic write of the drive.
//!
//! With `SQLITE_IOCAP_BATCH_ATOMIC`, SQLite wraps the pages of a transaction in `SQLITE_FCNTL_BEGIN_ATOMIC_WRITE` and
//! `..._COMMIT_ATOMIC_WRITE` and needs no journal. They are collected here. SQLite reads nothing in between, and falls
//! back to its rollback journal if the batch is refused, for instance because it is too large.

use std::collections::BTreeMap;

use tantalum::UNIT_BYTES;
use tantalum_volume::{FileId, Volume, VolumeError};

const UNIT: u64 = UNIT_BYTES as u64;

/// A batch that is being collected.
#[derive(Debug)]
pub(crate) struct Batch {
    file: FileId,
    size: u64,
    units: BTreeMap<u64, Box<[u8; UNIT_BYTES]>>,
    /// Units that the drive accepts.
    limit: usize,
}

/// Why a batch was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BatchError {
    /// More units than the drive writes at once.
    #[error("a batch has more than {limit} units, the most that the drive writes at once")]
    TooLarge { limit: usize },
    /// The volume or the drive failed.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

impl Batch {
    /// Begins one.
    pub fn begin(volume: &Volume, file: FileId) -> Result<Batch, VolumeError> {
        let limit = volume.atomic_units_limit() as usize;
        Ok(Batch { file, size: volume.size(file)?, units: BTreeMap::new(), limit })
    }

    /// Bytes of the file, once the batch is written.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Sets the size, with the batch.
    pub fn set_size(&mut self, size: u64) {
        self.size = size;
    }

    /// Adds a write of any alignment.
    pub fn write(&mut self, volume: &mut Volume, offset: u64, data: &[u8]) -> Result<(), BatchError> {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let (unit, start) = (at / UNIT, (at % UNIT) as usize);
            let bytes = (UNIT_BYTES - start).min(data.len() - done);
            let page = self.unit(volume, unit, bytes < UNIT_BYTES)?;
            page[start..start + bytes].copy_from_slice(&data[done..done + bytes]);
            done += bytes;
        }
        self.size = self.size.max(offset + data.len() as u64);
        Ok(())
    }

    /// Writes the batch, all or nothing and durably.
    pub fn commit(self, volume: &mut Volume) -> Result<(), BatchError> {
        let writes: Vec<(u64, &[u8])> = self.units.iter().map(|(&unit, page)| (unit, &page[..])).collect();
        Ok(volume.write_atomic(self.file, &writes, Some(self.size))?)
    }

    /// A unit of the batch, with the file's contents if only a part of it will be written.
    fn unit(
        &mut self,
        volume: &mut Volume,
        unit: u64,
        load: bool,
    ) -> Result<&mut [u8; UNIT_BYTES], BatchError> {
        if !self.units.contains_key(&unit) {
            if self.units.len() >= self.limit {
                return Err(BatchError::TooLarge { limit: self.limit });
            }
            let mut page = Box::new([0; UNIT_BYTES]);
            if load {
                volume.read(self.file, unit * UNIT, &mut page[..])?;
            }
            self.units.insert(unit, page);
        }
        Ok(self.units.get_mut(&unit).expect("it was just put there"))
    }
}
