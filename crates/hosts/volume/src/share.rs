//! Parts of copying, committing and exchanging ranges of files without moving data: which units are meant, whether they may
//! be, and where they are.
//!
//! A unit of the drive always belongs to one file. Files share data below that level: the drive maps units of both to
//! one place in flash (SHARE, section 3). An exchange swaps the files' extents instead.

use std::ops::Range;

use tantalum::{ShareRange, Status, UNIT_BYTES};
use tantalum_filesystem::{FileId, RangeCommit};

use crate::byte_range::UNIT;
use crate::drive::VolumeClient;
use crate::error::VolumeError;
use crate::files::Files;
use crate::inode::{MOST_EXTENTS, units_of};
use crate::pages::Pages;
use crate::space::Space;
use crate::transactions::Transactions;

/// Whole units of one file that another file gets.
#[derive(Clone, Copy)]
pub(crate) struct UnitCopy {
    pub from: (FileId, u32),
    pub to: (FileId, u32),
    pub units: u32,
}

/// A range of bytes that is copied: first those before whole units, then these, then the rest.
pub(crate) struct ByteCopy {
    pub head: u64,
    pub units: UnitCopy,
    /// Bytes of the units up to the end of the range.
    pub middle: u64,
}

impl UnitCopy {
    /// Whole units of a range that is committed.
    pub fn of_commit(range: &RangeCommit) -> UnitCopy {
        UnitCopy {
            from: (range.from, (range.from_offset / UNIT) as u32),
            to: (range.to, (range.to_offset / UNIT) as u32),
            units: (range.bytes / UNIT) as u32,
        }
    }

    /// Its first `units` units.
    pub fn first(self, units: u32) -> UnitCopy {
        UnitCopy { units, ..self }
    }

    /// What follows its first `units` units.
    pub fn after(self, units: u32) -> UnitCopy {
        assert!(units <= self.units, "{units} of {} units are copied", self.units);
        let (from, to) = ((self.from.0, self.from.1 + units), (self.to.0, self.to.1 + units));
        UnitCopy { from, to, units: self.units - units }
    }

    /// The units that are copied.
    pub fn sources(self) -> Range<u32> {
        self.from.1..self.from.1 + self.units
    }

    /// The units that are replaced.
    pub fn targets(self) -> Range<u32> {
        self.to.1..self.to.1 + self.units
    }

    /// The places of the units, piece by piece.
    pub fn places(self, files: &Files) -> Result<Vec<ShareRange>, VolumeError> {
        let mut ranges = Vec::new();
        let mut done = 0;
        while done < self.units {
            let src = files.get(self.from.0)?.place(self.from.1 + done);
            let dst = files.get(self.to.0)?.place(self.to.1 + done);
            let units = src.units.min(dst.units).min(self.units - done);
            ranges.push(ShareRange { dst: dst.lpn, src: src.lpn, units });
            done += units;
        }
        debug_assert!(
            ranges.iter().all(|range| range.src.0.abs_diff(range.dst.0) >= range.units),
            "a range is shared over itself: {ranges:?}"
        );
        Ok(ranges)
    }

    /// How many units, up to the limit of one share, are mapped, or are not.
    pub fn mapped(self, files: &Files, drive: &VolumeClient, mapped: bool) -> Result<u32, VolumeError> {
        let extents = files.get(self.from.0)?.extents();
        let is_mapped = |unit| extents.run(unit).is_some_and(|run| drive.is_mapped(run.lpn));
        let most = if mapped { self.units.min(drive.share_units()) } else { self.units };
        let units = self.from.1..self.from.1 + most;
        Ok(units.take_while(|&unit| is_mapped(unit) == mapped).count() as u32)
    }

    /// Shares units that have places at the next flush, or copies them if the drive refuses to share.
    pub fn share(
        self,
        files: &mut Files,
        pages: &mut Pages,
        drive: &mut VolumeClient,
    ) -> Result<(), VolumeError> {
        files.get_mut(self.to.0)?.touch();
        let limit = drive.share_units();
        assert!(self.units <= limit, "{} units are shared, the drive takes {limit}", self.units);
        match drive.share_deferred(&self.places(files)?) {
            Ok(()) => {
                pages.forget(self.to.0, self.targets());
                Ok(())
            }
            Err(VolumeError::Device(Status::OverLimit { .. } | Status::CapacityExceeded)) => {
                self.copy_whole(files, pages, drive)
            }
            Err(error) => Err(error),
        }
    }

    fn copy_whole(
        self,
        files: &Files,
        pages: &mut Pages,
        drive: &mut VolumeClient,
    ) -> Result<(), VolumeError> {
        let mut data = vec![0; self.units as usize * UNIT_BYTES];
        let (from, to) = (files.get(self.from.0)?, files.get(self.to.0)?);
        for (unit, page) in (self.from.1..).zip(data.as_chunks_mut::<UNIT_BYTES>().0) {
            drive.read(from.place(unit).lpn, page)?;
        }
        drive.owe_flush();
        for (unit, page) in (self.to.1..).zip(data.as_chunks::<UNIT_BYTES>().0) {
            drive.write_back(to.place(unit).lpn, page)?;
            pages.forget_unit(self.to.0, unit);
        }
        Ok(())
    }
}

