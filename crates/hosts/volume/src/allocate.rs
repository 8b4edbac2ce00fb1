//! Allocating units of the drive to files.
//!
//! A unit gets its place when it is first written into the page cache, so that the writer learns of a full volume, and
//! not a later sync. A growing file takes a little more than it needs, to stay in few extents. Units taken ahead are
//! not stored, and are free again after a mount.

use std::ops::Range;

use crate::error::VolumeError;
use crate::extents::{Extent, ExtentMap};
use crate::inode::{MOST_EXTENTS, MOST_FILE_BYTES, units_of};
use crate::space::Space;

/// Units that a growing file takes ahead: as many as it has, within these bounds.
const AHEAD_UNITS: std::ops::RangeInclusive<u64> = 16..=256;

/// Units by which a reservation grows: as many as the file has, within these bounds.
const RESERVE_UNITS: std::ops::RangeInclusive<u64> = 256..=16384;

/// Nothing is taken ahead beyond this share of the free space.
const AHEAD_SHARE: u64 = 64;

/// Random writes within a file get places in runs, which double in length for each this many extents.
const PIECES_PER_DOUBLING: usize = 1024;

/// The longest runs are 4 GiB.
const MOST_DOUBLINGS: usize = 20;

/// Gives `units`, of which `needed` have no place, one each, and others around them: a file with many extents takes more, so that it never
/// has more extents than an inode can name. `file_end` is the unit after the last one with a byte of the file. Without enough
/// free space it does nothing.
pub(crate) fn place_units(
    extents: &mut ExtentMap,
    file_end: u32,
    units: Range<u32>,
    needed: u64,
    space: &mut Space,
) -> Result<(), VolumeError> {
    let free = space.units();
    if needed > free {
        return Err(VolumeError::NoSpace { needed, free });
    }
    let mut spare = (free - needed) / AHEAD_SHARE;
    let (first, end) = around(units.start, units.end, extents.len(), file_end, spare);
    spare -= (extents.missing(first, end) - needed).min(spare);
    while let Some((unit, units)) = extents.gap(first, end) {
        spare -= place_piece(extents, file_end, (unit, units), spare, space)?;
    }
    Ok(())
}

/// Gives some of the gap of `units` at `unit` a place in one piece, and up to `spare` units more if the file
/// grows by it. Returns how many more.
fn place_piece(
    extents: &mut ExtentMap,
    file_end: u32,
    (unit, units): (u32, u32),
    spare: u64,
    space: &mut Space,
) -> Result<u64, VolumeError> {
    if extents.len() >= MOST_EXTENTS {
        return Err(VolumeError::TooFragmented { extents: extents.len(), most: MOST_EXTENTS });
    }
    let mut wanted = units;
    if unit >= extents.end() && unit + units > file_end {
        let ahead = extents.units().clamp(*AHEAD_UNITS.start(), *AHEAD_UNITS.end()).min(spare);
        wanted = wanted.saturating_add(ahead as u32).min(u32::MAX - unit);
    }
    let range = space.allocate(extents.goal(unit), wanted).expect("free space was counted");
    debug_assert!(
        (1..=wanted).contains(&range.units),
        "{wanted} units were wanted at unit {unit}, and {range:?} was allocated"
    );
    extents.insert(Extent { unit, lpn: range.lpn, units: range.units });
    Ok(u64::from(range.units.saturating_sub(units)))
}

/// How many first units of a file to reserve, of which `reserved` are, if there are to be `units`: some more, so that the
/// inode changes seldom, unless free space does not suffice.
pub(crate) fn reservation(extents: &ExtentMap, reserved: u32, units: u32, space: &Space) -> u32 {
    let step = extents.units().clamp(*RESERVE_UNITS.start(), *RESERVE_UNITS.end());
    let step = step.min(space.units() / AHEAD_SHARE) as u32;
    let generous = units.max(reserved.saturating_add(step)).min(units_of(MOST_FILE_BYTES));
    let missing = extents.missing(0, generous);
    if missing <= space.units() { generous } else { units }
}

/// Units `first..end`, and the units around them that get places together with them: the more extents the file has, the
/// more. At most up to the file's end and `spare` units beyond.
fn around(first: u32, end: u32, pieces: usize, file_end: u32, spare: u64) -> (u32, u32) {
    let doublings = (pieces / PIECES_PER_DOUBLING).min(MOST_DOUBLINGS) as u32;
    let most = 1 << spare.checked_ilog2().unwrap_or(0).min(MOST_DOUBLINGS as u32);
    let run = (1_u32 << doublings).min(most);
    if run == 1 || end >= file_end {
        return (first, end);
    }
    let aligned_end = end.checked_next_multiple_of(run).unwrap_or(end);
    (first / run * run, aligned_end.min(file_end))
}

/// `end`, if a file can be that large.
pub(crate) fn check_end(end: u64) -> Result<u64, VolumeError> {
    if end > MOST_FILE_BYTES {
        Err(VolumeError::FileTooLarge { end, most: MOST_FILE_BYTES })
    } else {
        Ok(end)
    }
}
