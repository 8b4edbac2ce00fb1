//! What can be done with ranges of files but reading and writing them.

use crate::{Attributes, Errno, FileId, Outcome, RangeCommit};

/// Space, holes, and content that moves between files without being written. All of it is optional.
pub trait Ranges: Attributes {
    /// Takes units for a range, so that writing there finds room. Unless `keep_size`, the file grows to its end.
    fn allocate(&mut self, _file: FileId, _offset: u64, _bytes: u64, _keep_size: bool) -> Outcome<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Gives up what a range holds; it reads as zeros, and the size stays.
    fn punch_hole(&mut self, _file: FileId, _offset: u64, _bytes: u64) -> Outcome<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Makes a range read as zeros and keeps room for it. Unless `keep_size`, the file grows to its end.
    fn zero_range(&mut self, _file: FileId, _offset: u64, _bytes: u64, _keep_size: bool) -> Outcome<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Where, from `from` on, there is data; none if there is none before the end. As if there were no holes, by default.
    fn seek_data(&mut self, file: FileId, from: u64) -> Outcome<Option<u64>> {
        Ok((from < self.metadata(file)?.size).then_some(from))
    }

    /// Where, from `from` on, there is a hole: the end is one; none if `from` is not before it. As if there were no holes,
    /// by default.
    fn seek_hole(&mut self, file: FileId, from: u64) -> Outcome<Option<u64>> {
        let size = self.metadata(file)?.size;
        Ok((from < size).then_some(size))
    }

    /// Copies a range to another file or place without its data passing through the caller, and returns how many bytes
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

    /// Has ranges read as others from now on, all of them or none, and durable when it returns. Whole units; `E2BIG` if
    /// they are more than the drive does in one step.
    fn commit_ranges(&mut self, _ranges: &[RangeCommit]) -> Outcome<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Swaps what two ranges of whole units hold, in one step, durable when it returns.
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
