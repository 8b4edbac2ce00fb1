//! Snapshots of the file system, for kinds of index that keep them.

use tantalum_filesystem::Timestamp;

use crate::error::Result;
use crate::fs::LogFs;
use crate::index::Snapshot;

impl LogFs {
    /// The readable snapshots, in the order of their creation.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        self.index.snapshots()
    }

    /// Makes everything durable, and keeps it readable as it is now. Returns the snapshot's number. Fails if the index
    /// keeps no snapshots, if there are already 64, and with `ENOSPC` if there is no space for copies of all nodes.
    pub fn create_snapshot(&mut self, now: Timestamp) -> Result<u32> {
        self.check_writable()?;
        self.change(|fs| {
            fs.sync_all(false)?;
            let number = fs.index.create_snapshot(&mut fs.log, now)?;
            fs.write_checkpoint(false)?;
            Ok(number)
        })
    }

    /// Deletes a snapshot and frees its space. Fails if there is none with that number. If a crash interrupts it, the
    /// snapshot can no longer be read, and the next mount continues the deletion.
    pub fn delete_snapshot(&mut self, number: u32) -> Result<()> {
        self.check_writable()?;
        self.change(|fs| {
            fs.sync_all(false)?;
            fs.index.begin_deletion(number)?;
            fs.write_checkpoint(false)?;
            fs.finish_deletions()
        })
    }

    /// Gives up what only snapshots being deleted see.
    pub(crate) fn finish_deletions(&mut self) -> Result<()> {
        let mut from = 0;
        while let Some(next) = self.index.delete_some(&mut self.log, from)? {
            self.make_room(0, self.index.changed_units())?;
            self.write_checkpoint(false)?;
            from = next;
        }
        if self.index.changed_units() > 0 {
            self.write_checkpoint(false)?;
        }
        Ok(())
    }
}
