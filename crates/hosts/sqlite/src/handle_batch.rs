//! A handle's batch-atomic writes, see `batch`.

use tantalum_volume::Volume;

use crate::batch::Batch;
use crate::fault::Fault;
use crate::handle::Handle;
use crate::lock::LockLevel;
use crate::mode::Mode;

impl Handle {
    /// Starts collecting a batch.
    pub fn begin_batch(&mut self) -> Result<(), Fault> {
        let id = self.database_id()?;
        let mut host = self.host.lock();
        if host.mode != Mode::Atomic || self.lock != LockLevel::Exclusive {
            return Err(Fault::Unknown);
        }
        let (volume, database) = host.database(id);
        self.batch = Some(Batch::begin(volume, database.file)?);
        Ok(())
    }

    /// Writes the batch.
    pub fn commit_batch(&mut self) -> Result<(), Fault> {
        let batch = self.batch.take().ok_or(Fault::Unknown)?;
        let volume: &mut Volume = &mut self.host.lock().volume;
        Ok(batch.commit(volume)?)
    }

    /// Drops the batch because it was refused. SQLite then writes its in-memory rollback journal to a file, and writes
    /// to the database without having synced that file (`sqlite3PagerCommitPhaseOne`). So the journal is made durable
    /// before that write.
    pub fn roll_back_batch(&mut self) {
        self.batch = None;
        self.journal_is_unsynced = true;
    }
}