impl ByteCopy {
    /// How to copy bytes between ranges that are within the largest file; none if no units can be shared.
    pub fn plan(
        files: &Files,
        (from, from_offset): (FileId, u64),
        (to, to_offset): (FileId, u64),
        bytes: u64,
    ) -> Result<Option<ByteCopy>, VolumeError> {
        let head = (to_offset.next_multiple_of(UNIT) - to_offset).min(bytes);
        if from_offset % UNIT != to_offset % UNIT || head == bytes {
            return Ok(None);
        }
        // What follows the ends of both files is shared with the last unit, and not seen.
        let (from_size, to_size) = (files.get(from)?.size(), files.get(to)?.size());
        let with_tail = to_offset + bytes >= to_size && from_offset + bytes == from_size;
        let units = if with_tail { units_of(bytes - head) } else { ((bytes - head) / UNIT) as u32 };
        let middle = (u64::from(units) * UNIT).min(bytes - head);
        let first = |offset: u64| ((offset + head) / UNIT) as u32;
        let units = UnitCopy { from: (from, first(from_offset)), to: (to, first(to_offset)), units };
        Ok(Some(ByteCopy { head, units, middle }))
    }
}

/// Refuses a copy onto itself.
pub(crate) fn check_apart(
    (from, from_offset): (FileId, u64),
    (to, to_offset): (FileId, u64),
    bytes: u64,
    why: &'static str,
) -> Result<(), VolumeError> {
    if from == to && from_offset < to_offset + bytes && to_offset < from_offset + bytes {
        return Err(VolumeError::BadRange { file: to, offset: to_offset, bytes, why });
    }
    Ok(())
}

/// Refuses a range that is not whole units of a file, up to the one with its end.
pub(crate) fn check_whole_units(
    files: &Files,
    file: FileId,
    offset: u64,
    bytes: u64,
) -> Result<(), VolumeError> {
    let bad = |why| Err(VolumeError::BadRange { file, offset, bytes, why });
    let size = files.contents(file)?.size();
    if bytes == 0 || !offset.is_multiple_of(UNIT) || !bytes.is_multiple_of(UNIT) {
        return bad("it must be one or more whole units of 4096 bytes");
    }
    match offset.checked_add(bytes) {
        Some(end) if end <= size.next_multiple_of(UNIT) => Ok(()),
        _ => bad("it extends beyond the end of the file"),
    }
}

/// Refuses ranges that the drive cannot share in one step, that are not whole units, in which an open transaction has written,
/// or of which one overlaps the target of another.
pub(crate) fn check_commit(
    ranges: &[RangeCommit],
    files: &Files,
    transactions: &Transactions,
    drive: &VolumeClient,
) -> Result<(), VolumeError> {
    let units: u64 = ranges.iter().map(|range| range.bytes / UNIT).sum();
    let limit = u64::from(drive.share_units());
    if units > limit {
        return Err(VolumeError::RangesTooLong { units, limit });
    }
    for (index, range) in ranges.iter().enumerate() {
        check_whole_units(files, range.from, range.from_offset, range.bytes)?;
        check_whole_units(files, range.to, range.to_offset, range.bytes)?;
        transactions.check_none(range.from, None)?;
        transactions.check_none(range.to, None)?;
        check_no_overlap(ranges, index)?;
    }
    Ok(())
}

/// Refuses a range whose target overlaps another one.
fn check_no_overlap(ranges: &[RangeCommit], index: usize) -> Result<(), VolumeError> {
    let range = &ranges[index];
    let overlaps = |file: FileId, offset: u64, bytes: u64| {
        file == range.to && offset < range.to_offset + range.bytes && range.to_offset < offset + bytes
    };
    let is_hit = ranges.iter().enumerate().any(|(other, r)| {
        overlaps(r.from, r.from_offset, r.bytes) || other != index && overlaps(r.to, r.to_offset, r.bytes)
    });
    if is_hit {
        let (file, offset, bytes) = (range.to, range.to_offset, range.bytes);
        return Err(VolumeError::BadRange { file, offset, bytes, why: "it overlaps another range" });
    }
    Ok(())
}

/// Refuses an exchange after which a file might have too many extents.
pub(crate) fn check_pieces(files: &Files, ranges: [(FileId, u32); 2], units: u32) -> Result<(), VolumeError> {
    let mut more = 0;
    for (file, unit) in ranges {
        more += files.get(file)?.extents().between(unit, unit + units).count();
    }
    for (file, _) in ranges {
        let extents = files.get(file)?.extents().len() + more;
        if extents > MOST_EXTENTS {
            return Err(VolumeError::TooFragmented { extents, most: MOST_EXTENTS });
        }
    }
    Ok(())
}

/// Swaps ranges of files in memory. Only a missing file makes it fail.
pub(crate) fn swap_extents(
    files: &mut Files,
    pages: &mut Pages,
    space: &mut Space,
    [a, b]: [(FileId, u32); 2],
    units: u32,
) -> Result<(), VolumeError> {
    let held = |files: &Files| -> Result<u64, VolumeError> {
        Ok(files.get(a.0)?.extents().units() + files.get(b.0)?.extents().units())
    };
    let before = held(files)?;
    for (file, unit) in [a, b] {
        let extents = files.get(file)?.extents().between(unit, unit + units);
        extents.for_each(|extent| space.tell_before_move(extent.range()));
    }
    let of_a = files.get_mut(a.0)?.take_extents(a.1..a.1 + units);
    let of_b = files.get_mut(b.0)?.take_extents(b.1..b.1 + units);
    for (extents, from, to) in [(of_a, a, b), (of_b, b, a)] {
        files.get_mut(to.0)?.put_extents(extents, from.1, to.1);
        pages.forget(to.0, to.1..to.1 + units);
    }
    debug_assert_eq!(
        held(files)?,
        before,
        "units of files {} and {} after an exchange, and before",
        a.0.0,
        b.0.0
    );
    Ok(())
}
