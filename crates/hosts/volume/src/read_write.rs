//! Reads and writes through the page cache.

use std::ops::Range;

use tantalum::UNIT_BYTES;
use tantalum_filesystem::FileId;

use crate::allocate::check_end;
use crate::error::VolumeError;
use crate::inode::units_of;
use crate::volume::Volume;
use tantalum_filesystem::{FrameId, PageKey};

/// The most units read in one command.
const READ_UNITS: u32 = 64;

/// Bytes of one unit.
const UNIT: u64 = UNIT_BYTES as u64;

/// The part of a byte range within one unit.
pub(crate) struct Piece {
    pub unit: u32,
    /// Its position in the unit.
    pub bytes: Range<usize>,
}

/// The pieces of `offset..offset + bytes`, in order. The end must have been checked.
pub(crate) fn pieces(offset: u64, bytes: usize) -> impl Iterator<Item = Piece> {
    let end = offset + bytes as u64;
    let units = offset / UNIT..end.div_ceil(UNIT).max(offset / UNIT);
    units.map(move |unit| {
        let start = offset.max(unit * UNIT) - unit * UNIT;
        let stop = end.min((unit + 1) * UNIT) - unit * UNIT;
        Piece { unit: unit as u32, bytes: start as usize..stop as usize }
    })
}

impl Volume {
    /// Reads from `offset` on, and returns how many bytes there were: fewer than requested at the file's end.
    pub fn read(&mut self, file: FileId, offset: u64, data: &mut [u8]) -> Result<usize, VolumeError> {
        self.drive.check_power()?;
        let size = self.content_file(file)?.inode.size;
        let bytes = size.saturating_sub(offset).min(data.len() as u64) as usize;
        let end = units_of(offset.saturating_add(bytes as u64).min(size));
        let mut done = 0;
        for piece in pieces(offset.min(size), bytes) {
            let to = &mut data[done..done + piece.bytes.len()];
            done += piece.bytes.len();
            match self.page(file, piece.unit, end)? {
                Some(frame) => to.copy_from_slice(&self.cache.data(frame)[piece.bytes]),
                None => to.fill(0),
            }
        }
        Ok(bytes)
    }

    /// Writes into the page cache. Durable with [`Volume::sync`].
    ///
    /// If it fails, data from the front may have been written, up to a unit's end, and the size includes them.
    pub fn write(&mut self, file: FileId, offset: u64, data: &[u8]) -> Result<(), VolumeError> {
        self.drive.check()?;
        let size = self.content_file(file)?.inode.size;
        if data.is_empty() {
            return Ok(());
        }
        let end = check_end(offset.saturating_add(data.len() as u64))?;
        self.place_units(file, (offset / UNIT) as u32, units_of(end))?;
        if offset > size {
            self.clear_tail(file)?;
        }
        let mut done = 0;
        for piece in pieces(offset, data.len()) {
            let from = &data[done..done + piece.bytes.len()];
            done += piece.bytes.len();
            self.limit_dirty_pages()?;
            let frame = self.page_to_change(file, piece.unit, from.len() == UNIT_BYTES)?;
            self.cache.data_mut(frame)[piece.bytes].copy_from_slice(from);
            self.mark_dirty(file, piece.unit, frame);
            self.grow_to(file, offset + done as u64)?;
            self.limit_dirty_pages_after();
        }
        Ok(())
    }

    /// Truncates the file, or lets it grow with zeros (or over what was reserved, see [`Volume::reserve`]). A
    /// truncation gives up the reservation beyond it. Durable with [`Volume::sync`].
    pub fn set_size(&mut self, file: FileId, size: u64) -> Result<(), VolumeError> {
        self.drive.check()?;
        check_end(size)?;
        let old_size = self.content_file(file)?.inode.size;
        if size > old_size {
            self.clear_tail(file)?;
            return self.grow_to(file, size);
        }
        if size < old_size {
            self.transactions.check_none(file, None)?;
            self.cut_to(file, size)?;
        }
        Ok(())
    }

    /// Grows the file, if `size` is larger. What is beyond the old size must be zero: a step that wrote there and failed
    /// is followed by [`Volume::give_up_beyond_end`].
    pub(crate) fn grow_to(&mut self, file: FileId, size: u64) -> Result<(), VolumeError> {
        let file = self.file_mut(file)?;
        if size > file.inode.size {
            file.inode.size = size;
            file.dirty = true;
        }
        Ok(())
    }

    /// Shrinks the file. The rest of its last unit keeps its contents until [`Volume::clear_tail`].
    pub(crate) fn cut_to(&mut self, id: FileId, size: u64) -> Result<(), VolumeError> {
        let Volume { files, cache, space, .. } = self;
        let file = files.get_mut(&id).ok_or(VolumeError::NoSuchFile(id))?;
        let units = units_of(size);
        let end = units_of(file.inode.size).max(file.inode.extents.end());
        cache.remove_units(id, units..end);
        file.inode.size = size;
        file.inode.reserved_units = file.inode.reserved_units.min(units);
        file.dirty = true;
        file.give_up(units, u32::MAX, space);
        Ok(())
    }

