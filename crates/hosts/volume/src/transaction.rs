//! The drive's transactions on files (X-FTL).
//!
//! A transaction's pages go to the drive as they are written. The page cache keeps them as the transaction's version;
//! the commit makes them what everyone sees. Metadata that the transaction changed join it as pages of their own.

use tantalum::{Command, TxId, UNIT_BYTES, result_of};
use tantalum_filesystem::FileId;
use zerocopy::IntoBytes;

use crate::atomic_writes::check_units;
use crate::commit::InodeChange;
use crate::error::VolumeError;
use crate::read_write::pieces;
use crate::volume::Volume;
use tantalum_filesystem::{FrameId, PageKey};

impl Volume {
    /// Opens a transaction.
    pub fn tx_begin(&mut self) -> Result<TxId, VolumeError> {
        let tx = result_of(|tx| self.drive.submit(Command::Begin { tx }))?;
        self.transactions.begin(tx);
        Ok(tx)
    }

    /// Writes whole units of a file within a transaction: others see the old ones until the commit. The size does not
    /// change. If it fails, the transaction is still open and has some of the units, from the front.
    pub fn tx_write(&mut self, tx: TxId, file: FileId, offset: u64, data: &[u8]) -> Result<(), VolumeError> {
        self.drive.check()?;
        self.transactions.check(tx)?;
        self.content_file(file)?;
        let (first, end) = check_units(offset, data)?;
        self.place_units(file, first, end)?;
        self.file_mut(file)?.touched = true;
        let mut done_ns = self.now_ns();
        for (unit, page) in (first..end).zip(data.as_chunks::<UNIT_BYTES>().0) {
            let range = self.file(file)?.inode.extents.run(unit).expect("units were allocated");
            done_ns = done_ns.max(self.drive.write_in(tx, range.lpn, page)?);
            self.transactions.note(tx, file, unit);
            let frame = self.cache.find_or_insert(PageKey { file, unit, tx: Some(tx) });
            self.cache.data_mut(frame).copy_from_slice(page);
        }
        self.wait_until(done_ns);
        Ok(())
    }

    /// Reads the file as the transaction sees it, and returns how many bytes there were: fewer than requested at the
    /// end of the file, or of what the transaction wrote if that is further.
    pub fn tx_read(
        &mut self,
        tx: TxId,
        file: FileId,
        offset: u64,
        data: &mut [u8],
    ) -> Result<usize, VolumeError> {
        self.drive.check_power()?;
        let written_end = self.transactions.written_end(tx, file)?;
        let size = self.file(file)?.inode.size.max(written_end * UNIT_BYTES as u64);
        let bytes = size.saturating_sub(offset).min(data.len() as u64) as usize;
        let mut done = 0;
        for piece in pieces(offset.min(size), bytes) {
            let to = &mut data[done..done + piece.bytes.len()];
            if self.transactions.has_written(tx, file, piece.unit)? {
                let frame = self.page_in_transaction(tx, file, piece.unit)?;
                to.copy_from_slice(&self.cache.data(frame)[piece.bytes.clone()]);
            } else {
                let there = self.read(file, offset + done as u64, to)?;
                to[there..].fill(0);
            }
            done += piece.bytes.len();
        }
        Ok(bytes)
    }

    /// Makes what the transaction wrote visible and durable, with the size of `file` if one is given: all or
    /// nothing. If it fails while the drive has power, the transaction is still open and has changed nothing that others
    /// see. If it had got as far as the files' metadata, the transaction can then only be read and aborted: further commits
    /// fail with [`VolumeError::CommitFailed`].
    pub fn tx_commit(&mut self, tx: TxId, file: FileId, new_size: Option<u64>) -> Result<(), VolumeError> {
        self.drive.check()?;
        let mut files = self.transactions.files_to_commit(tx)?;
        files.insert(file);
        for &touched in &files {
            self.prepare_new_size(touched, new_size.filter(|_| touched == file), Some(tx))?;
        }
        let sizes = files.iter().map(|&touched| (touched, new_size.filter(|_| touched == file)));
        let changes = self.prepare_all(sizes)?;
        if let Err(error) = self.write_commit(tx, &changes) {
            self.abandon(changes);
            return Err(error);
        }
        for (file, unit) in self.transactions.end(tx) {
            self.cache.publish(PageKey { file, unit, tx: Some(tx) });
        }
        self.finish_new_size(file, new_size)?;
        self.apply(changes);
        self.trim();
        self.assert_invariants();
        Ok(())
    }

    /// Discards what the transaction wrote.
    pub fn tx_abort(&mut self, tx: TxId) -> Result<(), VolumeError> {
        self.drive.check()?;
        self.transactions.check(tx)?;
        self.drive.submit(Command::Abort { tx })?;
        for (file, unit) in self.transactions.end(tx) {
            self.cache.remove(PageKey { file, unit, tx: Some(tx) });
        }
        self.assert_invariants();
        Ok(())
    }

    fn write_commit(&mut self, tx: TxId, changes: &[InodeChange]) -> Result<(), VolumeError> {
        self.settle(changes)?;
        if !changes.is_empty() {
            self.transactions.note_inodes(tx);
        }
        let mut done_ns = self.now_ns();
        for change in changes {
            let data = change.unit.as_bytes();
            done_ns = done_ns.max(self.drive.write_in(tx, change.lpn, data)?);
        }
        self.wait_until(done_ns);
        self.drive.submit(Command::Commit { tx }).map(drop)
    }

    /// The page of a unit that the transaction has written.
    fn page_in_transaction(&mut self, tx: TxId, file: FileId, unit: u32) -> Result<FrameId, VolumeError> {
        let key = PageKey { file, unit, tx: Some(tx) };
        if let Some(frame) = self.cache.find(key) {
            return Ok(frame);
        }
        let range = self.file(file)?.inode.extents.run(unit).expect("a transaction's units have places");
        let frame = self.cache.insert(key);
        let data = self.cache.data_mut(frame);
        if let Err(error) = self.drive.submit(Command::TxRead { tx, lpn: range.lpn, data }) {
            self.cache.remove(key);
            return Err(error);
        }
        Ok(frame)
    }
}
