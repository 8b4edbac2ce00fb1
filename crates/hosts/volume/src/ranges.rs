//! Ranges of a file: allocating them, punching holes, finding holes.

use tantalum::{Lpn, UNIT_BYTES};
use tantalum_filesystem::FileId;

use crate::allocate::check_end;
use crate::error::VolumeError;
use crate::extents::Extent;
use crate::inode::{MOST_EXTENTS, units_of};
use crate::volume::Volume;
use tantalum_filesystem::PageKey;

const UNIT: u64 = UNIT_BYTES as u64;

impl Volume {
    /// Gives all units that the range touches a place, so that writing to them cannot fail for lack of space. The file
    /// grows to the range's end unless `keep_size`; new bytes read as zeros. Durable with [`Volume::sync`]. If it fails, the
    /// file reads as before; some units may have got places.
    pub fn allocate(
        &mut self,
        file: FileId,
        offset: u64,
        bytes: u64,
        keep_size: bool,
    ) -> Result<(), VolumeError> {
        let end = self.check_range(file, offset, bytes)?;
        check_end(end)?;
        self.place_units(file, (offset / UNIT) as u32, units_of(end))?;
        let inode = &self.file(file)?.inode;
        if end <= inode.size {
            return Ok(());
        }
        if !keep_size {
            self.clear_tail(file)?;
            return self.grow_to(file, end);
        }
        let file = self.file_mut(file)?;
        file.inode.reserved_units = file.inode.reserved_units.max(units_of(end));
        file.dirty = true;
        Ok(())
    }

    /// Makes the range read as zeros and gives up its whole units. They are free for others once that is durable, with
    /// [`Volume::sync`]. A file with too many extents keeps the units, emptied. If it fails, part of the range reads as
    /// zeros, and the rest is as it was.
    pub fn punch_hole(&mut self, file: FileId, offset: u64, bytes: u64) -> Result<(), VolumeError> {
        let end = self.check_range(file, offset, bytes)?;
        self.transactions.check_none(file, None)?;
        let (first, last) = self.zero_edges(file, offset, end)?;
        self.make_hole(file, first, last)
    }

    /// Makes units read as zeros: a hole, or emptied in place if the file has too many extents to have one more. If it fails,
    /// some of them do, and the others are as they were.
    pub(crate) fn make_hole(&mut self, file: FileId, first: u32, end: u32) -> Result<(), VolumeError> {
        match self.file(file)?.inode.extents.len() >= MOST_EXTENTS {
            true => self.zero_in_place(file, first, end),
            false => self.empty_units(file, first, end),
        }
    }

    /// Makes the range read as zeros. Then all of it has a place, as with [`Volume::allocate`]. If it fails, the file may
    /// have grown, part of the range reads as zeros, and the rest is as it was.
    pub fn zero_range(
        &mut self,
        file: FileId,
        offset: u64,
        bytes: u64,
        keep_size: bool,
    ) -> Result<(), VolumeError> {
        let end = self.check_range(file, offset, bytes)?;
        self.transactions.check_none(file, None)?;
        self.allocate(file, offset, bytes, keep_size)?;
        let (first, last) = self.zero_edges(file, offset, end)?;
        self.zero_in_place(file, first, last)
    }

    /// The first byte from `from` on that is not in a hole; none if there is none before the file's end.
    pub fn seek_data(&self, file: FileId, from: u64) -> Result<Option<u64>, VolumeError> {
        self.drive.check_power()?;
        let inode = &self.content_file(file)?.inode;
        if from >= inode.size {
            return Ok(None);
        }
        let extents = inode.extents.between((from / UNIT) as u32, units_of(inode.size));
        let mut units =
            extents.flat_map(|extent| (extent.unit..extent.end()).map(move |unit| (unit, extent)));
        let found = units.find(|&(unit, extent)| self.has_data(file, unit, extent));
        Ok(found.map(|(unit, _)| from.max(u64::from(unit) * UNIT)))
    }

