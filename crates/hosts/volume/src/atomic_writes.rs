//! For programs that know the drive's abilities: atomic writes to a file, and informing the page cache of writes that
//! bypassed it.

use tantalum::{Lpn, TxId, UNIT_BYTES};
use tantalum_filesystem::FileId;
use zerocopy::IntoBytes;

use crate::allocate::check_end;
use crate::error::VolumeError;
use crate::volume::Volume;
use tantalum_filesystem::PageKey;

impl Volume {
    /// Units that one [`Volume::write_atomic`] can take: a batch less the inode's unit.
    pub fn atomic_units_limit(&self) -> u32 {
        self.drive.batch_units() as u32 - 1
    }

    /// Writes whole units, each as (number in the file, data of one or several units), and sets the size, all or
    /// nothing, durable when it returns. Waiting names become durable first, if the file's is one of them.
    ///
    /// Refuses data that are not whole units, more than [`Volume::atomic_units_limit`] of them, and to cut a file in which an
    /// open transaction has written.
    pub fn write_atomic(
        &mut self,
        file: FileId,
        writes: &[(u64, &[u8])],
        new_size: Option<u64>,
    ) -> Result<(), VolumeError> {
        self.drive.check()?;
        self.content_file(file)?;
        for &(unit, data) in writes {
            let (first, end) = check_units(unit.saturating_mul(UNIT_BYTES as u64), data)?;
            self.place_units(file, first, end)?;
        }
        self.prepare_new_size(file, new_size, None)?;
        let mut batch = self.place_writes(file, writes)?;
        let changes = self.prepare_all(std::iter::once((file, new_size)))?;
        debug_assert!(!self.unnamed.contains(&file), "the batch of file {} lacks its name", file.0);
        batch.extend(changes.iter().map(|change| (change.lpn, change.unit.as_bytes())));
        let written = self.settle(&changes).and_then(|()| match batch.is_empty() {
            true => Ok(()),
            false => self.drive.write_atomic(&batch),
        });
        drop(batch);
        if let Err(error) = written {
            self.abandon(changes);
            return Err(error);
        }
        self.file_mut(file)?.touched = true;
        for (unit, page) in units_of_writes(writes) {
            self.put_clean(file, unit, page);
        }
        self.finish_new_size(file, new_size)?;
        self.apply(changes);
        self.trim();
        self.assert_invariants();
        Ok(())
    }

    /// Writes whole units and waits for the drive: after a power cut all of them read as `data`, or all as before. More
    /// than [`Volume::atomic_units_limit`] units are several such writes. Cached copies of the units are replaced.
    pub fn write_whole(&mut self, file: FileId, offset: u64, data: &[u8]) -> Result<(), VolumeError> {
        let most = self.atomic_units_limit() as usize * UNIT_BYTES;
        for (part, data) in data.chunks(most).enumerate() {
            self.write_part_whole(file, offset.saturating_add((part * most) as u64), data)?;
        }
        Ok(())
    }

    fn write_part_whole(&mut self, file: FileId, offset: u64, data: &[u8]) -> Result<(), VolumeError> {
        self.drive.check()?;
        self.content_file(file)?;
        let (first, end) = check_units(offset, data)?;
        let end_bytes = offset + data.len() as u64;
        let known = self.file(file)?;
        // the drive knows the places of all of them: only its map changes
        let is_in_place = !known.dirty
            && known.stored.is_some()
            && end_bytes <= known.inode.size
            && known.inode.extents.gap(first, end).is_none();
        if !is_in_place {
            let new_size = (end_bytes > known.inode.size).then_some(end_bytes);
            return self.write_atomic(file, &[(first.into(), data)], new_size);
        }
        if end - first == 1 {
            return self.write_direct(file, offset, data);
        }
        self.file_mut(file)?.touched = true;
        let writes = [(first.into(), data)];
        let batch = self.place_writes(file, &writes)?;
        self.drive.write_atomic(&batch)?;
        self.cache.remove_units(file, first..end);
        Ok(())
    }

