//! The file system as a mount sees it: [`FileSystem`], in terms of its own methods.

use std::ops::ControlFlow;

use tantalum::{Fetches, Fills};
use tantalum_drive::Client;
use tantalum_filesystem::{
    Attributes, Content, Errno, FileId, FileSystem, FolderEntry, Metadata, MetadataChange, Names, NewFile,
    Outcome, Ranges, RenameMode, SetMode, Statistics, Timestamp, UnmountFailure, is_whole_units,
};

use crate::fs::LogFs;

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

    /// Writes back what is dirty, and cleans a little if that pays: a mount calls this when it has nothing else to do.
    fn write_back(&mut self) -> Outcome<()> {
        if self.is_dirty() {
            self.change(|fs| fs.sync_all(false))?;
        }
        self.change(LogFs::clean_slice)?;
        Ok(())
    }

    fn unmount(self: Box<Self>) -> Result<Client, UnmountFailure> {
        LogFs::unmount(*self).map_err(|failed| failed.1.into())
    }

    fn into_client_without_sync(self: Box<Self>) -> Client {
        LogFs::into_client_without_sync(*self)
    }
}

impl Names for LogFs {
    fn lookup(&mut self, folder: FileId, name: &[u8]) -> Outcome<FileId> {
        Ok(self.lookup_name(folder, name)?.file)
    }

    fn parent(&mut self, folder: FileId) -> Outcome<FileId> {
        let inode = &self.file(folder)?.inode;
        if inode.is_folder() { Ok(inode.parent) } else { Err(Errno::ENOTDIR) }
    }

