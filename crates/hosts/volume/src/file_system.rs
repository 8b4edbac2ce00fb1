//! A volume as a mount sees it: [`FileSystem`], in terms of the volume's own methods.

use std::ops::ControlFlow;

use tantalum::{Fetches, Fills};
use tantalum_drive::Client;
use tantalum_filesystem::{
    Attributes, Content, FileId, FileSystem, FolderEntry, Metadata, MetadataChange, Names, NewFile, Outcome,
    RangeCommit, Ranges, RenameMode, SetMode, Statistics, Timestamp, UnmountFailure, is_whole_units,
};

use crate::control::Volume;

impl FileSystem for Volume {
    fn client(&self) -> &Client {
        Volume::client(self)
    }

    fn client_mut(&mut self) -> &mut Client {
        Volume::client_mut(self)
    }

    fn statistics(&self) -> Statistics {
        Volume::statistics(self)
    }

    fn write_back(&mut self) -> Outcome<()> {
        if self.is_dirty() {
            self.sync_all()?;
        }
        Ok(())
    }

    fn unmount(self: Box<Self>) -> Result<Client, UnmountFailure> {
        Volume::unmount(*self).map_err(|failed| failed.error.into())
    }

    fn into_client_without_sync(self: Box<Self>) -> Client {
        Volume::into_client_without_sync(*self)
    }
}

impl Names for Volume {
    fn lookup(&mut self, folder: FileId, name: &[u8]) -> Outcome<FileId> {
        Ok(Volume::lookup(self, folder, name)?)
    }

    fn parent(&mut self, folder: FileId) -> Outcome<FileId> {
        Ok(Volume::parent(self, folder)?)
    }

