//! Reads and writes through the page cache, and changes of size.

use std::ops::RangeInclusive;

use tantalum::UNIT_BYTES;
use tantalum_filesystem::{Errno, FileId};

use super::{UNIT, units_of};
use crate::bytes::Page;
use crate::error::{Result, refuse};
use crate::fs::LogFs;
use crate::index::BlockPointer;

/// The largest file: 2^32 units.
pub(crate) const MOST_BYTES: u64 = UNIT << 32;

const ZEROS: Page = [0; UNIT_BYTES];

/// Fails if a file cannot be this large.
pub(crate) fn check_end(offset: u64, bytes: u64) -> Result<u64> {
    match offset.checked_add(bytes) {
        Some(end) if end <= MOST_BYTES => Ok(end),
        _ => refuse(Errno::EFBIG),
    }
}

/// The parts of `offset..offset + bytes` within single units: the unit, and the part's position in it.
fn pieces(offset: u64, bytes: usize) -> impl Iterator<Item = (u32, std::ops::Range<usize>)> {
    let end = offset + bytes as u64;
    (offset / UNIT..units_of(end).max(offset / UNIT)).map(move |unit| {
        let start = offset.max(unit * UNIT) - unit * UNIT;
        let stop = end.min((unit + 1) * UNIT) - unit * UNIT;
        (unit as u32, start as usize..stop as usize)
    })
}

impl LogFs {
    pub(crate) fn read_bytes(&mut self, file: FileId, offset: u64, data: &mut [u8]) -> Result<usize> {
        self.log.check_power()?;
        let size = self.content_file(file)?.inode.metadata.size;
        let bytes = size.saturating_sub(offset).min(data.len() as u64) as usize;
        let mut done = 0;
        for (unit, part) in pieces(offset.min(size), bytes) {
            let to = &mut data[done..done + part.len()];
            done += part.len();
            match self.page(file, unit)? {
                Some(page) => to.copy_from_slice(&page[part]),
                None => to.fill(0),
            }
        }
        debug_assert_eq!(done, bytes, "the pieces of a read of file {file} at {offset} end elsewhere");
        Ok(bytes)
    }

    /// Writes into the page cache.
    pub(crate) fn write_bytes(&mut self, file: FileId, offset: u64, data: &[u8]) -> Result<()> {
        self.settle()?;
        let size = self.content_file(file)?.inode.metadata.size;
        if data.is_empty() {
            return Ok(());
        }
        let end = check_end(offset, data.len() as u64)?;
        self.reserve_range(file, offset, data.len() as u64)?;
        if end > size {
            self.clear_tail(file)?;
        }
        let mut done = 0;
        for (unit, part) in pieces(offset, data.len()) {
            let from = &data[done..done + part.len()];
            done += part.len();
            self.change_page(file, unit, from.len() == UNIT_BYTES)?[part].copy_from_slice(from);
            self.grow_to(file, offset + done as u64)?;
            self.limit_dirty_pages()?;
        }
        debug_assert_eq!(done, data.len(), "the pieces of a write of file {file} at {offset} end elsewhere");
        Ok(())
    }

    /// Makes sure that there is space for a range, so that a write is refused before it changes anything.
    pub(crate) fn reserve_range(&mut self, file: FileId, offset: u64, bytes: u64) -> Result<()> {
        const AT_ONCE: u64 = 1024;
        let (mut unit, end) = (offset / UNIT, units_of(offset + bytes));
        while unit < end {
            let most = (end - unit).min(AT_ONCE - unit % AT_ONCE) as u32;
            let (is_used, units) = self.index.used_run(&mut self.log, file, unit as u32, most)?;
            assert!(
                (1..=most).contains(&units),
                "{units} of {most} units from {unit} of file {file} are alike"
            );
            if !is_used || self.index.needs_promises() {
                self.reserve_alike(file, unit as u32..=unit as u32 + (units - 1), is_used)?;
            }
            unit += u64::from(units);
            if unit.is_multiple_of(AT_ONCE) {
                self.settle()?;
            }
        }
        Ok(())
    }

    /// Makes sure that there is space for units that are all holes, or all not.
    fn reserve_alike(&mut self, file: FileId, units: RangeInclusive<u32>, is_used: bool) -> Result<()> {
        for unit in units {
            match is_used {
                false => self.reserve_unit(file, unit, BlockPointer::Hole)?,
                // dirty units were promised before
                true if !self.pages.is_dirty((file, unit)) => {
                    self.index.promise(&mut self.log, file, unit)?;
                }
                true => {}
            }
        }
        Ok(())
    }

    /// Truncates the file, or lets it grow with zeros.
    pub(crate) fn set_size(&mut self, file: FileId, size: u64) -> Result<()> {
        self.settle()?;
        check_end(size, 0)?;
        let old_size = self.content_file(file)?.inode.metadata.size;
        if size > old_size {
            self.clear_tail(file)?;
            return self.grow_to(file, size);
        }
        if size < old_size {
            // First do what may be refused.
            let last = (size / UNIT).min(u64::from(u32::MAX)) as u32;
            self.promise_unit(file, last)?;
            if !size.is_multiple_of(UNIT) {
                self.page(file, last)?;
            }
            self.give_up_units(file, units_of(size)..1 << 32)?;
            self.change_space(file)?.size = size;
            self.clear_tail(file)?;
            let last = self.pages.last_dirty_unit(file);
            assert!(
                last.is_none_or(|unit| u64::from(unit) < units_of(size)),
                "unit {last:?} of file {file} is dirty beyond its {size} bytes"
            );
        }
        Ok(())
    }

    /// Grows the file, if `size` is larger.
    pub(crate) fn grow_to(&mut self, file: FileId, size: u64) -> Result<()> {
        if size > self.file(file)?.inode.metadata.size {
            self.change_space(file)?.size = size;
        }
        Ok(())
    }

    /// Zeroes the part of the last unit after the file's end. This is done when the file shrinks, and again when it grows:
    /// a crash in between may have kept the end and lost the zeros, or lost the end of what was written in place. The index
    /// gets the zeros at once, so that no checkpoint and no list has a larger size without them.
    pub(crate) fn clear_tail(&mut self, file: FileId) -> Result<()> {
        let size = self.file(file)?.inode.metadata.size;
        let (unit, tail) = ((size / UNIT) as u32, (size % UNIT) as usize);
        if tail == 0 {
            return Ok(());
        }
        let is_clear = match self.page(file, unit)? {
            Some(page) => page[tail..] == ZEROS[tail..],
            None => true,
        };
        if !is_clear {
            self.change_page(file, unit, false)?[tail..].fill(0);
            self.make_room(1, self.index.changed_units())?;
            self.write_back_page(file, unit, false)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_at_units() {
        let list = |offset, bytes| pieces(offset, bytes).collect::<Vec<_>>();
        assert_eq!(list(4096, 0), []);
        assert_eq!(list(4000, 200), [(0, 4000..4096), (1, 0..104)]);
        assert_eq!(list(MOST_BYTES - 1, 1), [(u32::MAX, 4095..4096)]);
        assert!(check_end(MOST_BYTES - 1, 1).is_ok() && check_end(MOST_BYTES, 1).is_err());
        assert!(check_end(u64::MAX, 2).is_err());
    }
}
