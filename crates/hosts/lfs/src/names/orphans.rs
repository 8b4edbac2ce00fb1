//! Files that lose their last name: they are removed at once, or with their last close.

use tantalum_filesystem::{Errno, FileId, Timestamp};

use crate::error::{Result, refuse};
use crate::fs::LogFs;
use crate::index::MOST_ORPHANS;

impl LogFs {
    /// A file has lost a name.
    pub(crate) fn drop_name(&mut self, id: FileId, now: Timestamp) -> Result<()> {
        let inode = self.change_inode(id)?;
        inode.metadata.links = if inode.is_folder() { 0 } else { inode.metadata.links - 1 };
        let is_last = inode.metadata.links == 0;
        self.since.renamed.insert(id);
        self.status_changed(id, now)?;
        if !is_last {
            return Ok(());
        }
        if self.file(id)?.opens > 0 {
            let is_new = self.orphans.insert(id);
            assert!(is_new, "file {id} lost its last name twice");
            assert!(
                self.orphans.len() <= MOST_ORPHANS,
                "a checkpoint cannot remember {} files",
                self.orphans.len()
            );
            return Ok(());
        }
        self.forget(id)
    }

    /// Whether another file without a name could be remembered.
    pub(crate) fn check_orphans(&self) -> Result<()> {
        if self.orphans.len() < MOST_ORPHANS { Ok(()) } else { refuse(Errno::ENFILE) }
    }

    pub(crate) fn open_file(&mut self, id: FileId) -> Result<()> {
        self.file(id)?.opens += 1;
        Ok(())
    }

    pub(crate) fn close_file(&mut self, id: FileId) -> Result<()> {
        let file = self.file(id)?;
        file.opens = file.opens.saturating_sub(1);
        if file.opens == 0 && self.orphans.contains(&id) {
            self.forget(id)?;
            self.orphans.remove(&id);
        }
        Ok(())
    }

    /// Removes a file with its contents.
    pub(crate) fn forget(&mut self, id: FileId) -> Result<()> {
        let opens = self.files.get(&id).map_or(0, |file| file.opens);
        assert_eq!(opens, 0, "file {id} is removed while programs have it open");
        self.give_up_units(id, 0..1 << 32)?;
        let dirty = self.pages.last_dirty_unit(id);
        assert_eq!(dirty, None, "file {id} is removed, but a page of it would be written");
        self.index.remove_file(&mut self.log, id)?;
        self.files.remove(&id);
        self.folders.remove(&id);
        self.since.forget_inode(id);
        self.since.new.remove(&id);
        self.since.renamed.remove(&id);
        self.since.is_name_lost = true;
        Ok(())
    }
}
