//! A mounted file system: its parts, and files in memory.

use std::collections::BTreeSet;
use std::fmt;

use rustc_hash::FxHashMap;
use tantalum::Status;
use tantalum_drive::Client;
use tantalum_filesystem::{
    Errno, FileId, FileKind, FileSystem, LogStatistics, Metadata, Outcome, PageCache, Statistics, Timestamp,
    UnmountFailure,
};

use crate::checkpoint_delta::CheckpointDelta;
use crate::cleaner::job::Job;
use crate::counters::{CleanerCounters, SyncCounters, WrittenCounters};
use crate::error::{LfsError, Result, refuse};
use crate::index::Index;
use crate::inode::Inode;
use crate::names::Folder;
use crate::segments::Log;
use crate::superblock::{LfsKind, Superblock};

/// A file in memory.
#[derive(Debug)]
pub(crate) struct File {
    pub inode: Inode,
    pub opens: u32,
    /// The size that the index has made durable, or will with the next checkpoint.
    pub stored_size: u64,
}

impl File {
    pub fn new(inode: Inode) -> File {
        File { stored_size: inode.metadata.size, inode, opens: 0 }
    }
}

/// A mounted log-structured file system.
///
/// Dropping it without unmounting is a crash of the host: what was not synced is lost.
pub struct LogFs {
    pub(crate) superblock: Superblock,
    pub(crate) log: Log,
    pub(crate) index: Box<dyn Index>,
    pub(crate) pages: PageCache,
    pub(crate) files: FxHashMap<FileId, File>,
    pub(crate) folders: FxHashMap<FileId, Folder>,
    /// Files that have no name and are open.
    pub(crate) orphans: BTreeSet<FileId>,
    pub(crate) since: CheckpointDelta,
    /// What the cleaner is doing in the background.
    pub(crate) job: Option<Job>,
    pub(crate) cleaned: CleanerCounters,
    /// Number of files in memory beyond which unneeded ones are dropped.
    pub(crate) most_files: usize,
    /// Units of contents of files that were sent to the drive, without what the cleaner moved.
    pub(crate) content_units: u64,
    pub(crate) synced: SyncCounters,
    /// Units sent to the drive before the mount.
    pub(crate) units_before: u64,
    /// It is a snapshot: nothing may change.
    pub(crate) is_snapshot: bool,
    /// Why nothing may change any more: see [`LogFs::change`].
    pub(crate) stopped: Option<Status>,
    /// The file whose pages were last written back because too many were dirty.
    pub(crate) written_back: FileId,
}

/// Units sent to the drive in its life.
pub(crate) fn host_units(client: &Client) -> u64 {
    client.device().smart().counters.host_units_written
}

impl fmt::Debug for LogFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogFs")
            .field("kind", &self.superblock.kind)
            .field("files", &self.index.file_count())
            .field("free_segments", &self.log.segments.free_segments())
            .field("dirty_pages", &self.pages.dirty_pages())
            .finish_non_exhaustive()
    }
}

impl LogFs {
    /// How files are indexed.
    pub fn kind(&self) -> LfsKind {
        self.superblock.kind
    }

    /// How files were made durable.
    pub fn syncs(&self) -> SyncCounters {
        self.synced
    }

    /// What was written since the mount, by kind.
    pub fn written(&self) -> WrittenCounters {
        self.log.written
    }

    /// What was written since the mount.
    pub(crate) fn log_statistics(&self) -> LogStatistics {
        LogStatistics {
            units_written: host_units(&self.log.client).saturating_sub(self.units_before),
            content_units_written: self.content_units,
            syncs_listed: self.synced.listed,
            syncs_indexed: self.synced.indexed,
            units_in_place: self.synced.units_in_place,
            units_in_holes: self.log.filled_units(),
            checkpoints: self.synced.checkpoints,
            units_copied: self.cleaned.copied_units,
            units_moved: self.cleaned.remapped_units,
        }
    }

    /// Units of files' contents sent to the drive since the mount, without what the cleaner moved: the amount of file
    /// data by which the thesis divides all writes (section 4.4.4).
    pub fn content_units_written(&self) -> u64 {
        self.content_units
    }

