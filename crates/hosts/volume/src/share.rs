//! Copying, committing and exchanging ranges of files without moving data.
//!
//! A unit of the drive always belongs to one file. Files share data below that level: the drive maps units of both to
//! one place in flash (SHARE, section 3). An exchange swaps the files' extents instead.

use tantalum::{Command, ShareRange, Status, UNIT_BYTES};
use tantalum_filesystem::{FileId, RangeCommit};

use crate::allocate::check_end;
use crate::error::VolumeError;
use crate::extents::Extent;
use crate::inode::{MOST_EXTENTS, units_of};
use crate::volume::Volume;
use tantalum_filesystem::PageKey;

const UNIT: u64 = UNIT_BYTES as u64;

/// Bytes copied at once if units cannot be shared.
const COPY_BYTES: u64 = 256 * UNIT;

/// Whole units of one file that another file gets.
#[derive(Clone, Copy)]
struct UnitCopy {
    from: (FileId, u32),
    to: (FileId, u32),
    units: u32,
}

impl Volume {
    /// Copies bytes from one file to another or within one, and returns how many there were up to the end of the first.
    /// Whole units are shared if both ranges have the same alignment within units, as far as the drive allows; holes
    /// stay holes. Durable with a [`Volume::sync`] of the second file.
    ///
    /// If it fails, some of the range within the second file's size may have been copied, each unit completely; the others
    /// hold what they held. The size may have grown, but not beyond what was copied.
    pub fn copy_range(
        &mut self,
        from: FileId,
        from_offset: u64,
        to: FileId,
        to_offset: u64,
        bytes: u64,
    ) -> Result<u64, VolumeError> {
        self.drive.check()?;
        let from_size = self.content_file(from)?.inode.size;
        let to_size = self.content_file(to)?.inode.size;
        let bytes = bytes.min(from_size.saturating_sub(from_offset));
        if bytes == 0 {
            return Ok(0);
        }
        let to_end = check_end(to_offset.saturating_add(bytes))?;
        check_apart((from, from_offset), (to, to_offset), bytes)?;
        self.transactions.check_none(to, None)?;
        if to_offset > to_size {
            self.clear_tail(to)?;
        }
        let head = (to_offset.next_multiple_of(UNIT) - to_offset).min(bytes);
        if from_offset % UNIT != to_offset % UNIT || head == bytes {
            self.copy_bytes((from, from_offset), (to, to_offset), bytes)?;
            return Ok(bytes);
        }
        // What follows the ends of both files is shared with the last unit, and not seen.
        let with_tail = to_end >= to_size && from_offset + bytes == from_size;
        let units = if with_tail { units_of(bytes - head) } else { ((bytes - head) / UNIT) as u32 };
        let middle = (u64::from(units) * UNIT).min(bytes - head);
        self.copy_bytes((from, from_offset), (to, to_offset), head)?;
        let first_units = ((from_offset + head) / UNIT, (to_offset + head) / UNIT);
        let copy = UnitCopy { from: (from, first_units.0 as u32), to: (to, first_units.1 as u32), units };
        if let Err(error) = self.copy_units(copy) {
            self.give_up_beyond_end(to, copy.to.1..copy.to.1 + copy.units);
            return Err(error);
        }
        self.grow_to(to, to_offset + head + middle)?;
        let done = head + middle;
        self.copy_bytes((from, from_offset + done), (to, to_offset + done), bytes - done)?;
        Ok(bytes)
    }

    fn copy_bytes(
        &mut self,
        (from, from_offset): (FileId, u64),
        (to, to_offset): (FileId, u64),
        bytes: u64,
    ) -> Result<(), VolumeError> {
        let mut buffer = vec![0; bytes.min(COPY_BYTES) as usize];
        for start in (0..bytes).step_by(COPY_BYTES as usize) {
            let data = &mut buffer[..(bytes - start).min(COPY_BYTES) as usize];
            let read = self.read(from, from_offset + start, data)?;
            self.write(to, to_offset + start, &data[..read])?;
        }
        Ok(())
    }