    /// The first byte from `from` on that is in a hole; the end of the file counts as one. None if `from` is not before
    /// that end.
    pub fn seek_hole(&self, file: FileId, from: u64) -> Result<Option<u64>, VolumeError> {
        self.drive.check_power()?;
        let inode = &self.content_file(file)?.inode;
        if from >= inode.size {
            return Ok(None);
        }
        let mut hole = (from / UNIT) as u32;
        for extent in inode.extents.between(hole, units_of(inode.size)) {
            if extent.unit > hole {
                break;
            }
            let data = (extent.unit..extent.end()).take_while(|&unit| self.has_data(file, unit, extent));
            hole += data.count() as u32;
            if hole < extent.end() {
                break;
            }
        }
        Ok(Some((u64::from(hole) * UNIT).clamp(from, inode.size)))
    }

    /// Whether a unit that has a place was written there, or is about to be.
    fn has_data(&self, file: FileId, unit: u32, extent: Extent) -> bool {
        let lpn = Lpn(extent.lpn.0 + (unit - extent.unit));
        self.cache.is_dirty(PageKey::new(file, unit)) || self.drive.is_mapped(lpn)
    }

    /// The end of a range of a file with contents.
    fn check_range(&self, file: FileId, offset: u64, bytes: u64) -> Result<u64, VolumeError> {
        self.drive.check()?;
        self.content_file(file)?;
        if bytes == 0 {
            return Err(VolumeError::BadRange { file, offset, bytes, why: "the range is empty" });
        }
        Ok(offset.saturating_add(bytes))
    }

    /// Zeroes the range's parts of units that it does not cover, and returns the first and the end of those that it
    /// covers. A unit's part beyond the file's end need not be covered, because it is not seen.
    fn zero_edges(&mut self, file: FileId, offset: u64, end: u64) -> Result<(u32, u32), VolumeError> {
        let size = self.file(file)?.inode.size;
        let (end, last) = match end >= size {
            true => (size, end.div_ceil(UNIT).min(u64::from(u32::MAX)) as u32),
            false => (end, (end / UNIT) as u32),
        };
        let first = offset.div_ceil(UNIT).min(u64::from(u32::MAX)) as u32;
        let first_byte = u64::from(first) * UNIT;
        if offset < end && offset < first_byte {
            self.zero_bytes(file, offset, first_byte.min(end))?;
        }
        let last_byte = u64::from(last) * UNIT;
        if last >= first && last_byte < end && last_byte >= offset {
            self.zero_bytes(file, last_byte, end)?;
        }
        Ok((first, last.max(first)))
    }

    /// Zeroes bytes of one unit, if it has a place.
    fn zero_bytes(&mut self, file: FileId, from: u64, to: u64) -> Result<(), VolumeError> {
        let unit = (from / UNIT) as u32;
        self.limit_dirty_pages()?;
        if let Some(frame) = self.page(file, unit, unit + 1)? {
            let start = from % UNIT;
            self.cache.data_mut(frame)[start as usize..(start + to - from) as usize].fill(0);
            self.mark_dirty(file, unit, frame);
            self.limit_dirty_pages_after();
        }
        Ok(())
    }

    /// Makes a hole of whole units. Only a missing file makes it fail.
    fn empty_units(&mut self, id: FileId, first: u32, end: u32) -> Result<(), VolumeError> {
        let Volume { files, space, cache, .. } = self;
        let file = files.get_mut(&id).ok_or(VolumeError::NoSuchFile(id))?;
        cache.remove_units(id, first..end);
        if file.inode.extents.between(first, end).next().is_none() {
            return Ok(());
        }
        file.give_up(first, end, space);
        if file.inode.reserved_by_program {
            // The program's units all have places.
            file.inode.reserved_units = file.inode.reserved_units.min(first);
        }
        file.dirty = true;
        Ok(())
    }

    /// Makes units read as zeros in place. If it fails, some of them do, and the others are as they were.
    fn zero_in_place(&mut self, file: FileId, first: u32, end: u32) -> Result<(), VolumeError> {
        let extents: Vec<Extent> = self.file(file)?.inode.extents.between(first, end).collect();
        for extent in extents {
            self.drive.zero(extent.range())?;
            // only now: dirty pages are all there is of what was written last (hazard 32)
            self.cache.remove_units(file, extent.unit..extent.end());
        }
        Ok(())
    }
}
