//! Files that have lost their last name: they are removed at once, or with their last close.

use tantalum_filesystem::FileId;

use crate::error::VolumeError;
use crate::table::Removed;
use crate::volume::Volume;

impl Volume {
    /// The file has lost its last name: it is removed, or becomes an orphan while it is open.
    pub(crate) fn forget_file(&mut self, id: FileId) {
        let file = self.files.get_mut(&id).expect("the file exists");
        let slot = file.slot.take().expect("a file that has a name has a slot");
        assert!(file.links.is_empty(), "file {} goes and has names in slots {:?}", id.0, file.links);
        let is_empty = file.folder.as_ref().is_none_or(|folder| folder.is_empty());
        assert!(is_empty, "folder {} goes and has entries", id.0);
        self.unnamed.remove(&id);
        let removed = Removed {
            slot,
            continuations: std::mem::take(&mut file.continuations).iter().map(|c| c.slot).collect(),
            freed: std::mem::take(&mut file.freed),
        };
        self.table.remove(removed, file.stored.take().is_some(), &mut self.space);
        assert!(self.orphans.insert(id), "file {} has lost its last name twice", id.0);
        if file.opens == 0 {
            self.forget_orphan(id);
        }
    }

    /// A file without a name was closed. The drive's inode may still name what it gives up, so that is freed
    /// together with the last removed file.
    pub(crate) fn forget_orphan(&mut self, id: FileId) {
        assert!(self.orphans.remove(&id), "file {} goes and still has a name", id.0);
        let mut file = self.files.remove(&id).expect("an orphan is a file");
        let end = file.inode.extents.end().max(file.inode.kept_units(file.inode.size));
        self.cache.remove_units(id, 0..end);
        file.give_up(0, u32::MAX, &mut self.space);
        debug_assert_eq!(self.cache.last_dirty_unit(id), None, "the dirty unit of a file that is gone");
        self.table.give_up_with_removals(file.freed, &mut self.space);
    }

    /// Keeps a file, whatever happens to its names, until it is closed as often.
    pub fn open(&mut self, file: FileId) -> Result<(), VolumeError> {
        self.drive.check_power()?;
        self.file_mut(file)?.opens += 1;
        Ok(())
    }

    /// Undoes one [`Volume::open`]. A file that has lost its last name meanwhile is removed with the last close, or by
    /// a crash.
    pub fn close(&mut self, file: FileId) -> Result<(), VolumeError> {
        let entry = self.file_mut(file)?;
        entry.opens = entry.opens.checked_sub(1).ok_or(VolumeError::NotOpen(file))?;
        if entry.opens == 0 && entry.slot.is_none() {
            self.forget_orphan(file);
        }
        Ok(())
    }
}
