//! Reads and writes of whole units that bypass the page cache (O_DIRECT).

use tantalum::canary::{self, Guard};
use tantalum::{Command, Fetches, Fills, Nanoseconds, UNIT_BYTES};
use tantalum_filesystem::FileId;

use crate::atomic::check_units;
use crate::cache::PageKey;
use crate::error::VolumeError;
use crate::volume::Volume;

impl Volume {
    /// Writes whole units and waits for the drive. Durable with [`Volume::sync`]. Cached copies of the units are
    /// replaced.
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
        mut fills: Option<&mut Fills>,
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
        let mut done_ns = self.now_ns();
        let mut unit = first;
        while unit < end {
            let run = self.file(file)?.inode.extents.run(unit).expect("units were placed");
            let units = run.units.min(end - unit);
            let start = (unit - first) as usize * UNIT_BYTES;
            let part = &data[start..start + units as usize * UNIT_BYTES];
            let written = self.drive.write_filled(run.lpn, part, fills.as_deref_mut())?;
            done_ns = done_ns.max(written);
            self.must_flush |= !canary::out(Guard::InodeBeforeData);
            self.cache.remove_units(file, unit..unit + units);
            unit += units;
        }
        self.drive.wait_until(done_ns);
        self.grow_to(file, offset + data.len() as u64)
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
        self.drive.check()?;
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
            let command = match fetches {
                Some(fetches) => Command::ReadLater { lpn: run.lpn, data, fetches },
                None => Command::Read { lpn: run.lpn, data },
            };
            return Ok(self.drive.submit_queued(command)?.done_ns);
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