    /// Puts the drive's contents of a unit that was written or shared without the volume into the page cache.
    ///
    /// # Panics
    ///
    /// If `data` is not one unit.
    pub fn cache_put_clean(&mut self, file: FileId, unit: u64, data: &[u8]) {
        let page: &[u8; UNIT_BYTES] = data.try_into().expect("a page is one unit of 4096 bytes");
        if let (Ok(unit), true) = (u32::try_from(unit), self.files.contains_key(&file)) {
            self.put_clean(file, unit, page);
        }
    }

    /// Drops the cached copy of a unit, clean or dirty.
    pub fn cache_drop(&mut self, file: FileId, unit: u64) {
        if let Ok(unit) = u32::try_from(unit) {
            self.cache.remove(PageKey::new(file, unit));
        }
    }

    fn put_clean(&mut self, file: FileId, unit: u32, page: &[u8; UNIT_BYTES]) {
        let frame = self.cache.find_or_insert(PageKey::new(file, unit));
        self.cache.data_mut(frame).copy_from_slice(page);
        self.cache.mark_clean(frame);
    }

    /// Prepares a batch that sets the file's size: refuses to cut a file in which a transaction other than `own` has written;
    /// makes the file's name durable, which would otherwise need units of the batch; and if the file grows, zeroes what is
    /// behind its end, which [`Volume::settle`] brings to the drive.
    pub(crate) fn prepare_new_size(
        &mut self,
        file: FileId,
        size: Option<u64>,
        own: Option<TxId>,
    ) -> Result<(), VolumeError> {
        let old_size = self.file(file)?.inode.size;
        if size.is_some_and(|size| size < old_size) {
            self.transactions.check_none(file, own)?;
        }
        if self.unnamed.contains(&file) {
            self.commit_names()?;
        }
        let Some(size) = size else { return Ok(()) };
        check_end(size)?;
        if size > old_size && !old_size.is_multiple_of(UNIT_BYTES as u64) {
            self.clear_tail(file)?;
        }
        Ok(())
    }

    /// The drive has the file's new size.
    pub(crate) fn finish_new_size(&mut self, file: FileId, size: Option<u64>) -> Result<(), VolumeError> {
        let Some(size) = size else { return Ok(()) };
        if size < self.file(file)?.inode.size { self.cut_to(file, size) } else { self.grow_to(file, size) }
    }

    fn place_writes<'a>(
        &self,
        file: FileId,
        writes: &'a [(u64, &'a [u8])],
    ) -> Result<Vec<(Lpn, &'a [u8])>, VolumeError> {
        let extents = &self.file(file)?.inode.extents;
        let place = |(unit, page): (u32, &'a [u8; UNIT_BYTES])| {
            (extents.run(unit).expect("units were allocated").lpn, &page[..])
        };
        Ok(units_of_writes(writes).map(place).collect())
    }
}

/// The units of checked writes, one by one.
fn units_of_writes<'a>(writes: &'a [(u64, &'a [u8])]) -> impl Iterator<Item = (u32, &'a [u8; UNIT_BYTES])> {
    writes.iter().flat_map(|&(unit, data)| {
        let (pages, _) = data.as_chunks::<UNIT_BYTES>();
        pages.iter().enumerate().map(move |(i, page)| (unit as u32 + i as u32, page))
    })
}

/// First and end unit of data that must be whole units of a file.
pub(crate) fn check_units(offset: u64, data: &[u8]) -> Result<(u32, u32), VolumeError> {
    let bytes = data.len();
    if bytes == 0 || !bytes.is_multiple_of(UNIT_BYTES) || !offset.is_multiple_of(UNIT_BYTES as u64) {
        return Err(VolumeError::Unaligned { offset, bytes });
    }
    let end = check_end(offset.saturating_add(bytes as u64))?;
    Ok(((offset / UNIT_BYTES as u64) as u32, (end / UNIT_BYTES as u64) as u32))
}
