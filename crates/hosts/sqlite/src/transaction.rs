//! A SQLite transaction as a drive transaction (X-FTL).
//!
//! SQLite keeps what a rollback needs in memory (`journal_mode=MEMORY`) and writes pages to the database file at any
//! time. Here they go to the drive as pages of a transaction, which readers outside it do not see. It ends with
//! `SQLITE_FCNTL_COMMIT_PHASETWO`, which only a commit sends. After a rollback, for which SQLite has written the old
//! pages back, it unlocks the file without that request; then the transaction is aborted.

use tantalum::{TxId, UNIT_BYTES};
use tantalum_volume::{FileId, Volume, VolumeError};

const UNIT: u64 = UNIT_BYTES as u64;

/// An open transaction on one database file.
///
/// If the drive accepts no more of it, it is aborted at once and *doomed*: SQLite learns of the failure, gives the
/// transaction up in one way or another, and sees the file as it was. The pages that it restores while doing so are
/// already there.
#[derive(Debug)]
pub(crate) struct Transaction {
    file: FileId,
    size: u64,
    /// The drive's transaction; `None` if it is doomed.
    tx: Option<TxId>,
}

impl Transaction {
    /// Opens one.
    pub fn begin(volume: &mut Volume, file: FileId) -> Result<Transaction, VolumeError> {
        let size = volume.size(file)?;
        Ok(Transaction { file, size, tx: Some(volume.tx_begin()?) })
    }

    /// Bytes of the file, as the transaction sees it.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Truncates or extends the file, with the commit.
    pub fn set_size(&mut self, size: u64) {
        if self.tx.is_some() {
            self.size = size;
        }
    }

    /// Reads as the transaction sees the file.
    pub fn read(&self, volume: &mut Volume, offset: u64, data: &mut [u8]) -> Result<usize, VolumeError> {
        let Some(tx) = self.tx else { return volume.read(self.file, offset, data) };
        let bytes = self.size.saturating_sub(offset).min(data.len() as u64) as usize;
        let there = volume.tx_read(tx, self.file, offset, &mut data[..bytes])?;
        data[there..bytes].fill(0);
        Ok(bytes)
    }

    /// Writes. If that fails, the transaction is doomed.
    pub fn write(&mut self, volume: &mut Volume, offset: u64, data: &[u8]) -> Result<(), VolumeError> {
        let Some(tx) = self.tx else { return Ok(()) };
        let written = self.write_units(volume, tx, offset, data);
        if written.is_err() {
            self.tx = None;
            self.size = volume.size(self.file)?;
            // Without power there is nothing to abort, and the first error is the one to report.
            let _ = volume.tx_abort(tx);
        }
        written
    }

    /// Writes. Partly written units are read first.
    fn write_units(
        &mut self,
        volume: &mut Volume,
        tx: TxId,
        offset: u64,
        data: &[u8],
    ) -> Result<(), VolumeError> {
        let end = offset + data.len() as u64;
        if offset.is_multiple_of(UNIT) && end.is_multiple_of(UNIT) {
            volume.tx_write(tx, self.file, offset, data)?;
        } else {
            let first = offset - offset % UNIT;
            let mut units = vec![0; (end.next_multiple_of(UNIT) - first) as usize];
            self.read(volume, first, &mut units)?;
            units[(offset - first) as usize..][..data.len()].copy_from_slice(data);
            volume.tx_write(tx, self.file, first, &units)?;
        }
        self.size = self.size.max(end);
        Ok(())
    }

    /// Makes it visible and durable, with the file's size. Returns false if it was doomed.
    ///
    /// If another mode left a rollback journal that SQLite has replayed and removed, the removal is made durable first:
    /// after a power cut the journal would be replayed over this transaction.
    pub fn commit(&self, volume: &mut Volume) -> Result<bool, VolumeError> {
        let Some(tx) = self.tx else { return Ok(false) };
        volume.sync_names()?;
        volume.tx_commit(tx, self.file, Some(self.size))?;
        Ok(true)
    }

    /// Discards it.
    pub fn abort(self, volume: &mut Volume) -> Result<(), VolumeError> {
        self.tx.map_or(Ok(()), |tx| volume.tx_abort(tx))
    }
}