    /// Shares units that were written, and makes holes of others. Cached pages go only when the drive has what replaces
    /// them (hazard 32): they may be all there is of what was written last.
    fn copy_units(&mut self, copy: UnitCopy) -> Result<(), VolumeError> {
        self.write_back_file(copy.from.0)?;
        let mut done = 0;
        while done < copy.units {
            let part = |units| UnitCopy {
                from: (copy.from.0, copy.from.1 + done),
                to: (copy.to.0, copy.to.1 + done),
                units,
            };
            let left = copy.units - done;
            let data = self.mapped_units(copy.from.0, copy.from.1 + done, left, true)?;
            if data > 0 {
                self.share_units(part(data))?;
                done += data;
            } else {
                let hole = self.mapped_units(copy.from.0, copy.from.1 + done, left, false)?;
                let first = copy.to.1 + done;
                self.make_hole(copy.to.0, first, first + hole)?;
                done += hole;
            }
        }
        Ok(())
    }

    /// How many units from `unit` on, up to `most` and the limit of one share, are mapped, or are not.
    fn mapped_units(&self, file: FileId, unit: u32, most: u32, mapped: bool) -> Result<u32, VolumeError> {
        let extents = &self.file(file)?.inode.extents;
        let is_mapped = |unit| extents.run(unit).is_some_and(|run| self.drive.is_mapped(run.lpn));
        let most = if mapped { most.min(self.drive.share_units()) } else { most };
        Ok((unit..unit + most).take_while(|&unit| is_mapped(unit) == mapped).count() as u32)
    }

    fn share_units(&mut self, copy: UnitCopy) -> Result<(), VolumeError> {
        let (to, first) = copy.to;
        self.place_units(to, first, first + copy.units)?;
        self.file_mut(to)?.touched = true;
        let limit = self.drive.share_units();
        assert!(copy.units <= limit, "{} units are shared, the drive takes {limit}", copy.units);
        let ranges = self.share_ranges(copy)?;
        match self.drive.share_deferred(&ranges) {
            Ok(()) => {
                self.cache.remove_units(to, first..first + copy.units);
                Ok(())
            }
            Err(VolumeError::Device(Status::OverLimit { .. } | Status::CapacityExceeded)) => {
                self.copy_whole_units(copy)
            }
            Err(error) => Err(error),
        }
    }

    fn copy_whole_units(&mut self, copy: UnitCopy) -> Result<(), VolumeError> {
        let mut data = vec![0; copy.units as usize * UNIT_BYTES];
        for (unit, page) in (copy.from.1..).zip(data.as_chunks_mut::<UNIT_BYTES>().0) {
            let run = self.file(copy.from.0)?.inode.extents.run(unit).expect("the unit is mapped");
            self.drive.read(run.lpn, page)?;
        }
        self.drive.owe_flush();
        for (unit, page) in (copy.to.1..).zip(data.as_chunks::<UNIT_BYTES>().0) {
            let run = self.file(copy.to.0)?.inode.extents.run(unit).expect("units were placed");
            self.drive.write_back(run.lpn, page)?;
            self.cache.remove(PageKey::new(copy.to.0, unit));
        }
        Ok(())
    }

    /// The places of the units of a copy, piece by piece.
    fn share_ranges(&self, copy: UnitCopy) -> Result<Vec<ShareRange>, VolumeError> {
        let run = |(file, unit): (FileId, u32), skip: u32| {
            Ok::<_, VolumeError>(self.file(file)?.inode.extents.run(unit + skip).expect("it has a place"))
        };
        let mut ranges = Vec::new();
        let mut done = 0;
        while done < copy.units {
            let (src, dst) = (run(copy.from, done)?, run(copy.to, done)?);
            let units = src.units.min(dst.units).min(copy.units - done);
            ranges.push(ShareRange { dst: dst.lpn, src: src.lpn, units });
            done += units;
        }
        debug_assert!(
            ranges.iter().all(|range| range.src.0.abs_diff(range.dst.0) >= range.units),
            "a range is shared over itself: {ranges:?}"
        );
        Ok(ranges)
    }

