//! What is in files.

use tantalum::{Fetches, Fills, UNIT_BYTES};

use crate::{Errno, FileId, Outcome};

/// Reading, writing, and making durable what was written.
///
/// A folder's content is refused with `EISDIR`, an end beyond the largest file with `EFBIG`. Times are the caller's to
/// set.
pub trait Content {
    /// Reads into `data`, and returns how many bytes there were: fewer than asked for at the file's end.
    ///
    /// With `later`, units that lie in the file of the drive's image may be left for the caller to fetch into `data`
    /// ([`tantalum::Device::fetches`]), while others use the file system. `offset` and length are whole units then, and
    /// what `data` holds beyond the bytes there were is undefined.
    fn read(
        &mut self,
        file: FileId,
        offset: u64,
        data: &mut [u8],
        later: Option<&mut Fetches>,
    ) -> Outcome<usize>;

    /// Writes, as a rule to the file system's own cache.
    fn write(&mut self, file: FileId, offset: u64, data: &[u8]) -> Outcome<()>;

    /// Writes whole units and waits for the drive (`O_DIRECT`); durable with a sync.
    ///
    /// `fills`, if given, are buffers of the drive that hold `data` already ([`tantalum::Device::fills`]): whoever writes
    /// with [`tantalum::Command::WriteFilled`] need not copy. What is left of them the caller gives up.
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

    /// As [`Content::write_direct`]; after a power cut all of it is seen, or nothing. More than the drive takes in one
    /// batch are several such writes.
    fn write_whole(&mut self, _file: FileId, _offset: u64, _data: &[u8]) -> Outcome<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Makes a file, its content and its metadata durable (`fsync`).
    fn sync(&mut self, file: FileId) -> Outcome<()>;

    /// As [`Content::sync`], but times alone need not be made durable (`fdatasync`).
    fn sync_data(&mut self, file: FileId) -> Outcome<()>;
}

/// Whether a range is some whole units of the drive.
pub fn is_whole_units(offset: u64, bytes: usize) -> bool {
    offset.is_multiple_of(UNIT_BYTES as u64) && bytes.is_multiple_of(UNIT_BYTES) && bytes > 0
}
