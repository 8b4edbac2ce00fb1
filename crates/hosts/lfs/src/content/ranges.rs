//! Space and holes.

use tantalum_filesystem::{FileId, Outcome, Ranges};

use super::read_write::check_end;
use super::{UNIT, units_of};
use crate::error::Result;
use crate::fs::LogFs;
use crate::index::BlockPointer;

impl LogFs {
    /// Makes sure that there is space for a range.
    pub(crate) fn allocate_range(
        &mut self,
        file: FileId,
        offset: u64,
        bytes: u64,
        keep_size: bool,
    ) -> Result<()> {
        self.settle()?;
        self.content_file(file)?;
        let end = check_end(offset, bytes)?;
        self.reserve_range(file, offset, bytes)?;
        self.since.lists.cannot_tell(file);
        if !keep_size && end > self.file(file)?.inode.metadata.size {
            self.clear_tail(file)?;
            self.grow_to(file, end)?;
        }
        Ok(())
    }

    /// Makes a range read as zeros and keeps space for it.
    pub(crate) fn zero(&mut self, file: FileId, offset: u64, bytes: u64, keep_size: bool) -> Result<()> {
        // First do what may be refused.
        self.allocate_range(file, offset, bytes, true)?;
        let end = offset + bytes;
        let (first, last) = (units_of(offset), end / UNIT);
        if first > last {
            self.zero_part(file, offset, end)?;
        } else {
            self.zero_part(file, offset, first * UNIT)?;
            self.zero_part(file, last * UNIT, end)?;
            for unit in first..last {
                self.index.reserve(&mut self.log, file, unit as u32)?;
                // only now: a dirty page is all there is of what was written last (hazard 32)
                self.pages.remove((file, unit as u32));
            }
        }
        if !keep_size && end > self.file(file)?.inode.metadata.size {
            self.clear_tail(file)?;
            self.grow_to(file, end)?;
        }
        Ok(())
    }

    /// Makes a range read as zeros, and gives up its units.
    pub(crate) fn punch(&mut self, file: FileId, offset: u64, bytes: u64) -> Result<()> {
        self.settle()?;
        self.content_file(file)?;
        let end = check_end(offset, bytes)?;
        let (first, last) = (units_of(offset), end / UNIT);
        if first > last {
            return self.zero_part(file, offset, end);
        }
        // First do what may be refused.
        for at in [offset, end].into_iter().filter(|at| at % UNIT > 0) {
            self.promise_unit(file, (at / UNIT) as u32)?;
        }
        self.zero_part(file, offset, first * UNIT)?;
        self.zero_part(file, last * UNIT, end)?;
        self.give_up_units(file, first..last)
    }

    /// Zeroes a part of one unit.
    fn zero_part(&mut self, file: FileId, from: u64, to: u64) -> Result<()> {
        if from >= to {
            return Ok(());
        }
        let unit = (from / UNIT) as u32;
        if self.page(file, unit)?.is_some() {
            let part = (from % UNIT) as usize..(from % UNIT + to - from) as usize;
            self.change_page(file, unit, false)?[part].fill(0);
        }
        Ok(())
    }

    /// The first data at or after `from`. Promised but unwritten units count as holes.
    pub(crate) fn find_data(&mut self, file: FileId, from: u64) -> Result<Option<u64>> {
        let size = self.content_file(file)?.inode.metadata.size;
        let mut unit = from / UNIT;
        while unit < units_of(size) {
            let Some(used) = self.index.next_used(&mut self.log, file, unit as u32)? else { return Ok(None) };
            let found = u64::from(used) * UNIT;
            if found >= size {
                return Ok(None);
            }
            if self.has_data(file, used)? {
                return Ok(Some(found.max(from)));
            }
            unit = u64::from(used) + 1;
        }
        Ok(None)
    }

    /// The first hole at or after `from`, which may be the file's end.
    pub(crate) fn find_hole(&mut self, file: FileId, from: u64) -> Result<Option<u64>> {
        let size = self.content_file(file)?.inode.metadata.size;
        if from >= size {
            return Ok(None);
        }
        let mut unit = from / UNIT;
        while unit < units_of(size) && self.has_data(file, unit as u32)? {
            unit += 1;
        }
        Ok(Some((unit * UNIT).clamp(from, size)))
    }

    fn has_data(&mut self, file: FileId, unit: u32) -> Result<bool> {
        let is_there = matches!(self.index.pointer(&mut self.log, file, unit)?, BlockPointer::At(_));
        Ok(is_there || self.pages.is_dirty((file, unit)))
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