    fn read_folder(
        &mut self,
        folder: FileId,
        after: u64,
        take: &mut dyn FnMut(FolderEntry<'_>) -> ControlFlow<()>,
    ) -> Outcome<()> {
        let _ = Volume::read_folder(self, folder, after)?.try_for_each(take);
        Ok(())
    }

    fn create_in(&mut self, folder: FileId, name: &[u8], new: &NewFile) -> Outcome<FileId> {
        Ok(Volume::create_in(self, folder, name, new)?)
    }

    fn create_symbolic_link(
        &mut self,
        folder: FileId,
        name: &[u8],
        target: &[u8],
        new: &NewFile,
    ) -> Outcome<FileId> {
        Ok(Volume::create_symbolic_link(self, folder, name, target, new)?)
    }

    fn read_symbolic_link(&mut self, file: FileId) -> Outcome<Vec<u8>> {
        Ok(Volume::read_symbolic_link(self, file)?)
    }

    fn link(&mut self, file: FileId, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()> {
        Ok(Volume::link(self, file, folder, name, now)?)
    }

    fn unlink(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()> {
        Ok(Volume::unlink(self, folder, name, now)?)
    }

    fn remove_folder(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()> {
        Ok(Volume::remove_folder(self, folder, name, now)?)
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
        Ok(Volume::rename_in(self, folder, name, new_folder, new_name, mode, now)?)
    }

    fn rename_leaving_whiteout(
        &mut self,
        folder: FileId,
        name: &[u8],
        new_folder: FileId,
        new_name: &[u8],
        whiteout: &NewFile,
    ) -> Outcome<()> {
        Ok(Volume::rename_leaving_whiteout(self, folder, name, new_folder, new_name, whiteout)?)
    }

    fn open(&mut self, file: FileId) -> Outcome<()> {
        Ok(Volume::open(self, file)?)
    }

    fn close(&mut self, file: FileId) -> Outcome<()> {
        Ok(Volume::close(self, file)?)
    }

    fn sync_folder(&mut self, _folder: FileId) -> Outcome<()> {
        Ok(self.sync_names()?)
    }
}

impl Attributes for Volume {
    fn metadata(&mut self, file: FileId) -> Outcome<Metadata> {
        Ok(Volume::metadata(self, file)?)
    }

    fn change_metadata(&mut self, file: FileId, change: &MetadataChange) -> Outcome<()> {
        Ok(Volume::change_metadata(self, file, change)?)
    }

    fn extended_attribute(&mut self, file: FileId, name: &[u8]) -> Outcome<Vec<u8>> {
        Ok(Volume::extended_attribute(self, file, name)?)
    }

    fn extended_attributes(&mut self, file: FileId) -> Outcome<Vec<Vec<u8>>> {
        Ok(Volume::extended_attributes(self, file)?)
    }

    fn set_extended_attribute(
        &mut self,
        file: FileId,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Outcome<()> {
        Ok(Volume::set_extended_attribute(self, file, name, value, mode)?)
    }

    fn remove_extended_attribute(&mut self, file: FileId, name: &[u8]) -> Outcome<()> {
        Ok(Volume::remove_extended_attribute(self, file, name)?)
    }
}

impl Content for Volume {
    /// Whole units bypass the page cache, except for dirty pages there: the kernel has its own cache.
    fn read(
        &mut self,
        file: FileId,
        offset: u64,
        data: &mut [u8],
        later: Option<&mut Fetches>,
    ) -> Outcome<usize> {
        let bytes = match later {
            Some(fetches) => self.read_direct_later(file, offset, data, fetches)?,
            None if is_whole_units(offset, data.len()) => self.read_direct(file, offset, data)?,
            None => Volume::read(self, file, offset, data)?,
        };
        Ok(bytes)
    }

    fn write(&mut self, file: FileId, offset: u64, data: &[u8]) -> Outcome<()> {
        Ok(Volume::write(self, file, offset, data)?)
    }

    fn write_direct(
        &mut self,
        file: FileId,
        offset: u64,
        data: &[u8],
        fills: Option<&mut Fills>,
    ) -> Outcome<()> {
        match fills {
            Some(fills) => Ok(self.write_direct_filled(file, offset, data, fills)?),
            None => Ok(Volume::write_direct(self, file, offset, data)?),
        }
    }

    fn has_whole_writes(&self) -> bool {
        true
    }

    fn write_whole(&mut self, file: FileId, offset: u64, data: &[u8]) -> Outcome<()> {
        Ok(Volume::write_whole(self, file, offset, data)?)
    }

    fn sync(&mut self, file: FileId) -> Outcome<()> {
        Ok(Volume::sync(self, file)?)
    }

    fn sync_data(&mut self, file: FileId) -> Outcome<()> {
        Ok(Volume::sync_data(self, file)?)
    }
}

impl Ranges for Volume {
    fn allocate(&mut self, file: FileId, offset: u64, bytes: u64, keep_size: bool) -> Outcome<()> {
        Ok(Volume::allocate(self, file, offset, bytes, keep_size)?)
    }

    fn punch_hole(&mut self, file: FileId, offset: u64, bytes: u64) -> Outcome<()> {
        Ok(Volume::punch_hole(self, file, offset, bytes)?)
    }

    fn zero_range(&mut self, file: FileId, offset: u64, bytes: u64, keep_size: bool) -> Outcome<()> {
        Ok(Volume::zero_range(self, file, offset, bytes, keep_size)?)
    }

    fn seek_data(&mut self, file: FileId, from: u64) -> Outcome<Option<u64>> {
        Ok(Volume::seek_data(self, file, from)?)
    }

    fn seek_hole(&mut self, file: FileId, from: u64) -> Outcome<Option<u64>> {
        Ok(Volume::seek_hole(self, file, from)?)
    }

    fn copy_range(
        &mut self,
        from: FileId,
        from_offset: u64,
        to: FileId,
        to_offset: u64,
        bytes: u64,
    ) -> Outcome<u64> {
        Ok(Volume::copy_range(self, from, from_offset, to, to_offset, bytes)?)
    }

    fn commit_ranges(&mut self, ranges: &[RangeCommit]) -> Outcome<()> {
        Ok(Volume::commit_ranges(self, ranges)?)
    }

    fn exchange_ranges(
        &mut self,
        a: FileId,
        a_offset: u64,
        b: FileId,
        b_offset: u64,
        bytes: u64,
    ) -> Outcome<()> {
        Ok(Volume::exchange_ranges(self, a, a_offset, b, b_offset, bytes)?)
    }
}
