//! Reads and writes of whole units that bypass the page cache (O_DIRECT).

use std::ops::Range;

use tantalum::{Fetches, Fills, Lpn, Nanoseconds, UNIT_BYTES};
use tantalum_filesystem::FileId;

use crate::allocate::check_end;
use crate::drive::VolumeClient;
use crate::error::VolumeError;
use crate::file::File;
use crate::pages::Pages;

/// The units of data that must be whole units of a file.
pub(crate) fn check_units(offset: u64, data: &[u8]) -> Result<Range<u32>, VolumeError> {
    let bytes = data.len();
    if bytes == 0 || !bytes.is_multiple_of(UNIT_BYTES) || !offset.is_multiple_of(UNIT_BYTES as u64) {
        return Err(VolumeError::Unaligned { offset, bytes });
    }
    let end = check_end(offset.saturating_add(bytes as u64))?;
    Ok((offset / UNIT_BYTES as u64) as u32..(end / UNIT_BYTES as u64) as u32)
}

/// The units of checked writes, one by one.
pub(crate) fn units_of_writes<'a>(
    writes: &'a [(u64, &'a [u8])],
) -> impl Iterator<Item = (u32, &'a [u8; UNIT_BYTES])> {
    writes.iter().flat_map(|&(unit, data)| {
        let (pages, _) = data.as_chunks::<UNIT_BYTES>();
        pages.iter().enumerate().map(move |(i, page)| (unit as u32 + i as u32, page))
    })
}

/// Where checked writes to units with places go, unit by unit.
pub(crate) fn places_of_writes<'a>(file: &File, writes: &'a [(u64, &'a [u8])]) -> Vec<(Lpn, &'a [u8])> {
    units_of_writes(writes).map(|(unit, page)| (file.place(unit).lpn, &page[..])).collect()
}

/// Writes units that have places, a command for each run of them, and returns when they will be there.
pub(crate) fn write_units(
    pages: &mut Pages,
    drive: &mut VolumeClient,
    (id, file): (FileId, &File),
    units: Range<u32>,
    data: &[u8],
    mut fills: Option<&mut Fills>,
) -> Result<Nanoseconds, VolumeError> {
    debug_assert_eq!(data.len(), units.len() * UNIT_BYTES, "bytes of {} units", units.len());
    let mut done_ns = drive.now_ns();
    let mut unit = units.start;
    while unit < units.end {
        let place = file.place(unit);
        let run = unit..unit + place.units.min(units.end - unit);
        let start = (unit - units.start) as usize * UNIT_BYTES;
        let part = &data[start..start + run.len() * UNIT_BYTES];
        match drive.write(place.lpn, part, fills.as_deref_mut()) {
            Ok(written_ns) => done_ns = done_ns.max(written_ns),
            Err(error) => {
                // Some units may be there, so clean pages may be old. A dirty one still has its turn.
                pages.forget_clean(id, run);
                return Err(error);
            }
        }
        unit = run.end;
        pages.forget(id, run);
    }
    Ok(done_ns)
}

/// Reads whole units, and returns how many bytes there were: fewer than requested at the file's end. Units in
/// the page cache are read from there. With `fetches`, bytes in the drive's image file are left to be fetched. The rest of
/// `data` is zeroed.
pub(crate) fn read_units(
    pages: &mut Pages,
    drive: &mut VolumeClient,
    (id, file): (FileId, &File),
    offset: u64,
    data: &mut [u8],
    mut fetches: Option<&mut Fetches>,
) -> Result<usize, VolumeError> {
    let bytes = file.size().saturating_sub(offset).min(data.len() as u64) as usize;
    if data.is_empty() || bytes == 0 {
        return Ok(0);
    }
    let first = check_units(offset, data)?.start;
    let (units, rest) = data.split_at_mut(bytes.next_multiple_of(UNIT_BYTES));
    rest.fill(0);
    let mut done_ns = drive.now_ns();
    let mut unit = first;
    let mut left = &mut *units;
    while !left.is_empty() {
        let run = uncached_run(pages, (id, file), unit, left.len());
        let (part, others) = left.split_at_mut(run * UNIT_BYTES);
        if let Some(fetches) = fetches.as_deref_mut() {
            fetches.go_to((unit - first) as usize * UNIT_BYTES);
        }
        done_ns = done_ns.max(read_part(pages, drive, (id, file), unit, part, fetches.as_deref_mut())?);
        unit += run as u32;
        left = others;
    }
    drive.wait_until(done_ns);
    units[bytes..].fill(0);
    Ok(bytes)
}

/// Reads units that come from one place, and returns the time at which they are there, without waiting for it.
#[inline]
fn read_part(
    pages: &mut Pages,
    drive: &mut VolumeClient,
    (id, file): (FileId, &File),
    unit: u32,
    data: &mut [u8],
    fetches: Option<&mut Fetches>,
) -> Result<Nanoseconds, VolumeError> {
    if let Some(page) = pages.cached(id, unit) {
        data.copy_from_slice(page);
    } else if let Some(run) = file.extents().run(unit) {
        return drive.read_queued(run.lpn, data, fetches);
    } else {
        data.fill(0);
    }
    Ok(drive.now_ns())
}

/// How many units from `unit` on, within `bytes`, one command reads; 1 if no command is needed.
fn uncached_run(pages: &Pages, (id, file): (FileId, &File), unit: u32, bytes: usize) -> usize {
    let run = file.extents().run(unit).map_or(1, |run| run.units);
    let most = run.min((bytes / UNIT_BYTES) as u32);
    let is_cached = |unit: u32| pages.cache().contains((id, unit));
    (unit..unit + most).take_while(|unit| !is_cached(*unit)).count().max(1)
}
