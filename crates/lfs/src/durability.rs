//! From memory to the drive: write-back, syncs, checkpoints, and how much may wait.

use tantalum_filesystem::{FileId, FileKind};

use crate::error::Result;
use crate::fs::{LogFs, SinceCheckpoint};
use crate::index::{Purpose, Synced};

/// Dirty pages written back at once when there are too many.
const BATCH_PAGES: usize = 1024;

impl LogFs {
    /// Makes a file durable: with its times, or only if something else changed.
    pub(crate) fn sync_file(&mut self, id: FileId, with_times: bool) -> Result<()> {
        if self.is_snapshot {
            return Ok(());
        }
        self.settle()?;
        let inode = &self.file(id)?.inode;
        let (is_folder, parent, links) = (inode.is_folder(), inode.parent, inode.metadata.links);
        self.write_back_file(id, usize::MAX)?;
        if links == 0 && !self.since.renamed.contains(&id) {
            return self.log.flush(); // gone after a crash anyway, unless the loss of its name was not durable
        }
        let is_new = self.since.new.contains(&id);
        let needs_checkpoint = is_folder
            || self.since.renamed.contains(&id)
            || is_new && (self.since.is_name_lost || self.since.new.contains(&parent));
        if needs_checkpoint {
            return self.checkpoint();
        }
        self.make_room(self.index.changed_units())?;
        if self.since.changed.contains(&id) || with_times && self.since.times.contains(&id) {
            self.store_inode(id)?;
        }
        match self.index.sync_file(&mut self.log, id)? {
            Synced::Yes => Ok(()),
            Synced::NeedsCheckpoint => self.checkpoint(),
        }
    }

    fn store_inode(&mut self, id: FileId) -> Result<()> {
        if let Some(file) = self.files.get(&id) {
            self.index.set_inode(&mut self.log, id, &file.inode)?;
        }
        self.since.changed.remove(&id);
        self.since.times.remove(&id);
        Ok(())
    }

    /// Sends up to `most` dirty pages of a file to the log.
    pub(crate) fn write_back_file(&mut self, id: FileId, most: usize) -> Result<()> {
        let part = self.log.segments.units() as usize;
        let mut written = 0;
        while written < most {
            let units = self.pages.dirty_units(id, 0, part.min(most - written));
            if units.is_empty() {
                break;
            }
            self.make_room(units.len() as u64 + self.index.changed_units())?;
            written += units.len();
            for unit in units {
                self.write_back_page(id, unit)?;
            }
        }
        Ok(())
    }

    /// Sends a dirty page to the log.
    pub(crate) fn write_back_page(&mut self, id: FileId, unit: u32) -> Result<()> {
        // Cleaning in between may have written it.
        if !self.pages.is_dirty((id, unit)) {
            return Ok(());
        }
        let purpose = if self.file(id)?.inode.is_folder() { Purpose::Folder } else { Purpose::Content };
        let page = self.pages.find((id, unit)).expect("a dirty page is in memory");
        self.index.append(&mut self.log, purpose, id, unit, page)?;
        self.pages.mark_clean((id, unit));
        Ok(())
    }

    /// Writes dirty pages back if there are too many.
    pub(crate) fn limit_dirty_pages(&mut self) -> Result<()> {
        let limit = self.pages.dirty_limit();
        if self.pages.dirty_pages() <= limit {
            return Ok(());
        }
        while self.pages.dirty_pages() > limit - limit / 4 {
            let after = FileId(self.written_back.0.saturating_add(1));
            let next = self.pages.next_dirty_file(after).or_else(|| self.pages.next_dirty_file(FileId(0)));
            let Some(file) = next else { break };
            self.write_back_file(file, BATCH_PAGES)?;
            self.written_back = file;
            self.limit_changes()?;
        }
        Ok(())
    }

    /// Before an operation changes anything: keeps what a checkpoint would write below what is kept free for it.
    pub(crate) fn settle(&mut self) -> Result<()> {
        self.check_writable()?;
        if self.since.block_changes > 2 * self.log.segments.units() {
            self.write_back_folders(true)?;
        }
        self.limit_changes()
    }

    fn limit_changes(&mut self) -> Result<()> {
        if self.index.is_checkpoint_due(&self.log) {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Sends dirty pages of everything but files to the log: what a checkpoint must have.
    fn write_back_folders(&mut self, may_clean: bool) -> Result<()> {
        let mut from = FileId(0);
        while let Some(id) = self.pages.next_dirty_file(from) {
            if self.file(id)?.inode.metadata.kind != FileKind::File {
                match may_clean {
                    true => self.write_back_file(id, usize::MAX)?,
                    false => {
                        for unit in self.pages.dirty_units(id, 0, usize::MAX) {
                            self.write_back_page(id, unit)?;
                        }
                    }
                }
            }
            from = FileId(id.0.saturating_add(1));
        }
        self.since.block_changes = 0;
        Ok(())
    }

    /// Whether anything waits to be made durable.
    pub(crate) fn is_dirty(&self) -> bool {
        let since = &self.since;
        self.pages.dirty_pages() > 0
            || self.index.changed_units() > 0
            || !(since.changed.is_empty() && since.times.is_empty())
            || !(since.new.is_empty() && since.renamed.is_empty())
            || since.is_name_lost
    }

    /// Makes everything durable.
    pub(crate) fn sync_all(&mut self, is_last: bool) -> Result<()> {
        self.log.check()?;
        while let Some(file) = self.pages.next_dirty_file(FileId(0)) {
            self.write_back_file(file, usize::MAX)?;
            self.limit_changes()?;
        }
        self.make_room(self.index.changed_units())?;
        self.write_checkpoint(is_last)
    }

    /// Makes all names, and all that was written back, durable in one step.
    pub(crate) fn checkpoint(&mut self) -> Result<()> {
        self.write_back_folders(true)?;
        self.make_room(self.index.changed_units())?;
        self.write_checkpoint(false)
    }

    /// The same, without cleaning first.
    pub(crate) fn write_checkpoint(&mut self, is_last: bool) -> Result<()> {
        self.log.check()?;
        self.write_back_folders(false)?;
        for id in std::mem::take(&mut self.since.times) {
            self.since.changed.insert(id);
        }
        for id in self.since.changed.clone() {
            self.store_inode(id)?;
        }
        let orphans: Vec<FileId> = self.orphans.iter().copied().collect();
        self.index.checkpoint(&mut self.log, &orphans, is_last)?;
        self.since = SinceCheckpoint::default();
        for segment in self.log.segments.checkpointed() {
            let units = self.log.segments.units();
            self.log.trim(self.log.segments.first_lpn(segment), units)?;
        }
        Ok(())
    }
}