    fn read_folder(
        &mut self,
        folder: FileId,
        after: u64,
        take: &mut dyn FnMut(FolderEntry<'_>) -> ControlFlow<()>,
    ) -> Outcome<()> {
        let entries = self.folder(folder)?.after(after);
        let _ = entries
            .map(|(cookie, name, entry)| FolderEntry { cookie, name, file: entry.file, kind: entry.kind })
            .try_for_each(take);
        Ok(())
    }

    fn create_in(&mut self, folder: FileId, name: &[u8], new: &NewFile) -> Outcome<FileId> {
        Ok(self.change(|fs| fs.make_file(folder, name, new))?)
    }

    fn create_symbolic_link(
        &mut self,
        folder: FileId,
        name: &[u8],
        target: &[u8],
        new: &NewFile,
    ) -> Outcome<FileId> {
        Ok(self.change(|fs| fs.make_symbolic_link(folder, name, target, new))?)
    }

    fn read_symbolic_link(&mut self, file: FileId) -> Outcome<Vec<u8>> {
        let metadata = self.metadata_of(file)?;
        if metadata.kind != tantalum_filesystem::FileKind::SymbolicLink {
            return Err(Errno::EINVAL);
        }
        let page = self.page(file, 0)?;
        Ok(page.map_or_else(Vec::new, |page| page[..(metadata.size as usize).min(page.len())].to_vec()))
    }

    fn link(&mut self, file: FileId, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()> {
        Ok(self.change(|fs| fs.link_file(file, folder, name, now))?)
    }

    fn unlink(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()> {
        Ok(self.change(|fs| fs.unlink_name(folder, name, now))?)
    }

    fn remove_folder(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()> {
        Ok(self.change(|fs| fs.remove_empty_folder(folder, name, now))?)
    }

    fn rename_in(
        &mut self,
        folder: FileId,
        name: &[u8],
        new_folder: FileId,
        new_name: &[u8],
        mode: RenameMode,
        now: Timestamp,
    ) -> Outcome<()> {
        Ok(self.change(|fs| fs.rename((folder, name), (new_folder, new_name), mode, now))?)
    }

    fn open(&mut self, file: FileId) -> Outcome<()> {
        Ok(self.open_file(file)?)
    }

    fn close(&mut self, file: FileId) -> Outcome<()> {
        Ok(self.change(|fs| fs.close_file(file))?)
    }

    fn sync_folder(&mut self, folder: FileId) -> Outcome<()> {
        Ok(self.change(|fs| fs.sync_file(folder, true))?)
    }
}

impl Attributes for LogFs {
    fn metadata(&mut self, file: FileId) -> Outcome<Metadata> {
        Ok(self.metadata_of(file)?)
    }

    fn change_metadata(&mut self, file: FileId, change: &MetadataChange) -> Outcome<()> {
        Ok(self.change(|fs| fs.change_metadata_of(file, change))?)
    }

    fn extended_attribute(&mut self, file: FileId, name: &[u8]) -> Outcome<Vec<u8>> {
        Ok(self.attribute(file, name)?)
    }

    fn extended_attributes(&mut self, file: FileId) -> Outcome<Vec<Vec<u8>>> {
        Ok(self.attribute_names(file)?)
    }

    fn set_extended_attribute(
        &mut self,
        file: FileId,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Outcome<()> {
        Ok(self.change(|fs| fs.set_attribute(file, name, value, mode))?)
    }

    fn remove_extended_attribute(&mut self, file: FileId, name: &[u8]) -> Outcome<()> {
        Ok(self.change(|fs| fs.remove_attribute(file, name))?)
    }
}

impl Content for LogFs {
    /// Whole units bypass the page cache, except for pages that are there: the kernel has its own cache.
    fn read(
        &mut self,
        file: FileId,
        offset: u64,
        data: &mut [u8],
        later: Option<&mut Fetches>,
    ) -> Outcome<usize> {
        let bytes = match is_whole_units(offset, data.len()) {
            true => self.read_units(file, offset, data, later)?,
            false => self.read_bytes(file, offset, data)?,
        };
        Ok(bytes)
    }

    fn write(&mut self, file: FileId, offset: u64, data: &[u8]) -> Outcome<()> {
        Ok(self.change(|fs| fs.write_bytes(file, offset, data))?)
    }

    fn write_direct(
        &mut self,
        file: FileId,
        offset: u64,
        data: &[u8],
        fills: Option<&mut Fills>,
    ) -> Outcome<()> {
        Ok(self.change(|fs| fs.write_units(file, offset, data, fills))?)
    }

    /// As the first part of [`Content::sync_data`].
    fn write_out(&mut self, file: FileId) -> Outcome<()> {
        self.change(|fs| {
            fs.settle()?;
            if !fs.write_out_file(file, false)? {
                fs.log.flush_contents(file)?;
            }
            Ok(())
        })?;
        Ok(())
    }

    fn sync(&mut self, file: FileId) -> Outcome<()> {
        Ok(self.change(|fs| fs.sync_file(file, true))?)
    }

    fn sync_data(&mut self, file: FileId) -> Outcome<()> {
        Ok(self.change(|fs| fs.sync_file(file, false))?)
    }
}

impl Ranges for LogFs {
    fn allocate(&mut self, file: FileId, offset: u64, bytes: u64, keep_size: bool) -> Outcome<()> {
        Ok(self.change(|fs| fs.allocate_range(file, offset, bytes, keep_size))?)
    }

    fn punch_hole(&mut self, file: FileId, offset: u64, bytes: u64) -> Outcome<()> {
        Ok(self.change(|fs| fs.punch(file, offset, bytes))?)
    }

    fn zero_range(&mut self, file: FileId, offset: u64, bytes: u64, keep_size: bool) -> Outcome<()> {
        Ok(self.change(|fs| fs.zero(file, offset, bytes, keep_size))?)
    }

    fn seek_data(&mut self, file: FileId, from: u64) -> Outcome<Option<u64>> {
        Ok(self.find_data(file, from)?)
    }

    fn seek_hole(&mut self, file: FileId, from: u64) -> Outcome<Option<u64>> {
        Ok(self.find_hole(file, from)?)
    }
}
