//! Syncs: dirty data go to the drive, and become durable with their metadata.

use tantalum_filesystem::FileId;

use crate::error::VolumeError;
use crate::file::File;
use crate::volume::Volume;

impl Volume {
    /// Makes the file, its content and its metadata durable. Flushes the drive even if nothing was dirty.
    pub fn sync(&mut self, file: FileId) -> Result<(), VolumeError> {
        self.drive.check()?;
        self.write_back_file(file)?;
        self.commit(&[file], true)?;
        self.assert_invariants();
        Ok(())
    }

    /// As [`Volume::sync`], but times alone are not made durable (fdatasync).
    pub fn sync_data(&mut self, file: FileId) -> Result<(), VolumeError> {
        self.drive.check()?;
        self.write_back_file(file)?;
        self.commit(&[file], false)?;
        self.assert_invariants();
        Ok(())
    }

    /// Whether anything waits to be made durable, apart from what programs wrote without the page cache.
    pub fn is_dirty(&self) -> bool {
        let is_dirty = |file: &File| file.dirty || file.times_dirty;
        self.cache.dirty_pages() > 0 || self.pending_names() > 0 || self.files.values().any(is_dirty)
    }

    /// Makes creations, removals and renames durable. A new file then exists, with the size of its last sync.
    pub fn sync_names(&mut self) -> Result<(), VolumeError> {
        self.drive.check()?;
        self.commit_names()
    }

    /// Makes everything durable.
    pub fn sync_all(&mut self) -> Result<(), VolumeError> {
        self.drive.check()?;
        while let Some(file) = self.cache.next_dirty_file(None) {
            self.write_back_file(file)?;
        }
        let may_differ = |file: &File| file.dirty || file.times_dirty || !file.freed.is_empty();
        let files: Vec<FileId> =
            self.files.iter().filter(|(_, file)| may_differ(file)).map(|(&id, _)| id).collect();
        if files.is_empty() {
            self.drive.flush()?;
        }
        // Half a batch, as the other half may be names.
        for files in files.chunks(self.drive.batch_units() / 2) {
            self.commit(files, true)?;
        }
        self.commit_names()?;
        let dirty = self.cache.dirty_pages();
        debug_assert_eq!(dirty, 0, "dirty pages after a sync of everything");
        self.assert_invariants();
        Ok(())
    }
}
