//! Operations on ranges of files besides reading and writing.

use crate::{Attributes, Errno, FileId, Outcome, RangeCommit};

/// Space, holes, and contents that move between files without being written. All of it is optional.
pub trait Ranges: Attributes {
    /// Allocates units for a range, so that writing there finds space. Unless `keep_size`, the file grows to the
    /// range's end.
    fn allocate(&mut self, _file: FileId, _offset: u64, _bytes: u64, _keep_size: bool) -> Outcome<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Gives up the units of a range; it reads as zeros, and the size does not change.
    fn punch_hole(&mut self, _file: FileId, _offset: u64, _bytes: u64) -> Outcome<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Makes a range read as zeros and keeps space for it. Unless `keep_size`, the file grows to the range's end.
    fn zero_range(&mut self, _file: FileId, _offset: u64, _bytes: u64, _keep_size: bool) -> Outcome<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The first data from `from` on; none if there is none before the end. By default, a file has no holes.
    fn seek_data(&mut self, file: FileId, from: u64) -> Outcome<Option<u64>> {
        Ok((from < self.metadata(file)?.size).then_some(from))
    }

    /// The first hole from `from` on; the end of the file counts as one. None if `from` is not before it. By default, a
    /// file has no holes.
    fn seek_hole(&mut self, file: FileId, from: u64) -> Outcome<Option<u64>> {
        let size = self.metadata(file)?.size;
        Ok((from < size).then_some(size))
    }

    /// Copies a range to another file or place without passing its data through the caller, and returns how many bytes
    /// there were.
    fn copy_range(
        &mut self,
        _from: FileId,
        _from_offset: u64,
        _to: FileId,
        _to_offset: u64,
        _bytes: u64,
    ) -> Outcome<u64> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Makes ranges read as others from now on, all or none, durable when it returns. Ranges are whole units; `E2BIG`
    /// if they are more than the drive does in one step.
    fn commit_ranges(&mut self, _ranges: &[RangeCommit]) -> Outcome<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Swaps the contents of two ranges of whole units, in one step, durable when it returns.
    fn exchange_ranges(
        &mut self,
        _a: FileId,
        _a_offset: u64,
        _b: FileId,
        _b_offset: u64,
        _bytes: u64,
    ) -> Outcome<()> {
        Err(Errno::EOPNOTSUPP)
    }
}
