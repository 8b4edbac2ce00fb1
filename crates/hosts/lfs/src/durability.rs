//! From memory to the drive: write-back, syncs, checkpoints, and how much may wait.

use tantalum_canaries::guard;
use tantalum_filesystem::{FileId, FileKind};

use crate::checkpoint_delta::CheckpointDelta;
use crate::error::Result;
use crate::fs::LogFs;
use crate::index::{Purpose, Synced};
use crate::superblock::Indexing;

/// Dirty pages written back at once when there are too many.
const BATCH_PAGES: usize = 1024;

impl LogFs {
    /// Makes a file durable: with its times, or only if something other than times changed.
    pub(crate) fn sync_file(&mut self, id: FileId, with_times: bool) -> Result<()> {
        if self.is_snapshot {
            return Ok(());
        }
        self.settle()?;
        let inode = &self.file(id)?.inode;
        let (is_folder, parent, links) = (inode.is_folder(), inode.parent, inode.metadata.links);
        if is_folder && self.sync_new_names(id)? {
            return Ok(());
        }
        if self.write_out_file(id, with_times)? {
            self.synced.listed += 1;
            return Ok(());
        }
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
        self.make_room(0, self.index.changed_units())?;
        if self.since.is_changed(id) || with_times && self.since.times.contains(&id) {
            self.store_inode(id)?;
        }
        let dirty = self.pages.last_dirty_unit(id);
        assert_eq!(dirty, None, "file {id} is synced, but a page of it was not written");
        match self.index.sync_file(&mut self.log, id)? {
            Synced::Yes => {
                self.synced.indexed += 1;
                if is_new {
                    self.since.synced_new.insert(id);
                }
                self.index_told(id)
            }
            Synced::NeedsCheckpoint => self.checkpoint(),
        }
    }

    /// Makes all names durable, if the only changes are new files without a durable name, whose inodes contain their names.
    /// False if a checkpoint is needed: with lists it always is, because the drive lists only writes to files that a
    /// checkpoint has.
    fn sync_new_names(&mut self, folder: FileId) -> Result<bool> {
        let is_listed = self.superblock.indexing == Indexing::Nvm;
        if is_listed || self.since.unnamed.is_empty() || !self.since.are_names_new(folder) {
            return Ok(false);
        }
        let unnamed: Vec<FileId> =
            self.since.unnamed.iter().copied().filter(|id| !self.since.synced_new.contains(id)).collect();
        for id in unnamed.iter().copied() {
            // A symbolic link is nothing without its target.
            if self.file(id)?.inode.metadata.kind != FileKind::File {
                self.write_back_file(id, usize::MAX, false)?;
            }
            self.store_inode(id)?;
        }
        self.make_room(0, self.index.changed_units())?;
        // Making room may have taken a checkpoint.
        if self.since.unnamed.is_empty() {
            self.log.flush()?;
            return Ok(true);
        }
        if self.index.sync_new_files(&mut self.log, &unnamed)? == Synced::NeedsCheckpoint {
            return Ok(false);
        }
        self.since.unnamed.clear();
        self.synced.indexed += unnamed.len() as u64;
        unnamed.into_iter().try_for_each(|id| self.index_told(id)).map(|()| true)
    }

    /// Sends the dirty pages of a file to the drive and waits for them. Returns whether that made the file durable.
    pub(crate) fn write_out_file(&mut self, id: FileId, with_times: bool) -> Result<bool> {
        self.log.begin_sending();
        self.overwrite_dirty(id, with_times)?;
        let is_listed = self.lists_tell_all(id)?;
        self.write_back_file(id, usize::MAX, is_listed)?;
        self.log.wait_for_sent()?;
        let is_refused = is_listed && !self.log.lists_file(id);
        self.synced.refused += u64::from(is_refused);
        Ok(is_listed && !is_refused)
    }

    fn store_inode(&mut self, id: FileId) -> Result<()> {
        debug_assert!(
            self.files.contains_key(&id) || !self.since.is_changed(id),
            "file {id} has changed, but is no longer in memory"
        );
        if let Some(file) = self.files.get_mut(&id) {
            self.index.set_inode(&mut self.log, id, &file.inode)?;
            file.stored_size = file.inode.metadata.size;
        }
        self.since.forget_inode(id);
        Ok(())
    }

    /// Sends up to `most` dirty pages of a file to the log, listed by the drive or not.
    pub(crate) fn write_back_file(&mut self, id: FileId, most: usize, is_listed: bool) -> Result<()> {
        let part = self.log.segments.units() as usize;
        let mut written = 0;
        while written < most {
            let units = self.pages.dirty_units(id, 0, part.min(most - written));
            if units.is_empty() {
                break;
            }
            self.make_room(units.len() as u64, self.index.changed_units())?;
            written += units.len();
            for unit in units {
                self.write_back_page(id, unit, is_listed)?;
            }
        }
        Ok(())
    }

