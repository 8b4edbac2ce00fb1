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

#[cfg(test)]
mod tests {
    use tantalum::{Device, Profile};

    use super::*;

    fn volume() -> (Volume, FileId) {
        let profile = Profile { capacity_bytes: 256 << 20, ..Profile::load("tlc-nvme").unwrap() };
        let mut volume = Volume::format(Device::in_memory(&profile).unwrap(), 2 << 20).unwrap();
        let file = volume.create("app.db").unwrap();
        volume.write(file, 0, &[1; 3 * UNIT_BYTES]).unwrap();
        (volume, file)
    }

    #[test]
    fn writes_of_any_alignment_are_in_the_batch() {
        let (mut volume, file) = volume();
        let mut batch = Batch::begin(&volume, file).unwrap();
        assert_eq!(batch.size(), 3 * UNIT);
        let mut expected = vec![1; 3 * UNIT_BYTES];
        for (at, bytes, byte) in
            [(100, 2 * UNIT_BYTES, 2), (UNIT_BYTES + 5, 50, 3), (3 * UNIT_BYTES - 7, 10, 4)]
        {
            let data: Vec<u8> = (0..bytes).map(|index| byte + (index % 100) as u8).collect();
            batch.write(&mut volume, at as u64, &data).unwrap();
            expected.resize(expected.len().max(at + bytes), 0);
            expected[at..at + bytes].copy_from_slice(&data);
        }
        assert_eq!(batch.size(), expected.len() as u64);
        batch.commit(&mut volume).unwrap();
        let mut data = vec![0; expected.len() + 1];
        assert_eq!(volume.read(file, 0, &mut data).unwrap(), expected.len());
        assert!(data[..expected.len()] == expected);
    }

    #[test]
    fn the_files_size_changes_with_the_batch() {
        let (mut volume, file) = volume();
        let mut batch = Batch::begin(&volume, file).unwrap();
        batch.set_size(5);
        assert_eq!((batch.size(), volume.size(file).unwrap()), (5, 3 * UNIT));
        batch.commit(&mut volume).unwrap();
        assert_eq!(volume.size(file).unwrap(), 5);
    }

    #[test]
    fn a_batch_has_as_many_units_as_the_drive_writes_at_once() {
        let (mut volume, file) = volume();
        let mut batch = Batch::begin(&volume, file).unwrap();
        let limit = batch.limit as u64;
        for unit in (0..limit).chain([0, limit - 1]) {
            batch.write(&mut volume, unit * UNIT, &[2; UNIT_BYTES]).unwrap();
        }
        let refused = batch.write(&mut volume, limit * UNIT, &[2; UNIT_BYTES]);
        assert!(matches!(refused, Err(BatchError::TooLarge { .. })));
    }
}