    /// Zeroes the rest of the file's last unit before the size grows over it. Data may be there since a truncation, or
    /// since a crash between the data and the inode.
    pub(crate) fn clear_tail(&mut self, file: FileId) -> Result<(), VolumeError> {
        let inode = &self.file(file)?.inode;
        let (unit, kept) = ((inode.size / UNIT) as u32, (inode.size % UNIT) as usize);
        if kept == 0 {
            return Ok(());
        }
        self.limit_dirty_pages()?;
        if let Some(frame) = self.page(file, unit, unit + 1)? {
            self.cache.data_mut(frame)[kept..].fill(0);
            self.mark_dirty(file, unit, frame);
        }
        Ok(())
    }

    /// A step failed that may have written to these units: those beyond the file's end lose their places, so that the
    /// file reads as zeros there when it grows, even if they were allocated. Others stay: those that belong to the
    /// program (see [`Volume::reserve`]) or to an open transaction.
    pub(crate) fn give_up_beyond_end(&mut self, id: FileId, units: Range<u32>) {
        let Volume { files, cache, space, transactions, .. } = self;
        let Some(file) = files.get_mut(&id).filter(|file| !file.inode.reserved_by_program) else { return };
        let beyond = units.start.max(units_of(file.inode.size))..units.end;
        if beyond.is_empty() {
            return;
        }
        cache.remove_units(id, beyond.clone());
        let is_kept = |unit| transactions.any_has_written(id, unit);
        for unit in beyond.clone().filter(|&unit| !is_kept(unit)) {
            file.give_up(unit, unit + 1, space);
        }
        file.dirty = true;
    }

    /// The page of a unit now differs from what the drive holds, and will be written to the unit's place.
    pub(crate) fn mark_dirty(&mut self, file: FileId, unit: u32, frame: FrameId) {
        debug_assert!(
            self.lpn(file, unit.into()).is_some(),
            "unit {unit} of file {} becomes dirty and has no place",
            file.0
        );
        self.cache.mark_dirty(frame);
    }

    /// The page of a unit, read from the drive if necessary, together with following units below `end`. None if
    /// the unit is a hole.
    pub(crate) fn page(&mut self, file: FileId, unit: u32, end: u32) -> Result<Option<FrameId>, VolumeError> {
        if let Some(frame) = self.cache.find(PageKey::new(file, unit)) {
            return Ok(Some(frame));
        }
        let Some(range) = self.file(file)?.inode.extents.run(unit) else { return Ok(None) };
        let most = READ_UNITS.min((self.cache.most_pages() / 4) as u32).min(range.units);
        let most = most.min(end.saturating_sub(unit)).max(1);
        let is_missing = |i: &u32| !self.cache.contains(PageKey::new(file, unit + i));
        let units = 1 + (1..most).take_while(is_missing).count();
        self.scratch.resize(units * UNIT_BYTES, 0);
        let mut read = self.drive.read(range.lpn, &mut self.scratch);
        let mut units = units;
        if units > 1 && read.as_ref().is_err_and(|error| !error.is_end_of_drive()) {
            // one of the units that nobody asked for may be the one that cannot be read
            units = 1;
            read = self.drive.read(range.lpn, &mut self.scratch[..UNIT_BYTES]);
        }
        read?;
        // In falling order, so that the first one, which was requested, would be evicted last.
        for i in (0..units).rev() {
            let frame = self.cache.insert(PageKey::new(file, unit + i as u32));
            self.cache.data_mut(frame).copy_from_slice(&self.scratch[i * UNIT_BYTES..][..UNIT_BYTES]);
        }
        Ok(self.cache.find(PageKey::new(file, unit)))
    }

    /// The page of a unit that has a place, to be written. Its contents are old, unless `whole` is about to be
    /// written or the unit is beyond the file's end.
    fn page_to_change(&mut self, file: FileId, unit: u32, whole: bool) -> Result<FrameId, VolumeError> {
        if whole {
            return Ok(self.cache.find_or_insert(PageKey::new(file, unit)));
        }
        let is_beyond = u64::from(unit) * UNIT >= self.file(file)?.inode.size;
        if is_beyond {
            let frame = self.cache.find_or_insert(PageKey::new(file, unit));
            self.cache.data_mut(frame).fill(0);
            return Ok(frame);
        }
        let page = self.page(file, unit, unit + 1)?;
        Ok(page.expect("a unit that has a place has a page"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(offset: u64, bytes: usize) -> Vec<(u32, Range<usize>)> {
        pieces(offset, bytes).map(|piece| (piece.unit, piece.bytes)).collect()
    }

    #[test]
    fn pieces_are_cut_at_units() {
        assert_eq!(list(0, 0), []);
        assert_eq!(list(4096, 0), []);
        assert_eq!(list(4096, 4096), [(1, 0..4096)]);
        assert_eq!(list(4000, 200), [(0, 4000..4096), (1, 0..104)]);
        assert_eq!(list(100, 8192), [(0, 100..4096), (1, 0..4096), (2, 0..100)]);
    }
}