    /// Makes ranges of files read as ranges of others, all or nothing, durable when it returns: SHARE as its
    /// applications call it. The files stay independent.
    ///
    /// Ranges are whole units, up to the files' ends, which may lie within the last unit; no target overlaps another
    /// range. The drive shares [`tantalum::Limits::share_units`] in one step.
    pub fn commit_ranges(&mut self, ranges: &[RangeCommit]) -> Result<(), VolumeError> {
        self.drive.check()?;
        self.check_commit(ranges)?;
        let copies: Vec<UnitCopy> = ranges.iter().map(units_of_commit).collect();
        for copy in &copies {
            self.clear_tail(copy.from.0)?;
            self.map_units(copy.from.0, copy.from.1, copy.units)?;
            self.place_units(copy.to.0, copy.to.1, copy.to.1 + copy.units)?;
        }
        for copy in &copies {
            self.write_back_file(copy.from.0)?;
            if self.file(copy.to.0)?.dirty {
                // The step must not be seen in units that no durable inode names. Data precede that inode (V4).
                self.write_back_file(copy.to.0)?;
                self.commit(&[copy.to.0], false)?;
            }
            self.file_mut(copy.to.0)?.touched = true;
        }
        let mut shares = Vec::new();
        for &copy in &copies {
            shares.extend(self.share_ranges(copy)?);
        }
        for copy in &copies {
            let dirty = self.cache.dirty_units(copy.from.0, copy.from.1, 1);
            let is_clean = dirty.iter().all(|&unit| unit >= copy.from.1 + copy.units);
            debug_assert!(is_clean, "unit {dirty:?} of file {} is shared while it is dirty", copy.from.0.0);
        }
        self.drive.await_write_back();
        self.drive.submit(Command::Share { ranges: &shares, deferred: false })?;
        for copy in &copies {
            self.cache.remove_units(copy.to.0, copy.to.1..copy.to.1 + copy.units);
        }
        self.assert_invariants();
        Ok(())
    }

    fn check_commit(&self, ranges: &[RangeCommit]) -> Result<(), VolumeError> {
        let units: u64 = ranges.iter().map(|range| range.bytes / UNIT).sum();
        let limit = u64::from(self.drive.share_units());
        if units > limit {
            return Err(VolumeError::RangesTooLong { units, limit });
        }
        for (index, range) in ranges.iter().enumerate() {
            self.check_units_of(range.from, range.from_offset, range.bytes)?;
            self.check_units_of(range.to, range.to_offset, range.bytes)?;
            self.transactions.check_none(range.from, None)?;
            self.transactions.check_none(range.to, None)?;
            let overlaps = |file: FileId, offset: u64, bytes: u64| {
                file == range.to && offset < range.to_offset + range.bytes && range.to_offset < offset + bytes
            };
            let is_hit = ranges.iter().enumerate().any(|(other, r)| {
                overlaps(r.from, r.from_offset, r.bytes)
                    || other != index && overlaps(r.to, r.to_offset, r.bytes)
            });
            if is_hit {
                let (file, offset, bytes) = (range.to, range.to_offset, range.bytes);
                return Err(VolumeError::BadRange { file, offset, bytes, why: "it overlaps another range" });
            }
        }
        Ok(())
    }

    /// Refuses a range that is not whole units of a file, up to the one with its end.
    fn check_units_of(&self, file: FileId, offset: u64, bytes: u64) -> Result<(), VolumeError> {
        let bad = |why| Err(VolumeError::BadRange { file, offset, bytes, why });
        let size = self.content_file(file)?.inode.size;
        if bytes == 0 || !offset.is_multiple_of(UNIT) || !bytes.is_multiple_of(UNIT) {
            return bad("it must be one or more whole units of 4096 bytes");
        }
        match offset.checked_add(bytes) {
            Some(end) if end <= size.next_multiple_of(UNIT) => Ok(()),
            _ => bad("it extends beyond the end of the file"),
        }
    }

    /// Writes zeros to units that were never written, so that they can be shared.
    fn map_units(&mut self, file: FileId, first: u32, units: u32) -> Result<(), VolumeError> {
        self.write_back_file(file)?;
        self.place_units(file, first, first + units)?;
        self.file_mut(file)?.touched = true;
        for unit in first..first + units {
            let run = self.file(file)?.inode.extents.run(unit).expect("units were placed");
            if !self.drive.is_mapped(run.lpn) {
                self.drive.write_back(run.lpn, &[0; UNIT_BYTES])?;
            }
        }
        Ok(())
    }

