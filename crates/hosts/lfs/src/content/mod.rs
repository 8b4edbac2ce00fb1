//! The contents of files: access through the page cache, past it, and operations on ranges.

mod direct_io;
mod pages;
mod ranges;
mod read_write;

use tantalum::{Fetches, Fills};
use tantalum_filesystem::{Content, FileId, Outcome, is_whole_units};

use crate::fs::LogFs;

/// Bytes of one unit.
pub(crate) const UNIT: u64 = tantalum::UNIT_BYTES as u64;

/// The number of units that hold this many bytes.
pub(crate) fn units_of(bytes: u64) -> u64 {
    bytes.div_ceil(UNIT)
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
