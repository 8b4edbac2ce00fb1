//! Reads and writes of whole units that bypass the page cache.

use tantalum::{Fetches, Nanoseconds, UNIT_BYTES};
use tantalum_filesystem::{Errno, FileId, is_whole_units};

use super::UNIT;
use super::read_write::check_end;
use crate::error::{Result, refuse};
use crate::fs::LogFs;
use crate::index::Slot;

impl LogFs {
    /// Appends whole units to the log, or writes them where they lie, and waits for the drive.
    pub(crate) fn write_units(&mut self, file: FileId, offset: u64, data: &[u8]) -> Result<()> {
        self.settle()?;
        let size = self.content_file(file)?.inode.metadata.size;
        if data.is_empty() {
            return Ok(());
        }
        if !is_whole_units(offset, data.len()) {
            return refuse(Errno::EINVAL);
        }
        let end = check_end(offset, data.len() as u64)?;
        self.reserve_range(file, offset, data.len() as u64)?;
        if end > size {
            self.clear_tail(file)?;
        }
        let is_listed = self.lists_tell(file, end / UNIT, |recovered, size| recovered <= size.max(end))?;
        self.log.begin_sending();
        let (pages, _) = data.as_chunks::<UNIT_BYTES>();
        let first = (offset / UNIT) as u32;
        for (index, page) in pages.iter().enumerate() {
            if index.is_multiple_of(self.log.segments.units() as usize) {
                self.make_room(u64::from(self.log.segments.units()), 0)?;
            }
            let unit = first + index as u32;
            if !self.overwrite_unit(file, unit, page)? {
                let lists = &mut self.since.lists;
                lists.append(&mut *self.index, &mut self.log, (file, unit), page, is_listed)?;
                self.content_units += 1;
            }
            self.pages.remove(file, u64::from(unit)..u64::from(unit) + 1);
        }
        self.log.wait_for_sent()?;
        self.grow_to(file, end)
    }

    /// Reads whole units, and returns how many bytes there were. With `fetches`, what is in the file of the drive's
    /// image may be fetched later.
    pub(crate) fn read_units(
        &mut self,
        file: FileId,
        offset: u64,
        data: &mut [u8],
        mut fetches: Option<&mut Fetches>,
    ) -> Result<usize> {
        self.log.check()?;
        let size = self.content_file(file)?.inode.metadata.size;
        let bytes = size.saturating_sub(offset).min(data.len() as u64) as usize;
        if bytes == 0 {
            return Ok(0);
        }
        let first = offset / UNIT;
        let (units, rest) = data.split_at_mut(bytes.next_multiple_of(UNIT_BYTES));
        rest.fill(0);
        let mut done_ns = self.log.client.now_ns();
        let mut at = 0;
        while at < units.len() {
            let unit = (first + (at / UNIT_BYTES) as u64) as u32;
            if let Some(fetches) = fetches.as_deref_mut() {
                fetches.go_to(at);
            }
            let (read, part_ns) = self.read_run(file, unit, &mut units[at..], fetches.as_deref_mut())?;
            done_ns = done_ns.max(part_ns);
            at += read;
        }
        self.log.client.wait_until(done_ns);
        if fetches.is_none() {
            units[bytes..].fill(0);
        }
        Ok(bytes)
    }

    /// Reads units from `unit` on that are in one place, at least one. Returns their bytes, and when they are there.
    fn read_run(
        &mut self,
        file: FileId,
        unit: u32,
        data: &mut [u8],
        fetches: Option<&mut Fetches>,
    ) -> Result<(usize, Nanoseconds)> {
        let now_ns = self.log.client.now_ns();
        if let Some(page) = self.pages.find((file, unit)) {
            data[..UNIT_BYTES].copy_from_slice(page);
            return Ok((UNIT_BYTES, now_ns));
        }
        let Slot::At(lpn) = self.index.slot(&mut self.log, file, unit)? else {
            data[..UNIT_BYTES].fill(0);
            return Ok((UNIT_BYTES, now_ns));
        };
        let mut units = 1;
        while units < data.len() / UNIT_BYTES {
            let next = unit + units as u32;
            let adjacent = Slot::At(tantalum::Lpn(lpn.0 + units as u32));
            if self.pages.contains((file, next)) || self.index.slot(&mut self.log, file, next)? != adjacent {
                break;
            }
            units += 1;
        }
        let bytes = units * UNIT_BYTES;
        Ok((bytes, self.log.read_queued(lpn, &mut data[..bytes], fetches)?))
    }
}