    /// Fails if nothing may change, or the drive has come to its end.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.is_snapshot {
            return refuse(Errno::EROFS);
        }
        self.check_not_stopped()
    }

    /// Why nothing may change any more, if that is so: the error of the change that failed half way, or of the drive when it
    /// came to its end.
    pub fn stopped(&self) -> Option<Status> {
        self.stopped.clone().or_else(|| self.log.client.end())
    }

    pub(crate) fn check_not_stopped(&self) -> Result<()> {
        match &self.stopped {
            Some(why) => Err(LfsError::Stopped(why.clone())),
            None => self.log.check(),
        }
    }

    /// Changes something, syncs or cleans: all of these have steps in the index, in the log and in memory. A refusal comes
    /// before the first of them, and so does a read that fails. If the drive fails in another way, some steps may have been
    /// done: then nothing may change or be synced any more until the file system is mounted again, which leaves what was
    /// synced. Reads go on; of what the failed change was about they may see a part.
    pub(crate) fn change<T>(&mut self, work: impl FnOnce(&mut LogFs) -> Result<T>) -> Result<T> {
        let done = work(self);
        if let Err(LfsError::Device(status)) = &done
            && !matches!(status, Status::Unreadable { .. })
        {
            self.stopped.get_or_insert_with(|| status.clone());
        }
        done
    }

    /// A file; `ESTALE` if there is none.
    pub(crate) fn file(&mut self, id: FileId) -> Result<&mut File> {
        if !self.files.contains_key(&id) {
            self.log.check_power()?;
            let Some(inode) = self.index.inode(&mut self.log, id)? else { return refuse(Errno::ESTALE) };
            self.forget_some_files();
            self.files.insert(id, File::new(inode));
        }
        Ok(self.files.get_mut(&id).expect("it is in memory"))
    }

    /// Bounds the files in memory.
    fn forget_some_files(&mut self) {
        const ENOUGH_FILES: usize = 100_000;
        if self.files.len() < self.most_files.max(ENOUGH_FILES) {
            return;
        }
        let LogFs { files, folders, since, most_files, .. } = self;
        files.retain(|id, file| file.opens > 0 || since.is_changed(*id) || since.times.contains(id));
        folders.retain(|id, _| files.contains_key(id));
        // Open files stay, so the next sweep pays only when there are many others again.
        *most_files = 2 * files.len();
    }

    /// A file whose contents programs read and write.
    pub(crate) fn content_file(&mut self, id: FileId) -> Result<&mut File> {
        let file = self.file(id)?;
        match file.inode.metadata.kind {
            FileKind::File => Ok(self.file(id)?),
            FileKind::Folder => refuse(Errno::EISDIR),
            _ => refuse(Errno::EINVAL),
        }
    }

    /// The inode of a file in memory, for changing more than its times.
    pub(crate) fn change_inode(&mut self, id: FileId) -> Result<&mut Inode> {
        self.file(id)?;
        self.since.changed.insert(id);
        Ok(&mut self.file(id)?.inode)
    }

    /// The metadata of a file in memory, for changing its size or number of units.
    pub(crate) fn change_space(&mut self, id: FileId) -> Result<&mut Metadata> {
        self.file(id)?;
        self.since.resized.insert(id);
        Ok(&mut self.file(id)?.inode.metadata)
    }

    /// The file's contents or a folder's entries changed.
    pub(crate) fn modified(&mut self, id: FileId, now: Timestamp) -> Result<()> {
        self.file(id)?.inode.metadata.modified = now;
        self.status_changed(id, now)
    }

    /// The file's metadata or names changed.
    pub(crate) fn status_changed(&mut self, id: FileId, now: Timestamp) -> Result<()> {
        self.file(id)?.inode.metadata.changed = now;
        self.since.times.insert(id);
        Ok(())
    }
}

impl FileSystem for LogFs {
    fn client(&self) -> &Client {
        &self.log.client
    }

    fn client_mut(&mut self) -> &mut Client {
        &mut self.log.client
    }

    fn statistics(&self) -> Statistics {
        let segments = &self.log.segments;
        let free_units = segments.available();
        Statistics {
            units: segments.capacity(),
            free_units,
            files: self.index.file_count(),
            free_files: self.index.free_files().min(free_units),
            log: Some(self.log_statistics()),
            ..Statistics::default()
        }
    }

    /// Also cleans a little, if that pays: a mount calls this when it has nothing else to do.
    fn write_back(&mut self) -> Outcome<()> {
        if self.is_dirty() {
            self.change(|fs| fs.sync_all(false))?;
        }
        self.change(LogFs::clean_slice)?;
        Ok(())
    }

    fn unmount(self: Box<Self>) -> std::result::Result<Client, UnmountFailure> {
        LogFs::unmount(*self).map_err(|failed| failed.1.into())
    }

    fn into_client_without_sync(self: Box<Self>) -> Client {
        LogFs::into_client_without_sync(*self)
    }
}
