//! Reads and writes of whole units that bypass the page cache.

use tantalum::{Fetches, Fills, Nanoseconds, UNIT_BYTES};
use tantalum_filesystem::{Errno, FileId, is_whole_units};

use super::UNIT;
use super::read_write::check_end;
use crate::error::{Result, refuse};
use crate::fs::LogFs;
use crate::index::BlockPointer;
use crate::segments::Run;

impl LogFs {
    /// Writes whole units in place, or appends them to the log, and waits for the drive. `fills` are buffers of the
    /// drive that already hold `data`, for adjacent units; the log gathers other units, from several writes, in one
    /// command.
    pub(crate) fn write_units(
        &mut self,
        file: FileId,
        offset: u64,
        data: &[u8],
        fills: Option<&mut Fills>,
    ) -> Result<()> {
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
        let grows = end > size;
        if grows {
            self.clear_tail(file)?;
        }
        let is_listed = self.lists_tell(file, end / UNIT, |recovered, size| recovered <= size.max(end))?;
        self.log.begin_sending();
        self.send_units(file, (offset / UNIT) as u32, data, is_listed, fills)?;
        self.log.wait_for_sent()?;
        debug_assert_eq!(
            self.pages
                .dirty_units(file, (offset / UNIT) as u32, 1)
                .first()
                .filter(|unit| u64::from(**unit) * UNIT < end),
            None,
            "a page of file {file} stays dirty below a write of {offset} to {end}"
        );
        if grows { self.grow_to(file, end) } else { Ok(()) }
    }

    fn send_units(
        &mut self,
        file: FileId,
        first: u32,
        data: &[u8],
        is_listed: bool,
        mut fills: Option<&mut Fills>,
    ) -> Result<()> {
        let mut rest = data;
        let mut has_room_for = 0;
        while !rest.is_empty() {
            let unit = first + ((data.len() - rest.len()) / UNIT_BYTES) as u32;
            let mut units = self.overwrite_run(file, unit, rest, fills.as_deref_mut())?;
            if units == 0 {
                if has_room_for == 0 {
                    has_room_for = self.log.segments.units();
                    self.make_room(u64::from(has_room_for), 0)?;
                }
                units =
                    self.units_without_place(file, unit, rest.len().min(has_room_for as usize * UNIT_BYTES))?;
                assert!(
                    (1..=has_room_for).contains(&units),
                    "{units} units from {unit} of file {file} are appended, and there is room for {has_room_for}"
                );
                has_room_for -= units;
                let part = &rest[..units as usize * UNIT_BYTES];
                let mut run = Run::new((file, unit), part, fills.as_deref_mut(), is_listed);
                self.since.lists.append_run(&mut *self.index, &mut self.log, &mut run)?;
                self.content_units += u64::from(units);
            }
            rest = &rest[units as usize * UNIT_BYTES..];
            self.pages.remove_units(file, u64::from(unit)..u64::from(unit) + u64::from(units));
        }
        Ok(())
    }

    /// How many units from `first` on are appended; the first is.
    fn units_without_place(&mut self, file: FileId, first: u32, bytes: usize) -> Result<u32> {
        let most = (bytes / UNIT_BYTES) as u32;
        match self.superblock.overwrites() {
            true => Ok(self.index.run(&mut self.log, file, first, most)?.1),
            false => Ok(most),
        }
    }

    /// Reads whole units, and returns the number of bytes. With `fetches`, bytes in the file of the drive's image may
    /// be fetched later.
    pub(crate) fn read_units(
        &mut self,
        file: FileId,
        offset: u64,
        data: &mut [u8],
        mut fetches: Option<&mut Fetches>,
    ) -> Result<usize> {
        self.log.check_power()?;
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
        assert_eq!(
            at,
            units.len(),
            "the parts of a read of {bytes} bytes of file {file} at {offset} end elsewhere"
        );
        self.log.client.wait_until(done_ns);
        if fetches.is_none() {
            units[bytes..].fill(0);
        }
        Ok(bytes)
    }

    /// Reads adjacent units, at least one, starting at `unit`. Returns their bytes, and when they are there.
    fn read_run(
        &mut self,
        file: FileId,
        unit: u32,
        data: &mut [u8],
        fetches: Option<&mut Fetches>,
    ) -> Result<(usize, Nanoseconds)> {
        let now_ns = self.log.client.now_ns();
        if let Some(frame) = self.pages.find((file, unit)) {
            data[..UNIT_BYTES].copy_from_slice(self.pages.data(frame));
            return Ok((UNIT_BYTES, now_ns));
        }
        let most = (data.len() / UNIT_BYTES) as u32;
        let (pointer, units) = self.index.run(&mut self.log, file, unit, most)?;
        debug_assert!(
            (1..=most).contains(&units),
            "{units} of {most} units from {unit} of file {file} are adjacent"
        );
        let BlockPointer::At(lpn) = pointer else {
            data[..UNIT_BYTES].fill(0);
            return Ok((UNIT_BYTES, now_ns));
        };
        let is_on_drive = |behind: &u32| !self.pages.contains((file, unit + behind));
        let units = 1 + (1..units).take_while(is_on_drive).count();
        let bytes = units * UNIT_BYTES;
        Ok((bytes, self.log.read_queued(lpn, &mut data[..bytes], fetches)?))
    }
}
