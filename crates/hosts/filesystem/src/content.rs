//! The contents of files.

use tantalum::{Fetches, Fills, UNIT_BYTES};

use crate::{Errno, FileId, Outcome};

/// Reads, writes, and makes durable what was written.
///
/// Access to a folder's contents fails with `EISDIR`, and an end beyond the maximum file size with `EFBIG`. The caller
/// sets times.
pub trait Content {
    /// Reads into `data`, and returns how many bytes there were: fewer than requested at the file's end.
    ///
    /// With `later`, units that are in the file of the drive's image may be left for the caller to fetch into `data`
    /// ([`tantalum::Device::fetches`]), while others use the file system. Then `offset` and length are whole units, and
    /// the contents of `data` after the bytes read are undefined.
    fn read(
        &mut self,
        file: FileId,
        offset: u64,
        data: &mut [u8],
        later: Option<&mut Fetches>,
    ) -> Outcome<usize>;

    /// Writes, usually into the file system's own cache.
    fn write(&mut self, file: FileId, offset: u64, data: &[u8]) -> Outcome<()>;

    /// Writes whole units and waits for the drive (`O_DIRECT`); durable with a sync.
    ///
    /// `fills`, if given, are buffers of the drive that already hold `data` ([`tantalum::Device::fills`]): writing with
    /// [`tantalum::Command::WriteFilled`] then needs no copy. The caller releases the rest.
    fn write_direct(
        &mut self,
        file: FileId,
        offset: u64,
        data: &[u8],
        fills: Option<&mut Fills>,
    ) -> Outcome<()>;

    /// Whether the file system has [`Content::write_whole`].
    fn has_whole_writes(&self) -> bool {
        false
    }

    /// As [`Content::write_direct`]; after a power cut it is seen completely or not at all. More than one batch of the
    /// drive is several such writes.
    fn write_whole(&mut self, _file: FileId, _offset: u64, _data: &[u8]) -> Outcome<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Sends a file's dirty data to the drive, and waits until the drive has them: the part of a sync that precedes the
    /// file's metadata (`sync_file_range`). A file system may leave all of it to the sync.
    fn write_out(&mut self, _file: FileId) -> Outcome<()> {
        Ok(())
    }

    /// Makes a file durable, with its contents and metadata (`fsync`).
    fn sync(&mut self, file: FileId) -> Outcome<()>;

    /// As [`Content::sync`], but times alone need not be made durable (`fdatasync`).
    fn sync_data(&mut self, file: FileId) -> Outcome<()>;
}

/// Whether a range is one or more whole units of the drive.
pub fn is_whole_units(offset: u64, bytes: usize) -> bool {
    offset.is_multiple_of(UNIT_BYTES as u64) && bytes.is_multiple_of(UNIT_BYTES) && bytes > 0
}
