//! Reads and writes of whole units that bypass the page cache (O_DIRECT).

use std::ops::Range;

use tantalum::{Fetches, Fills, Nanoseconds, UNIT_BYTES};
use tantalum_filesystem::FileId;

use crate::atomic_writes::check_units;
use crate::error::VolumeError;
use crate::volume::Volume;
use tantalum_filesystem::PageKey;

impl Volume {
    /// Writes whole units and waits for the drive. Durable with [`Volume::sync`]. Cached copies of the units are
    /// replaced.
    ///
    /// If it fails, some units within the file's size may have been written; the size is as before.
    pub fn write_direct(&mut self, file: FileId, offset: u64, data: &[u8]) -> Result<(), VolumeError> {
        self.write_units(file, offset, data, None)
    }

    /// As [`Volume::write_direct`], with buffers that already hold `data` ([`tantalum::Device::fills`]). The caller
    /// must release the rest.
    pub fn write_direct_filled(
        &mut self,
        file: FileId,
        offset: u64,
        data: &[u8],
        fills: &mut Fills,
    ) -> Result<(), VolumeError> {
        self.write_units(file, offset, data, Some(fills))
    }

    fn write_units(
        &mut self,
        file: FileId,
        offset: u64,
        data: &[u8],
        fills: Option<&mut Fills>,
    ) -> Result<(), VolumeError> {
        self.drive.check()?;
        let size = self.content_file(file)?.inode.size;
        if data.is_empty() {
            return Ok(());
        }
        let (first, end) = check_units(offset, data)?;
        self.place_units(file, first, end)?;
        if offset > size {
            self.clear_tail(file)?;
        }
        self.file_mut(file)?.touched = true;
        match self.write_runs(file, first..end, data, fills) {
            Ok(done_ns) => self.drive.wait_until(done_ns),
            Err(error) => {
                self.give_up_beyond_end(file, first..end);
                return Err(error);
            }
        }
        self.grow_to(file, offset + data.len() as u64)
    }

    /// Writes units that have places, a command for each run of them, and returns when they will be there.
    fn write_runs(
        &mut self,
        file: FileId,
        units: Range<u32>,
        data: &[u8],
        mut fills: Option<&mut Fills>,
    ) -> Result<Nanoseconds, VolumeError> {
        let mut done_ns = self.now_ns();
        let mut unit = units.start;
        while unit < units.end {
            let place = self.file(file)?.inode.extents.run(unit).expect("units were placed");
            let run = unit..unit + place.units.min(units.end - unit);
            let start = (unit - units.start) as usize * UNIT_BYTES;
            let part = &data[start..start + run.len() * UNIT_BYTES];
            match self.drive.write(place.lpn, part, fills.as_deref_mut()) {
                Ok(written_ns) => {
                    done_ns = done_ns.max(written_ns);
                }
                Err(error) => {
                    // Some units may be there, so clean pages may be old. A dirty one still has its turn.
                    self.cache.remove_clean_units(file, run);
                    return Err(error);
                }
            }
            unit = run.end;
            self.cache.remove_units(file, run);
        }
        Ok(done_ns)
    }

    /// Reads whole units, and returns how many bytes there were: fewer than requested at the file's end. Units in
    /// the page cache are read from there.
    pub fn read_direct(&mut self, file: FileId, offset: u64, data: &mut [u8]) -> Result<usize, VolumeError> {
        self.read_units(file, offset, data, None)
    }

    /// As [`Volume::read_direct`], but bytes in the drive's image file are left to be fetched into `data`, which may
    /// happen while others use the volume ([`tantalum::Device::fetches`]). The contents of `data` after the bytes read
    /// are undefined.
    pub fn read_direct_later(
        &mut self,
        file: FileId,
        offset: u64,
        data: &mut [u8],
        fetches: &mut Fetches,
    ) -> Result<usize, VolumeError> {
        self.read_units(file, offset, data, Some(fetches))
    }

    fn read_units(
        &mut self,
        file: FileId,
        offset: u64,
        data: &mut [u8],
        mut fetches: Option<&mut Fetches>,
    ) -> Result<usize, VolumeError> {
        self.drive.check_power()?;
        let size = self.content_file(file)?.inode.size;
        let bytes = size.saturating_sub(offset).min(data.len() as u64) as usize;
        if data.is_empty() || bytes == 0 {
            return Ok(0);
        }
        check_units(offset, data)?;
        let first = (offset / UNIT_BYTES as u64) as u32;
        let (units, rest) = data.split_at_mut(bytes.next_multiple_of(UNIT_BYTES));
        rest.fill(0);
        let mut done_ns = self.now_ns();
        let mut unit = first;
        let mut left = &mut *units;
        while !left.is_empty() {
            let (part, others) = left.split_at_mut(self.uncached_run(file, unit, left.len())? * UNIT_BYTES);
            let units = (part.len() / UNIT_BYTES) as u32;
            if let Some(fetches) = fetches.as_deref_mut() {
                fetches.go_to((unit - first) as usize * UNIT_BYTES);
            }
            done_ns = done_ns.max(self.read_part(file, unit, part, fetches.as_deref_mut())?);
            unit += units;
            left = others;
        }
        self.drive.wait_until(done_ns);
        units[bytes..].fill(0);
        Ok(bytes)
    }

    /// Reads units that come from one place, and returns the time at which they are there, without waiting for it.
    #[inline]
    fn read_part(
        &mut self,
        file: FileId,
        unit: u32,
        data: &mut [u8],
        fetches: Option<&mut Fetches>,
    ) -> Result<Nanoseconds, VolumeError> {
        let run = self.file(file)?.inode.extents.run(unit);
        if let Some(frame) = self.cache.find(PageKey::new(file, unit)) {
            data.copy_from_slice(self.cache.data(frame));
        } else if let Some(run) = run {
            return self.drive.read_queued(run.lpn, data, fetches);
        } else {
            data.fill(0);
        }
        Ok(self.now_ns())
    }

    /// How many units from `unit` on, within `bytes`, one command reads; 1 if no command is needed.
    fn uncached_run(&self, file: FileId, unit: u32, bytes: usize) -> Result<usize, VolumeError> {
        let run = self.file(file)?.inode.extents.run(unit).map_or(1, |run| run.units);
        let most = run.min((bytes / UNIT_BYTES) as u32);
        let is_cached = |unit: u32| self.cache.contains(PageKey::new(file, unit));
        Ok((unit..unit + most).take_while(|unit| !is_cached(*unit)).count().max(1))
    }
}