    /// Swaps ranges of two files, or of one, in one step, durable when it returns together with everything else of the
    /// files. The ranges are whole units, up to the files' ends, and do not overlap. If it fails, the swap is undone.
    pub fn exchange_ranges(
        &mut self,
        a: FileId,
        a_offset: u64,
        b: FileId,
        b_offset: u64,
        bytes: u64,
    ) -> Result<(), VolumeError> {
        self.drive.check()?;
        for (file, offset) in [(a, a_offset), (b, b_offset)] {
            self.check_units_of(file, offset, bytes)?;
            self.transactions.check_none(file, None)?;
            self.clear_tail(file)?;
            self.write_back_file(file)?;
        }
        if a == b && a_offset < b_offset + bytes && b_offset < a_offset + bytes {
            let why = "it overlaps the other range";
            return Err(VolumeError::BadRange { file: b, offset: b_offset, bytes, why });
        }
        let units = units_of(bytes);
        let ranges = [(a, (a_offset / UNIT) as u32), (b, (b_offset / UNIT) as u32)];
        self.check_pieces(ranges, units)?;
        self.swap_extents(ranges, units)?;
        let files = if a == b { &[a][..] } else { &[a, b][..] };
        if let Err(error) = self.commit(files, true) {
            // Nothing refuses this: the files had these extents before, however many there are.
            self.swap_extents(ranges, units)?;
            return Err(error);
        }
        self.assert_invariants();
        Ok(())
    }

    /// Refuses an exchange after which a file might have too many extents.
    fn check_pieces(&self, ranges: [(FileId, u32); 2], units: u32) -> Result<(), VolumeError> {
        let [a, b] = ranges;
        let pieces = |map: &Volume, (file, unit): (FileId, u32)| {
            Ok::<_, VolumeError>(map.file(file)?.inode.extents.between(unit, unit + units).count())
        };
        let more = pieces(self, a)? + pieces(self, b)?;
        for (file, _) in ranges {
            let extents = self.file(file)?.inode.extents.len() + more;
            if extents > MOST_EXTENTS {
                return Err(VolumeError::TooFragmented { extents, most: MOST_EXTENTS });
            }
        }
        Ok(())
    }

    /// Swaps them in memory. Only a missing file makes it fail.
    fn swap_extents(&mut self, ranges: [(FileId, u32); 2], units: u32) -> Result<(), VolumeError> {
        let [a, b] = ranges;
        for (file, unit) in ranges {
            self.tell_before_move(file, unit..unit + units)?;
        }
        let held = |volume: &Volume| {
            [a.0, b.0].map(|file| volume.files[&file].inode.extents.units()).iter().sum::<u64>()
        };
        let before = held(self);
        let of_a = self.file_mut(a.0)?.inode.extents.take(a.1, a.1 + units);
        let of_b = self.file_mut(b.0)?.inode.extents.take(b.1, b.1 + units);
        for (extents, from, to) in [(of_a, a, b), (of_b, b, a)] {
            let file = self.file_mut(to.0)?;
            for extent in extents {
                file.inode.extents.insert(Extent { unit: extent.unit - from.1 + to.1, ..extent });
            }
            (file.dirty, file.touched) = (true, true);
            self.cache.remove_units(to.0, to.1..to.1 + units);
        }
        debug_assert_eq!(
            held(self),
            before,
            "units of files {} and {} after an exchange, and before",
            a.0.0,
            b.0.0
        );
        Ok(())
    }
}

fn units_of_commit(range: &RangeCommit) -> UnitCopy {
    UnitCopy {
        from: (range.from, (range.from_offset / UNIT) as u32),
        to: (range.to, (range.to_offset / UNIT) as u32),
        units: (range.bytes / UNIT) as u32,
    }
}

/// Refuses a copy onto itself.
fn check_apart(
    (from, from_offset): (FileId, u64),
    (to, to_offset): (FileId, u64),
    bytes: u64,
) -> Result<(), VolumeError> {
    if from == to && from_offset < to_offset + bytes && to_offset < from_offset + bytes {
        let why = "it overlaps the source range";
        return Err(VolumeError::BadRange { file: to, offset: to_offset, bytes, why });
    }
    Ok(())
}
