//! Skeleton.
#![allow(unused_variables, missing_docs)]
use crate::error::VolumeError;
use crate::file::FileId;
use crate::metadata::*;
use crate::volume::Volume;
type Result<T> = std::result::Result<T, VolumeError>;
fn no<T>() -> Result<T> {
    Err(VolumeError::Unsupported)
}
impl Volume {
    pub fn lookup(&self, folder: FileId, name: &[u8]) -> Result<FileId> {
        no()
    }
    /// The folder that a folder lies in; the root's is itself.
    pub fn parent(&self, folder: FileId) -> Result<FileId> {
        no()
    }
    pub fn metadata(&self, file: FileId) -> Result<Metadata> {
        no()
    }
    pub fn change_metadata(&mut self, file: FileId, change: &MetadataChange) -> Result<()> {
        no()
    }
    pub fn create_in(&mut self, folder: FileId, name: &[u8], new: &NewFile) -> Result<FileId> {
        no()
    }
    pub fn create_symbolic_link(
        &mut self,
        folder: FileId,
        name: &[u8],
        target: &[u8],
        new: &NewFile,
    ) -> Result<FileId> {
        no()
    }
    pub fn read_symbolic_link(&self, file: FileId) -> Result<Vec<u8>> {
        no()
    }
    pub fn link(&mut self, file: FileId, folder: FileId, name: &[u8], now: Timestamp) -> Result<()> {
        no()
    }
    pub fn unlink(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Result<()> {
        no()
    }
    pub fn remove_folder(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Result<()> {
        no()
    }
    #[allow(clippy::too_many_arguments)]
    pub fn rename_in(
        &mut self,
        folder: FileId,
        name: &[u8],
        new_folder: FileId,
        new_name: &[u8],
        mode: RenameMode,
        now: Timestamp,
    ) -> Result<()> {
        no()
    }
    pub fn read_folder(&self, folder: FileId, after: u64) -> Result<impl Iterator<Item = FolderEntry<'_>>> {
        no::<std::iter::Empty<FolderEntry<'_>>>()
    }
    pub fn open(&mut self, file: FileId) -> Result<()> {
        no()
    }
    pub fn close(&mut self, file: FileId) -> Result<()> {
        no()
    }
    /// As [`Volume::sync`], but times alone are not made durable (fdatasync).
    pub fn sync_data(&mut self, file: FileId) -> Result<()> {
        no()
    }
    /// Whole units; waits for the drive, past the page cache.
    pub fn write_direct(&mut self, file: FileId, offset: u64, data: &[u8]) -> Result<()> {
        no()
    }
    /// Whole units; returns bytes read.
    pub fn read_direct(&mut self, file: FileId, offset: u64, data: &mut [u8]) -> Result<usize> {
        no()
    }
    /// fallocate.
    pub fn allocate(&mut self, file: FileId, offset: u64, bytes: u64, keep_size: bool) -> Result<()> {
        no()
    }
    pub fn punch_hole(&mut self, file: FileId, offset: u64, bytes: u64) -> Result<()> {
        no()
    }
    pub fn zero_range(&mut self, file: FileId, offset: u64, bytes: u64, keep_size: bool) -> Result<()> {
        no()
    }
    /// None behind the last data (ENXIO).
    pub fn seek_data(&self, file: FileId, from: u64) -> Result<Option<u64>> {
        no()
    }
    /// None at or behind the file's end (ENXIO).
    pub fn seek_hole(&self, file: FileId, from: u64) -> Result<Option<u64>> {
        no()
    }
    pub fn copy_range(
        &mut self,
        from: FileId,
        from_offset: u64,
        to: FileId,
        to_offset: u64,
        bytes: u64,
    ) -> Result<u64> {
        no()
    }
    pub fn commit_ranges(&mut self, ranges: &[RangeCommit]) -> Result<()> {
        no()
    }
    pub fn exchange_ranges(
        &mut self,
        a: FileId,
        a_offset: u64,
        b: FileId,
        b_offset: u64,
        bytes: u64,
    ) -> Result<()> {
        no()
    }
    pub fn extended_attribute(&self, file: FileId, name: &[u8]) -> Result<Vec<u8>> {
        no()
    }
    pub fn set_extended_attribute(
        &mut self,
        file: FileId,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Result<()> {
        no()
    }
    pub fn remove_extended_attribute(&mut self, file: FileId, name: &[u8]) -> Result<()> {
        no()
    }
    /// The names of all of them.
    pub fn extended_attributes(&self, file: FileId) -> Result<Vec<Vec<u8>>> {
        no()
    }
    pub fn statistics(&self) -> VolumeStatistics {
        VolumeStatistics::default()
    }
    /// Whether anything waits to be made durable.
    pub fn is_dirty(&self) -> bool {
        true
    }
    /// Whether writes that equal one made shortly before become shares. Off in a new mount.
    pub fn set_remap_duplicates(&mut self, on: bool) {}
}