    /// Sends a dirty page to the log, listed by the drive or not.
    pub(crate) fn write_back_page(&mut self, id: FileId, unit: u32, is_listed: bool) -> Result<()> {
        // cleaning may have written it in the meantime
        if !self.pages.is_dirty((id, unit)) {
            return Ok(());
        }
        let is_folder = self.file(id)?.inode.is_folder();
        let frame = self.pages.find((id, unit)).expect("a dirty page is in memory");
        let page = self.pages.data(frame);
        if is_folder {
            self.index.append(&mut self.log, Purpose::Folder, id, unit, page)?;
        } else {
            let lists = &mut self.since.lists;
            lists.append(&mut *self.index, &mut self.log, (id, unit), page, is_listed)?;
            self.content_units += 1;
        }
        self.pages.mark_clean(frame);
        Ok(())
    }

    /// Writes dirty pages back if there are too many.
    pub(crate) fn limit_dirty_pages(&mut self) -> Result<()> {
        let limit = self.pages.dirty_limit();
        if self.pages.dirty_pages() <= limit {
            return Ok(());
        }
        while self.pages.dirty_pages() > limit - limit / 4 {
            let next = self.pages.next_dirty_file(Some(self.written_back));
            let next = next.or_else(|| self.pages.next_dirty_file(None));
            let Some(file) = next else { break };
            self.write_back_file(file, BATCH_PAGES, false)?;
            self.written_back = file;
            self.limit_changes()?;
        }
        Ok(())
    }

    /// Called before an operation changes anything: keeps what a checkpoint would write below the space reserved for
    /// it.
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

    /// Sends the dirty pages that a checkpoint must have to the log: those of everything but files.
    fn write_back_folders(&mut self, may_clean: bool) -> Result<()> {
        let mut after = None;
        while let Some(id) = self.pages.next_dirty_file(after) {
            if self.file(id)?.inode.metadata.kind != FileKind::File {
                match may_clean {
                    true => self.write_back_file(id, usize::MAX, false)?,
                    false => {
                        for unit in self.pages.dirty_units(id, 0, usize::MAX) {
                            self.write_back_page(id, unit, false)?;
                        }
                    }
                }
            }
            after = Some(id);
        }
        self.since.block_changes = 0;
        Ok(())
    }

    /// Whether anything waits to be made durable.
    pub(crate) fn is_dirty(&self) -> bool {
        let since = &self.since;
        self.pages.dirty_pages() > 0
            || self.index.changed_units() > 0
            || !(since.changed.is_empty() && since.resized.is_empty() && since.times.is_empty())
            || !(since.new.is_empty() && since.renamed.is_empty())
            || since.is_name_lost
    }

    /// Makes everything durable.
    pub(crate) fn sync_all(&mut self, is_last: bool) -> Result<()> {
        self.check_not_stopped()?;
        while let Some(file) = self.pages.next_dirty_file(None) {
            self.write_back_file(file, usize::MAX, false)?;
            self.limit_changes()?;
        }
        self.make_room(0, self.index.changed_units())?;
        self.write_checkpoint(is_last)?;
        assert!(!self.is_dirty(), "everything was synced, but changes are left: {self:?}");
        Ok(())
    }

    /// Makes all names, and everything written back, durable in one step.
    pub(crate) fn checkpoint(&mut self) -> Result<()> {
        self.write_back_folders(true)?;
        self.make_room(0, self.index.changed_units())?;
        self.write_checkpoint(false)
    }

    /// Writes a checkpoint without cleaning first, which makes all names and everything written back durable in one step.
    pub(crate) fn write_checkpoint(&mut self, is_last: bool) -> Result<()> {
        self.check_not_stopped()?;
        self.write_back_folders(false)?;
        for mut ids in [std::mem::take(&mut self.since.times), std::mem::take(&mut self.since.resized)] {
            self.since.changed.append(&mut ids);
        }
        for id in self.since.changed.clone() {
            self.store_inode(id)?;
        }
        debug_assert!(
            self.since.times.is_empty() && self.since.resized.is_empty() && self.since.changed.is_empty(),
            "a checkpoint leaves inodes out: {:?}",
            self.since
        );
        let orphans: Vec<FileId> = self.orphans.iter().copied().collect();
        debug_assert!(
            orphans.iter().all(|id| self.files.get(id).is_some_and(|file| file.opens > 0)),
            "a file without a name is not open, of {orphans:?}"
        );
        let before = self.index.checkpoints();
        guard!(ListsClearedEarly(self)?);
        self.index.checkpoint(&mut self.log, &orphans, is_last)?;
        let (number, left) = (self.index.checkpoints(), self.index.changed_units());
        assert_eq!(number, before + 1, "a checkpoint has another number than the next");
        assert_eq!(left, 0, "checkpoint {number} leaves units of the index unwritten");
        self.clear_lists()?;
        self.synced.checkpoints += 1;
        self.since = CheckpointDelta::default();
        for segment in self.log.segments.checkpointed() {
            let units = self.log.segments.units();
            self.log.trim(self.log.segments.first_lpn(segment), units)?;
        }
        Ok(())
    }
}
