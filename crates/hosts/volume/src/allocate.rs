//! Allocating units of the drive to files.
//!
//! A unit gets its place when it is first written into the page cache, so that the writer learns of a full volume, and
//! not a later sync. A growing file takes a little more than it needs, to stay in few extents. Units taken ahead are
//! not stored, and are free again after a mount.

use tantalum_filesystem::FileId;

use crate::error::VolumeError;
use crate::extents::Extent;
use crate::inode::{MOST_EXTENTS, MOST_FILE_BYTES, units_of};
use crate::volume::Volume;

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

impl Volume {
    /// Gives the file's units below `bytes` their places, and keeps them whatever happens to the size, except a
    /// truncation below them. The size does not change. Reservations grow in steps, so that the inode changes seldom.
    /// Durable with the file's next sync; units below the reservation may then be written directly, see
    /// [`Volume::lpn`].
    ///
    /// Reserved units beyond the size belong to the program. When the size grows over them they read as whatever is
    /// there: zeros, or what was written directly, or what a write that grew the file left there before a crash.
    pub fn reserve(&mut self, file: FileId, bytes: u64) -> Result<(), VolumeError> {
        self.drive.check()?;
        let units = units_of(check_end(bytes)?);
        let inode = &self.content_file(file)?.inode;
        if units <= inode.reserved_units && inode.reserved_by_program {
            return Ok(());
        }
        let step = inode.extents.units().clamp(*RESERVE_UNITS.start(), *RESERVE_UNITS.end());
        let step = step.min(self.space.units() / AHEAD_SHARE) as u32;
        let generous = units.max(inode.reserved_units.saturating_add(step)).min(units_of(MOST_FILE_BYTES));
        let missing = inode.extents.missing(0, generous);
        let reserved = if missing <= self.space.units() { generous } else { units };
        self.place_units(file, 0, reserved)?;
        let file = self.file_mut(file)?;
        file.inode.reserved_units = reserved.max(file.inode.reserved_units);
        file.inode.reserved_by_program = true;
        file.dirty = true;
        file.touched = true;
        Ok(())
    }

    /// Gives all units in `first..end` a place, or none if there is not enough free space. A file with many extents
    /// takes more around them, so that it never has more extents than an inode can name.
    pub(crate) fn place_units(&mut self, file: FileId, first: u32, end: u32) -> Result<(), VolumeError> {
        let extents = &self.file(file)?.inode.extents;
        if extents.gap(first, end).is_none() {
            return Ok(());
        }
        let needed = extents.missing(first, end);
        if needed > self.space.units() {
            self.reclaim(file)?;
        }
        let free = self.space.units();
        if needed > free {
            return Err(VolumeError::NoSpace { needed, free });
        }
        let mut spare = (free - needed) / AHEAD_SHARE;
        let inode = &self.file(file)?.inode;
        let (first, end) = around(first, end, inode.extents.len(), units_of(inode.size), spare);
        spare -= (inode.extents.missing(first, end) - needed).min(spare);
        while let Some((unit, units)) = self.file(file)?.inode.extents.gap(first, end) {
            spare -= self.allocate_piece(file, unit, units, spare)?;
        }
        Ok(())
    }

    /// Gives some of the gap of `units` at `unit` a place in one piece, and up to `spare` units more if the file
    /// grows by it. Returns how many more.
    fn allocate_piece(
        &mut self,
        file: FileId,
        unit: u32,
        units: u32,
        spare: u64,
    ) -> Result<u64, VolumeError> {
        let Volume { files, space, .. } = self;
        let file = files.get_mut(&file).ok_or(VolumeError::NoSuchFile(file))?;
        let file_end = units_of(file.inode.size);
        let extents = &mut file.inode.extents;
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
        file.dirty = true;
        Ok(u64::from(range.units.saturating_sub(units)))
    }

    /// Frees everything that is not needed: units that files other than `growing` took ahead, and units that were given
    /// up while a durable inode may still name them.
    fn reclaim(&mut self, growing: FileId) -> Result<(), VolumeError> {
        // A transaction's pages may lie beyond the size.
        if self.transactions.is_empty() {
            self.take_back_what_is_ahead(growing);
        }
        let waiting: Vec<FileId> =
            self.files.iter().filter(|(_, file)| !file.freed.is_empty()).map(|(&id, _)| id).collect();
        for file in waiting {
            self.sync(file)?;
        }
        self.sync_names()
    }

    fn take_back_what_is_ahead(&mut self, growing: FileId) {
        let Volume { files, space, cache, .. } = self;
        for (&id, file) in files.iter_mut().filter(|&(&id, _)| id != growing) {
            let kept = file.inode.kept_units(file.inode.size);
            cache.remove_units(id, kept..file.inode.extents.end().max(kept));
            file.give_up(kept, u32::MAX, space);
        }
    }
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
