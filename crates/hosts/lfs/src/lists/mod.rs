//! Syncs that write only contents: in non-volatile memory, the drive lists which units belong where in which file
//! (Jin's thesis, section 4.3.2). The index keeps its changes in memory until the next checkpoint; after a crash, the
//! lists are applied to what the index recovers by itself.
//!
//! A list has places, but no names, sizes beyond whole units, holes or attributes. A file with such changes, or one
//! that no checkpoint has, is synced through the index, as without lists. So is one that the drive refuses to list.
//!
//! Invariants:
//! - **F1** Lists belong to the last durable checkpoint. The highest bit of the file's number in the list changes with
//!   every checkpoint and tells lists apart: lists of another checkpoint are void, and are cleared before the next.
//! - **F2** For each file, what is listed is newer than what the index made durable, except while a sync through the
//!   index is in progress. It clears the file's list before it returns.
//! - **F3** A list is cleared when what makes it void is durable.

pub(crate) mod files;

use tantalum_canaries::guard;
use tantalum_filesystem::{FileId, FileKind};

use crate::content::{UNIT, units_of};
use crate::error::Result;
use crate::fs::LogFs;
use crate::index::BlockPointer;
use crate::segments::ListNumber;

/// The size of a file after a crash: as the index stored it, unless its list has a unit beyond that.
fn recovered_size(stored: u64, end: u64) -> u64 {
    if end > units_of(stored) { end * UNIT } else { stored }
}

impl LogFs {
    /// Whether everything of a file that a crash must not lose is in its list, or will be with its dirty pages.
    pub(crate) fn lists_tell_all(&mut self, id: FileId) -> Result<bool> {
        let end = self.pages.last_dirty_unit(id).map_or(0, |unit| u64::from(unit) + 1);
        self.lists_tell(id, end, |recovered, size| recovered == size)
    }

    /// Whether a file's list may get units up to `end`: nothing else has changed, and `fits` accepts the size that the
    /// file would have after a crash, given its current size.
    pub(crate) fn lists_tell(
        &mut self,
        id: FileId,
        end: u64,
        fits: impl Fn(u64, u64) -> bool,
    ) -> Result<bool> {
        if !self.log.lists_file(id) {
            return Ok(false);
        }
        let file = self.file(id)?;
        let (metadata, stored) = (file.inode.metadata, file.stored_size);
        let since = &self.since;
        let needs_index = since.changed.contains(&id)
            || since.new.contains(&id)
            || since.renamed.contains(&id)
            || since.lists.untold.contains(&id);
        let end = end.max(since.lists.ends.get(&id).copied().unwrap_or_default());
        Ok(!needs_index
            && metadata.kind == FileKind::File
            && metadata.links > 0
            && end <= u64::from(u32::MAX)
            && fits(recovered_size(stored, end), metadata.size))
    }

    /// The index has made a file durable.
    pub(crate) fn index_told(&mut self, id: FileId) -> Result<()> {
        self.since.lists.untold.remove(&id);
        if self.since.lists.ends.remove(&id).is_some() {
            guard!(ListBehindNodes, self.log.clear_list(id)?);
        }
        Ok(())
    }

    /// A checkpoint is durable: all lists are void.
    pub(crate) fn clear_lists(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.since.lists.ends).is_empty() {
            self.log.clear_all_lists()?;
        }
        self.log.begin_lists(self.index.checkpoints());
        Ok(())
    }

    /// Applies the lists to what the index has recovered. The next checkpoint makes the result durable.
    pub(crate) fn recover_lists(&mut self) -> Result<()> {
        self.log.begin_lists(self.index.checkpoints());
        for (file, list) in self.log.clear_void_lists()? {
            self.since.lists.ends.insert(file, 0);
            if self
                .index
                .inode(&mut self.log, file)?
                .is_some_and(|inode| inode.metadata.kind == FileKind::File)
            {
                self.follow_list(file, list)?;
            }
        }
        self.index.end_following(&mut self.log)
    }

    fn follow_list(&mut self, file: FileId, list: ListNumber) -> Result<()> {
        let (mut filled, mut end) = (0, 0);
        for (lpn, unit) in self.log.list(list)? {
            if self.log.segments.find(lpn).is_none() {
                continue;
            }
            let pointer = self.index.pointer(&mut self.log, file, unit)?;
            filled += u64::from(pointer == BlockPointer::Hole);
            end = end.max(u64::from(unit) + 1);
            self.index.follow(&mut self.log, file, unit, lpn)?;
        }
        let stored = self.file(file)?.stored_size;
        let metadata = self.change_space(file)?;
        metadata.units += filled;
        metadata.size = recovered_size(stored, end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_lengthens_a_file_by_whole_units_only() {
        assert_eq!((recovered_size(0, 0), recovered_size(0, 2)), (0, 8192));
        assert_eq!((recovered_size(5000, 2), recovered_size(5000, 3)), (5000, 3 * 4096));
    }
}
