//! A SQLite transaction as a transaction of the drive (X-FTL).
//!
//! SQLite keeps in memory what a rollback needs (`journal_mode=MEMORY`) and writes pages to the database file
//! whenever it likes. Here they go to the drive as pages of a transaction, which readers outside do not see.
//! `SQLITE_FCNTL_COMMIT_PHASETWO` ends it, and only a commit sends that. SQLite unlocks the file without it after
//! a rollback, for which it has written the old pages back; then the transaction is aborted.

use tantalum::{TxId, UNIT_BYTES};
use tantalum_volume::{FileId, Volume, VolumeError};

const UNIT: u64 = UNIT_BYTES as u64;

/// An open transaction on one database file.
#[derive(Debug)]
pub(crate) struct Transaction {
    tx: TxId,
    file: FileId,
    size: u64,
}

impl Transaction {
    /// Opens one.
    pub fn begin(volume: &mut Volume, file: FileId) -> Result<Transaction, VolumeError> {
        let size = volume.size(file)?;
        Ok(Transaction { tx: volume.tx_begin()?, file, size })
    }

    /// Bytes of the file, as the transaction sees it.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Cuts the file or lets it grow, with the commit.
    pub fn set_size(&mut self, size: u64) {
        self.size = size;
    }

    /// Reads as the transaction sees the file.
    pub fn read(&self, volume: &mut Volume, offset: u64, data: &mut [u8]) -> Result<usize, VolumeError> {
        let bytes = self.size.saturating_sub(offset).min(data.len() as u64) as usize;
        let there = volume.tx_read(self.tx, self.file, offset, &mut data[..bytes])?;
        data[there..bytes].fill(0);
        Ok(bytes)
    }

    /// Writes. Units of which only a part is written are read first.
    pub fn write(&mut self, volume: &mut Volume, offset: u64, data: &[u8]) -> Result<(), VolumeError> {
        let end = offset + data.len() as u64;
        if offset.is_multiple_of(UNIT) && end.is_multiple_of(UNIT) {
            volume.tx_write(self.tx, self.file, offset, data)?;
        } else {
            let first = offset - offset % UNIT;
            let mut units = vec![0; (end.next_multiple_of(UNIT) - first) as usize];
            self.read(volume, first, &mut units)?;
            units[(offset - first) as usize..][..data.len()].copy_from_slice(data);
            volume.tx_write(self.tx, self.file, first, &units)?;
        }
        self.size = self.size.max(end);
        Ok(())
    }

    /// Makes it visible and durable, with the file's size.
    pub fn commit(&self, volume: &mut Volume) -> Result<(), VolumeError> {
        volume.tx_commit(self.tx, self.file, Some(self.size))
    }

    /// Forgets it.
    pub fn abort(self, volume: &mut Volume) -> Result<(), VolumeError> {
        volume.tx_abort(self.tx)
    }
}
