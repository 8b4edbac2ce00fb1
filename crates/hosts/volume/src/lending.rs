//! Files whose bytes others (programs in the drive, with permissions that come from here) access directly, by their
//! place on the drive.
//!
//! Invariant: those who may access a place learn that it will no longer be the file's before it is trimmed, belongs to
//! another file, or is exchanged with another place. Otherwise a late write would be seen in another file (V3; hazard 27).

use std::ops::Range;

use tantalum::UNIT_BYTES;
use tantalum_filesystem::FileId;

use crate::error::VolumeError;
use crate::volume::Volume;

/// A run of a file's bytes that is in one piece on the drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LentExtent {
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// Where it is on the drive, in bytes; whole units.
    pub place: Range<u64>,
}

impl Volume {
    /// Returns where a file's bytes are, in whole units, up to its end; holes have no place. The page cache then holds
    /// nothing of the file. Until its places are given up ([`Volume::before_reuse`]), others may read and write there; do not
    /// use them through the volume at the same time.
    pub fn lend(&mut self, file: FileId) -> Result<Vec<LentExtent>, VolumeError> {
        self.drive.check()?;
        let units = self.content_file(file)?.inode.size.div_ceil(UNIT_BYTES as u64) as u32;
        self.write_back_file(file)?;
        self.cache.remove_units(file, 0..units);
        let file = self.file_mut(file)?;
        // others may write where the volume never did
        file.touched = true;
        let extents = file.inode.extents.between(0, units);
        let lent = extents.map(|extent| LentExtent {
            offset: u64::from(extent.unit) * UNIT_BYTES as u64,
            place: extent.range().bytes(),
        });
        Ok(lent.collect())
    }

    /// From now on `tell` is called with bytes of the drive before a file gives them up. Once it returns, nobody may access
    /// them any more on the strength of [`Volume::lend`]. It must not use the volume.
    pub fn before_reuse(&mut self, tell: impl FnMut(Range<u64>) + Send + 'static) {
        self.space.set_before_reuse(tell);
    }

    /// Units of a file are about to become another file's, or to move within it.
    pub(crate) fn tell_before_move(&mut self, file: FileId, units: Range<u32>) -> Result<(), VolumeError> {
        let Volume { files, space, .. } = self;
        let file = files.get(&file).ok_or(VolumeError::NoSuchFile(file))?;
        let extents = file.inode.extents.between(units.start, units.end);
        extents.for_each(|extent| space.tell_before_move(extent.range()));
        Ok(())
    }
}
